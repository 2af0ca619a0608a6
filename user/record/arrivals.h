/* SPDX-License-Identifier: BSD-2-Clause */
/* The handler of each kind of event. */
#ifndef XPROF_RECORD_ARRIVALS_H
#define XPROF_RECORD_ARRIVALS_H

#include "record/off_cpu.h"
#include "record/sampling.h"
#include "record/targets.h"

struct xp_receivers {
	struct xp_targets *targets;
	struct xp_sampling *sampling;
	struct xp_waits *waits;
};

/* Checks an event and hands it to what handles its kind. Returns 0 or -errno: -EBADMSG if it is not valid. */
int xp_arrivals_take(const struct xp_receivers *receivers, const struct xp_arrival *arrival);

#endif
