/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a throttle, and the work of its worker thread. Private to throttle*.c. */
#ifndef XPROF_BUDGET_THROTTLE_WORK_H
#define XPROF_BUDGET_THROTTLE_WORK_H

#include <pthread.h>

#include "budget/throttle.h"

/* A process in which the object's sleds are recorded. */
struct xp_throttle_place {
	pid_t pid;
	unsigned int failures; /* consecutive: its sleds are not in the intended state */
	uint64_t retry_tsc;    /* if failed: time of the next try */
	uint64_t stopped_ns;   /* how long it was stopped for changes, not yet charged */
	bool inherits;	       /* the process is a child: its sleds call the stub of its parent */
	bool behind;	       /* its sleds may lack changes that its parent's sleds have */
	uint64_t begin_tsc;    /* start of the process's image */
	uint64_t changed_tsc;  /* when its sleds were last changed; 0: not since they were patched */
};

struct xp_throttle_member {
	struct xp_object *object;
	size_t first;			      /* budget index of id 1 */
	struct xp_function_budget *functions; /* [function count + 1] by id */
	struct xp_throttle_place *places;
	size_t place_count, place_room;
};

struct xp_throttle_counter {
	size_t owner;  /* 1 + budget index; 0: none */
	uint64_t used; /* decision in which its owner was last counted, or got it */
};

struct xp_throttle {
	struct xp_throttle_options options;
	struct xp_budget budget;
	struct xp_throttle_member *members;
	size_t member_count;
	struct xp_throttled *all; /* [budget.count] */
	struct xp_throttle_counter counters[XP_THROTTLE_COUNTERS];
	uint64_t decisions; /* so far: ticks with changes */
	uint64_t begin_tsc; /* of the first tick */
	uint64_t last_tick_tsc;
	uint64_t mark_tsc; /* mark of the pass in progress */
	bool due;	   /* a tick must follow this pass */
	uint64_t cpu_tsc;  /* the mark at which the CPU time was last read */
	uint64_t cpu_ns;   /* CPU time that has not been passed to the budget yet */
	double cpu_sum_ns; /* sum over all ticks, for xp_throttle_spent() */
	double tracing_sum_ns;
	/* CPU time that threads lost because their process was stopped for changes. */
	double stopped_sum_ns;
	/* In the first XP_THROTTLE_FIRST_NS: CPU time, and the part of it that tracing used. */
	double first_cpu_ns;
	double first_taken_ns;
	bool failed;			    /* the sleds of a process could not be changed */
	const struct xp_process *last_seen; /* by xp_throttle_find_children() */

	/* A worker thread runs, or its results have not been applied yet (busy). */
	bool busy;
	struct xp_budget_change *changes; /* [budget.count] */
	size_t change_count;
	uint32_t *ids; /* [budget.count], of the worker thread */
	bool working;  /* there is a thread to join */
	pthread_t thread;
	bool done;     /* atomic */
	bool stopping; /* atomic; set by the main thread: the worker skips steps that it has not started */
	uint64_t done_tsc;
};

struct xp_throttle_member *xp_throttle_member(const struct xp_throttle *throttle, const struct xp_object *object);

/* throttle_places.c: adds new children, and drops those that have exited. */
void xp_throttle_find_children(struct xp_throttle *throttle);

/* Whether there are patched sleds that could not be changed, and a retry is due. */
bool xp_throttle_is_behind(const struct xp_throttle *throttle, uint64_t now_tsc);

/* Makes throttle->changes, in the worker thread. No other thread accesses the same data until throttle->done. */
void *xp_throttle_work(void *throttle);

#endif
