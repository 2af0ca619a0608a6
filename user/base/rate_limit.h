/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounds the time that the recorder's loop spends on work of which any process of the machine can cause as much as it
 * likes (opening the files that it maps, reading what it says of its code): samples of all others wait in the rings
 * meanwhile.
 */
#ifndef XPROF_ALLOWANCE_H
#define XPROF_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

/* So much of each second, and no more than that is saved up. What one piece of work takes beyond it is paid back. */
#define XP_ALLOWANCE_NS_PER_S 200000000ull

/* Zeroed: nothing was spent. */
struct xp_allowance {
	uint64_t filled_ns; /* CLOCK_MONOTONIC; 0: never */
	int64_t left_ns;
};

/* Whether more may be done at this time (xp_now_ns()). */
bool xp_allowance_is_left(struct xp_allowance *allowance, uint64_t now_ns);
void xp_allowance_spend(struct xp_allowance *allowance, uint64_t spent_ns);

#endif
