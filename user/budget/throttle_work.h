/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a throttle, and what its working thread does. Private to throttle*.c. */
#ifndef XPROF_THROTTLE_WORK_H
#define XPROF_THROTTLE_WORK_H

#include <pthread.h>

#include "budget/throttle.h"

#define XP_THROTTLE_ALONE UINT32_MAX /* in place of a group's index: the function has probes of its own, or none */

struct xp_throttle_group {
	uint32_t number; /* of its probes */
	bool alias;
};

/* What did not succeed, and is tried again. */
struct xp_throttle_retry {
	unsigned int failures; /* one after the other */
	uint64_t tsc;	       /* then: when to try again */
};

/* A process that has the object's sleds recorded. */
struct xp_throttle_place {
	pid_t pid; /* 0: all */
	enum xp_sled_mode mode;
	struct xp_throttle_retry patches; /* failures: its patched sleds are not as they should be */
	struct xp_throttle_retry probes;  /* failures: its probes are as they were, and so are those of the others */
	bool probes_tried;		  /* by this work */
	int probes_error;		  /* then; 0: none */
	uint64_t stopped_ns;		  /* it stood still for changes, not yet charged */
	bool fixed;			  /* its probes stay as they are from here on, whatever the others' become */
};

struct xp_throttle_member {
	struct xp_object *object;
	size_t first;	    /* index in the budget of id 1 */
	bool *stepped;	    /* [function count + 1] by id: it has exit sleds, which are dear to probe */
	uint32_t *group_of; /* [function count + 1] by id: index in groups, or XP_THROTTLE_ALONE */
	struct xp_throttle_group *groups;
	uint32_t group_count;
	struct xp_throttle_place *places;
	size_t place_count;
	bool stuck; /* it cannot be changed for now */
};

struct xp_throttle {
	struct xp_throttle_options options;
	struct xp_budget budget;
	struct xp_throttle_member *members;
	size_t member_count;
	struct xp_throttled *all; /* [XP_THROTTLE_MAX] index: counter */
	size_t count;
	uint32_t next_group;
	uint64_t last_tick_tsc;
	uint64_t mark_tsc; /* of the pass that is under way */
	bool due;	   /* for it there is to be a tick */
	uint64_t cpu_tsc;  /* the mark for which the CPU time was read last */
	uint64_t cpu_ns;   /* not yet told to the budget */
	double cpu_sum_ns; /* of all ticks, for xp_throttle_spent() */
	double tracing_sum_ns;
	double stopped_sum_ns; /* that threads would have run for, had their process not stood still for a change */

	/* The work that is under way (busy), or done and not yet taken note of (busy). */
	bool busy;
	struct xp_budget_change changes[XP_THROTTLE_MAX];
	size_t change_count;
	bool working; /* there is a thread to be joined */
	pthread_t thread;
	bool done;     /* atomic */
	bool stopping; /* atomic; by the other thread: what is not begun yet is left */
	uint64_t done_tsc;
};

struct xp_throttle_member *xp_throttle_member(const struct xp_throttle *throttle, const struct xp_object *object);
/* Of an index in the budget: its object, and its id there. */
struct xp_throttle_member *xp_throttle_member_of(const struct xp_throttle *throttle, size_t index);
uint32_t xp_throttle_id(const struct xp_throttle_member *member, size_t index);
/* NULL: it has never been taken out. */
struct xp_throttled *xp_throttle_find(const struct xp_throttle *throttle, size_t budget_index);

/* Calls that the programs have counted of it since this was last asked. */
uint64_t xp_throttle_read_counter(struct xp_throttle *throttle, struct xp_throttled *one);
int xp_throttle_attach_group(struct xp_throttle *throttle, const struct xp_throttle_member *member, uint32_t index,
			     const struct xp_throttle_place *place, struct xp_sled_result *result);
/* A function that is in no group. */
int xp_throttle_attach_function(struct xp_throttle *throttle, const struct xp_throttled *one,
				enum xp_budget_state state, const struct xp_throttle_place *place);
/* Says in its object what becomes of the function's patched sleds: they follow with the next work, or when patched. */
void xp_throttle_set_taken(const struct xp_throttle *throttle, const struct xp_throttled *one,
			   enum xp_budget_state state);
/* Whether there are patched sleds that could not be changed, and it is time to try again. */
bool xp_throttle_is_behind(const struct xp_throttle *throttle, uint64_t now_tsc);

/* Makes throttle->changes come about; a thread's function. Nobody else touches what it does until throttle->done. */
void *xp_throttle_work(void *throttle);

#endif
