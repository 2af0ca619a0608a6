/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares slow calls with typical calls: the mean time of each part (callee, wait, CPU, ...) in both. */
#ifndef XPROF_EXPLAIN_COMMON_CAUSES_H
#define XPROF_EXPLAIN_COMMON_CAUSES_H

#include <stddef.h>
#include <stdint.h>

#include "explain/call_story.h"
#include "explain/slow_calls.h"

#define XP_COMMON_MAX 12 /* maximum number of reported parts */

enum xp_common_kind {
	XP_COMMON_CALLEE, /* time in a callee */
	XP_COMMON_SELF,	  /* time in the function itself; only if there are callees */
	XP_COMMON_ON_CPU,
	XP_COMMON_RUNNABLE,
	XP_COMMON_BLOCKED,   /* time in one state, at one place */
	XP_COMMON_WAKER,     /* blocked until this thread woke it */
	XP_COMMON_NEIGHBOUR, /* runnable, while this thread used the CPU */
	XP_COMMON_THREADS,   /* threads of this name worked for the call, after it woke them */
	XP_COMMON_CPU,	     /* the call began on this CPU; no time */
	XP_COMMON_KINDS,
};
/* Returns the name in JSON. */
const char *xp_common_kind_name(enum xp_common_kind kind);

struct xp_common {
	enum xp_common_kind kind;
	const char *text;   /* which one; "" for those without */
	uint64_t ns[2];	    /* sums: of typical calls, and of slow ones */
	uint64_t calls[2];  /* calls of each set that have this part */
	uint64_t last_call; /* private */
};

struct xp_commons {
	struct xp_common *list; /* after xp_commons_finish(), sorted by the difference, the largest first */
	size_t count;
	uint64_t calls[2];
	uint64_t ns[2]; /* sum of the durations of the calls of each set */
	/* private */
	size_t room;
	struct xp_u64_map by_key;
	uint64_t all_calls;
};

/*
 * Adds a call with its story. is_slow: slow or typical. functions: those of struct xp_slow_calls. Texts are those of
 * times->model. Returns 0 or -ENOMEM. *commons is zeroed before the first call; the caller frees it in any case.
 */
int xp_commons_add(struct xp_commons *commons, struct xp_thread_times *times, const struct xp_call_function *functions,
		   const struct xp_slow_call *call, const struct xp_story *story, int is_slow);
/* Adds the work of another thread for the last added call. Returns 0 or -ENOMEM. */
int xp_commons_add_thread(struct xp_commons *commons, struct xp_thread_times *times, uint32_t thread,
			  struct xp_time_range worked, int is_slow);
/* Removes parts that are not worth reporting. */
void xp_commons_finish(struct xp_commons *commons);
void xp_commons_free(struct xp_commons *commons);

static inline double xp_common_mean_ns(const struct xp_commons *commons, const struct xp_common *common, int is_slow)
{
	return commons->calls[is_slow] ? (double)common->ns[is_slow] / (double)commons->calls[is_slow] : 0;
}

#define XP_PLACE_BYTES 512
#define XP_THREAD_TEXT_BYTES 64
/* Formats "name (tid)" of a thread of the model. Returns to. */
const char *xp_story_thread(char to[XP_THREAD_TEXT_BYTES], const struct xp_model *model, uint32_t thread);

#endif
