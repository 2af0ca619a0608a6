// SPDX-License-Identifier: BSD-2-Clause
/* Compares percentiles of durations with those of the sorted durations. */
#include "unit.h"

#include "model/durations.h"

#include <stdlib.h>

#include "base/util.h"

#define COUNT 20000u
#define PERCENTILES 500, 900, 990, 999

struct fixture {
	struct xp_durations_memory memory;
	struct xp_durations durations;
	uint64_t values[COUNT];
};

static int set_up(void **state)
{
	static struct fixture fixture;

	fixture = (struct fixture){ .memory.max = XP_DURATIONS_BYTES_MAX };
	srand(1);
	*state = &fixture;
	return 0;
}

/* All memory is released. */
static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	xp_durations_free(&fixture->durations, &fixture->memory);
	return fixture->memory.used != 0;
}

static void add(struct fixture *fixture, uint64_t value, uint64_t at)
{
	assert_int_equal(xp_durations_add(&fixture->durations, &fixture->memory, value, at, (uint32_t)at % 7), 0);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Compares with the durations in values[0..count-1], and sorts these. */
static void check(struct fixture *fixture, const struct xp_durations *durations, size_t count, double error)
{
	const unsigned int percentiles[] = { 0, PERCENTILES, 1000 };

	qsort(fixture->values, count, sizeof(*fixture->values), compare);
	assert_int_equal(durations->count, count);
	assert_int_equal(durations->max, fixture->values[count - 1]);
	for (size_t i = 0; i < XP_ARRAY_SIZE(percentiles); i++) {
		uint64_t exact = fixture->values[XP_MIN(count * percentiles[i] / 1000, count - 1)];
		uint64_t found = xp_durations_percentile(durations, percentiles[i]);
		uint64_t off = exact > found ? exact - found : found - exact;

		assert_true((double)off <= error * (double)exact);
	}
}

TEST_WITH(test_none, set_up, tear_down)
{
	struct fixture *fixture = *state;

	assert_int_equal(xp_durations_percentile(&fixture->durations, 500), 0);
	assert_int_equal(fixture->memory.used, 0);
}

TEST_WITH(test_few_are_exact, set_up, tear_down)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < XP_DURATIONS_EXACT; i++) {
		fixture->values[i] = 1000003u * (uint64_t)(rand() % 1000 + 1);
		add(fixture, fixture->values[i], i);
		assert_true(xp_durations_is_exact(&fixture->durations));
		check(fixture, &fixture->durations, i + 1, 0);
	}
	add(fixture, 1, 0);
	assert_false(xp_durations_is_exact(&fixture->durations));
}

/* Shorter durations have a bucket each. */
TEST_WITH(test_short_ones_are_exact, set_up, tear_down)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < COUNT; i++) {
		fixture->values[i] = (uint64_t)rand() % (2 * XP_DURATIONS_BUCKETS);
		add(fixture, fixture->values[i], i);
	}
	assert_true(xp_durations_is_exact(&fixture->durations));
	check(fixture, &fixture->durations, COUNT, 0);
}

/* From 1 to 2^63, with each power of two equally often. */
TEST_WITH(test_many_are_near, set_up, tear_down)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t power = UINT64_C(1) << rand() % 63;

		fixture->values[i] = power + ((uint64_t)rand() << 32 | (uint64_t)rand()) % power;
		add(fixture, fixture->values[i], i);
	}
	assert_false(xp_durations_is_exact(&fixture->durations));
	check(fixture, &fixture->durations, COUNT, XP_DURATIONS_ERROR);
}

/* The worst case: all durations are at the edge of a bucket. */
TEST_WITH(test_error_is_reached_nowhere, set_up, tear_down)
{
	struct fixture *fixture = *state;
	const int64_t steps[] = { -1, 0, 1 };

	for (unsigned int bit = 8; bit < 63; bit++) {
		for (size_t step = 0; step < XP_ARRAY_SIZE(steps); step++) {
			uint64_t value = (UINT64_C(65) << (bit - 6)) + (uint64_t)steps[step];
			uint64_t found;

			for (uint32_t i = 0; i < 2 * XP_DURATIONS_EXACT; i++)
				add(fixture, value, i);
			add(fixture, UINT64_MAX, 0);
			found = xp_durations_percentile(&fixture->durations, 500);
			assert_true((double)(found > value ? found - value : value - found) <=
				    XP_DURATIONS_ERROR * (double)value);
			xp_durations_free(&fixture->durations, &fixture->memory);
		}
	}
}

TEST_WITH(test_largest, set_up, tear_down)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < 2 * XP_DURATIONS_EXACT; i++)
		add(fixture, UINT64_MAX - i, i);
	assert_int_equal(fixture->durations.max, UINT64_MAX);
	assert_int_equal(xp_durations_percentile(&fixture->durations, 1000), UINT64_MAX);
	assert_true(xp_durations_percentile(&fixture->durations, 500) > UINT64_MAX / 100 * 99);
}

TEST_WITH(test_when_the_slowest_was, set_up, tear_down)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < COUNT; i++)
		add(fixture, i == 4711 || i == 5000 ? 1000 : i % 1000, i);
	assert_int_equal(fixture->durations.max, 1000);
	assert_int_equal(fixture->durations.max_at, 4711);
	assert_int_equal(fixture->durations.max_where, 4711 % 7);
}

/* Sets of all sizes: exact ones, buckets, and none. */
TEST_WITH(test_merge, set_up, tear_down)
{
	static const size_t sizes[] = { 0, 1, XP_DURATIONS_EXACT / 2 + 1, XP_DURATIONS_EXACT, 1000 };
	struct fixture *fixture = *state;

	for (size_t a = 0; a < XP_ARRAY_SIZE(sizes); a++) {
		for (size_t b = 0; b < XP_ARRAY_SIZE(sizes); b++) {
			struct xp_durations one = { 0 }, other = { 0 };
			size_t sum = sizes[a] + sizes[b];

			for (size_t i = 0; i < sum; i++) {
				fixture->values[i] = (uint64_t)rand() % 1000000;
				assert_int_equal(xp_durations_add(i < sizes[a] ? &one : &other, &fixture->memory,
								  fixture->values[i], i, 0),
						 0);
			}
			assert_int_equal(xp_durations_merge(&one, &fixture->memory, &other), 0);
			assert_int_equal(other.count, sizes[b]);
			if (sum)
				check(fixture, &one, sum, sum <= XP_DURATIONS_EXACT ? 0 : XP_DURATIONS_ERROR);
			assert_int_equal(xp_durations_take(&fixture->durations, &fixture->memory, &one), 0);
			assert_int_equal(one.count, 0);
			if (sum)
				check(fixture, &fixture->durations, sum,
				      sum <= XP_DURATIONS_EXACT ? 0 : XP_DURATIONS_ERROR);
			assert_int_equal(xp_durations_take(&fixture->durations, &fixture->memory, &other), 0);
			assert_int_equal(fixture->durations.count, sum + sizes[b]);
			assert_int_equal(other.count, 0);
			xp_durations_free(&fixture->durations, &fixture->memory);
			assert_int_equal(fixture->memory.used, 0);
		}
	}
}

/* A set without memory has no percentiles, but its number and maximum are exact. A merge with such a set has none, either. */
TEST_WITH(test_limit, set_up, tear_down)
{
	struct fixture *fixture = *state;
	struct xp_durations other = { 0 };

	fixture->memory.max = 3000;
	for (uint32_t i = 0; i < COUNT; i++) {
		add(fixture, (uint64_t)i * i, i);
		assert_true(fixture->memory.used <= fixture->memory.max);
	}
	assert_true(fixture->durations.lost);
	assert_false(xp_durations_is_exact(&fixture->durations));
	assert_int_equal(fixture->durations.count, COUNT);
	assert_int_equal(fixture->durations.max, (uint64_t)(COUNT - 1) * (COUNT - 1));
	assert_int_equal(fixture->durations.max_at, COUNT - 1);
	assert_int_equal(xp_durations_percentile(&fixture->durations, 500), 0);
	assert_int_equal(fixture->memory.used, 0);
	assert_int_equal(xp_durations_add(&other, &fixture->memory, 5, 0, 0), 0);
	assert_int_equal(xp_durations_merge(&other, &fixture->memory, &fixture->durations), 0);
	assert_true(other.lost);
	assert_int_equal(other.count, COUNT + 1);
}
