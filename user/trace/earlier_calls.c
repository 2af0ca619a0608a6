// SPDX-License-Identifier: BSD-2-Clause
#include "trace/earlier_calls.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

struct exits {
	struct xp_open_call *list; /* of the innermost call first */
	size_t count;
	size_t room;
};

static int discard_chunk(void *arg, struct xp_thread *thread)
{
	(void)arg;
	(void)thread;
	return 0;
}

static int add_exit(struct exits *exits, struct xp_call call)
{
	if (exits->count == XP_FRAMES_MAX)
		return 0;
	if (XP_ARRAY_RESERVE(exits->list, exits->room, exits->count + 1))
		return -ENOMEM;
	exits->list[exits->count++] = (struct xp_open_call){ call.word & XP_FN_MAX, call.slot };
	return 0;
}

/* A thread that knows none of the older calls has no use for their exits. */
static int find_exits(const struct xp_newest_calls *calls, struct exits *exits, uint64_t *frames)
{
	const struct xp_thread_options options = { .sink = discard_chunk };
	struct xp_thread *thread;
	int err = xp_thread_new(&thread, &options, 0);

	if (err)
		return err;
	for (size_t i = 0; i < calls->count && !err && thread->search.frames < calls->frames_max; i++) {
		uint64_t unmatched = thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT];
		struct xp_call call;

		if (!calls->convert(calls->arg, &calls->list[i], &call))
			continue;
		err = xp_thread_put(thread, calls->list[i].cpu, call);
		if (!err && thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT] > unmatched)
			err = add_exit(exits, call);
	}
	*frames = thread->search.frames;
	xp_thread_free(thread);
	return err;
}

int xp_earlier_calls_enter(struct xp_thread *thread, const struct xp_newest_calls *calls, uint64_t *frames)
{
	struct exits exits = { 0 };
	int err;

	*frames = 0;
	if (!calls->count)
		return 0;
	err = find_exits(calls, &exits, frames);
	for (size_t i = 0; i < exits.count / 2; i++) {
		struct xp_open_call inner = exits.list[i];

		exits.list[i] = exits.list[exits.count - 1 - i];
		exits.list[exits.count - 1 - i] = inner;
	}
	if (!err)
		err = xp_thread_skip(thread, exits.list, (uint32_t)exits.count, calls->list[0].cpu, calls->list[0].tsc);
	free(exits.list);
	return err;
}
