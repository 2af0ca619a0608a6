// SPDX-License-Identifier: BSD-2-Clause
#include "base/clock_pair.h"

#include <errno.h>

#include "base/clock.h"

#define PAIR_TRIES 32

static uint64_t half(uint64_t value)
{
	return value / 2 + (value & 1);
}

static int read_clock(clockid_t id, uint64_t *ns)
{
	struct timespec now;

	if (clock_gettime(id, &now))
		return -errno;
	*ns = (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
	return 0;
}

int xp_clock_pair_take_narrow(clockid_t id, int tries, uint64_t enough_tsc, struct xp_clock_pair *pair)
{
	struct xp_clock_pair best = { .error_tsc = UINT64_MAX };

	for (int i = 0; i < tries && best.error_tsc > enough_tsc; i++) {
		uint64_t before, after, ns = 0;
		int err;

		before = xp_clock_now_tsc();
		err = read_clock(id, &ns);
		if (err)
			return err;
		after = xp_clock_now_tsc();
		/* after < before: the thread moved to a CPU whose TSC is behind. */
		if (after < before || half(after - before) >= best.error_tsc)
			continue;
		best = (struct xp_clock_pair){ before + (after - before) / 2, ns, half(after - before) };
	}
	if (best.error_tsc == UINT64_MAX)
		return -ERANGE;
	*pair = best;
	return 0;
}

int xp_clock_pair_take(clockid_t id, struct xp_clock_pair *pair)
{
	return xp_clock_pair_take_narrow(id, PAIR_TRIES, 0, pair);
}
