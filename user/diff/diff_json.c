// SPDX-License-Identifier: BSD-2-Clause
#include "diff/out.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/util.h"

static const char *const verdicts[] = {
	[XP_DIFF_NOISE] = "noise",
	[XP_DIFF_WITH_TOTAL] = "with-total",
	[XP_DIFF_GREW] = "grew",
	[XP_DIFF_SHRANK] = "shrank",
};

/* The caller of a function below owns its result. A NULL result makes json_pack() with "o" fail. */

static json_t *number_or_null(double number)
{
	return number < 0 ? json_null() : json_real(number);
}

static json_t *side_of(const struct xp_diff *diff, size_t i)
{
	const struct xp_diff_side *side = &diff->sides[i];
	json_t *object = json_pack("{s:s, s:o}", "path", side->path, "length_s",
				   number_or_null(side->length_ns ? (double)side->length_ns / 1e9 : -1));

	if (diff->kind == XP_MODEL_CALLS)
		json_object_set_new(object, "calls", json_integer((json_int_t)side->calls));
	else if (diff->kind == XP_MODEL_WAITS)
		json_object_set_new(object, "waits_ns", json_integer((json_int_t)side->total));
	else
		json_object_set_new(object, "samples", json_integer((json_int_t)side->total));
	return object;
}

static json_t *pair_of(const uint64_t counts[2])
{
	return json_pack("[I, I]", (json_int_t)counts[0], (json_int_t)counts[1]);
}

/* Adds the members about samples. */
static void add_samples(json_t *object, const struct xp_diff *diff, const struct xp_diff_row *row)
{
	json_object_set_new(object, "self_samples", pair_of(row->self));
	json_object_set_new(object, "total_samples", pair_of(row->total));
	json_object_set_new(object, "margin", json_real(xp_diff_margin(diff, row)));
	json_object_set_new(object, "p", json_real(row->p));
	json_object_set_new(object, "verdict", json_string(verdicts[row->verdict]));
}

static void add_times(json_t *object, const char *name, double before, double after)
{
	json_object_set_new(object, name, json_pack("[o, o]", number_or_null(before), number_or_null(after)));
}

static void add_calls(json_t *object, const struct xp_diff *diff, const struct xp_diff_row *row)
{
	static const struct {
		const char *name;
		unsigned int thousandths;
	} times[] = { { "p50_ns", 500 }, { "p90_ns", 900 }, { "p99_ns", 990 }, { "max_ns", 1000 } };

	json_object_set_new(object, "self_ns", pair_of(row->self));
	json_object_set_new(object, "total_ns", pair_of(row->total));
	json_object_set_new(object, "calls", pair_of(row->calls->calls));
	add_times(object, "mean_ns", xp_diff_mean(row->calls, 0), xp_diff_mean(row->calls, 1));
	for (size_t i = 0; i < XP_ARRAY_SIZE(times); i++)
		add_times(object, times[i].name, xp_diff_percentile(diff, row->calls, 0, times[i].thousandths),
			  xp_diff_percentile(diff, row->calls, 1, times[i].thousandths));
}

static json_t *row_of(const struct xp_diff *diff, const struct xp_diff_row *row)
{
	double before = xp_diff_value(diff, row, 0), after = xp_diff_value(diff, row, 1);
	json_t *object = json_pack("{s:s, s:s, s:[f, f], s:f}", "function", row->function, "object", row->object,
				   "values", before, after, "change", after - before);

	if (object && diff->kind == XP_MODEL_SAMPLES)
		add_samples(object, diff, row);
	else if (object && row->calls)
		add_calls(object, diff, row);
	return object;
}

static json_t *view_of(const struct xp_diff *diff)
{
	bool is_samples = diff->kind == XP_MODEL_SAMPLES, is_rate = diff->basis == XP_DIFF_PER_SECOND;
	json_t *functions = json_array(), *view;
	int err = 0;

	for (size_t i = 0; i < diff->row_count; i++)
		err |= json_array_append_new(functions, row_of(diff, &diff->rows[i]));
	view = json_pack("{s:s, s:s, s:s, s:s, s:[o, o], s:o}", "of", xp_model_kind_name(diff->kind), "unit",
			 xp_diff_unit(diff), "per", xp_diff_per(diff), "compared", diff->by_total ? "total" : "self",
			 "sides", side_of(diff, 0), side_of(diff, 1), "functions", functions);
	if (view && is_samples)
		err |= json_object_set_new(view, "test",
					   json_pack("{s:s, s:f, s:I, s:f}", "name",
						     is_rate ? "poisson-exact" : "fisher-exact", "level", XP_DIFF_LEVEL,
						     "functions", (json_int_t)diff->tested, "p_limit", diff->limit));
	if (view && diff->kind != XP_MODEL_CALLS && is_rate)
		err |= json_object_set_new(view, "all", row_of(diff, &diff->total));
	if (err) {
		json_decref(view);
		view = NULL;
	}
	return view;
}

int xp_diff_json(FILE *out, const struct xp_diff_pair *pair)
{
	json_t *views = json_array(), *root;
	int err = 0;

	for (size_t i = 0; i < pair->count; i++)
		err |= json_array_append_new(views, view_of(pair->all[i]));
	root = json_pack("{s:i, s:o}", "version", 1, "views", views);
	if (root && !err) {
		json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
		putc('\n', out);
	}
	json_decref(root);
	return root && !err ? 0 : -ENOMEM;
}
