// SPDX-License-Identifier: BSD-2-Clause
#include "base/rate_limit.h"

#include "base/clock.h"
#include "base/util.h"

static void fill(struct xp_allowance *allowance, uint64_t now_ns)
{
	/* Of a longer pause no more counts; a debt takes as long as it takes. */
	uint64_t passed_ns = allowance->filled_ns ? now_ns - allowance->filled_ns : XP_NS_PER_S;
	uint64_t fill_ns = passed_ns / (XP_NS_PER_S / XP_ALLOWANCE_NS_PER_S);

	if (!fill_ns)
		return;
	allowance->filled_ns = now_ns;
	allowance->left_ns = XP_MIN(allowance->left_ns + (int64_t)fill_ns, (int64_t)XP_ALLOWANCE_NS_PER_S);
}

bool xp_allowance_is_left(struct xp_allowance *allowance, uint64_t now_ns)
{
	fill(allowance, now_ns);
	return allowance->left_ns > 0;
}

void xp_allowance_spend(struct xp_allowance *allowance, uint64_t spent_ns)
{
	allowance->left_ns -= (int64_t)spent_ns;
}
