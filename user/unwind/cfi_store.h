/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stores the unwind tables of pieces of files, within a memory limit. The least recently used table is evicted first.
 * If even that table is in use, the running code needs more tables than fit, and xprof would rebuild evicted tables
 * repeatedly. So the store then counts as full for XP_CFI_STORE_USED_NS.
 */
#ifndef XPROF_UNWIND_CFI_STORE_H
#define XPROF_UNWIND_CFI_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_table.h"

#define XP_CFI_STORE_BYTES_MAX (16u << 20)
/* A table that was used within this time is in use. A full store also stays full for this time. */
#define XP_CFI_STORE_USED_NS 2000000000ull
#define XP_CFI_STORE_BUCKETS 1024

/* A piece of a file. */
struct xp_cfi_piece {
	struct xp_cfi_piece *next; /* in the same bucket */
	struct xp_cfi_piece *older;
	struct xp_cfi_piece *newer;
	uint64_t key; /* chosen by the caller */
	uint64_t used_ns;
	bool is_made;		    /* false: the table is being made, and the piece is not in the LRU list */
	struct xp_cfi_table *table; /* NULL: the piece has no table */
};

/* Empty if zeroed. */
struct xp_cfi_store {
	struct xp_cfi_piece *buckets[XP_CFI_STORE_BUCKETS];
	struct xp_cfi_piece *oldest;
	struct xp_cfi_piece *newest;
	size_t bytes; /* size of all finished pieces */
	uint64_t full_until_ns;
};

/*
 * Returns the piece, or NULL if there is none. now_ns: the current time (CLOCK_MONOTONIC), stored as the time of the
 * last use.
 */
struct xp_cfi_piece *xp_cfi_store_find(struct xp_cfi_store *store, uint64_t key, uint64_t now_ns);
/* Adds a piece whose table is not made yet. Returns NULL if out of memory. */
struct xp_cfi_piece *xp_cfi_store_add(struct xp_cfi_store *store, uint64_t key);
/* Gives a finished table to the store; NULL: the piece has no table. May evict other pieces. */
void xp_cfi_store_insert(struct xp_cfi_store *store, struct xp_cfi_piece *piece, struct xp_cfi_table *table,
			 uint64_t now_ns);
void xp_cfi_store_remove(struct xp_cfi_store *store, struct xp_cfi_piece *piece);
bool xp_cfi_store_is_full(const struct xp_cfi_store *store, uint64_t now_ns);
void xp_cfi_store_free(struct xp_cfi_store *store);

#endif
