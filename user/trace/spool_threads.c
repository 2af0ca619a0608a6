// SPDX-License-Identifier: BSD-2-Clause
#include "trace/spool_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "trace/spool_format.h"

#define ROOM_FIRST 64

/* The slot that holds tid, or the free one for it. */
static size_t slot_of(const struct xp_spool_threads *threads, int32_t tid)
{
	size_t slot = (uint32_t)tid * 2654435761u & (threads->slot_count - 1);

	while (threads->slots[slot] && threads->all[threads->slots[slot] - 1].tid != tid)
		slot = (slot + 1) & (threads->slot_count - 1);
	return slot;
}

static int grow(struct xp_spool_threads *threads)
{
	size_t room = threads->room ? 2 * threads->room : ROOM_FIRST;
	struct xp_spool_thread *all;
	uint32_t *slots;

	if (room > UINT32_MAX / 2)
		return -ENOMEM;
	all = reallocarray(threads->all, room, sizeof(*all));
	if (!all)
		return -ENOMEM;
	threads->all = all;
	slots = calloc(2 * room, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(threads->slots);
	threads->slots = slots;
	threads->slot_count = 2 * room;
	threads->room = room;
	for (size_t i = 0; i < threads->count; i++)
		slots[slot_of(threads, all[i].tid)] = i + 1;
	return 0;
}

ssize_t xp_spool_threads_find(const struct xp_spool_threads *threads, int32_t tid)
{
	return threads->slot_count ? (ssize_t)threads->slots[slot_of(threads, tid)] - 1 : -1;
}

int xp_spool_threads_add(struct xp_spool_threads *threads, const struct xp_spool_frame *frame)
{
	ssize_t index = xp_spool_threads_find(threads, frame->tid);
	struct xp_spool_thread *thread;

	if (index < 0) {
		if (threads->count == threads->room && grow(threads))
			return -ENOMEM;
		index = threads->count++;
		threads->slots[slot_of(threads, frame->tid)] = index + 1;
		threads->all[index] = (struct xp_spool_thread){ .tid = frame->tid, .first_tsc = frame->first_tsc };
	}
	thread = &threads->all[index];
	memcpy(thread->name, frame->name, sizeof(thread->name));
	thread->name[sizeof(thread->name) - 1] = 0;
	thread->chunk_bytes += frame->chunk_bytes;
	thread->chunk_bytes_max = XP_MAX(thread->chunk_bytes_max, frame->chunk_bytes);
	thread->chunks++;
	return 0;
}

void xp_spool_threads_clear(struct xp_spool_threads *threads)
{
	free(threads->all);
	free(threads->slots);
	memset(threads, 0, sizeof(*threads));
}
