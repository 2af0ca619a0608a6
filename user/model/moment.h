/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A time on a command line: a time of day, or a time since the start of a recording. The form is [DAY T]
 * HH:MM[:SS[.FRACTION]] [Z] or DAY, in UTC. DAY is YYYY-MM-DD, today or yesterday. Without DAY, FROM is today, and TO
 * is on the day of FROM.
 */
#ifndef XPROF_MODEL_MOMENT_H
#define XPROF_MODEL_MOMENT_H

#include <stdint.h>

enum xp_moment_kind {
	XP_MOMENT_NONE,
	XP_MOMENT_OF_RECORDING, /* since its start */
	XP_MOMENT_OF_DAY,	/* since midnight */
	XP_MOMENT_ON_CLOCK,	/* since 1970 */
	XP_MOMENT_DAY,		/* the start of a day, since 1970 */
};

struct xp_moment {
	enum xp_moment_kind kind;
	uint64_t ns;
};

/* Two time ranges. UINT64_MAX: to the end. */
struct xp_part_times {
	uint64_t from_ns, to_ns;     /* since 1970 in UTC */
	uint64_t since_ns, until_ns; /* since the start of the first part */
};

/* Parses a time. Returns 0 or -EINVAL. */
int xp_moment_parse(const char *text, uint64_t now_s, struct xp_moment *moment);
/* times: from and to. Returns 0, or -EINVAL if the second time is not after the first. */
int xp_moments_resolve(const struct xp_moment times[2], uint64_t now_s, struct xp_part_times *between);

#endif
