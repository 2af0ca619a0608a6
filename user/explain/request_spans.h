/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work of other threads for a request. A request is a call of one thread. If that thread wakes another thread
 * during the call, the other thread works for the request from then on, and so do threads that the other thread wakes
 * meanwhile. The work ends when the thread waits again with the same functions in its stack as before the wake-up, or
 * when the call returns.
 *
 * A thread that releases a lock does not give work to the next holder: the caller of xp_wakeups_add() omits such
 * wake-ups. If a thread finds work in a queue without waiting, there is no wake-up, so its work is not found.
 */
#ifndef XPROF_EXPLAIN_REQUEST_SPANS_H
#define XPROF_EXPLAIN_REQUEST_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "explain/slow_calls.h"
#include "model/thread_times.h"

#define XP_REQUEST_SPANS_MAX 64 /* maximum per request */
#define XP_SPAN_CALLEES_MAX 8

/* Which threads woke which threads. Empty if zeroed. */
struct xp_wakeups {
	uint32_t
	    *waits; /* indexes of the waits that the wake-ups ended; sorted by waker and time after xp_wakeups_sort() */
	size_t count;
};

/* Allocates space for the wake-ups of all waits. The caller frees waits. Returns 0 or -ENOMEM. */
int xp_wakeups_init(struct xp_wakeups *wakeups, const struct xp_thread_times *times);
/* Adds the wake-up that ends the wait at this index, if a thread caused it. */
void xp_wakeups_add(struct xp_wakeups *wakeups, const struct xp_thread_times *times, size_t wait);
void xp_wakeups_sort(struct xp_wakeups *wakeups, const struct xp_thread_times *times);

/* The work of one thread after one wake-up. */
struct xp_request_span {
	uint32_t thread, waker; /* indexes in the model */
	struct xp_time_range range;
	/* Outermost calls that begin in this span, after xp_request_spans_read_calls(). */
	struct xp_call_callee callees[XP_SPAN_CALLEES_MAX];
	size_t callee_count;
};

struct xp_request_spans {
	struct xp_request_span list[XP_REQUEST_SPANS_MAX];
	size_t count;
};

/* Finds the work of other threads for a call of a thread. */
void xp_request_spans_find(struct xp_request_spans *spans, const struct xp_wakeups *wakeups,
			   const struct xp_thread_times *times, uint32_t thread, struct xp_time_range range);

/*
 * Reads the calls in these spans from the logs. functions: as for xp_slow_calls_read(). Returns 0, -ENOMEM or -EAGAIN.
 */
int xp_request_spans_read_calls(struct xp_request_span **spans, size_t count, const struct xp_thread_times *times,
				struct xp_slow_calls *calls, const struct xp_model_source *source);

/*
 * Sets the callees of the slow and typical calls of the first functions, which the logs do not have: what their thread
 * calls meanwhile. Returns 0, -ENOMEM or -EAGAIN.
 */
int xp_request_spans_read_callees(struct xp_slow_calls *calls, size_t functions, const struct xp_thread_times *times,
				  const struct xp_model_source *source);

#endif
