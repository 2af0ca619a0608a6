// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes exports and comparisons of a perf.data file: processes over time, stacks, trees, the formats, and the
 * difference between a recording and itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#include "base/util.h"
#include "diff/diff.h"
#include "export/export.h"
#include "model/samples_perf.h"
#include "model/timeline.h"

/* Checks that each reference is valid, and that callers precede callees. */
static void check_model(const struct xp_model *model)
{
	for (size_t i = 1; i < model->stack_count; i++)
		CHECK(model->stacks[i].callers < i && model->stacks[i].location < model->location_count);
	for (size_t i = 0; i < model->location_count; i++) {
		const struct xp_model_location *location = &model->locations[i];

		CHECK(location->object < model->object_count && location->frame_count >= 1);
		CHECK(location->first_frame + location->frame_count <= model->frame_count);
	}
	for (size_t i = 0; i < model->frame_count; i++)
		CHECK(model->frames[i].function < model->function_count);
	for (size_t i = 0; i < model->sample_count; i++) {
		CHECK(model->samples[i].stack < model->stack_count);
		CHECK(model->threads[model->samples[i].thread].process < model->process_count);
	}
}

static void write_all(struct xp_model *model)
{
	FILE *out = fopen("/dev/null", "w");

	CHECK(out);
	for (int by = XP_MODEL_BY_PROCESS; by < XP_MODEL_GROUPS; by++) {
		const struct xp_export_options options = { .by = (enum xp_model_group)by };

		CHECK(!xp_export_folded(out, model, &options));
		CHECK(!xp_export_pprof(out, model, &options));
	}
	fclose(out);
}

static void write_hits(struct xp_model *model)
{
	const struct xp_perfetto_options options = { .maker = "xprof" };
	struct xp_perfetto *perfetto;
	FILE *out = fopen("/dev/null", "w");

	CHECK(out && !xp_perfetto_new(&perfetto, out, &options));
	CHECK(!xp_timeline_hits_write(model, perfetto, 0) && !xp_perfetto_finish(perfetto));
	xp_perfetto_free(perfetto);
	fclose(out);
}

static void compare(const struct xp_model *model)
{
	struct xp_diff diff;
	int err = xp_diff_init(&diff, model->kind);

	for (size_t side = 0; !err && side < 2; side++)
		err = xp_diff_add(&diff, side, model);
	if (!err)
		err = xp_diff_make(&diff, XP_DIFF_SHARES, false);
	CHECK(!err || err == -E2BIG);
	for (size_t i = 0; !err && i < diff.row_count; i++)
		CHECK(xp_diff_value(&diff, &diff.rows[i], 0) == xp_diff_value(&diff, &diff.rows[i], 1));
	xp_diff_free(&diff);
}

static void read_model(struct xp_model *model, struct xp_perf_samples *samples, const struct xp_file_view *view,
		       const struct xp_model_source *source)
{
	const struct xp_model_jit_names jit = { xp_jit_codes_name, &samples->jit };
	struct xp_violation violation;
	uint64_t totals[2];
	bool broken = false;
	int err = xp_perf_samples_look(samples, view, "/nonexistent", &violation, &broken);

	CHECK(!err || err == -EBADMSG);
	CHECK(!xp_perf_samples_add(samples, view, model, source));
	CHECK(!xp_model_name(model, &jit));
	check_model(model);
	xp_model_totals(model, totals);
	CHECK(totals[0] + model->dropped == samples->count);
	if (model->keep_times)
		write_hits(model);
	if (model->sample_count) {
		write_all(model);
		compare(model);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct xp_file_view view = { .bytes = data, .size = size };
	const struct xp_recorded recorded = { 0 };
	const struct xp_select select = { 0 };
	struct xp_model_source source = { .recorded = &recorded, .select = &select };
	struct xp_perf_samples samples = { 0 };
	struct xp_facts *facts;
	struct xp_model model;

	xp_log_level = XP_LOG_QUIET;
	CHECK(!xp_facts_new(&facts, NULL));
	source.facts = facts;
	CHECK(!xp_model_init(&model, XP_MODEL_SAMPLES, XP_NAMES_LINES));
	model.keep_hits = true;
	model.keep_times = size % 2;
	/* The deadline for names is over, so no reader starts, and no file that the input names is opened. */
	xp_symbolizer_limit(model.symbolizer, 0);
	read_model(&model, &samples, &view, &source);
	xp_perf_samples_free(&samples);
	xp_model_free(&model);
	xp_facts_free(facts);
	return 0;
}
