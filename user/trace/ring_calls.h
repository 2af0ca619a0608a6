/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies the calls of one call ring to the log of its thread. A loop copies plain calls, nearly all of them, from the
 * shared memory directly into the thread's chunk (call_ring.h, thread_run.h). All others use the general path: the
 * first call of a thread, a call on another CPU, a full chunk, holes, and abandoned calls.
 */
#ifndef XPROF_TRACE_RING_CALLS_H
#define XPROF_TRACE_RING_CALLS_H

#include "sled/call_rings.h"
#include "trace/process.h"

/*
 * The work for one process in a turn, in frames that xprof searches: about 10 ms. xprof searches frames for calls that
 * are not at the top of the stack, which are rare in well-behaved processes. A limit on time alone would lose calls of
 * well-behaved processes when xprof has to wait for a CPU.
 */
#define XP_RING_WORK (16u << 20)

/* Returns whether the process has used up its turn. */
bool xp_ring_turn_is_over(const struct xp_process *process);

/*
 * Reads calls of the thread, at most as many as the ring holds, because the thread may continue to write. Stops when
 * the process has used up its turn. Filters calls of a vfork() child, which belong to another process, and calls of
 * functions that the process lacks. Returns 0 or the errors of xp_processes_thread() and xp_thread_take().
 */
int xp_ring_calls_take(struct xp_process *process, struct xp_thread_ring *ring, pid_t tid,
		       const struct xp_call_range *range);

/* Counts the short calls that the stub has discarded: entry and exit of each. */
void xp_ring_count_taken_back(struct xp_counts *counts, struct xp_thread_ring *ring, const struct xp_call_range *range);

#endif
