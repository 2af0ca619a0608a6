/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/call_tree.h"

#include <stdlib.h>

#include "base/array.h"

static uint64_t make_key(uint32_t parent, uint32_t frame)
{
	return (uint64_t)parent << 32 | frame;
}

static uint64_t key_of(const void *nodes, uint32_t index)
{
	const struct xp_call_node *node = (const struct xp_call_node *)nodes + index;

	return make_key(node->parent, node->frame);
}

/* Finds the node, or returns XP_CALL_TREE_ROOT. */
static uint32_t find(const struct xp_call_tree *tree, uint32_t parent, uint32_t frame)
{
	const struct xp_hash *hash = &tree->hash;
	uint64_t key = make_key(parent, frame);

	for (const uint32_t *slot = xp_hash_first(hash, key); *slot; slot = xp_hash_next(hash, slot))
		if (key_of(tree->nodes, *slot - 1) == key)
			return *slot - 1;
	return XP_CALL_TREE_ROOT;
}

static int hash_nodes(struct xp_call_tree *tree)
{
	int err = 0;

	for (size_t i = 1; i < tree->count && !err; i++)
		err = xp_hash_add(&tree->hash, key_of(tree->nodes, i), i, key_of, tree->nodes);
	if (err)
		xp_hash_free(&tree->hash);
	return err;
}

static int grow_nodes(struct xp_call_tree *tree)
{
	if (XP_ARRAY_RESERVE(tree->nodes, tree->room, tree->count + 1))
		return -1;
	if (!tree->count)
		tree->nodes[tree->count++] = (struct xp_call_node){ 0 };
	return 0;
}

static uint32_t add_node(struct xp_call_tree *tree, uint32_t parent, uint32_t frame)
{
	if (tree->count > UINT32_MAX - 1)
		return XP_CALL_TREE_ROOT;
	if (tree->count >= tree->room && grow_nodes(tree))
		return XP_CALL_TREE_ROOT;
	if (xp_hash_add(&tree->hash, make_key(parent, frame), tree->count, key_of, tree->nodes))
		return XP_CALL_TREE_ROOT;
	tree->nodes[tree->count] = (struct xp_call_node){ .parent = parent, .frame = frame };
	return tree->count++;
}

uint32_t xp_call_tree_child(struct xp_call_tree *tree, uint32_t parent, uint32_t frame)
{
	uint32_t next = parent + 1, node;

	/* The nodes of a chain are made one after the other, so checking the next node often avoids the search. */
	if (next < tree->count && tree->nodes[next].parent == parent && tree->nodes[next].frame == frame)
		return next;
	if (!tree->hash.count && hash_nodes(tree)) /* new, or read back without its hash */
		return XP_CALL_TREE_ROOT;
	node = find(tree, parent, frame);
	return node == XP_CALL_TREE_ROOT ? add_node(tree, parent, frame) : node;
}

size_t xp_call_tree_memory_bytes(const struct xp_call_tree *tree)
{
	return tree->room * sizeof(*tree->nodes) + tree->hash.room * sizeof(*tree->hash.slots);
}

void xp_call_tree_free(struct xp_call_tree *tree)
{
	free(tree->nodes);
	xp_hash_free(&tree->hash);
	*tree = (struct xp_call_tree){ 0 };
}
