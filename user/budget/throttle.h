/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --max-overhead: takes functions out of a running recording, and puts them back, as budget.h decides.
 *
 * The sleds (patch.h) of such a function are restored, or made to lead to a counter in the process's own memory
 * instead. One stop of the process serves all changes that are due. A child of fork() has the sleds of its parent as
 * they were then, and is stopped for later changes like its parent; it shares its parent's counters.
 *
 * A process may take a while to stop. A worker thread does this.
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

/* How many functions can be counted at a time: each takes one of the counters of the stub. */
#define XP_THROTTLE_COUNTERS XP_STUB_COUNTERS_MAX

#define XP_NO_COUNTER UINT32_MAX

/* A function that was taken out at least once. */
struct xp_throttled {
	const struct xp_object *object;
	uint32_t function_id;
	size_t budget_index;
	enum xp_budget_state state; /* current state; only the worker thread changes it while it works */
	uint32_t counter;	    /* while it is counted, and until another function takes it; or XP_NO_COUNTER */
	uint64_t counted;	    /* calls while it was out, as far as they were counted */
	uint64_t since_tsc;	    /* time of the last change of state */
	uint64_t out_ticks;	    /* how long it was out before since_tsc */
	uint64_t counted_ticks;	    /* part of out_ticks during which it was counted */
	unsigned int times;	    /* how often it was taken out */
	bool forget;		    /* its open calls must be given up */
};

struct xp_throttle;

struct xp_throttle_options {
	struct xp_patch *patch; /* with options.budget; borrowed, as all members here */
	struct xp_processes *processes;
	const struct xp_clock *clock;
	bool by_children; /* most calls are expected in children, which are recorded by the sleds that they inherit */
	struct xp_probe_cost probe_cost; /* memory_ns 0: no call is recorded in memory */
	double share;			 /* budget as a share of the targets' CPU time, 0..1 */
};

/* Returns 0 or -ENOMEM. */
int xp_throttle_new(struct xp_throttle **throttle, const struct xp_throttle_options *options);
/* Call it after everything is detached. */
void xp_throttle_free(struct xp_throttle *throttle);

/*
 * Adds an object, before its sleds are attached. calls: how often its functions were called ([function count + 1],
 * indexed by id) in own_ns of the targets' own CPU time; NULL: not known. Waits for work in progress. Returns 0, also
 * if the object is known already, or -ENOMEM.
 */
int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object, const uint64_t *calls,
			   uint64_t own_ns);
/* Waits for work in progress. Only after this may the caller use options.patch, or read patched sleds. */
void xp_throttle_wait(struct xp_throttle *throttle);
/* Whether there is some, for who need not wait for it. */
bool xp_throttle_is_busy(const struct xp_throttle *throttle);
/* The recording ends: cuts work in progress short and waits for it. Nothing is changed after this. */
void xp_throttle_stop(struct xp_throttle *throttle);
/*
 * The object's sleds are about to be patched, in the first of its processes. A function whose known rate is too high is
 * not recorded at first.
 */
void xp_throttle_expect(struct xp_throttle *throttle, const struct xp_object *object);
/* The object is patched in a process, with the result of xp_patch_object(). No work is in progress. */
int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       const struct xp_sled_result *result);
/* The process is no longer patched. Waits for work in progress. */
void xp_throttle_drop_process(struct xp_throttle *throttle, pid_t pid);

/*
 * Call it before each pass over the rings, with the mark of the pass. Reads the targets' CPU time at that moment: the
 * pass may take a while, but brings calls up to its mark only.
 */
void xp_throttle_mark(struct xp_throttle *throttle, uint64_t mark_tsc);
/*
 * Call it after the pass. All records before done_tsc have arrived; done_tsc is below the mark if the pass was cut
 * short.
 */
void xp_throttle_run(struct xp_throttle *throttle, uint64_t done_tsc);
/* The recording ends: waits for work in progress and updates the figures. */
void xp_throttle_end(struct xp_throttle *throttle);
/* Call it after xp_throttle_end(), when the last records have arrived: applies the results of work done meanwhile. */
void xp_throttle_drained(struct xp_throttle *throttle);

/* All functions that were taken out, in no particular order. */
const struct xp_throttled *xp_throttle_list(const struct xp_throttle *throttle, size_t *count);
/* Share of the CPU time that the tracing took, from the hits and their costs, and from stops for changes, 0..1. */
double xp_throttle_spent(const struct xp_throttle *throttle);
/*
 * The same after the first XP_THROTTLE_FIRST_NS of the recording, and in that time; -1 if it was not longer, or the
 * targets hardly ran after that.
 */
#define XP_THROTTLE_FIRST_NS 2000000000ull
double xp_throttle_settled(const struct xp_throttle *throttle, double *first);
/* Whether a change failed in a process in the end, so that its functions stayed. */
bool xp_throttle_stuck(const struct xp_throttle *throttle);
/* The part of xp_throttle_spent() from stops. */
double xp_throttle_stopped(const struct xp_throttle *throttle);

#endif
