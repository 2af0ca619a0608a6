// SPDX-License-Identifier: BSD-2-Clause
#include "jit/ranges.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"

#define STEPS_MAX 256 /* maximum number of steps into the past per lookup */

struct xp_jit_node {
	struct xp_jit_range_use piece;
	uint32_t left; /* index of a node; 0: none */
	uint32_t right;
	uint32_t priority;
};

size_t xp_jit_ranges_bytes(void)
{
	/*
	 * Adding a piece creates at most three pieces: the new one and the remainders of two old ones. Each is first a
	 * node of the tree and later an element of `old`.
	 */
	return 3 * (sizeof(struct xp_jit_node) + sizeof(struct xp_jit_range_use));
}

void xp_jit_ranges_free(struct xp_jit_ranges *pieces)
{
	free(pieces->nodes);
	free(pieces->old);
	*pieces = (struct xp_jit_ranges){ 0 };
}

/* ---- the tree ---- */

/* Splits the tree: *below gets the nodes that start below the address, *above the other nodes. */
static void split(struct xp_jit_ranges *pieces, uint32_t root, uint64_t address, uint32_t *below, uint32_t *above)
{
	struct xp_jit_node *node = &pieces->nodes[root];

	if (!root) {
		*below = *above = 0;
	} else if (node->piece.start < address) {
		*below = root;
		split(pieces, node->right, address, &node->right, above);
	} else {
		*above = root;
		split(pieces, node->left, address, below, &node->left);
	}
}

/* Joins two trees. All nodes of the first tree must start below the nodes of the second tree. */
static uint32_t merge(struct xp_jit_ranges *pieces, uint32_t first, uint32_t second)
{
	struct xp_jit_node *a = &pieces->nodes[first], *b = &pieces->nodes[second];

	if (!first || !second)
		return first + second;
	if (a->priority > b->priority) {
		a->right = merge(pieces, a->right, second);
		return first;
	}
	b->left = merge(pieces, first, b->left);
	return second;
}

/* Returns the last node whose start is not above the address. */
static uint32_t last_at(const struct xp_jit_ranges *pieces, uint32_t root, uint64_t address)
{
	uint32_t found = 0;

	while (root) {
		const struct xp_jit_node *node = &pieces->nodes[root];

		if (node->piece.start <= address)
			found = root;
		root = node->piece.start <= address ? node->right : node->left;
	}
	return found;
}

static uint32_t tree_count(const struct xp_jit_ranges *pieces, uint32_t root)
{
	const struct xp_jit_node *node = &pieces->nodes[root];

	return root ? 1 + tree_count(pieces, node->left) + tree_count(pieces, node->right) : 0;
}

/* xorshift32 */
static uint32_t next_random(struct xp_jit_ranges *pieces)
{
	pieces->random ^= pieces->random << 13;
	pieces->random ^= pieces->random >> 17;
	pieces->random ^= pieces->random << 5;
	return pieces->random;
}

/* Takes a free node. Call reserve_nodes() before. */
static uint32_t node_new(struct xp_jit_ranges *pieces, const struct xp_jit_range_use *piece)
{
	uint32_t number = pieces->unused ? pieces->unused : pieces->node_count++;

	if (pieces->unused)
		pieces->unused = pieces->nodes[number].left;
	pieces->nodes[number] = (struct xp_jit_node){ .piece = *piece, .priority = next_random(pieces) };
	return number;
}

/* ---- memory ---- */

/*
 * Reserves three nodes: one for the new piece and two for the remainders of overlapped pieces. Also reserves elements
 * of `old` for all overlapped pieces.
 */
static int reserve_nodes(struct xp_jit_ranges *pieces)
{
	pieces->node_count = XP_MAX(pieces->node_count, 1u);
	return XP_ARRAY_RESERVE(pieces->nodes, pieces->node_room, pieces->node_count + 3);
}

/* ---- adding code ---- */

/*
 * Cuts the nodes that overlap [start, end) out of the tree. Sets parts[] to three trees: below start, overlapping, and
 * from end on.
 */
static void cut_out(struct xp_jit_ranges *pieces, uint64_t start, uint64_t end, uint32_t parts[3])
{
	uint32_t before, reaching;

	split(pieces, pieces->root, start, &parts[0], &parts[2]);
	split(pieces, parts[2], end, &parts[1], &parts[2]);
	before = last_at(pieces, parts[0], start);
	if (!before || pieces->nodes[before].piece.end <= start)
		return;
	split(pieces, parts[0], pieces->nodes[before].piece.start, &parts[0], &reaching);
	parts[1] = merge(pieces, reaching, parts[1]);
}

/*
 * Returns the start time of the new code: tsc, or the latest start time of the code that it replaces, if that is later.
 */
static uint64_t latest_start(const struct xp_jit_ranges *pieces, uint32_t root, uint64_t tsc)
{
	const struct xp_jit_node *node = &pieces->nodes[root];

	if (!root)
		return tsc;
	tsc = latest_start(pieces, node->left, XP_MAX(tsc, node->piece.from));
	return latest_start(pieces, node->right, tsc);
}

/* Moves the pieces of the tree to `old`, in address order, and frees their nodes. */
static void make_old(struct xp_jit_ranges *pieces, uint32_t root, uint64_t tsc)
{
	struct xp_jit_node *node = &pieces->nodes[root];
	uint32_t right = node->right;

	if (!root)
		return;
	make_old(pieces, node->left, tsc);
	node->piece.to = XP_MIN(node->piece.to, tsc);
	pieces->old[pieces->old_count++] = node->piece;
	node->left = pieces->unused;
	pieces->unused = root;
	make_old(pieces, right, tsc);
}

/* Returns a new node for the remainder of a piece, after another piece has replaced its middle or an end. */
static uint32_t rest_of(struct xp_jit_ranges *pieces, const struct xp_jit_range_use *piece, uint64_t start,
			uint64_t end)
{
	struct xp_jit_range_use rest = *piece;

	rest.start = XP_MAX(start, piece->start);
	rest.end = XP_MIN(end, piece->end);
	return rest.start < rest.end ? node_new(pieces, &rest) : 0;
}

int xp_jit_ranges_add(struct xp_jit_ranges *pieces, struct xp_jit_range_use *piece, bool is_bound)
{
	uint32_t parts[3], count;
	int err = reserve_nodes(pieces);

	if (err)
		return err;
	cut_out(pieces, piece->start, piece->end, parts);
	count = tree_count(pieces, parts[1]);
	err = XP_ARRAY_RESERVE(pieces->old, pieces->old_room, pieces->old_count + count);
	if (err) {
		pieces->root = merge(pieces, merge(pieces, parts[0], parts[1]), parts[2]);
		return err;
	}
	if (is_bound && !count)
		piece->from = 0;
	piece->from = latest_start(pieces, parts[1], piece->from);
	piece->before = pieces->old_count;
	piece->before_count = count;
	make_old(pieces, parts[1], piece->from);
	if (count) {
		parts[0] = merge(pieces, parts[0], rest_of(pieces, &pieces->old[piece->before], 0, piece->start));
		parts[2] = merge(
		    pieces, rest_of(pieces, &pieces->old[piece->before + count - 1], piece->end, XP_JIT_ADDRESS_END),
		    parts[2]);
	}
	pieces->root = merge(pieces, merge(pieces, parts[0], node_new(pieces, piece)), parts[2]);
	return 0;
}

/* Returns the piece that `piece` replaced at the address, or NULL. */
static const struct xp_jit_range_use *before(const struct xp_jit_ranges *pieces, const struct xp_jit_range_use *piece,
					     uint64_t address)
{
	const struct xp_jit_range_use *first = &pieces->old[piece->before];
	size_t low = XP_FIND_FIRST(piece->before_count, i, address >= first[i].end);

	return low < piece->before_count && address >= first[low].start ? &first[low] : NULL;
}

struct xp_jit_range_use *xp_jit_ranges_alive(const struct xp_jit_ranges *pieces, uint64_t base)
{
	uint32_t node = last_at(pieces, pieces->root, base);
	struct xp_jit_range_use *piece = node ? &pieces->nodes[node].piece : NULL;

	return piece && piece->start == base && piece->base == base && piece->to == XP_JIT_ALIVE ? piece : NULL;
}

const struct xp_jit_range_use *xp_jit_ranges_find(const struct xp_jit_ranges *pieces, uint64_t address, uint64_t tsc)
{
	uint32_t node = last_at(pieces, pieces->root, address);
	const struct xp_jit_range_use *piece = node ? &pieces->nodes[node].piece : NULL;

	if (piece && address >= piece->end)
		piece = NULL;
	for (int steps = 0; piece && tsc < piece->from; steps++)
		piece = steps < STEPS_MAX ? before(pieces, piece, address) : NULL;
	return piece && tsc < piece->to ? piece : NULL;
}
