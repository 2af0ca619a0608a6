// SPDX-License-Identifier: BSD-2-Clause
#include "base/rate_limit.h"

#include "base/util.h"

static void fill(struct xp_rate_limit *allowance, uint64_t now_ns)
{
	/* A long pause adds at most one second's allowance. A debt is repaid in full. */
	uint64_t passed_ns = allowance->filled_ns ? now_ns - allowance->filled_ns : XP_NS_PER_S;
	uint64_t fill_ns = passed_ns / (XP_NS_PER_S / XP_ALLOWANCE_NS_PER_S);

	if (!fill_ns)
		return;
	allowance->filled_ns = now_ns;
	allowance->left_ns = XP_MIN(allowance->left_ns + (int64_t)fill_ns, (int64_t)XP_ALLOWANCE_NS_PER_S);
}

bool xp_rate_limit_is_left(struct xp_rate_limit *allowance, uint64_t now_ns)
{
	fill(allowance, now_ns);
	return allowance->left_ns > 0;
}

void xp_rate_limit_spend(struct xp_rate_limit *allowance, uint64_t spent_ns)
{
	allowance->left_ns -= (int64_t)spent_ns;
}
