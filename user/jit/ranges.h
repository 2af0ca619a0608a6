/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which code was where at what time, by numbers alone (jit_code.h has what they stand for).
 *
 * What is at each address now is a tree of pieces without overlap (a treap, by address). A piece that took the place of
 * others keeps them as a run of the array `old`, sorted by address too: so the past of an address is found by going
 * from the piece that is there to the one that was there before, and so on.
 */
#ifndef XPROF_JIT_PIECES_H
#define XPROF_JIT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_JIT_ALIVE UINT64_MAX
#define XP_JIT_ADDRESS_END (1ull << 56) /* of user space, with five levels of page tables */

struct xp_jit_piece {
	uint64_t start;
	uint64_t end;
	uint64_t base; /* where its code starts: below start when another one took the part between */
	uint64_t from; /* TSC */
	uint64_t to;   /* exclusive; XP_JIT_ALIVE: the code is there still */
	uint32_t code;
	uint32_t before; /* what was there before: old[before] and so on */
	uint32_t before_count;
};

/* Zeroed but for random: empty. */
struct xp_jit_pieces {
	struct xp_jit_node *nodes; /* nodes[0] is none */
	uint32_t node_count;
	uint32_t node_room;
	uint32_t unused; /* list, by left */
	uint32_t root;
	uint32_t random; /* not 0 at first, and not to be guessed by a target, which chooses the addresses */

	struct xp_jit_piece *old;
	uint32_t old_count;
	uint32_t old_room;
};

/* What a piece that is put may take in memory, with all that it makes of others. */
size_t xp_jit_pieces_bytes(void);
/*
 * Puts a piece (start, end, base, from, code) where others end for it, which from is moved behind; is_bound: where
 * there are none, it is 0. piece->from becomes what counts. -ENOMEM, and nothing has changed.
 */
int xp_jit_pieces_put(struct xp_jit_pieces *pieces, struct xp_jit_piece *piece, bool is_bound);
/* The piece that begins at base, as a whole, and is alive; NULL: there is none. Valid until the next put. */
struct xp_jit_piece *xp_jit_pieces_alive(const struct xp_jit_pieces *pieces, uint64_t base);
/* What was at the address at that time; NULL: nothing that is known. */
const struct xp_jit_piece *xp_jit_pieces_find(const struct xp_jit_pieces *pieces, uint64_t address, uint64_t tsc);
void xp_jit_pieces_free(struct xp_jit_pieces *pieces);

#endif
