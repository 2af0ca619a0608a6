/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the calls that patched sleds record in memory (sled/call_rings.h), and passes them to their threads, ordered by
 * time with the records of BPF. A call in a ring that is older than a BPF record of the same thread was committed
 * before that record, so it is read first.
 */
#ifndef XPROF_TRACE_PROCESS_RINGS_H
#define XPROF_TRACE_PROCESS_RINGS_H

#include "trace/process.h"

/*
 * Reads the calls that a thread recorded in memory before this call, which came through the kernel. The process has
 * rings. Returns 0 or the errors of xp_thread_put().
 */
int xp_thread_take_before(struct xp_thread *thread, struct xp_call call);
/*
 * Reads the call rings of all live processes, after all BPF records before done_tsc. Returns the fill level of the
 * fullest ring in percent (100: its thread finds it full; at least 1 if any call was read), or -errno. Counts the calls
 * that were read, not those that a process claims.
 */
int xp_processes_take_calls(struct xp_processes *processes, uint64_t done_tsc);

/* Call this when a task that shares the memory of a process starts, or stops sharing it (struct xp_event_thread). */
int xp_processes_begin_task(struct xp_processes *processes, const struct xp_arrival *arrival);
int xp_processes_end_task(struct xp_processes *processes, const struct xp_arrival *arrival);

/*
 * Call this when a thread has ended. If the thread had a ring and disabled its TSC, the next rdtsc of the stub killed
 * it: prints a message, once per process.
 */
void xp_process_explain_end(struct xp_process *process, const struct xp_event_task *event);
/* Reads the last calls of an exited thread (struct xp_event_task). Its ring becomes free. */
int xp_processes_end_calls(struct xp_processes *processes, const struct xp_arrival *arrival);
/* Call this when the process exits or is no longer recorded. Reads the remaining calls and releases the rings. */
int xp_process_end_calls(struct xp_process *process);

#endif
