/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The newest calls of a thread, of which the older ones are not known. Those of the older ones that have ended since
 * are known by their exits; the others are not known to be open.
 */
#ifndef XPROF_TRACE_EARLIER_CALLS_H
#define XPROF_TRACE_EARLIER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sled/call_ring.h"
#include "trace/thread.h"

struct xp_newest_calls {
	const struct xp_ring_call *list;
	size_t count;
	/* The call as xp_thread_put() takes it. False: it is not to be recorded. */
	bool (*convert)(void *arg, const struct xp_ring_call *from, struct xp_call *to);
	void *arg;
	uint64_t frames_max; /* so many frames are looked at, see struct xp_frame_search */
};

/* The thread enters the older ones (xp_thread_skip()). *frames: how many were looked at. Returns 0 or -ENOMEM. */
int xp_earlier_calls_enter(struct xp_thread *thread, const struct xp_newest_calls *calls, uint64_t *frames);

#endif
