// SPDX-License-Identifier: BSD-2-Clause
#include "diff/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/util.h"
#include "diff/out.h"

/* A function of a recording: its symbol, and its address in a build. */
struct code {
	const char *object;
	const char *symbol; /* NULL: none */
	uint64_t address;
};

static int code_name(struct xp_model *model, uint32_t location, const struct code *code)
{
	char made[64];
	struct xp_model_function function = { .object = model->locations[location].object, .has_name = code->symbol };
	struct xp_model_frame *frames = realloc(model->frames, (model->frame_count + 1) * sizeof(*frames));

	assert_non_null(frames);
	model->frames = frames;
	model->frame_room = model->frame_count + 1;
	snprintf(made, sizeof(made), "%s+0x%llx", code->object, (unsigned long long)code->address);
	function.name = function.symbol = xp_model_text(model, code->symbol ? code->symbol : made);
	model->locations[location].first_frame = (uint32_t)model->frame_count;
	model->locations[location].frame_count = 1;
	frames[model->frame_count] = (struct xp_model_frame){ 0 };
	return xp_model_function(model, &function, &frames[model->frame_count++].function);
}

static uint32_t add_stack(struct xp_model *model, uint32_t callers, const struct code *code)
{
	struct xp_model_object object = { .name = code->object, .file = XP_MODEL_NONE };
	uint32_t index, location, stack;
	size_t known = model->location_count;

	object.name = xp_model_text(model, code->object);
	object.path = object.name;
	assert_int_equal(xp_model_object(model, &object, &index), 0);
	assert_int_equal(xp_model_location(model, index, code->address, XP_MODEL_NONE, &location), 0);
	if (model->location_count > known)
		assert_int_equal(code_name(model, location, code), 0);
	assert_int_equal(xp_model_stack(model, callers, location, &stack), 0);
	return stack;
}

/* Returns a model of one process of 1 s, with a sample per ms. */
static void start(struct xp_model *model, enum xp_model_kind kind)
{
	struct xp_model_process process = { .pid = 7 };
	struct xp_model_thread thread = { .tid = 7 };
	uint32_t index;

	assert_int_equal(xp_model_init(model, kind, XP_NAMES_LINES), 0);
	process.name = thread.name = xp_model_text(model, "app");
	assert_int_equal(xp_model_process(model, &process, &thread.process), 0);
	assert_int_equal(xp_model_thread(model, &thread, &index), 0);
	model->length_ns = 1000000000;
}

static void add(struct xp_model *model, uint32_t stack, uint64_t count, uint64_t ns)
{
	const struct xp_model_sample sample = { .stack = stack, .values = { count, ns } };

	assert_int_equal(xp_model_sample(model, &sample), 0);
}

static const struct xp_diff_row *row(const struct xp_diff *diff, const char *function)
{
	const struct xp_diff_row *found = NULL;

	for (size_t i = 0; i < diff->row_count; i++)
		if (strcmp(diff->rows[i].function, function) == 0) {
			assert_null(found);
			found = &diff->rows[i];
		}
	return found;
}

static void assert_self(const struct xp_diff *diff, const char *function, uint64_t before, uint64_t after)
{
	const struct xp_diff_row *found = row(diff, function);

	assert_non_null(found);
	assert_int_equal(found->self[0], before);
	assert_int_equal(found->self[1], after);
}

static const struct code main_of[2] = { { "app", "main", 0x100 }, { "app", "main", 0x900 } };

/* Symbols that two builds share, at any address. */
TEST(test_functions_match_by_name)
{
	static const struct code builds[2][7] = {
		{ { "app", "work.constprop.0", 0x10 },
		  { "app", "f(int) [clone .isra.1]", 0x20 },
		  { "lib.so", "work.constprop.0", 0x10 },
		  { "app", NULL, 0x30 },
		  { "app", "hot.llvm.123", 0x40 },
		  { "app", "cold.part", 0x50 },
		  { "", "fn_3", 0x60 } },
		{ { "app", "work", 0x20 },
		  { "app", "f(int) [clone .cold]", 0x10 },
		  { "lib.so", "work", 0x40 },
		  { "app", NULL, 0x70 },
		  { "app", "hot.llvm.456.cold.7", 0x30 },
		  { "app", "cold.part", 0x80 },
		  { "", "fn_4", 0x60 } },
	};
	struct xp_diff diff;

	assert_int_equal(xp_diff_init(&diff, XP_MODEL_SAMPLES), 0);
	for (size_t side = 0; side < 2; side++) {
		struct xp_model model;
		uint32_t main_stack;

		start(&model, XP_MODEL_SAMPLES);
		main_stack = add_stack(&model, 0, &main_of[side]);
		for (size_t i = 0; i < XP_ARRAY_SIZE(builds[side]); i++)
			add(&model, add_stack(&model, main_stack, &builds[side][i]), 10 * (i + 1) + side, 1000000);
		assert_int_equal(xp_diff_add(&diff, side, &model), 0);
		xp_model_free(&model);
	}
	assert_int_equal(xp_diff_make(&diff, XP_DIFF_PER_CPU_SECOND, false), 0);
	assert_int_equal(diff.row_count, 7);
	assert_self(&diff, "f(int)", 20, 21);
	assert_self(&diff, "[app]", 40, 41);
	assert_self(&diff, "hot", 50, 51);
	assert_self(&diff, "cold.part", 60, 61); /* not a number: part of the name, not a suffix of gcc */
	assert_self(&diff, "[unknown]", 70, 71);
	for (size_t i = 0; i < diff.row_count; i++)
		if (strcmp(diff.rows[i].function, "work") == 0)
			assert_int_equal(diff.rows[i].self[0], strcmp(diff.rows[i].object, "app") == 0 ? 10 : 30);
	xp_diff_free(&diff);
}

/* counts: samples of main itself, of hot, and of hot in hot */
static void make(struct xp_diff *diff, const uint64_t counts[2][3], enum xp_diff_basis basis, bool by_total)
{
	static const struct code hot[2] = { { "app", "hot", 0x10 }, { "app", "hot", 0x20 } };

	assert_int_equal(xp_diff_init(diff, XP_MODEL_SAMPLES), 0);
	for (size_t side = 0; side < 2; side++) {
		struct xp_model model;
		uint32_t stack;

		start(&model, XP_MODEL_SAMPLES);
		diff->sides[side].path = side ? "b" : "a";
		model.length_ns *= side + 1;
		stack = add_stack(&model, 0, &main_of[side]);
		add(&model, stack, counts[side][0], counts[side][0] * 1000000);
		for (size_t i = 1; i < 3; i++) {
			stack = add_stack(&model, stack, &hot[side]);
			add(&model, stack, counts[side][i], counts[side][i] * 1000000);
		}
		assert_int_equal(xp_diff_add(diff, side, &model), 0);
		xp_model_free(&model);
	}
	assert_int_equal(xp_diff_make(diff, basis, by_total), 0);
}

/* B lasts twice as long as A. A stack counts once for a function. */
TEST(test_units)
{
	static const uint64_t counts[2][3] = { { 600, 300, 100 }, { 600, 300, 100 } };
	static const struct {
		enum xp_diff_basis basis;
		double values[2];
	} cases[] = {
		{ XP_DIFF_PER_CPU_SECOND, { 400, 400 } },
		{ XP_DIFF_PER_SECOND, { 400, 200 } },
		{ XP_DIFF_SHARES, { 40, 40 } },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		struct xp_diff diff;
		const struct xp_diff_row *hot;

		make(&diff, counts, cases[i].basis, true);
		hot = row(&diff, "hot");
		assert_int_equal(hot->total[0], 400);
		for (size_t side = 0; side < 2; side++)
			assert_true(fabs(xp_diff_value(&diff, hot, side) - cases[i].values[side]) < 1e-9);
		assert_true(xp_diff_margin(&diff, hot) > 0);
		xp_diff_free(&diff);
	}
}

TEST(test_verdicts)
{
	/* All functions half as often; one function only; noise. */
	static const uint64_t half[2][3] = { { 6000, 3000, 1000 }, { 6000, 3000, 1000 } };
	static const uint64_t more[2][3] = { { 6000, 4000, 0 }, { 12000, 10000, 0 } };
	static const uint64_t noise[2][3] = { { 6000, 4000, 0 }, { 12080, 7920, 0 } };
	struct xp_diff diff;

	make(&diff, half, XP_DIFF_PER_SECOND, false);
	assert_int_equal(diff.total.verdict, XP_DIFF_SHRANK);
	assert_int_equal(row(&diff, "hot")->verdict, XP_DIFF_WITH_TOTAL);
	assert_int_equal(row(&diff, "main")->verdict, XP_DIFF_WITH_TOTAL);
	xp_diff_free(&diff);
	make(&diff, half, XP_DIFF_PER_CPU_SECOND, false);
	assert_int_equal(row(&diff, "hot")->verdict, XP_DIFF_NOISE);
	xp_diff_free(&diff);
	make(&diff, more, XP_DIFF_PER_SECOND, false);
	assert_int_equal(row(&diff, "hot")->verdict, XP_DIFF_GREW);
	assert_int_equal(row(&diff, "main")->verdict, XP_DIFF_NOISE);
	xp_diff_free(&diff);
	make(&diff, more, XP_DIFF_SHARES, false);
	assert_int_equal(row(&diff, "hot")->verdict, XP_DIFF_GREW);
	assert_int_equal(row(&diff, "main")->verdict, XP_DIFF_SHRANK);
	xp_diff_free(&diff);
	make(&diff, noise, XP_DIFF_PER_CPU_SECOND, false);
	assert_int_equal(row(&diff, "hot")->verdict, XP_DIFF_NOISE);
	xp_diff_free(&diff);
}

/* Without a duration, there are no values per second. */
TEST(test_unknown_length)
{
	struct xp_model model;
	struct xp_diff diff;

	assert_int_equal(xp_diff_init(&diff, XP_MODEL_SAMPLES), 0);
	for (size_t side = 0; side < 2; side++) {
		start(&model, XP_MODEL_SAMPLES);
		model.length_ns = side ? 1000000000 : 0;
		add(&model, add_stack(&model, 0, &main_of[side]), 10, 10);
		assert_int_equal(xp_diff_add(&diff, side, &model), 0);
		xp_model_free(&model);
	}
	assert_int_equal(xp_diff_make(&diff, XP_DIFF_PER_SECOND, false), 0);
	assert_int_equal(diff.basis, XP_DIFF_SHARES);
	xp_diff_free(&diff);
}

TEST(test_folded)
{
	static const uint64_t counts[2][3] = { { 6, 3, 1 }, { 12, 6, 2 } };
	static const struct {
		enum xp_diff_basis basis;
		const char *text;
	} cases[] = {
		{ XP_DIFF_PER_CPU_SECOND, "main 12 12\nmain;hot 6 6\nmain;hot;hot 2 2\n" },
		{ XP_DIFF_PER_SECOND, "main 12 12\nmain;hot 6 6\nmain;hot;hot 2 2\n" },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		struct xp_diff diff;
		char *text = NULL;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		assert_non_null(out);
		make(&diff, counts, cases[i].basis, false);
		assert_int_equal(xp_diff_folded(out, &diff), 0);
		assert_int_equal(fclose(out), 0);
		assert_string_equal(text, cases[i].text);
		free(text);
		xp_diff_free(&diff);
	}
}

/* Calls have their numbers, mean and percentiles. B's clock is twice as fast. */
TEST(test_calls)
{
	struct xp_diff diff;
	const struct xp_diff_row *found;

	assert_int_equal(xp_diff_init(&diff, XP_MODEL_CALLS), 0);
	for (size_t side = 0; side < 2; side++) {
		struct xp_model model;
		uint32_t stack;

		start(&model, XP_MODEL_CALLS);
		stack = add_stack(&model, 0, &main_of[side]);
		add(&model, stack, 4, 4000);
		model.cycle_hz = 1000000000 * (side + 1);
		for (uint64_t i = 1; i <= 3; i++) /* and one without an end */
			assert_int_equal(xp_model_call(&model, model.stacks[stack].location, 100 * i), 0);
		assert_int_equal(xp_diff_add(&diff, side, &model), 0);
		xp_model_free(&model);
	}
	assert_int_equal(xp_diff_make(&diff, XP_DIFF_PER_CPU_SECOND, false), 0);
	assert_int_equal(diff.basis, XP_DIFF_PER_SECOND);
	found = row(&diff, "main");
	assert_int_equal(found->calls->calls[1], 4);
	assert_int_equal(found->calls->ended[1], 3);
	for (size_t side = 0; side < 2; side++) {
		double unit = side ? 0.5 : 1;

		assert_true(fabs(xp_diff_mean(found->calls, side) - 200 * unit) < 1e-9);
		assert_true(fabs(xp_diff_percentile(&diff, found->calls, side, 500) - 200 * unit) < 1e-9);
		assert_true(fabs(xp_diff_percentile(&diff, found->calls, side, 1000) - 300 * unit) < 1e-9);
	}
	xp_diff_free(&diff);
}
