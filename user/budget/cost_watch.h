/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the CPU time of the recorded processes. For a recording without a budget, also measures the share of it that
 * recording calls costs. Each call returns the time since the last one, so use either xp_cpu_since() or
 * xp_cost_watch_look() in a recording, not both.
 */
#ifndef XPROF_BUDGET_COST_WATCH_H
#define XPROF_BUDGET_COST_WATCH_H

#include <stdbool.h>
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
	uint64_t cpu_ns;  /* CPU time since, as of read_ns */
	uint64_t read_ns;
};

/* Of the time between two looks. */
struct xp_cost_seen {
	double calls_per_s;
	double call_ns; /* average cost of a call; 0: there was none */
	double cores;	/* CPU time that the calls took, in cores: 0.19 is 19 % of one */
	double share;	/* the same as a share of the targets' CPU time, 0..1; 0: too little CPU time to tell */
};

/*
 * Looks at what has arrived since the last look. in_memory: how many records came without the kernel so far. Returns
 * false, with *seen empty, if it is too early: at the first call, and until XP_COST_LOOK_NS and enough CPU time for
 * `share` have passed, or XP_COST_LOOK_MAX_NS.
 */
#define XP_COST_LOOK_NS 250000000ull
#define XP_COST_LOOK_MAX_NS 1000000000ull
bool xp_cost_watch_look(struct xp_cost_watch *watch, struct xp_cost_seen *seen, struct xp_processes *processes,
			const struct xp_probe_cost *cost, uint64_t in_memory);

#endif
