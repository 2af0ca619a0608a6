/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of the threads of a process: sums over all exited threads, and details of the first ones. */
#ifndef XPROF_TRACE_THREAD_SUMS_H
#define XPROF_TRACE_THREAD_SUMS_H

#include "trace/thread.h"

/* An exited thread, for the manifest. */
struct xp_thread_summary {
	pid_t tid;
	pid_t stack_of; /* the thread of a further stack; 0: a thread */
	uint64_t serial;
	char name[16];
	struct xp_counts counts;
};
#define XP_THREAD_SUMMARIES_MAX 1000

/* Zeroed: no threads. */
struct xp_thread_sums {
	uint32_t thread_count;
	uint32_t stack_count; /* number of further stacks */
	uint32_t synthesized_room;
	struct xp_counts counts;
	uint64_t clamped;
	uint64_t ended_tsc;    /* last record of an exited thread: its TID may be reused */
	uint32_t *synthesized; /* number of exits by function ID; NULL before the first */
	struct xp_thread_summary *summaries;
	size_t summary_count; /* at most XP_THREAD_SUMMARIES_MAX */
	size_t summary_room;
};

/* Adds an exited thread. */
void xp_thread_sums_add(struct xp_thread_sums *sums, const struct xp_thread *thread);
/* Counts a synthesized exit. function_count: the highest function ID so far. */
void xp_thread_sums_synthesized(struct xp_thread_sums *sums, uint32_t fn_id, uint32_t function_count);
/* Call this when a new part of the recording begins: no thread has exited in it. */
void xp_thread_sums_begin_part(struct xp_thread_sums *sums);
void xp_thread_sums_free(struct xp_thread_sums *sums);

#endif
