/* SPDX-License-Identifier: BSD-2-Clause */
/* The time of one call: on a CPU, waiting for a CPU, and blocked, with the stacks of its samples and waits. */
#ifndef XPROF_EXPLAIN_CALL_STORY_H
#define XPROF_EXPLAIN_CALL_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/thread_times.h"

#define XP_STORY_WAITS_MAX 32
#define XP_STORY_STACKS_MAX 16

/* Waits with the same functions in their stack, the same state and the same waker. */
struct xp_story_wait {
	const struct xp_model_wait *longest;
	uint64_t longest_ns;
	uint64_t count;
	uint64_t blocked_ns, runnable_ns; /* within the time of the story */
};

struct xp_story_stack {
	uint32_t stack;
	uint64_t samples;
};

/* The activity of the waker of a wait, during the wait. */
struct xp_story_waker {
	uint32_t thread;		  /* index in the model; XP_MODEL_NONE: not recorded */
	const struct xp_model_wait *wait; /* longest wait of the waker; NULL: none */
	uint64_t wait_ns;		  /* the part of that wait during the wait of the story */
	uint64_t samples;		  /* samples of the waker during the wait */
	uint32_t stack;			  /* the most frequent stack of these samples */
	uint32_t neighbour; /* the thread that used the CPU while the waker was runnable; XP_MODEL_NONE: unknown */
};

enum xp_story_cause {
	XP_STORY_UNKNOWN,
	XP_STORY_ON_CPU,
	XP_STORY_RUNNABLE,
	XP_STORY_BLOCKED, /* by waits[0] */
};

struct xp_story {
	struct xp_time_range range;
	uint32_t thread; /* index in the model; XP_MODEL_NONE: it has neither samples nor waits */
	/* If the recording has waits. They add up to the length of the story. */
	uint64_t on_cpu_ns, runnable_ns, blocked_ns;
	uint64_t samples;
	struct xp_story_wait waits[XP_STORY_WAITS_MAX]; /* the longest first */
	size_t wait_count;
	struct xp_story_stack stacks[XP_STORY_STACKS_MAX]; /* the most frequent first */
	size_t stack_count;
	/* While the call was runnable: the thread that used the CPU longest, and the CPU of the longest such time. */
	uint32_t neighbour; /* XP_MODEL_NONE: unknown */
	uint64_t neighbour_ns;
	uint32_t starved_cpu;
	uint64_t starved_ns;	   /* the longest time without a CPU; 0: none */
	enum xp_story_cause cause; /* the cause of most of the time */
};

/* Returns whether the competing thread used the CPU for a quarter of the runnable time: less is not a reason. */
static inline bool xp_story_has_neighbour(const struct xp_story *story)
{
	return story->neighbour != XP_MODEL_NONE && story->neighbour_ns * 4 >= story->runnable_ns;
}

void xp_story_make(struct xp_story *story, const struct xp_thread_times *times, uint32_t thread,
		   struct xp_time_range range);

#define XP_STORY_WAKERS_MAX 4 /* maximum number of wakers in a chain: each waited for the next */

/* Returns whether the waker had a wait of at least a quarter of that time, or otherwise samples (without `wait`). */
bool xp_story_look_at_waker(struct xp_story_waker *waker, const struct xp_thread_times *times,
			    const struct xp_model_wait *wait);

#endif
