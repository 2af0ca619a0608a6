/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --max-overhead: throttles functions of a running recording, and records them again, as budget.h decides.
 *
 * The sleds (patch.h) of a throttled function are restored, or changed to call a counter in the memory of the process.
 * One stop of the process serves all pending changes. A fork() child inherits the sleds as they are at the fork, is
 * stopped for later changes like its parent, and shares the parent's counters.
 *
 * A worker thread makes the changes, because a process may take a while to stop.
 */
#ifndef XPROF_BUDGET_THROTTLE_H
#define XPROF_BUDGET_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/budget.h"
#include "budget/probe_cost.h"
#include "sled/object.h"
#include "sled/patch.h"
#include "sled/sleds.h"
#include "trace/process.h"

/* Maximum number of functions that are counted at a time: each uses one counter of the stub. */
#define XP_THROTTLE_COUNTERS XP_STUB_COUNTERS_MAX

#define XP_NO_COUNTER UINT32_MAX

/* What was done with a function. */
struct xp_throttled {
	const struct xp_object *object;
	uint32_t function_id;
	enum xp_budget_state state; /* current state; only the worker thread changes it while it works */
	uint32_t counter;	    /* its counter, until another function gets the counter; or XP_NO_COUNTER */
	uint64_t counted;	    /* counted calls while it was throttled */
	uint64_t since_tsc;	    /* time of the last change of state */
	uint64_t out_ticks;	    /* how long it was throttled before since_tsc */
	uint64_t counted_ticks;	    /* part of out_ticks during which it was counted */
	unsigned int times;	    /* how often it was throttled */
	bool changed;		    /* its sleds have been or are to be changed */
	bool changes;		    /* ... by the work in progress */
	bool forget;		    /* end its open calls */
};

struct xp_throttle;

struct xp_throttle_options {
	struct xp_patch *patch; /* with options.budget; borrowed, as all members here */
	struct xp_processes *processes;
	const struct xp_clock *clock;
	struct xp_probe_cost probe_cost; /* memory_ns 0: no calls are recorded in memory */
	double share;			 /* budget as a share of the targets' CPU time, 0..1 */
};

/* Returns 0 or -ENOMEM. */
int xp_throttle_new(struct xp_throttle **throttle, const struct xp_throttle_options *options);
/* Call it after everything is detached. */
void xp_throttle_free(struct xp_throttle *throttle);

/* Adds an object, if it is new, before its sleds are attached. Waits for work in progress. Returns 0 or -ENOMEM. */
int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object);
/* Waits for work in progress. Only after this may the caller use options.patch, or read patched sleds. */
void xp_throttle_wait(struct xp_throttle *throttle);
/* Returns whether work is in progress, without waiting for it. */
bool xp_throttle_is_busy(const struct xp_throttle *throttle);
/* Call this when the recording ends: cancels work in progress and waits for it. Nothing changes after this. */
void xp_throttle_stop(struct xp_throttle *throttle);
/* Call this after an object was patched in a process, with the result of xp_patch_object(). No work is in progress. */
int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       const struct xp_sled_result *result);
/* Call this when a process is no longer patched. Waits for work in progress. */
void xp_throttle_drop_process(struct xp_throttle *throttle, pid_t pid);

/*
 * Call this before each pass over the rings, with the mark of the pass. Reads the targets' CPU time now, because the
 * pass may take a while but reads calls only up to its mark.
 */
void xp_throttle_mark(struct xp_throttle *throttle, uint64_t mark_tsc);
/*
 * Call it after the pass. All records before done_tsc have arrived; done_tsc is below the mark if the pass was cut
 * short.
 */
void xp_throttle_run(struct xp_throttle *throttle, uint64_t done_tsc);
/* Call this when the recording ends: waits for work in progress and updates the totals. */
void xp_throttle_end(struct xp_throttle *throttle);
/* Call it after xp_throttle_end(), when the last records have arrived: applies the results of work done meanwhile. */
void xp_throttle_drained(struct xp_throttle *throttle);

/* Returns the functions of an object, by their ids from 1 on; NULL: there is no budget (throttle NULL), or object. */
const struct xp_throttled *xp_throttle_functions(const struct xp_throttle *throttle, const struct xp_object *object);
/* Returns the share of CPU time that tracing used, from hits and their costs, and from stops for changes, 0..1. */
double xp_throttle_spent(const struct xp_throttle *throttle);
/*
 * Returns the same share for the time after the first XP_THROTTLE_FIRST_NS of the recording; -1 if the recording was
 * not longer, or the targets used hardly any CPU time afterwards. *first: the share in the first XP_THROTTLE_FIRST_NS.
 */
#define XP_THROTTLE_FIRST_NS 2000000000ull
double xp_throttle_settled(const struct xp_throttle *throttle, double *first);
/* Returns whether a change failed permanently in a process: its functions could not be throttled. */
bool xp_throttle_stuck(const struct xp_throttle *throttle);
/* Returns the part of xp_throttle_spent() from stops. */
double xp_throttle_stopped(const struct xp_throttle *throttle);

#endif
