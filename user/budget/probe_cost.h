/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the cost of a sled hit on this machine, with a child of xprof that runs test sleds. It varies by a factor of
 * twenty between machines, because virtual machines are slow at single-stepping. Also makes the forecast of a
 * recording's cost from a short count of calls.
 */
#ifndef XPROF_BUDGET_PROBE_COST_H
#define XPROF_BUDGET_PROBE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/programs.h"
#include "sled/object.h"

struct xp_probe_cost {
	uint64_t entry_ns;    /* entries and tail exits, which the kernel emulates */
	uint64_t counting_ns; /* a probed entry that is only counted; 0: not known */
	uint64_t exit_ns;     /* exits, which the kernel must single-step */
	uint64_t stub_ns;     /* any patched sled; 0: not known */
	uint64_t memory_ns;   /* a patched sled that records in memory; 0: not known */
	uint64_t count_ns;    /* a call that the stub counts; 0: not known */
	/* A patched sled of an entry whose arguments are recorded: in the kernel, also where exits are in memory. */
	uint64_t args_ns; /* 0: no arguments are recorded, or not known */
};

/* Returns the cost of a call with an entry and an exit; 0: not known. */
double xp_probe_cost_call_ns(const struct xp_probe_cost *cost, enum xp_call_way way);

struct xp_probe_cost_options {
	struct xp_programs *programs; /* loaded, with a counter, space for a target, and rings of at least this size,
					 which are not read */
	bool multi;		      /* use uprobe_multi links */
	bool stub;		      /* sleds may be patched */
	bool memory;		      /* stub only: calls may be recorded in memory; the CPU and the kernel allow it */
	bool rdpid;		      /* memory only: as in patch.h */
	bool args;		      /* stub only: entries record arguments */
};
#define XP_PROBE_COST_RING_BYTES (256u << 10)

/*
 * Measures for about 20 ms. Returns 0 or -errno: the errors of attaching, fork and other steps, or -EIO if the child
 * fails.
 */
int xp_probe_cost_measure(struct xp_probe_cost *cost, const struct xp_probe_cost_options *options);

/* Measured while calls were counted, at probe_cost.counting_ns each. */
struct xp_forecast_input {
	struct xp_probe_cost probe_cost;
	uint64_t calls;	       /* number of calls of all functions */
	uint32_t every;	       /* every nth function was counted, and represents n functions; 0: all */
	uint64_t patched;      /* calls of functions with patched sleds, see xp_probe_cost_call_ns() */
	bool in_children;      /* `patched` are calls in children */
	uint64_t in_memory;    /* calls of functions that are recorded in memory, see xp_probe_cost_call_ns() */
	uint64_t emulated;     /* other calls, of functions that have tail exits only */
	uint64_t wall_ns;      /* duration of the count */
	uint64_t cpu_ns;       /* CPU time of the target during the count */
	unsigned int cpus_max; /* number of CPUs that it can use: its threads, at most the CPUs of the machine */
};

struct xp_forecast {
	double calls_per_s;
	double cost_cores; /* CPU time that the tracing will take, in cores: 0.19 is 19 % of one */
	double call_ns;	   /* average cost of a call; 0: none was counted */
	double cost_share; /* share of the target's CPU time while traced, 0..1 */
	/* How many times longer the target takes for its work if it has no CPU time to spare; 1: no slowdown. */
	double slowdown;
};

/* Computes the forecast of a recording from a count. */
void xp_forecast_make(struct xp_forecast *forecast, const struct xp_forecast_input *input);

#endif
