/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds which code was at an address at a time. Stores code only by its index in jit/code.h.
 *
 * The current code at each address is a tree of pieces without overlap (a treap, by address). A piece that replaced
 * others keeps them as a run of the array `old`, also sorted by address. A lookup in the past goes from the current
 * piece at the address to the one before it, repeatedly.
 */
#ifndef XPROF_JIT_RANGES_H
#define XPROF_JIT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JIT_ALIVE UINT64_MAX
#define XP_JIT_ADDRESS_END (1ull << 56) /* of user space, with five levels of page tables */

struct xp_jit_range_use {
	uint64_t start;
	uint64_t end;
	uint64_t base; /* start of its code: below start if another piece replaced the part between */
	uint64_t from; /* TSC */
	uint64_t to;   /* exclusive; XP_JIT_ALIVE: the code is still there */
	uint32_t code;
	uint32_t before; /* the pieces that this piece replaced: before_count pieces from old[before] */
	uint32_t before_count;
};

/* Zeroed except for random: empty. */
struct xp_jit_ranges {
	struct xp_jit_node *nodes; /* nodes[0] means no node */
	uint32_t node_count;
	size_t node_room;
	uint32_t unused; /* list of free nodes, linked by left */
	uint32_t root;
	uint32_t random; /* initially not 0, and unpredictable for a target, which chooses the addresses */

	struct xp_jit_range_use *old;
	uint32_t old_count;
	size_t old_room;
};

/* The memory that adding a piece may take, including all changes to other pieces. */
size_t xp_jit_ranges_bytes(void);
/*
 * Adds a piece (start, end, base, from, code) and ends the pieces that it overlaps. from is raised to their latest
 * start. is_bound: from becomes 0 if the piece overlaps no other. The final time is left in piece->from. Returns 0 or
 * -ENOMEM; on an error nothing has changed.
 */
int xp_jit_ranges_add(struct xp_jit_ranges *pieces, struct xp_jit_range_use *piece, bool is_bound);
/*
 * Returns the current piece that starts at base, or NULL if another piece has replaced its start. Valid until the next
 * xp_jit_ranges_add().
 */
struct xp_jit_range_use *xp_jit_ranges_alive(const struct xp_jit_ranges *pieces, uint64_t base);
/* Returns the piece that was at the address at that time, or NULL if none is known. */
const struct xp_jit_range_use *xp_jit_ranges_find(const struct xp_jit_ranges *pieces, uint64_t address, uint64_t tsc);
void xp_jit_ranges_free(struct xp_jit_ranges *pieces);

#endif
