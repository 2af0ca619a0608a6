/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables made for pieces of files, within a memory limit: the least recently used one is evicted first. If the
 * tables in use exceed the limit, evicting any of them would cause its rebuild at once, over and over. Then the process
 * with the largest share loses a table, and the store is full for that process for a while. So a process that runs more
 * code than fits does not take the room of the others.
 */
#ifndef XPROF_UNWIND_CFI_STORE_H
#define XPROF_UNWIND_CFI_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "unwind/cfi_table.h"

#define XP_CFI_STORE_BYTES_MAX (16u << 20)
/* A table used within this time is in use. The store also stays full for this time. */
#define XP_CFI_STORE_USED_NS 2000000000ull
#define XP_CFI_STORE_BUCKETS 1024

/* Indexed by PID modulo this; some processes share an entry. */
#define XP_CFI_STORE_SHARES 256

/* A piece of a file. */
struct xp_cfi_piece {
	struct xp_cfi_piece *next; /* in the same bucket */
	struct xp_cfi_piece *older;
	struct xp_cfi_piece *newer;
	uint64_t key; /* chosen by the caller */
	uint64_t used_ns;
	unsigned int share;	    /* of the process that it was made for, whichever others use it */
	bool is_made;		    /* until then it is not in the LRU list */
	struct xp_cfi_table *table; /* NULL: the piece has no table */
};

/* Empty if zeroed. */
struct xp_cfi_store {
	struct xp_cfi_piece *buckets[XP_CFI_STORE_BUCKETS];
	struct xp_cfi_piece *oldest;
	struct xp_cfi_piece *newest;
	size_t bytes; /* of all finished pieces */
	struct {
		size_t bytes;
		uint64_t full_until_ns;
	} shares[XP_CFI_STORE_SHARES];
};

/* Returns NULL if there is no such piece. now_ns: CLOCK_MONOTONIC; becomes the piece's time of last use. */
struct xp_cfi_piece *xp_cfi_store_find(struct xp_cfi_store *store, uint64_t key, uint64_t now_ns);
/* Adds a piece with a table still to be made for this process. Returns NULL if out of memory. */
struct xp_cfi_piece *xp_cfi_store_add(struct xp_cfi_store *store, uint64_t key, pid_t pid);
/* Hands a finished table over to the store; NULL: the piece has none. May evict others. */
void xp_cfi_store_insert(struct xp_cfi_store *store, struct xp_cfi_piece *piece, struct xp_cfi_table *table,
			 uint64_t now_ns);
void xp_cfi_store_remove(struct xp_cfi_store *store, struct xp_cfi_piece *piece);
bool xp_cfi_store_is_full(const struct xp_cfi_store *store, pid_t pid, uint64_t now_ns);
void xp_cfi_store_free(struct xp_cfi_store *store);

#endif
