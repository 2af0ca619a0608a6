/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The activity of threads over time: the samples and the waits of a perf.data by thread and by CPU, sorted by time.
 * Between two waits, a thread runs on the CPU on which the first wait ended. So the waits show which thread used a CPU
 * while another thread waited for it. If waits were only sampled (wait_record.h), only samples show that. Memory: 24
 * bytes per wait and 4 per sample, in addition to the model.
 */
#ifndef XPROF_MODEL_THREAD_TIMES_H
#define XPROF_MODEL_THREAD_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/read_samples.h"

/* The time of a thread on a CPU. */
struct xp_timed_run {
	uint32_t thread;
	uint32_t cpu;
	uint64_t begin_ns, end_ns;
};

struct xp_thread_times {
	/* Samples are sorted by thread and time, waits by thread and end. */
	struct xp_model model;
	/* By stack: equal functions have equal numbers. Kernel functions count only if there are no others. */
	uint64_t *shapes;
	bool is_partial; /* waits were sampled: the recorded ones represent others */
	/* private */
	struct xp_u64_map by_tid;  /* by PID and TID: index of the thread plus one */
	struct xp_timed_run *runs; /* sorted by CPU and begin */
	size_t run_count;
	uint32_t *by_cpu; /* samples sorted by CPU and time */
};

/*
 * keep_hits: of USDT probes, in the order of the file. Empty if there is no perf.data. The caller frees it, also after
 * an error. Returns 0 or -errno as read_samples.h.
 */
int xp_thread_times_read(struct xp_thread_times *times, const struct xp_model_source *source, bool full_names,
			 bool keep_hits, bool *broken);
void xp_thread_times_free(struct xp_thread_times *times);

/* Returns the index of the thread in the model; XP_MODEL_NONE: it has neither samples nor waits. pid 0: any process. */
uint32_t xp_thread_times_find(const struct xp_thread_times *times, uint64_t pid, uint64_t tid);

struct xp_time_range {
	uint64_t begin_ns, end_ns;
};

/* Returns the waits of a thread that overlap a time; NULL and 0: none. */
const struct xp_model_wait *xp_thread_times_waits(const struct xp_thread_times *times, uint32_t thread,
						  struct xp_time_range range, size_t *count);
/* Returns the thread's samples in that time. */
const struct xp_model_sample *xp_thread_times_samples(const struct xp_thread_times *times, uint32_t thread,
						      struct xp_time_range range, size_t *count);

#define XP_NEIGHBOURS_MAX 32 /* maximum number of distinguished threads */

/* Zeroed: none. */
struct xp_neighbours {
	uint32_t threads[XP_NEIGHBOURS_MAX];
	uint64_t ns[XP_NEIGHBOURS_MAX];
	size_t count;
};

/* Adds the other threads that used the CPU in that time. */
void xp_thread_times_neighbours(const struct xp_thread_times *times, struct xp_neighbours *neighbours, uint32_t thread,
				uint32_t cpu, struct xp_time_range range);

#endif
