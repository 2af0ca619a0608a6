/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads that have records in the perf.data file, and the state of these records. */
#ifndef XPROF_SAMPLE_PERF_THREADS_H
#define XPROF_SAMPLE_PERF_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/u64_map.h"

/* Whether a thread is on a CPU, according to the records in the file. */
enum xp_perf_running {
	XP_PERF_RUNNING_UNKNOWN,
	XP_PERF_RUNNING,
	XP_PERF_NOT_RUNNING,
};

struct xp_perf_thread {
	pid_t pid;
	pid_t tid;
	char comm[16]; /* as last written; the kernel's bytes, not cleaned */
	bool is_named; /* the name has been written */
	enum xp_perf_running running;
	uint32_t cpu; /* CPU of the last switch in */
	/* For a process (tid == pid) only: */
	unsigned int mapped; /* the round in which the mappings were written; 0: not yet */
	pid_t ppid;	     /* 0: unknown, or already written */
	uint64_t born_tsc;
};

/* A zeroed table is empty. */
struct xp_perf_threads {
	struct xp_u64_map by_tid;
};

/* Returns NULL if the table has no such thread. */
struct xp_perf_thread *xp_perf_threads_find(const struct xp_perf_threads *threads, pid_t tid);
/*
 * Returns the entry of this pid and tid. Creates it if it is new, and resets it if the tid belonged to another process.
 * Returns NULL if out of memory.
 */
struct xp_perf_thread *xp_perf_threads_get(struct xp_perf_threads *threads, pid_t pid, pid_t tid);
void xp_perf_threads_remove(struct xp_perf_threads *threads, pid_t tid);
void xp_perf_threads_free(struct xp_perf_threads *threads);

#endif
