/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of the threads of a process: sums of all threads that have ended, and details of the first ones. */
#ifndef XPROF_TRACE_THREAD_SUMS_H
#define XPROF_TRACE_THREAD_SUMS_H

#include "trace/thread.h"

/* A thread that has ended, for the manifest. */
struct xp_thread_summary {
	pid_t tid;
	pid_t stack_of; /* a further stack of this thread; 0: it is a thread */
	uint64_t serial;
	char name[16];
	struct xp_counts counts;
};
#define XP_THREAD_SUMMARIES_MAX 1000

/* All zero: no thread. */
struct xp_thread_sums {
	uint32_t thread_count;
	uint32_t stack_count; /* of further stacks */
	uint32_t synthesized_room;
	struct xp_counts counts;
	uint64_t clamped;
	uint64_t ended_tsc;    /* TSC of the last record of an ended thread: its tid may be reused */
	uint32_t *synthesized; /* exits per function id; NULL before the first */
	struct xp_thread_summary *summaries;
	size_t summary_count; /* at most XP_THREAD_SUMMARIES_MAX */
	size_t summary_room;
};

/* A thread ends. */
void xp_thread_sums_add(struct xp_thread_sums *sums, const struct xp_thread *thread);
/* Counts a synthesized exit. function_count: the highest function ID so far. */
void xp_thread_sums_synthesized(struct xp_thread_sums *sums, uint32_t fn_id, uint32_t function_count);
/* A new part of the recording begins: no thread has ended in it. */
void xp_thread_sums_begin_part(struct xp_thread_sums *sums);
void xp_thread_sums_free(struct xp_thread_sums *sums);

#endif
