// SPDX-License-Identifier: BSD-2-Clause
#include "report/tree_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "report/print_text.h"

#define SHOWN_SHARE 200 /* the 200th part: 0.5 % */
#define NAME_COLUMNS_MIN 20
#define CALL_COLUMNS 24 /* width of the number of calls and their time */

struct page {
	FILE *out;
	const struct xp_model *model;
	const struct xp_model_tree *tree;
	const struct xp_report_style *style;
	bool is_timed; /* the tree is of calls or waits, which have a number and a time */
	size_t value;  /* index of the value for the shares */
	uint64_t whole;
	uint32_t *children; /* all nodes except the root, sorted by parent; the largest child first */
	uint32_t *first;    /* for each node, the index of its first child in `children`; then the end of `children` */
	char *guides;	    /* the character before a function for each level: '|' or a blank */
	size_t levels;
};

static int compare_nodes(const void *a, const void *b, void *arg)
{
	const struct page *page = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct xp_model_node *x = &page->tree->nodes[i], *y = &page->tree->nodes[j];

	return xp_compare(x->parent, y->parent) ?: xp_compare(y->total[page->value], x->total[page->value]) ?:
	       xp_compare(i, j);
}

/* Sorts the children. The depth of a tree is limited by its number of nodes. */
static int prepare(struct page *page)
{
	size_t count = page->tree->count, next = 0;

	page->children = calloc(count, sizeof(*page->children));
	page->first = calloc(count + 1, sizeof(*page->first));
	page->guides = calloc(count + 1, 1);
	if (!page->children || !page->first || !page->guides)
		return -ENOMEM;
	for (uint32_t i = 1; i < count; i++)
		page->children[i - 1] = i;
	qsort_r(page->children, count - 1, sizeof(*page->children), compare_nodes, page);
	for (uint32_t i = 0; i <= count; i++) {
		while (next < count - 1 && page->tree->nodes[page->children[next]].parent < i)
			next++;
		page->first[i] = (uint32_t)next;
	}
	return 0;
}

/* Returns whether the node and its only child have the same share. */
static bool is_chained(const struct page *page, uint32_t node)
{
	return page->first[node + 1] - page->first[node] == 1 && !page->tree->nodes[node].self[0] &&
	       !page->tree->nodes[node].self[1] && !page->tree->nodes[node].group;
}

static void put_indent(const struct page *page)
{
	for (size_t i = 0; i < page->levels; i++)
		xp_put(page->out, "%c ", page->guides[i]);
}

/* Prints the shares and, for calls, number and time. self: NULL for the sum of several nodes. */
static void put_values(const struct page *page, const uint64_t *total, const uint64_t *self)
{
	char time[32];

	xp_put_share(page->out, page->style->colour, xp_percent(total[page->value], page->whole));
	if (page->tree->is_of_callers)
		xp_put(page->out, "  ");
	else if (self)
		xp_put(page->out, "  %6.2f%%  ", xp_percent(self[page->value], page->whole));
	else
		xp_put(page->out, "%11s", "");
	if (!page->is_timed)
		return;
	xp_format_short(time, sizeof(time), (double)total[1] / 1e9);
	/* In a tree of callers, the total counts the calls of the function at the root. */
	xp_put(page->out, "%12" PRIu64 "  %8s  ", self && !page->tree->is_of_callers ? self[0] : total[0], time);
}

static int share_columns(const struct page *page)
{
	return page->tree->is_of_callers ? 9 : 18;
}

static const char *object_of(const struct page *page, uint32_t node)
{
	uint32_t function = page->tree->nodes[node].function;

	return function == XP_MODEL_NONE ? "" : page->model->objects[page->model->functions[function].object].name;
}

/* Prints the name and, if it differs from the parent's object, the object. */
static void put_name(const struct page *page, uint32_t index)
{
	const struct xp_model_node *node = &page->tree->nodes[index];
	int columns = (int)page->style->columns - share_columns(page) - (page->is_timed ? CALL_COLUMNS : 0) -
		      2 * (int)XP_MIN(page->levels, (size_t)1000);
	const char *object = object_of(page, index);
	bool is_elsewhere = *object && object != object_of(page, node->parent);

	columns -= is_elsewhere ? xp_text_columns(object) + 4 : 0;
	columns -= node->is_inlined ? (int)strlen(" (inlined)") : 0;
	put_indent(page);
	xp_colour_start(page->out, page->style->colour, node->group ? XP_COLOUR_BOLD : NULL);
	xp_put_cut(page->out, node->group ? node->group : page->model->functions[node->function].shown,
		   page->style->columns ? XP_MAX(columns, NAME_COLUMNS_MIN) : INT32_MAX);
	xp_colour_end(page->out, page->style->colour, node->group ? XP_COLOUR_BOLD : NULL);
	if (node->is_inlined)
		xp_put(page->out, " (inlined)");
	if (is_elsewhere)
		xp_put(page->out, "  [%s]", object);
	fputc('\n', page->out);
}

static bool is_shown(const struct page *page, uint32_t node)
{
	return page->style->limit == UINT64_MAX ||
	       (double)page->tree->nodes[node].total[page->value] * SHOWN_SHARE >= (double)page->whole;
}

/* Prints one line for the children from index `from` on, which are too small to show. */
static void put_rest(const struct page *page, uint32_t parent, uint32_t from)
{
	uint64_t total[2] = { 0 };
	uint32_t end = page->first[parent + 1];

	if (from == end)
		return;
	for (uint32_t i = from; i < end; i++)
		for (size_t j = 0; j < XP_ARRAY_SIZE(total); j++)
			total[j] += page->tree->nodes[page->children[i]].total[j];
	put_values(page, total, NULL);
	put_indent(page);
	xp_put_line(page->out, "... and %" PRIu32 " more", end - from);
}

/* Recursive, to the depth of a stack, which is bounded (model/depth.h). */
static void put_children(struct page *page, uint32_t parent)
{
	uint32_t end = page->first[parent + 1], i = page->first[parent];

	for (; i < end && is_shown(page, page->children[i]); i++) {
		uint32_t node = page->children[i];
		size_t levels = page->levels;

		put_values(page, page->tree->nodes[node].total, page->tree->nodes[node].self);
		put_name(page, node);
		/* Functions of a chain without branches have the same indentation. */
		while (is_chained(page, node)) {
			node = page->children[page->first[node]];
			if (is_chained(page, node) && !page->is_timed)
				xp_put(page->out, "%*s", share_columns(page), "");
			else
				put_values(page, page->tree->nodes[node].total, page->tree->nodes[node].self);
			put_name(page, node);
		}
		page->guides[page->levels++] = i + 1 < end ? '|' : ' ';
		put_children(page, node);
		page->levels = levels;
	}
	put_rest(page, parent, i);
}

int xp_report_print_tree(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree,
			 const struct xp_report_style *style)
{
	struct page page = { .out = out, .model = model, .tree = tree, .style = style };
	uint64_t totals[2];
	int err;

	page.is_timed = model->kind != XP_MODEL_SAMPLES;
	page.value = page.is_timed;
	err = prepare(&page);
	xp_model_totals(model, totals);
	page.whole = totals[page.value];
	xp_colour_start(out, style->colour, XP_COLOUR_BOLD);
	xp_put(out, "%7s  ", "Total");
	if (!tree->is_of_callers)
		xp_put(out, "%7s  ", "Self");
	if (page.is_timed)
		xp_put(out, "%12s  %8s  ", model->kind == XP_MODEL_WAITS ? "Waits" : "Calls", "Time");
	xp_put(out, "Function");
	xp_colour_end(out, style->colour, XP_COLOUR_BOLD);
	fputc('\n', out);
	if (!err)
		put_children(&page, 0);
	free(page.children);
	free(page.first);
	free(page.guides);
	return err;
}
