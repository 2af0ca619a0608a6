/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the code that was at an address at a given time. Code is stored only as its index in jit/code.h.
 *
 * The current pieces do not overlap; they are nodes of a tree (a treap) that is sorted by address. If a new piece
 * replaces others, it refers to them as a run of the array `old`, also sorted by address. A lookup in the past starts
 * at the current piece of the address, and goes repeatedly to the piece that it replaced there.
 */
#ifndef XPROF_JIT_RANGES_H
#define XPROF_JIT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JIT_ALIVE UINT64_MAX
#define XP_JIT_ADDRESS_END (1ull << 56) /* end of user space with five-level page tables */

struct xp_jit_range_use {
	uint64_t start;
	uint64_t end;
	uint64_t base; /* start of the code; below `start` if another piece replaced the first part of the code */
	uint64_t from; /* TSC */
	uint64_t to;   /* exclusive; XP_JIT_ALIVE: the code is still loaded */
	uint32_t code;
	uint32_t before; /* index in old[] of the before_count pieces that this piece replaced */
	uint32_t before_count;
};

/* Initially zeroed except for random, which means empty. */
struct xp_jit_ranges {
	struct xp_jit_node *nodes; /* nodes[0] means no node */
	uint32_t node_count;
	size_t node_room;
	uint32_t unused; /* list of free nodes, linked by left */
	uint32_t root;
	/*
	 * state of the random numbers, initially not 0. The target chooses the addresses and must not be able to
	 * predict it
	 */
	uint32_t random;

	struct xp_jit_range_use *old;
	uint32_t old_count;
	size_t old_room;
};

/* Returns the maximum memory that xp_jit_ranges_add() uses, including all changes to other pieces. */
size_t xp_jit_ranges_bytes(void);
/*
 * Adds a piece (start, end, base, from, code) and ends the pieces that it overlaps. Sets piece->from to the latest
 * start of the overlapped pieces if it is earlier. is_bound: if the piece overlaps no other piece, sets piece->from to
 * 0. Returns 0 or -ENOMEM; a failed call changes nothing.
 */
int xp_jit_ranges_add(struct xp_jit_ranges *pieces, struct xp_jit_range_use *piece, bool is_bound);
/*
 * Returns the current piece that starts at base, or NULL if another piece has replaced its start. Valid until the next
 * xp_jit_ranges_add().
 */
struct xp_jit_range_use *xp_jit_ranges_alive(const struct xp_jit_ranges *pieces, uint64_t base);
/* Returns the piece that was at the address at that time, or NULL if no piece is known. */
const struct xp_jit_range_use *xp_jit_ranges_find(const struct xp_jit_ranges *pieces, uint64_t address, uint64_t tsc);
void xp_jit_ranges_free(struct xp_jit_ranges *pieces);

#endif
