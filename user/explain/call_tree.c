// SPDX-License-Identifier: BSD-2-Clause
#include "explain/call_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/util.h"
#include "explain/common_causes.h"
#include "model/count_test.h"
#include "model/stack_shapes.h"
#include "model/tree.h"

#define FRAMES_MAX 32 /* maximum number of frames of a stack, below the call */
#define STATE_BYTES (XP_THREAD_TEXT_BYTES + 64)

struct xp_node_time {
	uint32_t node;
	bool is_slow;
	uint64_t ns;
};

/* A call whose parts are being added. */
struct adding {
	struct xp_call_tree *tree;
	struct xp_thread_times *times;
	const struct xp_slow_calls *calls;
	const struct xp_slow_call *call;
	const struct xp_story *story;
	bool is_slow;
};

/* Functions in a call, the outermost first. */
struct path {
	const char *names[FRAMES_MAX + 1];
	size_t count;
};

/* ---- nodes ---- */

/* Finds or adds a child; beyond the limit, returns the parent. Returns 0 or -ENOMEM. */
static int find_child(struct xp_call_tree *tree, struct xp_model *model, uint32_t *node, const char *text,
		      bool is_state)
{
	const char *kept = xp_model_text(model, text);
	uint64_t key = xp_hash_mix((uint64_t)*node << 1 | is_state, (uintptr_t)kept);
	const uint32_t *known = xp_u64_map_find(&tree->by_key, key);

	if (!kept)
		return -ENOMEM;
	if (known) {
		*node = *known;
		return 0;
	}
	if (tree->count == XP_CALL_NODES_MAX)
		return 0;
	if (XP_ARRAY_RESERVE(tree->nodes, tree->room, tree->count + 1) ||
	    !xp_u64_map_add(&tree->by_key, key, (uint32_t)tree->count))
		return -ENOMEM;
	tree->nodes[tree->count] = (struct xp_call_node){ .parent = *node, .text = kept, .is_state = is_state };
	*node = (uint32_t)tree->count++;
	return 0;
}

/* Adds the time of a call to a node and its parents. */
static int add_ns(const struct adding *adding, uint32_t index, uint64_t ns)
{
	struct xp_call_tree *tree = adding->tree;

	for (bool is_root = false; !is_root; index = tree->nodes[index].parent) {
		struct xp_call_node *node = &tree->nodes[index];

		is_root = !index;
		node->ns[adding->is_slow] += ns;
		if (node->last_call != tree->all_calls) {
			if (XP_ARRAY_RESERVE(tree->times, tree->time_room, tree->time_count + 1))
				return -ENOMEM;
			node->last_call = tree->all_calls;
			node->last_time = tree->time_count;
			tree->times[tree->time_count++] =
			    (struct xp_node_time){ .node = index, .is_slow = adding->is_slow };
		}
		tree->times[node->last_time].ns += ns;
	}
	return 0;
}

/* Adds time in a state to the node in which the call was. */
static int add_state(const struct adding *adding, const struct path *path, const char *state, uint64_t ns)
{
	struct xp_model *model = &adding->times->model;
	uint32_t node = 0;
	int err =
	    ns ? find_child(adding->tree, model, &node, adding->calls->functions[adding->call->function].name, false)
	       : 0;

	for (size_t i = 0; ns && !err && i < path->count; i++)
		err = find_child(adding->tree, model, &node, path->names[i], false);
	if (ns && !err && state)
		err = find_child(adding->tree, model, &node, state, true);
	return err || !ns ? err : add_ns(adding, node, ns);
}

/* ---- parts of a call ---- */

/*
 * Sets the path from the call to the innermost function of a stack. If a function ended with a jump to another
 * function, the other function has the same caller. An incomplete stack belongs to the callee that took most of the
 * call.
 */
static void find_path(struct path *path, const struct adding *adding, uint32_t stack)
{
	const struct xp_slow_call *call = adding->call;
	const char *function = adding->calls->functions[call->function].name;
	const char *caller = call->caller_count ? adding->calls->functions[call->callers[0]].name : NULL;
	const struct xp_call_function *callee = xp_slow_call_main_callee(adding->calls, call);
	const char *names[2 * FRAMES_MAX];
	size_t count = xp_stack_frames(&adding->times->model, stack, names, XP_ARRAY_SIZE(names)), end;

	count = XP_MIN(count, XP_ARRAY_SIZE(names));
	for (end = 0; end < count && strcmp(names[end], function) != 0 && (!caller || strcmp(names[end], caller) != 0);)
		end++;
	path->count = 0;
	if (end == count && callee)
		path->names[path->count++] = callee->name;
	while (end && path->count < FRAMES_MAX)
		path->names[path->count++] = names[--end];
}

static bool is_below(const struct path *path, const char *callee)
{
	return path->count && strcmp(path->names[0], callee) == 0;
}

static const char *blocked_text(char to[STATE_BYTES], const struct xp_model_wait *wait)
{
	char waker[XP_THREAD_TEXT_BYTES];
	bool has_waker = wait->waker_tid && !(wait->flags & (XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ));

	if (has_waker)
		xp_model_label(waker, sizeof(waker), wait->waker_name, wait->waker_tid);
	snprintf(to, STATE_BYTES, "[%s%s%s]", xp_wait_state_text(wait->state), has_waker ? ", woken by " : "",
		 has_waker ? waker : "");
	return to;
}

static int add_waits(const struct adding *adding)
{
	const struct xp_story *story = adding->story;
	uint64_t left_ns = story->blocked_ns + story->runnable_ns;
	char text[STATE_BYTES];
	struct path path;
	int err = 0;

	for (size_t i = 0; !err && i < story->wait_count; i++) {
		const struct xp_story_wait *wait = &story->waits[i];

		find_path(&path, adding, wait->longest->stack);
		err = add_state(adding, &path, blocked_text(text, wait->longest), wait->blocked_ns);
		err = err ?: add_state(adding, &path, "[runnable]", wait->runnable_ns);
		left_ns -= XP_MIN(left_ns, wait->blocked_ns + wait->runnable_ns);
	}
	path.count = 0;
	return err ?: add_state(adding, &path, "[further waits]", left_ns);
}

/* Returns the time of a callee without its known waits. */
static uint64_t running_ns(const struct adding *adding, const char *callee, uint64_t ns)
{
	const struct xp_story *story = adding->story;
	struct path path;

	for (size_t i = 0; i < story->wait_count; i++) {
		const struct xp_story_wait *wait = &story->waits[i];

		find_path(&path, adding, wait->longest->stack);
		if (is_below(&path, callee))
			ns -= XP_MIN(ns, wait->blocked_ns + wait->runnable_ns);
	}
	return ns;
}

/* Divides the time on a CPU of a callee among the samples in the callee. */
static int add_running(const struct adding *adding, const char *callee, uint64_t ns)
{
	const struct xp_story *story = adding->story;
	uint64_t samples = 0, left_ns = ns, part_ns;
	struct path path;
	int err = 0;

	for (size_t i = 0; i < story->stack_count; i++) {
		find_path(&path, adding, story->stacks[i].stack);
		samples += is_below(&path, callee) ? story->stacks[i].samples : 0;
	}
	for (size_t i = 0; !err && i < story->stack_count; i++) {
		find_path(&path, adding, story->stacks[i].stack);
		if (!is_below(&path, callee))
			continue;
		part_ns = xp_scale(ns, story->stacks[i].samples, samples);
		part_ns = XP_MIN(part_ns, left_ns);
		left_ns -= part_ns;
		err = add_state(adding, &path, "[on a CPU]", part_ns);
	}
	path = (struct path){ .names = { callee }, .count = 1 };
	return err ?: add_state(adding, &path, "[on a CPU]", left_ns);
}

/* Without waits, a story has no time on a CPU: the whole time belongs to the callees. */
static int add_callees(const struct adding *adding, bool has_waits)
{
	const struct xp_slow_call *call = adding->call;
	uint64_t left_ns = has_waits ? adding->story->on_cpu_ns : xp_slow_call_ns(call);
	struct path path = { .count = 1 };
	int err = 0;

	for (size_t i = 0; !err && i < call->callee_count; i++) {
		const char *callee = adding->calls->functions[call->callees[i].function].name;
		uint64_t ns = call->callees[i].ns;

		ns = XP_MIN(has_waits ? running_ns(adding, callee, ns) : ns, left_ns);
		left_ns -= ns;
		path.names[0] = callee;
		err = has_waits ? add_running(adding, callee, ns) : add_state(adding, &path, NULL, ns);
	}
	path.count = 0;
	return err ?: add_state(adding, &path, has_waits ? "[on a CPU]" : "[itself]", left_ns);
}

int xp_call_tree_add(struct xp_call_tree *tree, struct xp_thread_times *times, const struct xp_slow_calls *calls,
		     const struct xp_slow_call *call, const struct xp_story *story, bool is_slow)
{
	const struct adding adding = { tree, times, calls, call, story, is_slow };
	bool has_waits = story->thread != XP_MODEL_NONE && times->model.wait_count;
	int err = 0;

	if (!tree->count) {
		err = XP_ARRAY_RESERVE(tree->nodes, tree->room, 1);
		if (err)
			return err;
		tree->nodes[tree->count++] = (struct xp_call_node){ .text = "" };
	}
	tree->calls[is_slow]++;
	tree->all_calls++;
	if (has_waits)
		err = add_waits(&adding);
	return err ?: add_callees(&adding, has_waits);
}

/* ---- differences ---- */

/* Counts the calls of each set that take longer in a node than the mean of all calls. */
static void count_longer(const struct xp_call_tree *tree, uint64_t (*longer)[2])
{
	uint64_t calls = tree->calls[0] + tree->calls[1];

	for (size_t i = 0; i < tree->time_count; i++) {
		const struct xp_node_time *time = &tree->times[i];
		const struct xp_call_node *node = &tree->nodes[time->node];

		longer[time->node][time->is_slow] +=
		    (double)time->ns * (double)calls > (double)node->ns[0] + (double)node->ns[1];
	}
}

int xp_call_tree_finish(struct xp_call_tree *tree)
{
	struct xp_count_test *tests = calloc(tree->count + 1, sizeof(*tests));
	uint64_t(*longer)[2] = calloc(tree->count + 1, sizeof(*longer));
	double level;

	if (!tests || !longer) {
		free(tests);
		free(longer);
		return -ENOMEM;
	}
	count_longer(tree, longer);
	for (size_t i = 0; i < tree->count; i++) {
		tests[i] = xp_count_test_shares(longer[i], tree->calls);
		tree->nodes[i].p = tests[i].p;
	}
	level = xp_count_test_level(tests, tree->count, XP_CALL_TREE_LEVEL, NULL);
	for (size_t i = 0; i < tree->count; i++)
		tree->nodes[i].is_certain = tree->nodes[i].p < level;
	free(tests);
	free(longer);
	return 0;
}

void xp_call_tree_free(struct xp_call_tree *tree)
{
	free(tree->nodes);
	free(tree->times);
	xp_u64_map_free(&tree->by_key);
}
