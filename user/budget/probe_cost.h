/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the cost of a sled hit on this machine, with a child of xprof that runs test sleds. It varies by a factor of
 * twenty between machines, because virtual machines are slow at single-stepping.
 */
#ifndef XPROF_BUDGET_PROBE_COST_H
#define XPROF_BUDGET_PROBE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/programs.h"
#include "sled/object.h"

struct xp_probe_cost {
	uint64_t entry_ns;  /* entry or tail exit sleds, which the kernel emulates */
	uint64_t exit_ns;   /* exit sleds, which the kernel must single-step */
	uint64_t stub_ns;   /* any patched sled, in patch mode; 0: unknown */
	uint64_t memory_ns; /* a patched sled in memory mode; 0: unknown */
	uint64_t count_ns;  /* a call that the stub only counts; 0: unknown */
	/* A patched entry sled that records arguments: always through the kernel, even if exits are in memory. */
	uint64_t args_ns; /* 0: no arguments are recorded, or unknown */
};

/* Returns the cost of a call with an entry and an exit; 0: unknown. */
double xp_probe_cost_call_ns(const struct xp_probe_cost *cost, enum xp_call_way way);

struct xp_probe_cost_options {
	struct xp_programs *programs; /* loaded, with rings of at least this size; nothing reads them */
	bool multi;		      /* use uprobe_multi links */
	bool stub;		      /* sleds may be patched */
	bool memory;		      /* stub only: calls may be recorded in memory; the CPU and the kernel allow it */
	bool rdpid;		      /* memory only: as in patch.h */
	bool args;		      /* stub only: entries record arguments */
};
#define XP_PROBE_COST_RING_BYTES (256u << 10)

/*
 * Measures for about 50 ms. Returns 0 or -errno: the errors of attaching, fork and other steps, or -EIO if the child
 * fails.
 */
int xp_probe_cost_measure(struct xp_probe_cost *cost, const struct xp_probe_cost_options *options);

#endif
