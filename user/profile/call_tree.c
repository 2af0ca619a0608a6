/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/call_tree.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"

#define FIRST_SLOTS 16

/* The address of the tree is the seed: the target chooses its call chains, but does not know this address. */
static size_t hash_node(const struct xp_call_tree *tree, uint32_t parent, uint32_t frame)
{
	uint64_t hash = (((uint64_t)parent << 32 | frame) ^ (uintptr_t)tree) * 0x9e3779b97f4a7c15ull;

	return (hash ^ hash >> 32) & (tree->slot_count - 1);
}

/* Finds the slot of this node, or the free slot where it belongs. */
static uint32_t *find_slot(const struct xp_call_tree *tree, uint32_t parent, uint32_t frame)
{
	size_t mask = tree->slot_count - 1;

	for (size_t i = hash_node(tree, parent, frame);; i = (i + 1) & mask) {
		const struct xp_call_node *node;

		if (!tree->slots[i]) /* true while there are no nodes either */
			return &tree->slots[i];
		node = &tree->nodes[tree->slots[i]];
		if (node->parent == parent && node->frame == frame)
			return &tree->slots[i];
	}
}

static int grow_nodes(struct xp_call_tree *tree)
{
	if (XP_ARRAY_RESERVE(tree->nodes, tree->room, tree->count + 1))
		return -1;
	if (!tree->count)
		tree->nodes[tree->count++] = (struct xp_call_node){ 0 };
	return 0;
}

static int grow_slots(struct xp_call_tree *tree)
{
	size_t slot_count = FIRST_SLOTS;
	uint32_t *slots;

	/* At most three quarters of the slots are used. */
	while (4 * tree->count >= 3 * slot_count)
		slot_count *= 2;
	slots = calloc(slot_count, sizeof(*slots));
	if (!slots)
		return -1;
	free(tree->slots);
	tree->slots = slots;
	tree->slot_count = slot_count;
	for (size_t i = 1; i < tree->count; i++)
		*find_slot(tree, tree->nodes[i].parent, tree->nodes[i].frame) = i;
	return 0;
}

static uint32_t add_node(struct xp_call_tree *tree, uint32_t parent, uint32_t frame, uint32_t *slot)
{
	if (tree->count > UINT32_MAX - 1)
		return XP_CALL_TREE_ROOT;
	if (tree->count >= tree->room && grow_nodes(tree))
		return XP_CALL_TREE_ROOT;
	if (4 * tree->count >= 3 * tree->slot_count) {
		if (grow_slots(tree))
			return XP_CALL_TREE_ROOT;
		slot = find_slot(tree, parent, frame);
	}
	tree->nodes[tree->count] = (struct xp_call_node){ .parent = parent, .frame = frame };
	*slot = tree->count;
	return tree->count++;
}

uint32_t xp_call_tree_child(struct xp_call_tree *tree, uint32_t parent, uint32_t frame)
{
	uint32_t next = parent + 1;
	uint32_t *slot;

	/* The nodes of a chain are made one after the other, so checking the next node often avoids the search. */
	if (next < tree->count && tree->nodes[next].parent == parent && tree->nodes[next].frame == frame)
		return next;
	if (!tree->slot_count && grow_slots(tree)) /* new, or read back without its slots */
		return XP_CALL_TREE_ROOT;
	slot = find_slot(tree, parent, frame);
	return *slot ? *slot : add_node(tree, parent, frame, slot);
}

size_t xp_call_tree_memory_bytes(const struct xp_call_tree *tree)
{
	return tree->room * sizeof(*tree->nodes) + tree->slot_count * sizeof(*tree->slots);
}

void xp_call_tree_free(struct xp_call_tree *tree)
{
	free(tree->nodes);
	free(tree->slots);
	*tree = (struct xp_call_tree){ 0 };
}
