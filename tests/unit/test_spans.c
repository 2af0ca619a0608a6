// SPDX-License-Identifier: BSD-2-Clause
#include "model/spans.h"

#include "unit.h"

static void add(struct xp_spans *spans, uint64_t start, uint64_t end, uint64_t from_ns, uint32_t index)
{
	const struct xp_span span = { start, end, from_ns, index };

	assert_int_equal(xp_spans_add(spans, &span), 0);
}

static uint32_t find(const struct xp_spans *spans, uint64_t address, uint64_t at_ns)
{
	const struct xp_span *span = xp_spans_find(spans, address, at_ns);

	return span ? span->index : 0;
}

TEST(test_empty)
{
	struct xp_spans spans = { 0 };

	add(&spans, 10, 10, 0, 1);
	assert_int_equal(xp_spans_sort(&spans), 0);
	assert_null(xp_spans_find(&spans, 10, 5));
	xp_spans_free(&spans);
}

/* The newest range at that time is used, wherever it starts. */
TEST(test_newest)
{
	struct xp_spans spans = { 0 };

	add(&spans, 150, 160, 20, 3);
	add(&spans, 100, 200, 10, 1);
	add(&spans, 50, 300, 30, 4);
	add(&spans, 400, 500, 0, 5);
	assert_int_equal(xp_spans_sort(&spans), 0);
	assert_int_equal(find(&spans, 155, 9), 0);
	assert_int_equal(find(&spans, 155, 10), 1);
	assert_int_equal(find(&spans, 155, 20), 3);
	assert_int_equal(find(&spans, 149, 29), 1);
	assert_int_equal(find(&spans, 160, 29), 1);
	assert_int_equal(find(&spans, 155, 30), 4);
	assert_int_equal(find(&spans, 299, 30), 4);
	assert_int_equal(find(&spans, 300, 30), 0);
	assert_int_equal(find(&spans, 499, 30), 5);
	assert_int_equal(find(&spans, 500, 30), 0);
	xp_spans_free(&spans);
}

/* After an exec, only later mappings exist. */
TEST(test_clear)
{
	struct xp_spans spans = { 0 };

	add(&spans, 100, 200, 10, 1);
	add(&spans, 100, 150, 50, 2);
	assert_int_equal(xp_spans_clear(&spans, 90), 0);
	assert_int_equal(xp_spans_clear(&spans, 50), 0);
	assert_int_equal(xp_spans_sort(&spans), 0);
	assert_int_equal(find(&spans, 160, 49), 1);
	assert_int_equal(find(&spans, 160, 50), 0);
	assert_int_equal(find(&spans, 140, 50), 2);
	assert_int_equal(find(&spans, 140, 90), 0);
	assert_ptr_equal(xp_spans_below(&spans, 1000, 50), &spans.all[1]);
	assert_int_equal(xp_spans_below(&spans, 100, 49)->index, 1);
	assert_null(xp_spans_below(&spans, 99, 50));
	assert_null(xp_spans_below(&spans, 1000, 90));
	assert_int_equal(xp_spans_generation(&spans, 49), 0);
	assert_int_equal(xp_spans_generation(&spans, 50), 1);
	assert_int_equal(xp_spans_generation(&spans, 1000), 2);
	xp_spans_free(&spans);
}
