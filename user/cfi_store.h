/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables that were made of pieces of files, within a bound of memory: the one that was not used for the longest
 * time goes first. Where more is in use than fits, making room costs tables that are made again at once, and so on in a
 * circle: after such a loss the store is full for a while.
 */
#ifndef XPROF_CFI_STORE_H
#define XPROF_CFI_STORE_H

#include <stdbool.h>

#include "cfi_table.h"

#define XP_CFI_STORE_BYTES_MAX (16u << 20)
/* In use is what was used so recently; and so long the store is full. */
#define XP_CFI_STORE_USED_NS 2000000000ull
#define XP_CFI_STORE_BUCKETS 1024

/* A piece of a file. */
struct xp_cfi_piece {
	struct xp_cfi_piece *next; /* in its bucket */
	struct xp_cfi_piece *older;
	struct xp_cfi_piece *newer;
	uint64_t key; /* the caller's name for it */
	uint64_t used_ns;
	bool is_made;		    /* until then it is in no order of age */
	struct xp_cfi_table *table; /* NULL: it has none */
};

/* Zeroed: empty. */
struct xp_cfi_store {
	struct xp_cfi_piece *buckets[XP_CFI_STORE_BUCKETS];
	struct xp_cfi_piece *oldest;
	struct xp_cfi_piece *newest;
	size_t bytes; /* of all pieces that are made */
	uint64_t full_until_ns;
};

/* NULL: there is no such piece. now_ns: CLOCK_MONOTONIC; it is used at this time. */
struct xp_cfi_piece *xp_cfi_store_find(struct xp_cfi_store *store, uint64_t key, uint64_t now_ns);
/* A new one, whose table is being made. NULL: out of memory. */
struct xp_cfi_piece *xp_cfi_store_add(struct xp_cfi_store *store, uint64_t key);
/* The table is made, and the store's from now on; NULL: there is none. Others may go. */
void xp_cfi_store_put(struct xp_cfi_store *store, struct xp_cfi_piece *piece, struct xp_cfi_table *table,
		      uint64_t now_ns);
void xp_cfi_store_remove(struct xp_cfi_store *store, struct xp_cfi_piece *piece);
bool xp_cfi_store_is_full(const struct xp_cfi_store *store, uint64_t now_ns);
void xp_cfi_store_free(struct xp_cfi_store *store);

#endif
