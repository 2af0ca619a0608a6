// SPDX-License-Identifier: BSD-2-Clause
#include "model/folded_stack.h"

#include <stdlib.h>

#include "base/array.h"

/* Semicolons separate frames, so a name must not contain one. */
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

static void put_node(struct xp_folded *folded, const struct xp_model_node *node)
{
	const struct xp_model_function *function;

	if (node->group) {
		put_name(folded->out, node->group);
		return;
	}
	function = &folded->model->functions[node->function];
	put_name(folded->out, function->shown);
	fputs(suffix_of(node, function), folded->out);
}

int xp_folded_put(struct xp_folded *folded, uint32_t node)
{
	const struct xp_model_node *nodes = folded->tree->nodes;
	size_t depth = 0;

	for (uint32_t at = node; at; at = nodes[at].parent) {
		if (XP_ARRAY_ADD(folded->path, depth, folded->path_room, at))
			return -ENOMEM;
	}
	if (!depth)
		fputs("[unknown]", folded->out);
	for (; depth; depth--) {
		put_node(folded, &nodes[folded->path[depth - 1]]);
		if (depth > 1)
			putc(';', folded->out);
	}
	return 0;
}

void xp_folded_free(struct xp_folded *folded)
{
	free(folded->path);
	folded->path = NULL;
	folded->path_room = 0;
}
