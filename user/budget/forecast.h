/* SPDX-License-Identifier: BSD-2-Clause */
/* Forecasts the cost of a recording from a short count of calls. Numbers in, numbers out. */
#ifndef XPROF_BUDGET_FORECAST_H
#define XPROF_BUDGET_FORECAST_H

#include <stddef.h>
#include <stdint.h>

#include "budget/probe_cost.h"

/* Measured while calls were counted, at probe cost.entry_ns each. */
struct xp_forecast_input {
	struct xp_probe_cost probe_cost;
	uint64_t calls;	       /* counted */
	uint64_t patched;      /* calls of functions with patched sleds, at probe cost.stub_ns per hit */
	uint64_t emulated;     /* other calls, of functions that have tail exits only */
	uint64_t wall_ns;      /* duration of the count */
	uint64_t cpu_ns;       /* CPU time of the target during the count */
	unsigned int cpus_max; /* how many CPUs it can use at once: its threads, or the number of CPUs */
};

struct xp_forecast {
	double calls_per_s;
	double cost_cores; /* CPU time that the tracing will take, in cores: 0.19 is 19 % of one */
	double cost_share; /* share of the target's CPU time while traced, 0..1 */
	/* How many times longer the target takes for its work if it has no CPU time to spare; 1: no slowdown. */
	double slowdown;
};

void xp_forecast_make(struct xp_forecast *forecast, const struct xp_forecast_input *input);

#endif
