/* SPDX-License-Identifier: BSD-2-Clause */
/* Interns strings: stores each string once, up to a limit of bytes. */
#ifndef XPROF_BASE_TEXT_POOL_H
#define XPROF_BASE_TEXT_POOL_H

#include <stddef.h>

#include "base/hash.h"

/* An empty pool has bytes_max set and all other members 0. */
struct xp_text_pool {
	char **texts;
	size_t count;
	size_t room;
	struct xp_hash by_text;
	size_t bytes;
	size_t bytes_max;
};

/*
 * Returns the pool's copy of the string, valid until the pool is freed. Returns NULL if out of memory or if the pool
 * would exceed bytes_max.
 */
const char *xp_text_pool_keep(struct xp_text_pool *pool, const char *text);
void xp_text_pool_free(struct xp_text_pool *pool);

#endif
