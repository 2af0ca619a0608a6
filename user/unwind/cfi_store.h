/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables that were made of pieces of files, within a bound of memory: the one that was not used for the longest
 * time goes first. Where more is in use than fits, making room costs tables that are made again at once, and so on in a
 * circle: the process for which the most was made loses one then, and the store is full for that process for a while.
 * So one that runs through more code than there is room for leaves the others theirs.
 */
#ifndef XPROF_CFI_STORE_H
#define XPROF_CFI_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "unwind/cfi_table.h"

#define XP_CFI_STORE_BYTES_MAX (16u << 20)
/* In use is what was used so recently; and so long the store is full. */
#define XP_CFI_STORE_USED_NS 2000000000ull
#define XP_CFI_STORE_BUCKETS 1024

/* Of processes, by their number modulo: some share a share. */
#define XP_CFI_STORE_SHARES 256

/* A piece of a file. */
struct xp_cfi_piece {
	struct xp_cfi_piece *next; /* in its bucket */
	struct xp_cfi_piece *older;
	struct xp_cfi_piece *newer;
	uint64_t key; /* the caller's name for it */
	uint64_t used_ns;
	unsigned int share;	    /* of the process that it was made for, whoever else uses it */
	bool is_made;		    /* until then it is in no order of age */
	struct xp_cfi_table *table; /* NULL: it has none */
};

/* Zeroed: empty. */
struct xp_cfi_store {
	struct xp_cfi_piece *buckets[XP_CFI_STORE_BUCKETS];
	struct xp_cfi_piece *oldest;
	struct xp_cfi_piece *newest;
	size_t bytes; /* of all pieces that are made */
	struct {
		size_t bytes;
		uint64_t full_until_ns;
	} shares[XP_CFI_STORE_SHARES];
};

/* NULL: there is no such piece. now_ns: CLOCK_MONOTONIC; it is used at this time. */
struct xp_cfi_piece *xp_cfi_store_find(struct xp_cfi_store *store, uint64_t key, uint64_t now_ns);
/* A new one, whose table is being made for this process. NULL: out of memory. */
struct xp_cfi_piece *xp_cfi_store_add(struct xp_cfi_store *store, uint64_t key, pid_t pid);
/* The table is made, and the store's from now on; NULL: there is none. Others may go. */
void xp_cfi_store_put(struct xp_cfi_store *store, struct xp_cfi_piece *piece, struct xp_cfi_table *table,
		      uint64_t now_ns);
void xp_cfi_store_remove(struct xp_cfi_store *store, struct xp_cfi_piece *piece);
bool xp_cfi_store_is_full(const struct xp_cfi_store *store, pid_t pid, uint64_t now_ns);
void xp_cfi_store_free(struct xp_cfi_store *store);

#endif
