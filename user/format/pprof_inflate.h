/* SPDX-License-Identifier: BSD-2-Clause */
/* Decompresses gzip files in memory. */
#ifndef XPROF_FORMAT_PPROF_INFLATE_H
#define XPROF_FORMAT_PPROF_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "format/violation.h"

/* The first bytes of the content, at most room. Returns their number; 0: not a gzip file. */
size_t xp_pprof_inflate_begin(const uint8_t *bytes, uint64_t size, uint8_t *to, size_t room);
/*
 * The whole content, which the caller frees. Returns 0, -ENOMEM, or -EBADMSG with *violation set, also if there is more
 * than max, or if something follows the end. *to is NULL after an error.
 */
int xp_pprof_inflate(const uint8_t *bytes, uint64_t size, uint64_t max, uint8_t **to, uint64_t *to_size,
		     struct xp_violation *violation);

#endif
