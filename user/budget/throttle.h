/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --max-overhead: takes functions out of a recording that runs, and puts them back, as budget.h decides.
 *
 * Patched sleds of a function (patch.h) are put back, or lead to a counter in the process's own memory instead: all
 * changes of a moment in one stop of the process.
 *
 * Probes of uprobe_multi go by the link, so functions stand in groups of some thousands with links of their own. For a
 * function to go, its group gets new probes without it, and then loses the old ones: none of the others' calls is
 * missed. In between, both record, and the records of the old ones are left out (XP_FILTER_DUPLICATE): functions have
 * two numbers, which the probes bear in turn. From then on the function has links for itself. In a process whose sleds
 * are patched these are the probes of those that cannot be.
 *
 * To take probes away the kernel waits for programs to end, some 10 ms each time; a process may take a while to stop. A
 * thread of its own does the work.
 */
#ifndef XPROF_THROTTLE_H
#define XPROF_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/attach.h"
#include "budget/budget.h"
#include "budget/probe_cost.h"
#include "sled/object.h"
#include "sled/patch.h"
#include "trace/process.h"
#include "kernel/programs.h"
#include "sled/sleds.h"

/*
 * At most this many functions are ever taken out; the counters of the programs are theirs. The links of each take some
 * 10 ms at the end.
 */
#define XP_THROTTLE_MAX 128
_Static_assert(XP_THROTTLE_MAX <= XP_STUB_COUNTERS_MAX, "one for each");

/* What has become of a function that was taken out at least once. */
struct xp_throttled {
	const struct xp_object *object;
	uint32_t function_id;
	size_t budget_index;
	enum xp_budget_state state; /* as it is; only the working thread changes it while it works */
	uint32_t group;		    /* of its probes, see attach.h */
	uint64_t counter;	    /* what the programs' counter was when it was last read */
	uint64_t counted;	    /* calls while it was out, as far as they were counted */
	uint64_t since_tsc;	    /* it has been out, or back, since */
	uint64_t out_ticks;	    /* that it was out before since_tsc */
	uint64_t counted_ticks;	    /* of these, counted */
	unsigned int times;	    /* that it was taken out */
	bool forget;		    /* its open calls have to be given up */
};

struct xp_throttle;

struct xp_throttle_options {
	struct xp_attach *attach;	    /* borrowed, as all here */
	struct xp_patch *patch;		    /* with options.budget; NULL: no sled is patched */
	const struct xp_programs *programs; /* with XP_THROTTLE_MAX counters */
	bool all_args;
	struct xp_processes *processes;
	const struct xp_clock *clock;
	struct xp_hit_cost hit_cost;
	double share; /* of the targets' CPU time, 0..1 */
};

/* -ENOMEM. */
int xp_throttle_new(struct xp_throttle **throttle, const struct xp_throttle_options *options);
/* After all is detached. */
void xp_throttle_free(struct xp_throttle *throttle);

/*
 * Before its sleds are attached: an object, and how often its functions were called ([function count + 1], index: id)
 * in so many ns of the targets' own CPU time; NULL: not known. Waits for work that is under way. -ENOMEM; 0 as well
 * when it is known already.
 */
int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object, const uint64_t *calls,
			   uint64_t own_ns);
/* Waits for work that is under way: only then may others use options.patch, or look at patched sleds. */
void xp_throttle_wait(struct xp_throttle *throttle);
/* The recording ends: what is under way is cut short and waited for; nothing is changed any more. */
void xp_throttle_stop(struct xp_throttle *throttle);
/*
 * The object's sleds are about to be patched or probed, in the first of its processes. What is too hot by what is known
 * is never recorded at first.
 */
void xp_throttle_expect(struct xp_throttle *throttle, const struct xp_object *object, enum xp_sled_mode mode);
/*
 * Probes the object's sleds in a process (0: in all), in place of xp_sleds_attach(), or what is to be probed beside
 * those that xp_patch_object() has patched: result is to be that of it then. Waits for work that is under way.
 */
int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       struct xp_sled_result *result);
/* The process has no probes any more. Waits for work that is under way; call it before they are taken away. */
void xp_throttle_drop_process(struct xp_throttle *throttle, pid_t pid);

/*
 * Before each pass over the rings, with its mark: notes the targets' CPU time up to then, for the pass may take a while
 * and brings the calls up to its mark only.
 */
void xp_throttle_mark(struct xp_throttle *throttle, uint64_t mark_tsc);
/* After it: all records before done_tsc have come, which is before the mark when the pass was cut short. */
void xp_throttle_run(struct xp_throttle *throttle, uint64_t done_tsc);
/* Waits for work that is under way and brings the figures up to date: the recording ends. */
void xp_throttle_end(struct xp_throttle *throttle);
/* After that, when the last records have come: takes note of work that was done meanwhile. */
void xp_throttle_drained(struct xp_throttle *throttle);

/* Each function that was taken out, in no particular order. */
const struct xp_throttled *xp_throttle_list(const struct xp_throttle *throttle, size_t *count);
/* Share of the CPU time that the tracing took, from the hits and their costs, and from stops for changes, 0..1. */
double xp_throttle_spent(const struct xp_throttle *throttle);

#endif
