/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slow calls against typical calls as a tree: the mean time of a call in each callee, and there on a CPU, runnable, and
 * blocked by kind and waker. The children of a node have all of its time.
 *
 *	handle_request
 *		lookup
 *			lock, woken by refresher (31825)
 *		[on a CPU]
 *
 * Callees come from the calls, and what is below them from the stacks of waits and samples. Time on a CPU is that of
 *the callee without its waits; it is divided among the stacks of the samples in that callee.
 *
 * A difference is beyond the noise if the number of slow and typical calls that take longer than the mean of both in
 * this node differs more than chance allows, in all nodes together (count_test.h).
 */
#ifndef XPROF_EXPLAIN_CALL_TREE_H
#define XPROF_EXPLAIN_CALL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "explain/call_story.h"
#include "explain/slow_calls.h"

#define XP_CALL_TREE_LEVEL 0.01
#define XP_CALL_NODES_MAX 20000 /* beyond this limit, time counts for the parent node */

struct xp_call_node {
	uint32_t parent; /* a lower index */
	const char *text;
	bool is_state;	 /* a state instead of a function: on a CPU, runnable, or blocked */
	uint64_t ns[2];	 /* sums: of typical calls, and of slow calls */
	double p;	 /* probability of such a difference if both kinds of calls have the same times */
	bool is_certain; /* beyond the noise */
	/* private */
	uint64_t last_call, last_time;
};

/* Empty if zeroed. */
struct xp_call_tree {
	struct xp_call_node *nodes; /* nodes[0] is the root: all calls */
	size_t count;
	uint64_t calls[2]; /* typical calls, and slow calls */
	/* private */
	size_t room;
	struct xp_u64_map by_key;
	struct xp_node_time *times; /* time of each call in each node */
	size_t time_count, time_room;
	uint64_t all_calls;
};

/* Adds a call with its story. Texts are those of times->model. Returns 0 or -ENOMEM. The caller frees the tree. */
int xp_call_tree_add(struct xp_call_tree *tree, struct xp_thread_times *times, const struct xp_slow_calls *calls,
		     const struct xp_slow_call *call, const struct xp_story *story, bool is_slow);
/* Tests the differences. Returns 0 or -ENOMEM. */
int xp_call_tree_finish(struct xp_call_tree *tree);
void xp_call_tree_free(struct xp_call_tree *tree);

static inline double xp_call_node_mean_ns(const struct xp_call_tree *tree, const struct xp_call_node *node,
					  bool is_slow)
{
	return tree->calls[is_slow] ? (double)node->ns[is_slow] / (double)tree->calls[is_slow] : 0;
}

#endif
