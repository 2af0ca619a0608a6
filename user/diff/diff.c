// SPDX-License-Identifier: BSD-2-Clause
#include "diff/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* ---- rows ---- */

/* A walk over the tree. A function that occurs several times in a stack counts once in its total. */
struct walk {
	const struct xp_model_tree *tree;
	uint32_t *first, *next; /* children and siblings of nodes; 0: none */
	uint32_t *open;		/* for each function: how many ancestors of the node are this function */
	uint32_t *rows;		/* for each function: index of its row plus 1; 0: no row yet */
};

static void enter(struct xp_diff *diff, struct walk *walk, uint32_t index)
{
	const struct xp_model_node *node = &walk->tree->nodes[index];
	const struct xp_model_function *function;
	struct xp_diff_row *row;

	if (node->function == XP_MODEL_NONE)
		return;
	function = &diff->model.functions[node->function];
	if (!walk->rows[node->function]) {
		diff->rows[diff->row_count++] = (struct xp_diff_row){
			.function = function->shown,
			.object = diff->model.objects[function->object].name,
			.kind = function->kind,
			.p = 1,
			.calls = node->function < diff->calls_count ? &diff->calls[node->function] : NULL,
		};
		walk->rows[node->function] = (uint32_t)diff->row_count;
	}
	row = &diff->rows[walk->rows[node->function] - 1];
	for (size_t i = 0; i < 2; i++) {
		row->self[i] += node->self[i];
		row->total[i] += walk->open[node->function] ? 0 : node->total[i];
	}
	walk->open[node->function]++;
}

static void walk_tree(struct xp_diff *diff, struct walk *walk)
{
	const struct xp_model_node *nodes = walk->tree->nodes;
	uint32_t node = 0;

	for (size_t i = walk->tree->count; i > 1; i--) {
		uint32_t up = nodes[i - 1].parent;

		walk->next[i - 1] = walk->first[up];
		walk->first[up] = (uint32_t)(i - 1);
	}
	for (;;) {
		enter(diff, walk, node);
		if (walk->first[node]) {
			node = walk->first[node];
			continue;
		}
		for (;; node = nodes[node].parent) {
			if (nodes[node].function != XP_MODEL_NONE)
				walk->open[nodes[node].function]--;
			if (!node)
				return;
			if (walk->next[node])
				break;
		}
		node = walk->next[node];
	}
}

static int make_rows(struct xp_diff *diff)
{
	size_t functions = XP_MAX(diff->model.function_count, (size_t)1);
	struct walk walk = {
		.tree = &diff->tree,
		.first = calloc(diff->tree.count, sizeof(*walk.first)),
		.next = calloc(diff->tree.count, sizeof(*walk.next)),
		.open = calloc(functions, sizeof(*walk.open)),
		.rows = calloc(functions, sizeof(*walk.rows)),
	};
	int err = 0;

	diff->rows = calloc(functions, sizeof(*diff->rows));
	if (walk.first && walk.next && walk.open && walk.rows && diff->rows)
		walk_tree(diff, &walk);
	else
		err = -ENOMEM;
	free(walk.first);
	free(walk.next);
	free(walk.open);
	free(walk.rows);
	return err;
}

/* ---- the comparison ---- */

static bool knows_rates(const struct xp_diff *diff)
{
	bool knows = true;

	for (size_t i = 0; i < 2; i++) {
		const struct xp_diff_side *side = &diff->sides[i];

		knows &= side->length_ns && (diff->kind != XP_MODEL_SAMPLES || side->period_ns > 0);
	}
	return knows;
}

static void choose_unit(struct xp_diff *diff, enum xp_diff_basis basis)
{
	if (basis == XP_DIFF_PER_CPU_SECOND && diff->kind != XP_MODEL_SAMPLES)
		basis = XP_DIFF_PER_SECOND;
	if (basis == XP_DIFF_PER_SECOND && !knows_rates(diff))
		basis = XP_DIFF_SHARES;
	diff->basis = basis;
	for (size_t i = 0; i < 2; i++) {
		struct xp_diff_side *side = &diff->sides[i];
		double ms = (diff->kind == XP_MODEL_SAMPLES ? side->period_ns : 1) / 1e6;

		if (basis == XP_DIFF_PER_SECOND)
			side->scale = ms / ((double)side->length_ns / 1e9);
		else
			side->scale = (basis == XP_DIFF_SHARES ? 100 : 1000) / (double)XP_MAX(side->total, 1u);
	}
}

static const uint64_t *counts_of(const struct xp_diff *diff, const struct xp_diff_row *row)
{
	return diff->by_total ? row->total : row->self;
}

static struct xp_count_test test_rates(const struct xp_diff *diff, const uint64_t counts[2])
{
	double exposures[2];

	for (size_t i = 0; i < 2; i++)
		exposures[i] = (double)diff->sides[i].length_ns / diff->sides[i].period_ns;
	return xp_count_test_rates(counts, exposures);
}

static struct xp_count_test test_shares(const struct xp_diff *diff, const uint64_t counts[2])
{
	const uint64_t totals[2] = { diff->sides[0].total, diff->sides[1].total };

	return xp_count_test_shares(counts, totals);
}

static enum xp_diff_verdict verdict_of(const struct xp_diff *diff, const struct xp_diff_row *row)
{
	const uint64_t *counts = counts_of(diff, row);

	if (row->p > diff->limit)
		return XP_DIFF_NOISE;
	if (diff->basis == XP_DIFF_PER_SECOND && row != &diff->total && diff->total.p <= XP_DIFF_LEVEL &&
	    test_shares(diff, counts).p > diff->limit)
		return XP_DIFF_WITH_TOTAL;
	return xp_diff_value(diff, row, 1) > xp_diff_value(diff, row, 0) ? XP_DIFF_GREW : XP_DIFF_SHRANK;
}

static int test_rows(struct xp_diff *diff)
{
	struct xp_count_test *tests = calloc(XP_MAX(diff->row_count, (size_t)1), sizeof(*tests));
	bool is_rate = diff->basis == XP_DIFF_PER_SECOND;
	size_t tested;

	if (!tests)
		return -ENOMEM;
	for (size_t i = 0; i < diff->row_count; i++) {
		const uint64_t *counts = counts_of(diff, &diff->rows[i]);

		tests[i] = is_rate ? test_rates(diff, counts) : test_shares(diff, counts);
		diff->rows[i].p = tests[i].p;
	}
	diff->total.p = is_rate ? test_rates(diff, diff->total.self).p : 1;
	diff->limit = XP_DIFF_LEVEL;
	diff->total.verdict = verdict_of(diff, &diff->total);
	diff->limit = xp_count_test_level(tests, diff->row_count, XP_DIFF_LEVEL, &tested);
	diff->tested = tested;
	for (size_t i = 0; i < diff->row_count; i++)
		diff->rows[i].verdict = verdict_of(diff, &diff->rows[i]);
	free(tests);
	return 0;
}

static int compare_rows(const void *a, const void *b, void *diff)
{
	const struct xp_diff_row *x = a, *y = b;
	double of_x = fabs(xp_diff_value(diff, x, 1) - xp_diff_value(diff, x, 0));
	double of_y = fabs(xp_diff_value(diff, y, 1) - xp_diff_value(diff, y, 0));

	return xp_compare(!x->verdict, !y->verdict) ?: (of_x < of_y) - (of_x > of_y) ?:
	       strcmp(x->function, y->function) ?: strcmp(x->object, y->object);
}

/* Removes rows without values, such as functions that only call others. */
static void drop_empty_rows(struct xp_diff *diff)
{
	size_t kept = 0;

	for (size_t i = 0; i < diff->row_count; i++) {
		const struct xp_diff_row *row = &diff->rows[i];
		const uint64_t *counts = counts_of(diff, row);

		if (counts[0] || counts[1] || (row->calls && (row->calls->calls[0] || row->calls->calls[1])))
			diff->rows[kept++] = *row;
	}
	diff->row_count = kept;
}

int xp_diff_make(struct xp_diff *diff, enum xp_diff_basis basis, bool by_total)
{
	bool many = diff->sides[0].many_processes && diff->sides[1].many_processes;
	int err = xp_model_tree_make(&diff->tree, &diff->model, many ? XP_MODEL_BY_COMM : XP_MODEL_BY_NONE);

	if (!err)
		err = make_rows(diff);
	if (err)
		return err;
	diff->by_total = by_total;
	choose_unit(diff, basis);
	drop_empty_rows(diff);
	diff->total = (struct xp_diff_row){ .function = "all", .object = "", .p = 1 };
	for (size_t i = 0; i < 2; i++)
		diff->total.self[i] = diff->total.total[i] = diff->sides[i].total;
	if (diff->kind == XP_MODEL_SAMPLES)
		err = test_rows(diff);
	if (!err && diff->row_count)
		qsort_r(diff->rows, diff->row_count, sizeof(*diff->rows), compare_rows, diff);
	return err;
}

double xp_diff_value(const struct xp_diff *diff, const struct xp_diff_row *row, size_t side)
{
	return (double)counts_of(diff, row)[side] * diff->sides[side].scale;
}

double xp_diff_margin(const struct xp_diff *diff, const struct xp_diff_row *row)
{
	double variance = 0;

	for (size_t i = 0; diff->kind == XP_MODEL_SAMPLES && i < 2; i++) {
		double count = (double)counts_of(diff, row)[i], share = count / (double)diff->sides[i].total;

		if (count > 0)
			variance +=
			    count * (diff->basis == XP_DIFF_PER_SECOND ? 1 : 1 - share) * pow(diff->sides[i].scale, 2);
	}
	return 1.96 * sqrt(variance);
}

double xp_diff_mean(const struct xp_diff_calls *calls, size_t side)
{
	return calls->ended[side] ? calls->ns[side] / (double)calls->ended[side] : -1;
}

double xp_diff_percentile(const struct xp_diff *diff, const struct xp_diff_calls *calls, size_t side,
			  unsigned int thousandths)
{
	const struct xp_durations *durations = &calls->durations[side];
	uint64_t cycles;

	if (!durations->count || !diff->sides[side].cycle_hz || (durations->lost && thousandths < 1000))
		return -1;
	cycles = thousandths < 1000 ? xp_durations_percentile(durations, thousandths) : durations->max;
	return (double)cycles * 1e9 / (double)diff->sides[side].cycle_hz;
}

const char *xp_diff_per(const struct xp_diff *diff)
{
	static const char *const names[] = {
		[XP_DIFF_PER_CPU_SECOND] = "cpu-second",
		[XP_DIFF_PER_SECOND] = "second",
		[XP_DIFF_SHARES] = "share",
	};

	return names[diff->basis];
}

const char *xp_diff_unit(const struct xp_diff *diff)
{
	return diff->basis == XP_DIFF_SHARES ? "%" : "ms/s";
}

int xp_diff_init(struct xp_diff *diff, enum xp_model_kind kind)
{
	*diff = (struct xp_diff){ .kind = kind, .durations_memory.max = XP_DURATIONS_BYTES_MAX };
	return xp_model_init(&diff->model, kind, XP_NAMES_LINES);
}

void xp_diff_free(struct xp_diff *diff)
{
	xp_model_tree_free(&diff->tree);
	xp_model_free(&diff->model);
	xp_u64_map_free(&diff->comms);
	for (size_t i = 0; i < diff->calls_count; i++)
		for (size_t j = 0; j < 2; j++)
			xp_durations_free(&diff->calls[i].durations[j], &diff->durations_memory);
	free(diff->calls);
	free(diff->rows);
}
