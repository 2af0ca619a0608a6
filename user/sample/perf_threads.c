// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_threads.h"

#include <stdlib.h>

struct xp_perf_thread *xp_perf_threads_find(const struct xp_perf_threads *threads, pid_t tid)
{
	return xp_u64_map_get(&threads->by_tid, (uint32_t)tid);
}

struct xp_perf_thread *xp_perf_threads_get(struct xp_perf_threads *threads, pid_t pid, pid_t tid)
{
	struct xp_perf_thread *thread = xp_perf_threads_find(threads, tid);

	if (thread && thread->pid == pid)
		return thread;
	if (!thread) {
		thread = malloc(sizeof(*thread));
		if (!thread || xp_u64_map_put(&threads->by_tid, (uint32_t)tid, thread)) {
			free(thread);
			return NULL;
		}
	}
	*thread = (struct xp_perf_thread){ .pid = pid, .tid = tid };
	return thread;
}

void xp_perf_threads_remove(struct xp_perf_threads *threads, pid_t tid)
{
	free(xp_perf_threads_find(threads, tid));
	xp_u64_map_remove(&threads->by_tid, (uint32_t)tid);
}

void xp_perf_threads_free(struct xp_perf_threads *threads)
{
	for (size_t i = 0; i < threads->by_tid.count; i++)
		free(threads->by_tid.entries[i].pointer);
	xp_u64_map_free(&threads->by_tid);
}
