/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of call chains, from the outermost frame inwards: chains that begin alike share their nodes. A node takes 16
 * bytes, plus some 6 bytes in the hash that finds it.
 */
#ifndef XPROF_PROFILE_CALL_TREE_H
#define XPROF_PROFILE_CALL_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define XP_CALL_TREE_ROOT 0u /* the parent of all outermost frames; not a frame itself */

struct xp_call_node {
	uint32_t parent;
	uint32_t frame; /* chosen by the caller */
	uint64_t count; /* of chains that end here */
};

/* Empty if zeroed. */
struct xp_call_tree {
	struct xp_call_node *nodes; /* a node comes after its parent; the first one is the root */
	size_t count;
	size_t room;
	struct xp_hash hash; /* of (parent, frame); rebuilt if missing */
};

/* Finds the node of frame below parent, or adds it. Returns XP_CALL_TREE_ROOT if out of memory or of node numbers. */
uint32_t xp_call_tree_child(struct xp_call_tree *tree, uint32_t parent, uint32_t frame);
size_t xp_call_tree_memory_bytes(const struct xp_call_tree *tree);
void xp_call_tree_free(struct xp_call_tree *tree);

#endif
