/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads that perf was told of, and what it was told: a hash table by tid. */
#ifndef XPROF_PERF_THREADS_H
#define XPROF_PERF_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_perf_thread {
	struct xp_perf_thread *next; /* hash chain */
	pid_t pid;
	pid_t tid;
	char comm[16]; /* as perf knows it; as the kernel has it, not cleaned */
	bool is_named; /* perf has been told its name */
	/* Of a process (tid == pid) */
	unsigned int mapped; /* perf has been told its mappings: the round in which; 0: not yet */
	pid_t ppid;	     /* 0: not known, or perf knows it */
	uint64_t born_tsc;
};

/* Zeroed: empty. */
struct xp_perf_threads {
	struct xp_perf_thread **slots;
	size_t slot_count;
	size_t count;
};

/* NULL: it is not there. */
struct xp_perf_thread *xp_perf_threads_find(const struct xp_perf_threads *threads, pid_t tid);
/* The one of this pid and tid, made when it is new, and made anew when its tid was another process's. NULL: no memory.
 */
struct xp_perf_thread *xp_perf_threads_get(struct xp_perf_threads *threads, pid_t pid, pid_t tid);
void xp_perf_threads_remove(struct xp_perf_threads *threads, pid_t tid);
void xp_perf_threads_free(struct xp_perf_threads *threads);

#endif
