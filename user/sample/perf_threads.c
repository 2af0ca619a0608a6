// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_threads.h"

#include <stdlib.h>

#define SLOTS_MIN 1024

static struct xp_perf_thread **slot_of(const struct xp_perf_threads *threads, pid_t tid)
{
	struct xp_perf_thread **slot = &threads->slots[(uint32_t)tid & (threads->slot_count - 1)];

	while (*slot && (*slot)->tid != tid)
		slot = &(*slot)->next;
	return slot;
}

struct xp_perf_thread *xp_perf_threads_find(const struct xp_perf_threads *threads, pid_t tid)
{
	return threads->slot_count ? *slot_of(threads, tid) : NULL;
}

/* Keeps chains short: there are at least as many slots as threads. */
static bool grow(struct xp_perf_threads *threads)
{
	struct xp_perf_threads grown = { .slot_count = threads->slot_count ? 2 * threads->slot_count : SLOTS_MIN,
					 .count = threads->count };

	grown.slots = calloc(grown.slot_count, sizeof(struct xp_perf_thread *));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < threads->slot_count; i++) {
		struct xp_perf_thread *thread, *next;

		for (thread = threads->slots[i]; thread; thread = next) {
			struct xp_perf_thread **slot = slot_of(&grown, thread->tid);

			next = thread->next;
			thread->next = NULL;
			*slot = thread;
		}
	}
	free(threads->slots);
	*threads = grown;
	return true;
}

struct xp_perf_thread *xp_perf_threads_get(struct xp_perf_threads *threads, pid_t pid, pid_t tid)
{
	struct xp_perf_thread **slot, *thread;

	if (threads->count >= threads->slot_count && !grow(threads))
		return NULL;
	slot = slot_of(threads, tid);
	thread = *slot;
	if (thread && thread->pid != pid)
		*thread = (struct xp_perf_thread){ .next = thread->next, .pid = pid, .tid = tid };
	if (thread)
		return thread;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->pid = pid;
	thread->tid = tid;
	*slot = thread;
	threads->count++;
	return thread;
}

void xp_perf_threads_remove(struct xp_perf_threads *threads, pid_t tid)
{
	struct xp_perf_thread **slot, *thread;

	if (!threads->slot_count)
		return;
	slot = slot_of(threads, tid);
	thread = *slot;
	if (!thread)
		return;
	*slot = thread->next;
	free(thread);
	threads->count--;
}

void xp_perf_threads_free(struct xp_perf_threads *threads)
{
	for (size_t i = 0; i < threads->slot_count; i++) {
		struct xp_perf_thread *thread, *next;

		for (thread = threads->slots[i]; thread; thread = next) {
			next = thread->next;
			free(thread);
		}
	}
	free(threads->slots);
	*threads = (struct xp_perf_threads){ 0 };
}
