// SPDX-License-Identifier: BSD-2-Clause
#include "model/count_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"

static void assert_close(double found, double expected)
{
	if (fabs(found - expected) > 1e-9 * fabs(expected) + 1e-300)
		fail_msg("%.17g is not %.17g", found, expected);
}

/* The sums of binomial coefficients equal those of Pascal's triangle. */
TEST(test_rates)
{
	const double same[2] = { 7, 7 }, twice[2] = { 10, 20 };

	assert_close(xp_count_test_rates((uint64_t[]){ 3, 12 }, same).p, 2.0 * (1 + 15 + 105 + 455) / 32768);
	assert_close(xp_count_test_rates((uint64_t[]){ 12, 3 }, same).p, 2.0 * (1 + 15 + 105 + 455) / 32768);
	assert_close(xp_count_test_rates((uint64_t[]){ 3, 12 }, same).least, 2.0 / 32768);
	assert_close(xp_count_test_rates((uint64_t[]){ 5, 5 }, same).p, 1);
	/* (2/3)^4: all four are in the recording that is twice as long. */
	assert_close(xp_count_test_rates((uint64_t[]){ 0, 4 }, twice).p, 2 * pow(2.0 / 3, 4));
	assert_close(xp_count_test_rates((uint64_t[]){ 4, 0 }, twice).p, 2 * pow(1.0 / 3, 4));
	assert_close(xp_count_test_rates((uint64_t[]){ 0, 0 }, same).p, 1);
}

/* Ways to choose: of 20 samples, 10 in each recording, nine are of the function. */
TEST(test_shares)
{
	const uint64_t totals[2] = { 10, 10 };

	assert_close(xp_count_test_shares((uint64_t[]){ 1, 8 }, totals).p, 2.0 * (10 + 10 * 45) / 167960);
	assert_close(xp_count_test_shares((uint64_t[]){ 8, 1 }, totals).p, 2.0 * (10 + 10 * 45) / 167960);
	assert_close(xp_count_test_shares((uint64_t[]){ 1, 8 }, totals).least, 2.0 * 10 / 167960);
	/* All samples of both recordings are of the function. */
	assert_close(xp_count_test_shares((uint64_t[]){ 10, 10 }, totals).p, 1);
	assert_close(xp_count_test_shares((uint64_t[]){ 3, 0 }, (uint64_t[]){ 3, 0 }).p, 1);
	assert_close(xp_count_test_shares((uint64_t[]){ 0, 0 }, (uint64_t[]){ 0, 0 }).p, 1);
}

/* The sum of terms and the normal distribution, which replaces it, agree where both are valid. */
TEST(test_many_samples)
{
	const double same[2] = { 1, 1 };
	double exact = xp_count_test_rates((uint64_t[]){ 4994000, 5005000 }, same).p;
	double normal = xp_count_test_rates((uint64_t[]){ 4995000, 5006000 }, same).p;

	assert_true(exact > 4e-4 && exact < 6e-4);
	assert_true(fabs(exact / normal - 1) < 0.01);
	assert_true(xp_count_test_rates((uint64_t[]){ UINT64_MAX / 2, UINT64_MAX / 4 }, same).p < 1e-9);
	assert_true(xp_count_test_shares((uint64_t[]){ 1u << 30, 1u << 30 }, (uint64_t[]){ 1u << 31, 1u << 31 }).p >
		    0.99);
}

static uint64_t random_bits(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#define FUNCTIONS 300
#define SAMPLES 4000

/* A program with some hot functions, and many functions with a few samples. */
static void draw(uint64_t *state, uint64_t counts[FUNCTIONS][2], size_t side, double first)
{
	for (size_t i = 0; i < SAMPLES; i++) {
		double at = (double)(random_bits(state) >> 11) / (double)(UINT64_C(1) << 53);
		size_t function = at < first ? 0 : 1 + (size_t)((FUNCTIONS - 1) * pow((at - first) / (1 - first), 4));

		counts[function][side]++;
	}
}

static size_t found(uint64_t *state, double before, double after, bool *is_first)
{
	uint64_t counts[FUNCTIONS][2] = { { 0 } }, totals[2] = { SAMPLES, SAMPLES };
	struct xp_count_test tests[FUNCTIONS], sorted[FUNCTIONS];
	size_t significant = 0, tested;
	double level;

	draw(state, counts, 0, before);
	draw(state, counts, 1, after);
	for (size_t i = 0; i < FUNCTIONS; i++)
		sorted[i] = tests[i] = xp_count_test_shares(counts[i], totals);
	level = xp_count_test_level(sorted, FUNCTIONS, 0.01, &tested);
	assert_in_range(tested, 2, FUNCTIONS / 2); /* most functions have too few samples */
	for (size_t i = 0; i < FUNCTIONS; i++)
		significant += tests[i].p <= level;
	*is_first = tests[0].p <= level;
	return significant;
}

/* Among 1000 programs without a change, at most about ten show one. */
TEST(test_no_change)
{
	uint64_t seed = 88172645463325252u;
	size_t wrong = 0;
	bool is_first;

	for (int i = 0; i < 1000; i++)
		wrong += found(&seed, 0.3, 0.3, &is_first) > 0;
	assert_in_range(wrong, 0, 18);
}

TEST(test_change)
{
	uint64_t seed = 88172645463325252u;
	size_t right = 0;

	for (int i = 0; i < 100; i++) {
		bool is_first;

		found(&seed, 0.3, 0.36, &is_first);
		right += is_first;
	}
	assert_in_range(right, 95, 100);
}

/* Of ten tests, only four can be significant: the level is divided by four. */
TEST(test_level)
{
	struct xp_count_test tests[10];
	size_t tested;

	for (size_t i = 0; i < XP_ARRAY_SIZE(tests); i++)
		tests[i] = (struct xp_count_test){ .p = 1, .least = i % 3 ? 0.5 : 1e-6 };
	assert_close(xp_count_test_level(tests, XP_ARRAY_SIZE(tests), 0.01, &tested), 0.01 / 4);
	assert_int_equal(tested, 4);
	assert_close(xp_count_test_level(tests, 0, 0.01, &tested), 0.01);
	assert_int_equal(tested, 0);
}

/* All tests can reach any level. The time grows linearly with their number. */
TEST(test_level_of_many)
{
	const size_t count = 1u << 20;
	struct xp_count_test *tests = calloc(count, sizeof(*tests));
	size_t tested;

	assert_non_null(tests);
	alarm(60);
	assert_close(xp_count_test_level(tests, count, 0.05, &tested), 0.05 / (double)count);
	alarm(0);
	assert_int_equal(tested, count);
	free(tests);
}
