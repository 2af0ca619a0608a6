// SPDX-License-Identifier: BSD-2-Clause
/* Prints the tree of slow calls against typical calls. */
#include "explain/explain.h"

#include <inttypes.h>
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "report/print_text.h"

#define WORTH_SHARE 0.01 /* minimum share of the difference of all calls */
#define DEPTH_MAX 40
#define TIME_BYTES 32

struct printing {
	FILE *out;
	const struct xp_call_tree *tree;
	int columns;
};

static double difference(const struct xp_call_tree *tree, uint32_t node)
{
	return xp_call_node_mean_ns(tree, &tree->nodes[node], true) -
	       xp_call_node_mean_ns(tree, &tree->nodes[node], false);
}

static void print_node(const struct printing *printing, uint32_t index, int depth)
{
	const struct xp_call_node *node = &printing->tree->nodes[index];
	char slow[TIME_BYTES], typical[TIME_BYTES], more[TIME_BYTES];
	double mean[2], change = difference(printing->tree, index);

	for (int is_slow = 0; is_slow <= 1; is_slow++)
		mean[is_slow] = xp_call_node_mean_ns(printing->tree, node, is_slow);
	xp_format_brief(slow, sizeof(slow), mean[1] / 1e9);
	xp_format_brief(typical, sizeof(typical), mean[0] / 1e9);
	xp_format_brief(more, sizeof(more), fabs(change) / 1e9);
	xp_put_line(printing->out, "%10s %10s %c%10s %c %*s%.*s", slow, typical, change < 0 ? '-' : '+', more,
		    node->is_certain ? ' ' : '~', depth, "",
		    (int)xp_text_fit(node->text, (size_t)XP_MAX(printing->columns - 37 - depth, 20)), node->text);
}

/* Prints children of a node with at least this share, the largest difference first. */
static void print_below(const struct printing *printing, uint32_t parent, int depth)
{
	const struct xp_call_tree *tree = printing->tree;
	double worth = WORTH_SHARE * fabs(difference(tree, 0)), last = INFINITY;
	uint32_t last_index = 0;

	for (;;) {
		uint32_t best = 0;

		for (uint32_t i = parent + 1; i < tree->count; i++) {
			double change = fabs(difference(tree, i));

			if (tree->nodes[i].parent != parent || change < worth || !change || change > last ||
			    (change == last && i <= last_index))
				continue;
			if (!best || change > fabs(difference(tree, best)))
				best = i;
		}
		if (!best)
			return;
		print_node(printing, best, depth);
		if (depth < DEPTH_MAX)
			print_below(printing, best, depth + 1);
		last = fabs(difference(tree, best));
		last_index = best;
	}
}

void xp_call_tree_print(FILE *out, const struct xp_call_tree *tree, int columns)
{
	const struct printing printing = { out, tree, columns };

	if (!tree->calls[0] || !tree->calls[1])
		return;
	xp_put_line(out, "%s", "");
	xp_put_line(out,
		    "Mean time of %" PRIu64 " slow and %" PRIu64 " typical calls (~: may be chance):", tree->calls[1],
		    tree->calls[0]);
	xp_put_line(out, "%10s %10s %11s", "slow", "typical", "difference");
	print_below(&printing, 0, 0);
}
