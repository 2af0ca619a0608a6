/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the CPU time of the recorded processes. In a recording without a budget, also measures which share of this
 * CPU time is spent on recording calls. Each call returns the time since the last call, so use either xp_cpu_since() or
 * xp_cost_watch_look() in a recording, not both.
 */
#ifndef XPROF_BUDGET_COST_WATCH_H
#define XPROF_BUDGET_COST_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "budget/probe_cost.h"
#include "trace/process.h"

/* Returns the CPU time of the live processes since the last call. elapsed_ns: time since the last call; 0: unknown. */
uint64_t xp_cpu_since(struct xp_processes *processes, uint64_t elapsed_ns);
/* Like xp_cpu_since(), for processes whose exit events were in the last pass over the rings. */
uint64_t xp_cpu_of_ended(struct xp_processes *processes);

struct xp_cost_watch {
	struct xp_hits hits; /* at the last check */
	uint64_t in_memory;
	uint64_t look_ns; /* time of the last check; 0: none */
	uint64_t cpu_ns;  /* CPU time since the last check, as of read_ns */
	uint64_t read_ns;
};

/* Costs in the time between two checks. */
struct xp_cost_seen {
	double calls_per_s;
	double call_ns; /* average cost of a call; 0: no calls */
	double cores;	/* CPU time that the calls cost, in cores: 0.19 is 19 % of a core */
	double share;	/* the same as a share of the targets' CPU time, 0..1; 0: too little CPU time for an estimate */
};

/*
 * Computes the costs since the last check. in_memory: number of records that were made without the kernel so far.
 * Returns false and an empty *seen if it is too early: at the first call, and until XP_COST_LOOK_NS and enough CPU time
 * for `share` have passed, or XP_COST_LOOK_MAX_NS.
 */
#define XP_COST_LOOK_NS 250000000ull
#define XP_COST_LOOK_MAX_NS 1000000000ull
bool xp_cost_watch_look(struct xp_cost_watch *watch, struct xp_cost_seen *seen, struct xp_processes *processes,
			const struct xp_probe_cost *cost, uint64_t in_memory);

#endif
