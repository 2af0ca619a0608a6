/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call chains as a tree, from the outermost frame inwards: chains that begin alike share their nodes. 16 bytes a node,
 * and some 6 of the hash that finds them.
 */
#ifndef XPROF_CALL_TREE_H
#define XPROF_CALL_TREE_H

#include <stddef.h>
#include <stdint.h>

#define XP_CALL_TREE_ROOT 0u /* stands above all outermost frames, and for no frame */

struct xp_call_node {
	uint32_t parent;
	uint32_t frame; /* the caller's number of what is called */
	uint64_t count; /* of the chains that end here */
};

/* Zeroed: empty. */
struct xp_call_tree {
	struct xp_call_node *nodes; /* a node comes after its parent; the first one is the root */
	size_t count;
	size_t room;
	uint32_t *slots; /* hash of (parent, frame); made anew when there is none */
	size_t slot_count;
};

/* The node of frame below parent, made when it is new. XP_CALL_TREE_ROOT: out of memory, or of numbers. */
uint32_t xp_call_tree_child(struct xp_call_tree *tree, uint32_t parent, uint32_t frame);
size_t xp_call_tree_memory_bytes(const struct xp_call_tree *tree);
void xp_call_tree_free(struct xp_call_tree *tree);

#endif
