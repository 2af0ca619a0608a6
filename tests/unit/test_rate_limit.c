// SPDX-License-Identifier: BSD-2-Clause
/* The time that targets may cost the recorder. */

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

/* One piece of work took ten seconds' share, so there is no other for that time. */
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

/* Queries so frequent that the time between them does not count. */
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
