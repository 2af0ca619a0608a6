/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a clock of the kernel and the TSC at the same moment. */
#ifndef XPROF_BASE_CLOCK_PAIR_H
#define XPROF_BASE_CLOCK_PAIR_H

#include <stdint.h>
#include <time.h>

/* The same moment on two clocks. The TSC is accurate to +-error_tsc cycles. */
struct xp_clock_pair {
	uint64_t tsc;
	uint64_t ns;
	uint64_t error_tsc;
};

/*
 * Reads the TSC before and after the clock, and takes the narrowest of several brackets: an interrupt or a preemption
 * widens some of them. Returns 0, -ERANGE, or an error of clock_gettime(2).
 */
int xp_clock_pair_take(clockid_t id, struct xp_clock_pair *pair);
/* The same with at most `tries` brackets. Ends at one that is as narrow as enough_tsc. */
int xp_clock_pair_take_narrow(clockid_t id, int tries, uint64_t enough_tsc, struct xp_clock_pair *pair);

#endif
