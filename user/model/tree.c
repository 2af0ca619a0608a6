// SPDX-License-Identifier: BSD-2-Clause
#include "model/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/set.h"
#include "base/text.h"
#include "base/util.h"
#include "elf/function_patterns.h"

#define LABEL_NAME_BYTES_MAX 64
#define KNOWN_STACKS_MAX (1u << 20)

const char *const xp_model_group_names[XP_MODEL_GROUPS] = {
	[XP_MODEL_BY_PROCESS] = "process", [XP_MODEL_BY_THREAD] = "thread", [XP_MODEL_BY_COMM] = "comm",
	[XP_MODEL_BY_CPU] = "cpu",	   [XP_MODEL_BY_NONE] = "none",	    [XP_MODEL_BY_CGROUP] = "cgroup",
};

/* Finds or adds a node. Returns 0, -ENOMEM, or -E2BIG beyond max. */
static int add_node_up_to(struct xp_model_tree *tree, size_t max, const struct xp_model_node *node, uint32_t *index)
{
	const struct xp_set nodes = {
		.hash = &tree->by_node,
		.array = &tree->nodes,
		.count = &tree->count,
		.room = &tree->room,
		.element_bytes = sizeof(*node),
		.identity_bytes = XP_SET_IDENTITY(*node, is_inlined),
		.max = max,
	};

	return xp_set_add(&nodes, node, index);
}

static int add_node(struct xp_model_tree *tree, const struct xp_model_node *node, uint32_t *index)
{
	return add_node_up_to(tree, XP_MODEL_NODES_MAX, node, index);
}

/* Finds or adds the node for samples beyond the limit of nodes. This node may exceed the limit. */
static int find_others(struct xp_model_tree *tree, struct xp_model *model, uint32_t *node)
{
	const struct xp_model_node new = {
		.function = XP_MODEL_NONE,
		.group = xp_model_text(model, XP_MODEL_OTHERS),
	};

	if (!new.group || add_node_up_to(tree, XP_MODEL_NODES_MAX + 1, &new, &tree->others))
		return -ENOMEM;
	*node = tree->others;
	return 0;
}

static void warn_of_others(const struct xp_model_tree *tree, const struct xp_model *model, enum xp_model_group by)
{
	if (tree->in_others)
		xp_warn("%" PRIu64 " %s are in " XP_MODEL_OTHERS ", since a tree has at most %u nodes%s",
			tree->in_others, xp_model_kind_name(model->kind), XP_MODEL_NODES_MAX,
			by == XP_MODEL_BY_NONE ? "" : "; --by none needs fewest");
}

/*
 * Finds the first function with the same shown name in the same object. Overloads have the same shown name; JIT code of
 * several source files has a function for each file.
 */
static int find_same(struct xp_model_tree *tree, const struct xp_model *model)
{
	struct xp_u64_map first = { 0 };
	int err = 0;

	tree->same_as = calloc(XP_MAX(model->function_count, (size_t)1), sizeof(*tree->same_as));
	if (!tree->same_as)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i < model->function_count; i++) {
		const struct xp_model_function *function = &model->functions[i];
		/* Each text has only one address. */
		uint32_t *same = xp_u64_map_add(&first, (uintptr_t)function->shown << 14 ^ function->object, i);

		if (!same)
			err = -ENOMEM;
		else
			tree->same_as[i] = model->functions[*same].object == function->object ? *same : i;
	}
	xp_u64_map_free(&first);
	return err;
}

/* Adds the frames of a location below a node, the outermost first. */
static int add_location(struct xp_model_tree *tree, const struct xp_model *model, uint32_t location, uint32_t *node)
{
	const struct xp_model_location *at = &model->locations[location];
	int err = 0;

	for (uint32_t i = at->frame_count; !err && i; i--) {
		const struct xp_model_node new = {
			.parent = *node,
			.function = tree->same_as[model->frames[at->first_frame + i - 1].function],
			.is_inlined = i < at->frame_count,
		};

		err = add_node(tree, &new, node);
	}
	return err;
}

/* Finds the node of a stack below the node of a group. */
static int find_stack(struct xp_model_tree *tree, const struct xp_model *model, uint32_t group, uint32_t stack,
		      uint32_t *node)
{
	uint64_t key = (uint64_t)group << 32;
	size_t depth = 0;
	int err = 0;

	*node = group;
	for (; stack; stack = model->stacks[stack].callers) {
		const uint32_t *known = xp_u64_map_find(&tree->by_stack, key | stack);

		if (known) {
			*node = *known;
			break;
		}
		if (XP_ARRAY_ADD(tree->path, depth, tree->path_room, stack))
			return -ENOMEM;
	}
	for (; !err && depth; depth--) {
		stack = tree->path[depth - 1];
		err = add_location(tree, model, model->stacks[stack].location, node);
		if (tree->by_stack.count == KNOWN_STACKS_MAX)
			xp_u64_map_free(&tree->by_stack);
		if (!err && !xp_u64_map_add(&tree->by_stack, key | stack, *node))
			err = -ENOMEM;
	}
	return err;
}

const char *xp_model_label(char *to, size_t size, const char *name, uint64_t id)
{
	int length = (int)xp_text_fit(name, LABEL_NAME_BYTES_MAX);

	if (id)
		snprintf(to, size, "%.*s (%" PRIu64 ")", length, name, id);
	else
		snprintf(to, size, "%.*s", length, name);
	return to;
}

const char *xp_model_cpu_label(char *to, size_t size, uint32_t cpu)
{
	if (cpu == XP_MODEL_CPU_UNKNOWN)
		snprintf(to, size, "unknown cpu");
	else
		snprintf(to, size, "cpu %" PRIu32, cpu);
	return to;
}

static int add_group(struct xp_model_tree *tree, struct xp_model *model, const char *name, uint32_t *node)
{
	const struct xp_model_node new = {
		.parent = *node,
		.function = XP_MODEL_NONE,
		.group = xp_model_text(model, name),
	};

	return new.group ? add_node(tree, &new, node) : -ENOMEM;
}

static int find_group(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by,
		      const struct xp_model_sample *sample, uint32_t *node)
{
	const struct xp_model_thread *thread = &model->threads[sample->thread];
	const struct xp_model_process *process = &model->processes[thread->process];
	char label[XP_MODEL_LABEL_BYTES];
	int err = 0;

	*node = 0;
	switch (by) {
	case XP_MODEL_BY_NONE:
	case XP_MODEL_GROUPS:
		return 0;
	case XP_MODEL_BY_COMM:
		return add_group(tree, model, process->name, node);
	case XP_MODEL_BY_CPU:
		return add_group(tree, model, xp_model_cpu_label(label, sizeof(label), sample->cpu), node);
	case XP_MODEL_BY_CGROUP:
		return add_group(tree, model, process->cgroup ? process->cgroup : XP_MODEL_NO_CGROUP, node);
	case XP_MODEL_BY_PROCESS:
	case XP_MODEL_BY_THREAD:
		err = add_group(tree, model, xp_model_label(label, sizeof(label), process->name, process->pid), node);
		break;
	}
	if (!err && by == XP_MODEL_BY_THREAD)
		err = add_group(tree, model, xp_model_label(label, sizeof(label), thread->name, thread->tid), node);
	return err;
}

/* From the leaves to the root: children have higher indexes. */
static void add_up(struct xp_model_tree *tree)
{
	for (size_t i = tree->count; i > 1; i--)
		for (size_t j = 0; j < XP_ARRAY_SIZE(tree->nodes->total); j++)
			tree->nodes[tree->nodes[i - 1].parent].total[j] += tree->nodes[i - 1].total[j];
}

int xp_model_tree_node(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by,
		       const struct xp_model_sample *sample, uint32_t *node)
{
	int err = find_group(tree, model, by, sample, node) ?: find_stack(tree, model, *node, sample->stack, node);

	return err == -E2BIG ? find_others(tree, model, node) : err;
}

static void count(struct xp_model_tree *tree, uint32_t node, const uint64_t values[2])
{
	if (node && node == tree->others)
		tree->in_others += values[0];
	for (size_t i = 0; i < XP_ARRAY_SIZE(tree->nodes->self); i++) {
		tree->nodes[node].self[i] += values[i];
		tree->nodes[node].total[i] += values[i];
	}
}

int xp_model_tree_make(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by)
{
	const struct xp_model_node root = { .parent = XP_MODEL_NONE, .function = XP_MODEL_NONE };
	uint32_t node;
	int err;

	memset(tree, 0, sizeof(*tree));
	err = add_node(tree, &root, &node);
	if (!err)
		err = find_same(tree, model);
	for (size_t i = 0; !err && i < model->sample_count; i++) {
		const struct xp_model_sample *sample = &model->samples[i];

		err = xp_model_tree_node(tree, model, by, sample, &node);
		if (!err)
			count(tree, node, sample->values);
	}
	if (!err)
		add_up(tree);
	warn_of_others(tree, model, by);
	return err;
}

/* Finds the functions that match. */
static bool *find_matching(const struct xp_model *model, const char *glob)
{
	bool *matching = calloc(XP_MAX(model->function_count, (size_t)1), sizeof(*matching));

	for (size_t i = 0; matching && i < model->function_count; i++)
		matching[i] = xp_function_matches(glob, model->functions[i].symbol, model->functions[i].name);
	return matching;
}

/* A stack whose functions are being added. */
struct chain {
	uint32_t node;
	bool is_found; /* a function matches */
	bool is_call;  /* the matching function is the innermost one */
};

/* Adds the functions from the innermost matching one outwards. */
static int add_callers(struct xp_model_tree *tree, const struct xp_model *model, const bool *matching, uint32_t stack,
		       struct chain *chain)
{
	bool is_innermost = true;
	int err = 0;

	for (; !err && stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *at = &model->locations[model->stacks[stack].location];

		for (uint32_t i = 0; !err && i < at->frame_count; i++) {
			uint32_t function = model->frames[at->first_frame + i].function;
			const struct xp_model_node new = { .parent = chain->node, .function = tree->same_as[function] };

			if (!chain->is_found && matching[function])
				chain->is_call = is_innermost;
			chain->is_found |= matching[function];
			is_innermost = false;
			err = chain->is_found ? add_node(tree, &new, &chain->node) : 0;
		}
	}
	return err;
}

static bool has_matching(const struct xp_model *model, const bool *matching, uint32_t stack)
{
	for (; stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *at = &model->locations[model->stacks[stack].location];

		for (uint32_t i = 0; i < at->frame_count; i++)
			if (matching[model->frames[at->first_frame + i].function])
				return true;
	}
	return false;
}

static int count_callers(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by,
			 const bool *matching, const struct xp_model_sample *sample)
{
	uint64_t values[] = { sample->values[0], sample->values[1] };
	struct chain chain = { 0 };
	int err;

	/* Skip groups without a matching function. */
	if (!has_matching(model, matching, sample->stack))
		return 0;
	err = find_group(tree, model, by, sample, &chain.node);
	if (!err)
		err = add_callers(tree, model, matching, sample->stack, &chain);
	if (err == -E2BIG)
		err = find_others(tree, model, &chain.node);
	if (err)
		return err;
	if (model->kind == XP_MODEL_CALLS && !chain.is_call)
		values[0] = 0;
	count(tree, chain.node, values);
	return 0;
}

int xp_model_tree_callers(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by, const char *glob)
{
	const struct xp_model_node root = { .parent = XP_MODEL_NONE, .function = XP_MODEL_NONE };
	bool *matching = NULL;
	uint32_t node;
	int err;

	*tree = (struct xp_model_tree){ .is_of_callers = true };
	err = add_node(tree, &root, &node);
	if (!err)
		err = find_same(tree, model);
	if (!err && !(matching = find_matching(model, glob)))
		err = -ENOMEM;
	for (size_t i = 0; !err && i < model->sample_count; i++)
		err = count_callers(tree, model, by, matching, &model->samples[i]);
	free(matching);
	if (!err)
		add_up(tree);
	warn_of_others(tree, model, by);
	return err;
}

/* A parent precedes its children: it has at least their total, and a lower index. */
static int by_weight(const void *a, const void *b, void *arg)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	const struct xp_model_node *nodes = arg, *x = &nodes[left], *y = &nodes[right];

	return xp_compare(left && !x->group, right && !y->group)
		   ?: xp_compare(y->total[0] + y->total[1], x->total[0] + x->total[1])
		   ?: xp_compare(left, right);
}

/* Adds the function of rare stacks to the model. */
static int add_rare(struct xp_model *model, uint32_t *index)
{
	struct xp_model_function rare = { .name = xp_model_text(model, XP_MODEL_RARE), .kind = XP_CODE_RARE };
	int err = xp_model_object_named(model, "", "", XP_CODE_RARE, &rare.object);

	rare.symbol = rare.name;
	return err ?: rare.name ? xp_model_function(model, &rare, index) : -ENOMEM;
}

/* Moves a node that is not kept into the one of rare stacks below its closest caller that is kept. */
static uint32_t move_rare(struct xp_model_node *kept, size_t *count, uint32_t *rare_of, uint32_t up, uint32_t function)
{
	if (kept[up].function == function)
		return up;
	if (!rare_of[up]) {
		rare_of[up] = (uint32_t)(*count)++;
		kept[rare_of[up]] = (struct xp_model_node){ .parent = up, .function = function };
	}
	return rare_of[up];
}

/* order: those that are kept come first. moved: at least as long as the tree. */
static void move_nodes(struct xp_model_tree *tree, struct xp_model_node *kept, uint32_t *rare_of, uint32_t function,
		       uint32_t *moved)
{
	size_t count = 0, rare;

	for (size_t i = 0; i < tree->count; i++)
		if (!moved[i])
			count++;
	rare = count;
	count = 0;
	for (size_t i = 0; i < tree->count; i++) {
		const struct xp_model_node *node = &tree->nodes[i];

		if (!moved[i]) {
			kept[count] = *node;
			kept[count].parent = i ? moved[node->parent] : XP_MODEL_NONE;
			moved[i] = (uint32_t)count++;
			continue;
		}
		moved[i] = move_rare(kept, &rare, rare_of, moved[node->parent], function);
		for (size_t j = 0; j < XP_ARRAY_SIZE(node->self); j++) {
			kept[moved[i]].self[j] += node->self[j];
			kept[moved[i]].total[j] += node->self[j];
		}
	}
	tree->rare_count = tree->count - count;
	tree->count = rare;
}

uint32_t *xp_model_tree_bound(struct xp_model_tree *tree, struct xp_model *model, size_t max)
{
	size_t bound = tree->count <= max ? tree->count : max / 2;
	uint32_t *order = malloc(tree->count * sizeof(*order)), *moved = calloc(tree->count, sizeof(*moved));
	struct xp_model_node *kept = calloc(2 * bound, sizeof(*kept));
	uint32_t *rare_of = calloc(2 * bound, sizeof(*rare_of)), function = XP_MODEL_NONE;

	for (size_t i = 0; order && i < tree->count; i++)
		order[i] = (uint32_t)i;
	if (!order || !moved || !kept || !rare_of || (bound < tree->count && add_rare(model, &function))) {
		free(moved);
		free(kept);
		moved = NULL;
	} else {
		qsort_r(order, tree->count, sizeof(*order), by_weight, tree->nodes);
		for (size_t i = bound; i < tree->count; i++)
			moved[order[i]] = 1;
		move_nodes(tree, kept, rare_of, function, moved);
		free(tree->nodes);
		tree->nodes = kept;
	}
	free(order);
	free(rare_of);
	return moved;
}

void xp_model_tree_free(struct xp_model_tree *tree)
{
	free(tree->nodes);
	free(tree->path);
	free(tree->same_as);
	xp_hash_free(&tree->by_node);
	xp_u64_map_free(&tree->by_stack);
	memset(tree, 0, sizeof(*tree));
}
