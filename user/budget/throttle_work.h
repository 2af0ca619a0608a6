/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a throttle, and the work of its worker thread. Private to throttle*.c. */
#ifndef XPROF_BUDGET_THROTTLE_WORK_H
#define XPROF_BUDGET_THROTTLE_WORK_H

#include <pthread.h>

#include "budget/throttle.h"

#define XP_THROTTLE_ALONE UINT32_MAX /* instead of a group index: the function has separate probes, or none */

struct xp_throttle_group {
	uint32_t number; /* group number of its probes */
	bool alias;
};

/* A failed step that is retried. */
struct xp_throttle_retry {
	unsigned int failures; /* consecutive */
	uint64_t tsc;	       /* if failed: time of the next try */
};

/* A process in which the object's sleds are recorded. */
struct xp_throttle_place {
	pid_t pid; /* 0: all processes */
	enum xp_sled_mode mode;
	struct xp_throttle_retry patches; /* failures: its patched sleds are not in the intended state */
	/* failures: its probes are unchanged, and so are those of the other processes. */
	struct xp_throttle_retry probes;
	bool probes_tried;   /* during this work */
	int probes_error;    /* error of that try; 0: none */
	uint64_t stopped_ns; /* how long it was stopped for changes, not yet charged */
	bool fixed;	     /* its probes no longer change, whatever happens to those of the others */
	/* Where children are recorded, and its sleds are patched: */
	bool no_probes;	      /* what cannot be patched is probed in all processes, see xp_throttle_is_common() */
	bool inherits;	      /* it is a child: its sleds lead to a stub of its parent */
	bool behind;	      /* its sleds may lack changes of its parent's */
	uint64_t begin_tsc;   /* of the process's image */
	uint64_t changed_tsc; /* when its patched sleds were last changed; 0: not since they were patched */
};

struct xp_throttle_member {
	struct xp_object *object;
	size_t first;			      /* budget index of id 1 */
	struct xp_function_budget *functions; /* [function count + 1] by id */
	bool *stepped;	    /* [function count + 1] by id: has exit sleds, which are expensive to probe */
	uint32_t *group_of; /* [function count + 1] by id: index in groups, or XP_THROTTLE_ALONE */
	bool *beside;	    /* [function count + 1] by id: has sleds that are probed where the others are patched */
	bool any_beside;
	uint32_t *taken; /* [function count + 1] by id: 1 + its index in throttle->all; 0: never taken out */
	struct xp_throttle_group *groups;
	uint32_t group_count;
	struct xp_throttle_place *places;
	size_t place_count;
	bool stuck; /* it cannot be changed for now */
};

struct xp_throttle_counter {
	size_t owner;	/* 1 + index in throttle->all; 0: none */
	uint64_t value; /* of the programs' counter when it was last read */
	uint64_t used;	/* decision in which its owner was last counted, or got it */
};

/* Of the worker thread; by index in throttle->all. */
struct xp_throttle_scratch {
	bool *changed;
	bool *moved;
	uint64_t *out_tsc; /* the previous values */
	uint32_t *ids;
};

struct xp_throttle {
	struct xp_throttle_options options;
	struct xp_budget budget;
	struct xp_throttle_member *members;
	size_t member_count;
	struct xp_throttled *all;
	size_t count, room;
	struct xp_throttle_counter counters[XP_THROTTLE_COUNTERS];
	uint64_t decisions; /* so far */
	uint32_t next_group;
	uint64_t begin_tsc; /* of the first tick */
	uint64_t last_tick_tsc;
	uint64_t mark_tsc; /* mark of the pass in progress */
	bool due;	   /* a tick is due for that pass */
	uint64_t cpu_tsc;  /* the mark at which the CPU time was last read */
	uint64_t cpu_ns;   /* not yet passed to the budget */
	double cpu_sum_ns; /* sum over all ticks, for xp_throttle_spent() */
	double tracing_sum_ns;
	/* Time that threads would have run, had their process not been stopped for a change. */
	double stopped_sum_ns;
	/* Of the first XP_THROTTLE_FIRST_NS: CPU time, and what was taken of it. */
	double first_cpu_ns;
	double first_taken_ns;
	bool failed;			    /* a process could not be changed, whatever was tried */
	const struct xp_process *last_seen; /* by xp_throttle_find_children() */

	/* Work in progress, or done and not yet applied (busy). */
	bool busy;
	struct xp_budget_change *changes; /* [budget.count] */
	size_t change_count;
	struct xp_throttle_scratch scratch;
	bool working; /* there is a thread to join */
	pthread_t thread;
	bool done;     /* atomic */
	bool stopping; /* atomic; set by the other thread: steps not yet begun are skipped */
	uint64_t done_tsc;
};

struct xp_throttle_member *xp_throttle_member(const struct xp_throttle *throttle, const struct xp_object *object);
/* The object of a budget index, and the function's id in that object. */
struct xp_throttle_member *xp_throttle_member_of(const struct xp_throttle *throttle, size_t index);
uint32_t xp_throttle_id(const struct xp_throttle_member *member, size_t index);
/* NULL if the function was never taken out. */
struct xp_throttled *xp_throttle_find(const struct xp_throttle *throttle, size_t budget_index);

/* throttle_objects.c: sets the cost of a function from the number of its calls in each way. */
void xp_throttle_set_cost(struct xp_throttle *throttle, const struct xp_throttle_member *member, size_t id,
			  const uint64_t calls[XP_CALL_WAYS]);
/* The same for all functions, before anything is known of their calls. */
void xp_throttle_set_costs(struct xp_throttle *throttle, const struct xp_throttle_member *member,
			   enum xp_sled_mode mode);

/* The place of the probes in all processes on what cannot be patched, beside the patched sleds of some. */
static inline bool xp_throttle_is_common(const struct xp_throttle_place *place)
{
	return place->mode == XP_SLEDS_PATCHED && !place->pid;
}

/* throttle_places.c: finds the children that have appeared, and drops those that have ended. */
void xp_throttle_find_children(struct xp_throttle *throttle);

/* Calls that the programs have counted of it since the last call; 0 if it has no counter. */
uint64_t xp_throttle_read_counter(struct xp_throttle *throttle, struct xp_throttled *one);
int xp_throttle_attach_group(struct xp_throttle *throttle, const struct xp_throttle_member *member, uint32_t index,
			     const struct xp_throttle_place *place, struct xp_sled_result *result);
/* A function that is in no group. */
int xp_throttle_attach_function(struct xp_throttle *throttle, const struct xp_throttled *one,
				enum xp_budget_state state, const struct xp_throttle_place *place);
/*
 * Sets in the object how the function's patched sleds are to be. The sleds follow with the next work, or when they are
 * patched.
 */
void xp_throttle_set_excluded(const struct xp_throttled *one, enum xp_budget_state state);
/* Whether there are patched sleds that could not be changed, and a retry is due. */
bool xp_throttle_is_behind(const struct xp_throttle *throttle, uint64_t now_tsc);

/*
 * Carries out throttle->changes; the function of the worker thread. No other thread touches the same data until
 * throttle->done.
 */
void *xp_throttle_work(void *throttle);

#endif
