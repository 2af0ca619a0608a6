/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Takes the newest calls of a call ring that wraps (sled/call_ring.h), for a flight recorder: those since the last time
 * that were not overwritten.
 */
#ifndef XPROF_TRACE_RING_WINDOW_H
#define XPROF_TRACE_RING_WINDOW_H

#include "sled/call_rings.h"
#include "trace/process.h"

/* Returns 0, -ENOMEM, or an error of xp_processes_thread() or xp_thread_put(). */
int xp_ring_window_take(struct xp_process *process, struct xp_thread_ring *ring, pid_t tid,
			const struct xp_call_range *range);

#endif
