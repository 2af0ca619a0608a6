/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits the time that xprof's main loop spends on work that any process can cause without bound, such as opening the
 * files that it maps and reading its JIT code. During that work, the samples of all other processes wait in the rings.
 */
#ifndef XPROF_BASE_RATE_LIMIT_H
#define XPROF_BASE_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* The allowance per second, which is also its maximum. Work that exceeds the allowance delays later work. */
#define XP_ALLOWANCE_NS_PER_S 200000000ull

/* Zeroed: nothing was spent. */
struct xp_rate_limit {
	uint64_t filled_ns; /* CLOCK_MONOTONIC; 0: never */
	int64_t left_ns;
};

/* True if more work may be done at now_ns (xp_now_ns()). */
bool xp_rate_limit_is_left(struct xp_rate_limit *allowance, uint64_t now_ns);
void xp_rate_limit_spend(struct xp_rate_limit *allowance, uint64_t spent_ns);

#endif
