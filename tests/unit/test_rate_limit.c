// SPDX-License-Identifier: BSD-2-Clause
/* Limits the recorder's time for each target. */

#include "unit.h"

#include "base/clock.h"
#include "base/rate_limit.h"

#define ALL XP_ALLOWANCE_NS_PER_S
#define NOW (1000 * XP_NS_PER_S)

TEST(test_spending)
{
	struct xp_rate_limit allowance = { 0 };

	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	xp_rate_limit_spend(&allowance, ALL - 1);
	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	xp_rate_limit_spend(&allowance, 1);
	assert_false(xp_rate_limit_is_left(&allowance, NOW));
	assert_true(xp_rate_limit_is_left(&allowance, NOW + 1000));
}

/* One operation took the share of ten seconds, so the next one must wait for that time. */
TEST(test_debt)
{
	struct xp_rate_limit allowance = { 0 };

	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	xp_rate_limit_spend(&allowance, 10 * ALL);
	for (int tenths = 1; tenths <= 90; tenths++)
		assert_false(xp_rate_limit_is_left(&allowance, NOW + tenths * XP_NS_PER_S / 10));
	assert_true(xp_rate_limit_is_left(&allowance, NOW + 9 * XP_NS_PER_S + 1000));
}

TEST(test_no_savings)
{
	struct xp_rate_limit allowance = { 0 };

	assert_true(xp_rate_limit_is_left(&allowance, NOW));
	assert_true(xp_rate_limit_is_left(&allowance, NOW + 3600 * XP_NS_PER_S));
	xp_rate_limit_spend(&allowance, ALL);
	assert_false(xp_rate_limit_is_left(&allowance, NOW + 3600 * XP_NS_PER_S));
}

/* Operations follow each other so fast that the time in between is below the clock's resolution. */
TEST(test_asked_often)
{
	struct xp_rate_limit allowance = { 0 };
	uint64_t now_ns = NOW;

	assert_true(xp_rate_limit_is_left(&allowance, now_ns));
	xp_rate_limit_spend(&allowance, ALL + 10);
	for (int i = 0; i < 50; i++)
		assert_false(xp_rate_limit_is_left(&allowance, now_ns++));
	assert_true(xp_rate_limit_is_left(&allowance, now_ns + 10));
}
