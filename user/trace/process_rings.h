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
 * Takes the calls that a thread, whose process has rings, recorded before this one, which came through the kernel.
 * Returns 0 or the errors of xp_thread_put().
 */
int xp_thread_take_before(struct xp_thread *thread, struct xp_call call);
/*
 * Takes the calls of all threads of all live processes, after all records of BPF before done_tsc. Returns how many were
 * taken from the fullest ring since the last time, in percent of what a ring holds when its thread finds it full, at
 * least 1 if there were any; or -errno. It is what a process really recorded, not what it says about its rings.
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
/* A thread has ended (struct xp_event_task): takes its last calls. Its ring is for the next thread. */
int xp_processes_end_calls(struct xp_processes *processes, const struct xp_arrival *arrival);
/* The process ends, or is no longer recorded: takes all that is left, and drops the rings. */
int xp_process_end_calls(struct xp_process *process);

#endif
