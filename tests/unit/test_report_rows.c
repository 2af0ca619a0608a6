// SPDX-License-Identifier: BSD-2-Clause
/* Rows of a report's tables, up to their limit and beyond. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/symbolize.h"
#include "report/rows.h"

#define FUNCTIONS 8

static struct {
	struct xp_report_tables tables;
	struct xp_report_table table, other_table;
	struct xp_report_row_index index, other_index, all_index;
	const char *functions[FUNCTIONS];
} test;

static int set_up(void **state)
{
	(void)state;
	test.tables = (struct xp_report_tables){ 0 };
	if (xp_symbolizer_new(&test.tables.model.symbolizer, XP_NAMES_FUNCTIONS))
		return -1;
	for (int i = 0; i < FUNCTIONS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		test.functions[i] = xp_symbolizer_text(test.tables.model.symbolizer, name);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	xp_report_row_index_free(&test.index);
	xp_report_row_index_free(&test.other_index);
	xp_report_row_index_free(&test.all_index);
	test.index = test.other_index = test.all_index = (struct xp_report_row_index){ 0 };
	free(test.table.rows);
	free(test.other_table.rows);
	free(test.tables.all.rows);
	test.table = test.other_table = (struct xp_report_table){ 0 };
	xp_symbolizer_free(test.tables.model.symbolizer);
	return 0;
}

static struct xp_report_row *row_of(struct xp_report_table *table, struct xp_report_row_index *index, int function)
{
	const struct xp_report_place place = { table, index };
	const struct xp_report_row like = { .function = test.functions[function] };
	struct xp_report_row *row = xp_report_row(&test.tables, &place, &like);

	assert_non_null(row);
	return row;
}

TEST_WITH(test_rows, set_up, tear_down)
{
	assert_string_equal(row_of(&test.table, &test.index, 0)->function, "f0");
	assert_string_equal(row_of(&test.table, &test.index, 1)->function, "f1");
	assert_ptr_equal(row_of(&test.table, &test.index, 0), &test.table.rows[0]);
	assert_int_equal(test.table.row_count, 2);
	assert_int_equal(test.tables.row_count, 2);
	assert_ptr_equal(xp_report_row_named(&test.table, &test.index, test.functions[1]), &test.table.rows[1]);
	assert_null(xp_report_row_named(&test.table, &test.index, test.functions[2]));
}

/*
 * A table has one row for all functions that come after the limit. Its existing rows are still updated. The table of
 * all has every function.
 */
TEST_WITH(test_limit, set_up, tear_down)
{
	struct xp_report_row *others;

	test.tables.row_count = XP_REPORT_ROWS_MAX - 1;
	assert_false(row_of(&test.table, &test.index, 0)->is_others);
	for (int i = 1; i < FUNCTIONS; i++) {
		others = row_of(&test.table, &test.index, i);
		assert_true(others->is_others);
		assert_string_equal(others->function, XP_MODEL_OTHERS);
		assert_true(row_of(&test.other_table, &test.other_index, i)->is_others);
		assert_false(row_of(&test.tables.all, &test.all_index, i)->is_others);
	}
	assert_false(row_of(&test.table, &test.index, 0)->is_others);
	assert_int_equal(test.table.row_count, 2);
	assert_int_equal(test.other_table.row_count, 1);
	assert_int_equal(test.tables.all.row_count, FUNCTIONS - 1);
	assert_int_equal(test.tables.row_count, XP_REPORT_ROWS_MAX);
}

/* A sample counts once, even if several of its functions have no row. */
TEST_WITH(test_sum_of_others, set_up, tear_down)
{
	struct xp_model_object object = { .name = "object", .file = 0 };
	struct xp_model_function functions[2] = { { .name = test.functions[0], .has_name = true },
						  { .name = test.functions[1], .has_name = true } };
	struct xp_model_frame frames[2] = { { .function = 0 }, { .function = 1 } };
	struct xp_model_location locations[2] = { { .first_frame = 0, .frame_count = 1 },
						  { .first_frame = 1, .frame_count = 1 } };
	struct xp_model_stack stacks[3] = { { 0 }, { .location = 0 }, { .location = 1, .callers = 1 } };
	const struct xp_model model = { .kind = XP_MODEL_SAMPLES,
					.objects = &object,
					.functions = functions,
					.frames = frames,
					.locations = locations,
					.stacks = stacks };
	const struct xp_model_sample sample = { .stack = 2, .values = { 5 } };
	const struct xp_report_place place = { &test.table, &test.index };
	const struct xp_report_options options = { 0 };

	assert_int_equal(xp_report_count_stack(&test.tables, &place, &model, &sample, 1, &options), 0);
	assert_int_equal(test.tables.in_others, 0);
	test.tables.row_count = XP_REPORT_ROWS_MAX;
	functions[0].name = test.functions[2];
	functions[1].name = test.functions[3];
	assert_int_equal(xp_report_count_stack(&test.tables, &place, &model, &sample, 2, &options), 0);
	assert_int_equal(test.tables.in_others, 5);
	assert_int_equal(test.table.row_count, 3);
	assert_true(test.table.rows[2].is_others);
	assert_int_equal(test.table.rows[2].flat, 5);
	assert_int_equal(test.table.rows[2].cum, 5);
}
