/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Takes the calls of one call ring into the log of its thread. A loop takes plain calls, which are nearly all, straight
 * from the shared memory into the thread's chunk (call_ring.h, thread_run.h). It leaves to the common way whatever is
 * not plain: the first call of a thread, another CPU, a full chunk, holes, calls that were left.
 */
#ifndef XPROF_TRACE_RING_CALLS_H
#define XPROF_TRACE_RING_CALLS_H

#include "sled/call_rings.h"
#include "trace/process.h"

/*
 * Takes calls of that thread, as many as the ring holds at most: the thread may go on for ever. A borrower's calls are
 * those of another process, and are filtered, as are those of functions that the process lacks. Returns 0 or the errors
 * of xp_processes_thread() and xp_thread_put().
 */
int xp_ring_calls_take(struct xp_process *process, struct xp_thread_ring *ring, pid_t tid,
		       const struct xp_call_range *range);

/* Counts the short calls that the stub has dropped: the entry and the exit of each. */
void xp_ring_count_taken_back(struct xp_counts *counts, struct xp_thread_ring *ring, const struct xp_call_range *range);

/*
 * The call as xp_thread_put() takes it. False if it is not to be recorded: the process may write anything into a ring,
 * and only entries and exits belong there.
 */
bool xp_ring_call_convert(const struct xp_process *process, const struct xp_ring_call *from, struct xp_call *to);

#endif
