// SPDX-License-Identifier: BSD-2-Clause
/* The time that targets may cost the recorder. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "base/clock.h"
#include "base/rate_limit.h"

#define ALL XP_ALLOWANCE_NS_PER_S
#define NOW (1000 * XP_NS_PER_S)

static void test_spending(void **state)
{
	struct xp_rate_limit allowance = { 0 };

	(void)state;
	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	xp_rate_limit_spend(&allowance, ALL - 1);
	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	xp_rate_limit_spend(&allowance, 1);
	assert_false(xp_rate_limit_is_left(&allowance, NOW));
	assert_true(xp_rate_limit_is_left(&allowance, NOW + 1000));
}

/* One piece of work took ten seconds' share, so there is no other for that time. */
static void test_debt(void **state)
{
	struct xp_rate_limit allowance = { 0 };

	(void)state;
	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	xp_rate_limit_spend(&allowance, 10 * ALL);
	for (int tenths = 1; tenths <= 90; tenths++)
		assert_false(xp_rate_limit_is_left(&allowance, NOW + tenths * XP_NS_PER_S / 10));
	assert_true(xp_rate_limit_is_left(&allowance, NOW + 9 * XP_NS_PER_S + 1000));
}

static void test_no_savings(void **state)
{
	struct xp_rate_limit allowance = { 0 };

	(void)state;
	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	assert_true(xp_rate_limit_is_left(&allowance, NOW + 3600 * XP_NS_PER_S));
	xp_rate_limit_spend(&allowance, ALL);
	assert_false(xp_rate_limit_is_left(&allowance, NOW + 3600 * XP_NS_PER_S));
}

/* Queries so frequent that the time between them does not count. */
static void test_asked_often(void **state)
{
	struct xp_rate_limit allowance = { 0 };
	uint64_t now_ns = NOW;

	(void)state;
	assert_true(xp_rate_limit_is_left(&allowance, now_ns));
	xp_rate_limit_spend(&allowance, ALL + 10);
	for (int i = 0; i < 50; i++)
		assert_false(xp_rate_limit_is_left(&allowance, now_ns++));
	assert_true(xp_rate_limit_is_left(&allowance, now_ns + 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spending),
		cmocka_unit_test(test_debt),
		cmocka_unit_test(test_no_savings),
		cmocka_unit_test(test_asked_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
