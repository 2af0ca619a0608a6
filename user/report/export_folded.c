// SPDX-License-Identifier: BSD-2-Clause
/*
 * Folded stacks, as flamegraph.pl, inferno, speedscope, Firefox Profiler and Perfetto read them: a line for each stack,
 * root first, frames joined by semicolons, then a blank and a number: of samples, or of ns in calls. Names end in _[k]
 * for kernel code, in _[j] for JIT code and in _[i] for inlined code (Linux, tools/perf/scripts and
 * stackcollapse-perf.pl --all).
 */
#include "report/export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct line {
	FILE *out;
	const struct xp_model *model;
	const struct xp_model_tree *tree;
	uint32_t *path; /* nodes from the leaf to the root */
	size_t path_room;
};

/* A semicolon separates frames. */
static void put_name(FILE *out, const char *name)
{
	for (; *name; name++)
		putc(*name == ';' ? ':' : *name, out);
}

static const char *suffix_of(const struct xp_model_node *node, const struct xp_model_function *function)
{
	if (node->is_inlined)
		return "_[i]";
	if (function->kind == XP_CODE_KERNEL)
		return "_[k]";
	return function->kind == XP_CODE_JIT ? "_[j]" : "";
}

static void put_node(struct line *line, const struct xp_model_node *node)
{
	const struct xp_model_function *function;

	if (node->group) {
		put_name(line->out, node->group);
		return;
	}
	function = &line->model->functions[node->function];
	put_name(line->out, line->tree->names[node->function]);
	fputs(suffix_of(node, function), line->out);
}

static int put_line(struct line *line, uint32_t index, uint64_t value)
{
	const struct xp_model_node *nodes = line->tree->nodes;
	size_t depth = 0;

	for (uint32_t at = index; at; at = nodes[at].parent) {
		if (XP_ARRAY_RESERVE(line->path, line->path_room, depth + 1))
			return -ENOMEM;
		line->path[depth++] = at;
	}
	if (!depth)
		fputs("[unknown]", line->out);
	for (; depth; depth--) {
		put_node(line, &nodes[line->path[depth - 1]]);
		if (depth > 1)
			putc(';', line->out);
	}
	fprintf(line->out, " %" PRIu64 "\n", value);
	return 0;
}

int xp_export_folded(FILE *out, struct xp_model *model, const struct xp_export_options *options)
{
	size_t which = model->kind == XP_MODEL_CALLS ? 1 : 0;
	struct xp_model_tree tree;
	struct line line = { .out = out, .model = model, .tree = &tree };
	int err = xp_model_tree_make(&tree, model, options->by);

	for (size_t i = 0; !err && i < tree.count && !ferror(out); i++)
		if (tree.nodes[i].self[which])
			err = put_line(&line, (uint32_t)i, tree.nodes[i].self[which]);
	free(line.path);
	xp_model_tree_free(&tree);
	return err;
}
