// SPDX-License-Identifier: BSD-2-Clause
#include "sample/first_stacks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "target/memory.h"

struct first {
	struct xp_wait_begin *begin; /* NULL: returned to the caller, or the stack could not be read */
	uint64_t read_ns;	     /* time of the read; 0: not read yet */
};

struct xp_first_stacks {
	enum xp_sample_stacks kind;
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; /* protects the members below */
	bool is_over;
	struct first *list;
	size_t count;
	size_t room;
	size_t next; /* index of the next stack to read */
	size_t bytes;
	struct xp_u64_map by_tid; /* tid -> index */
};

int xp_first_stacks_new(struct xp_first_stacks **stacks, enum xp_sample_stacks kind)
{
	*stacks = calloc(1, sizeof(**stacks));
	if (!*stacks)
		return -ENOMEM;
	(*stacks)->kind = kind;
	pthread_mutex_init(&(*stacks)->lock, NULL);
	return 0;
}

static void stop(struct xp_first_stacks *stacks)
{
	pthread_mutex_lock(&stacks->lock);
	stacks->is_over = true;
	pthread_mutex_unlock(&stacks->lock);
	if (stacks->has_thread)
		pthread_join(stacks->thread, NULL);
	stacks->has_thread = false;
}

void xp_first_stacks_free(struct xp_first_stacks *stacks)
{
	if (!stacks)
		return;
	stop(stacks);
	for (size_t i = 0; i < stacks->count; i++)
		free(stacks->list[i].begin);
	free(stacks->list);
	xp_u64_map_free(&stacks->by_tid);
	pthread_mutex_destroy(&stacks->lock);
	free(stacks);
}

/* ---- the thread that reads the stacks ---- */

/*
 * Replaces the stack, which has n bytes, by the frames that the frame pointers in it give. Returns the size of the
 * frames in bytes.
 */
static size_t walk_frames(struct xp_event_sample *record, uint64_t *stack, size_t n)
{
	uint64_t frames[XP_SAMPLE_FRAMES_MAX] = { record->ip }, bp = record->bp, least = record->sp;
	const size_t frame = 2 * sizeof(uint64_t); /* the caller's bp and the return address */
	uint32_t count = 1;

	while (count < XP_SAMPLE_FRAMES_MAX && n >= frame && bp >= least && bp - record->sp <= n - frame &&
	       bp % 8 == 0) {
		const uint8_t *at = (const uint8_t *)stack + (bp - record->sp);

		memcpy(&frames[count], at + sizeof(uint64_t), sizeof(uint64_t));
		if (!frames[count])
			break;
		count++;
		least = bp + frame;
		memcpy(&bp, at, sizeof(bp));
	}
	record->user_frames = count;
	record->stack_bytes = 0;
	memcpy(stack, frames, count * sizeof(*frames));
	return count * sizeof(*frames);
}

/* Reads at most max bytes of a thread's stack. Returns NULL if the stack cannot be read. */
static struct xp_wait_begin *read_stack(const struct xp_event_sample *head, enum xp_sample_stacks kind, size_t max)
{
	size_t wanted = XP_MIN(XP_MIN(head->stack_bytes, XP_STACK_BYTES_MAX), max), payload;
	struct xp_wait_begin *begin, *smaller;
	ssize_t n = 0;

	begin = malloc(sizeof(*begin) + XP_MAX(wanted, XP_SAMPLE_FRAMES_MAX * sizeof(uint64_t)));
	if (!begin)
		return NULL;
	begin->record = *head;
	if (wanted)
		n = xp_target_memory_read_some(xp_target_memory_own(), (pid_t)head->head.pid, head->sp, begin + 1,
					       wanted);
	if (n < 0 || (!n && head->stack_bytes)) {
		free(begin);
		return NULL;
	}
	payload = (size_t)n;
	begin->record.stack_bytes = (uint32_t)n;
	if (payload < head->stack_bytes)
		begin->record.head.word &= ~xp_event_word(XP_SAMPLE_WHOLE | XP_SAMPLE_TOP, 0);
	if (kind == XP_STACKS_FRAMES)
		payload = walk_frames(&begin->record, (uint64_t *)(begin + 1), payload);
	begin->size = sizeof(begin->record) + payload;
	smaller = realloc(begin, sizeof(*begin) + payload);
	return smaller ?: begin;
}

static void read_next(struct xp_first_stacks *stacks)
{
	size_t index = stacks->next++, left = stacks->count - index;
	struct xp_wait_begin *head = stacks->list[index].begin, *begin;
	size_t max = (XP_FIRST_STACKS_BYTES_MAX - XP_MIN(stacks->bytes, XP_FIRST_STACKS_BYTES_MAX)) / left;
	struct xp_event_sample record;

	if (!head) /* the thread has run meanwhile */
		return;
	record = head->record;
	pthread_mutex_unlock(&stacks->lock);
	begin = read_stack(&record, stacks->kind, max);
	pthread_mutex_lock(&stacks->lock);
	head = stacks->list[index].begin;
	if (!head) {
		free(begin);
		return;
	}
	free(head);
	stacks->list[index] = (struct first){ begin, xp_now_ns() };
	stacks->bytes += begin ? begin->size : 0;
}

static void *thread_main(void *arg)
{
	struct xp_first_stacks *stacks = arg;

	pthread_mutex_lock(&stacks->lock);
	while (!stacks->is_over && stacks->next < stacks->count)
		read_next(stacks);
	pthread_mutex_unlock(&stacks->lock);
	return NULL;
}

/* ---- the caller ---- */

int xp_first_stacks_add(struct xp_first_stacks *stacks, const struct xp_event_sample *begin)
{
	struct xp_wait_begin *head;
	uint32_t *index;
	int err;

	if (stacks->count >= XP_FIRST_STACKS_MAX)
		return 0;
	head = malloc(sizeof(*head));
	if (!head)
		return -ENOMEM;
	head->size = sizeof(head->record);
	head->record = *begin;
	pthread_mutex_lock(&stacks->lock);
	err = XP_ARRAY_RESERVE(stacks->list, stacks->room, stacks->count + 1);
	index = err ? NULL : xp_u64_map_add(&stacks->by_tid, begin->head.tid, (uint32_t)stacks->count);
	if (index) {
		*index = (uint32_t)stacks->count;
		stacks->list[stacks->count++] = (struct first){ .begin = head };
	}
	pthread_mutex_unlock(&stacks->lock);
	if (!index)
		free(head);
	return index ? 0 : -ENOMEM;
}

void xp_first_stacks_read(struct xp_first_stacks *stacks)
{
	sigset_t all, before;

	stop(stacks);
	stacks->is_over = false;
	if (stacks->next == stacks->count)
		return;
	/* Block all signals in the new thread: the main thread handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	stacks->has_thread = !pthread_create(&stacks->thread, NULL, thread_main, stacks);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!stacks->has_thread)
		xp_debug("no thread to read the stacks of threads that wait");
}

struct xp_wait_begin *xp_first_stacks_take(struct xp_first_stacks *stacks, uint32_t tid, uint64_t began,
					   uint64_t over_ns)
{
	struct xp_wait_begin *begin = NULL;
	uint32_t *index;

	if (!stacks || !stacks->by_tid.count)
		return NULL;
	pthread_mutex_lock(&stacks->lock);
	index = xp_u64_map_find(&stacks->by_tid, tid);
	if (index) {
		struct first *first = &stacks->list[*index];

		begin = first->begin;
		first->begin = NULL;
		if (begin && (!first->read_ns || first->read_ns >= over_ns || begin->record.head.time != began)) {
			free(begin);
			begin = NULL;
		}
		xp_u64_map_remove(&stacks->by_tid, tid);
	}
	pthread_mutex_unlock(&stacks->lock);
	return begin;
}
