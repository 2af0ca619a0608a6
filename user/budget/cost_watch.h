/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the CPU time of the recorded processes. For a recording without a budget, also measures the share of it that
 * recording calls costs. Each call returns the time since the last one, so use either xp_cpu_since() or
 * xp_cost_watch_look() in a recording, not both.
 */
#ifndef XPROF_BUDGET_COST_WATCH_H
#define XPROF_BUDGET_COST_WATCH_H

#include <stdint.h>

#include "budget/probe_cost.h"
#include "trace/process.h"

/* CPU time of the live processes since the last call. elapsed_ns: the time since then; 0: not known. */
uint64_t xp_cpu_since(struct xp_processes *processes, uint64_t elapsed_ns);
/*
 * Like xp_cpu_since(), for processes that have ended. The records of a pass over the rings include their ends, together
 * with their calls.
 */
uint64_t xp_cpu_of_ended(struct xp_processes *processes);

struct xp_cost_watch {
	struct xp_hits hits; /* at the last look */
	uint64_t in_memory;
	uint64_t look_ns; /* time of that; 0: none */
};

/* Of the time between two looks. */
struct xp_cost_seen {
	double share; /* of the targets' CPU time, 0..1; 0: unknown, because they used too little CPU time */
	double calls_per_s;
	double call_ns;
};

/* in_memory: records without the kernel so far. Call it some seconds apart. */
void xp_cost_watch_look(struct xp_cost_watch *watch, struct xp_cost_seen *seen, struct xp_processes *processes,
			const struct xp_probe_cost *cost, uint64_t in_memory);

#endif
