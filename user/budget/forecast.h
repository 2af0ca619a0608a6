/* SPDX-License-Identifier: BSD-2-Clause */
/* From a moment's count of calls to what their recording will cost. Numbers in, numbers out. */
#ifndef XPROF_FORECAST_H
#define XPROF_FORECAST_H

#include <stddef.h>
#include <stdint.h>

#include "budget/probe_cost.h"

/* What was seen while calls were counted, at hit_cost.entry_ns each. */
struct xp_forecast_input {
	struct xp_hit_cost hit_cost;
	uint64_t calls;	       /* counted */
	uint64_t patched;      /* of these, calls of functions whose sleds are patched, at hit_cost.stub_ns a hit */
	uint64_t emulated;     /* and those of others that have tail exits only */
	uint64_t wall_ns;      /* that it took */
	uint64_t cpu_ns;       /* of the target in that time */
	unsigned int cpus_max; /* that it can use at once: its threads, or the CPUs there are */
};

struct xp_forecast {
	double calls_per_s;
	double cost_cores; /* CPU time that the tracing will take, in cores: 0.19 is 19 % of one */
	double cost_share; /* of the target's CPU time then, 0..1 */
	double slowdown;   /* how many times longer it takes for its work when it has no CPU time to spare; 1: not */
};

void xp_forecast_make(struct xp_forecast *forecast, const struct xp_forecast_input *input);

#endif
