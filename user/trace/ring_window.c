// SPDX-License-Identifier: BSD-2-Clause
#include "trace/ring_window.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "trace/ring_calls.h"

#define WINDOW_CALLS 16 /* a window takes as long as so many calls, and longer if there are some */

struct window {
	struct xp_process *process;
	struct xp_thread_ring *ring;
	struct xp_thread *thread;
	struct xp_ring_call *calls;
	size_t count;
};

/* The writer waits, or rather enters the kernel for each call: nothing else is done meanwhile. */
static int copy_calls(struct window *window, const struct xp_call_range *range)
{
	struct xp_call_ring *ring = &window->ring->ring;
	struct xp_call_range newest = *range;
	const uint64_t head = xp_call_ring_hold(ring, window->process->rings->stopped);
	uint64_t left;
	size_t room, count;

	newest.end = XP_MIN(range->end, head);
	left = newest.end > ring->next ? XP_MIN(newest.end - ring->next, ring->mask + 1) : 0;
	room = left + 2 * XP_CALL_RING_HOLES;
	window->calls = malloc(room * sizeof(*window->calls));
	if (window->calls) {
		do {
			count = xp_call_ring_take(ring, &newest, window->calls + window->count, room - window->count);
			window->count += count;
		} while (count && window->count < room);
	}
	xp_call_ring_release(ring);
	return window->calls ? 0 : -ENOMEM;
}

static int discard_chunk(void *arg, struct xp_thread *thread)
{
	(void)arg;
	(void)thread;
	return 0;
}

/* Of older calls that are not known. */
struct exits {
	struct xp_open_call *list; /* of the innermost call first */
	size_t count;
	size_t room;
};

static int add_exit(struct exits *exits, struct xp_call call)
{
	if (exits->count == XP_FRAMES_MAX)
		return 0;
	if (XP_ARRAY_RESERVE(exits->list, exits->room, exits->count + 1))
		return -ENOMEM;
	exits->list[exits->count++] = (struct xp_open_call){ call.word & XP_FN_MAX, call.slot };
	return 0;
}

/* A thread that knows none of the older calls has no use for their exits. The work is bounded. */
static int find_exits(const struct window *window, struct exits *exits)
{
	const struct xp_thread_options options = { .sink = discard_chunk };
	struct xp_process *process = window->process;
	const uint64_t frames_max = XP_RING_WORK - XP_MIN(process->reading.work, XP_RING_WORK);
	struct xp_thread *thread;
	int err = xp_thread_new(&thread, &options, 0);

	if (err)
		return err;
	for (size_t i = 0; i < window->count && !err && thread->search.frames < frames_max; i++) {
		uint64_t unmatched = thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT];
		struct xp_call call;

		if (!xp_ring_call_convert(process, &window->calls[i], &call, false))
			continue;
		err = xp_thread_put(thread, window->calls[i].cpu, call);
		if (!err && thread->counts.filtered[XP_FILTER_UNMATCHED_EXIT] > unmatched)
			err = add_exit(exits, call);
	}
	xp_ring_count_work(process, thread->search.frames);
	xp_thread_free(thread);
	return err;
}

/*
 * The calls of the window begin inside older ones, which are not known. Those that have ended since are known by their
 * exits: the thread enters them. The others are not known to be open.
 */
static int begin_inside(struct window *window)
{
	struct exits exits = { 0 };
	int err = window->count ? find_exits(window, &exits) : 0;

	for (size_t i = 0; i < exits.count / 2; i++) {
		struct xp_open_call inner = exits.list[i];

		exits.list[i] = exits.list[exits.count - 1 - i];
		exits.list[exits.count - 1 - i] = inner;
	}
	if (!err && window->count)
		err = xp_thread_skip(window->thread, exits.list, (uint32_t)exits.count, window->calls[0].cpu,
				     window->calls[0].tsc);
	free(exits.list);
	return err;
}

/* They are lost: there is no thread to count for, or the process makes too much work. */
static void count_unstored(struct xp_counts *counts, size_t count)
{
	counts->seen += count;
	counts->unstored += count;
}

static int record(struct window *window)
{
	struct xp_thread *thread = window->thread;
	int err = 0;

	for (size_t i = 0; i < window->count; i++) {
		uint64_t looked = thread->search.frames;
		struct xp_call call;

		if (xp_ring_turn_is_over(window->process)) {
			count_unstored(&thread->counts, window->count - i);
			break;
		}
		if (!window->ring->borrower && xp_ring_call_convert(window->process, &window->calls[i], &call, true))
			err = xp_thread_put(thread, window->calls[i].cpu, call) ?: err;
		else
			xp_thread_filter(thread, XP_FILTER_OUTSIDE);
		xp_ring_count_work(window->process, thread->search.frames - looked);
	}
	return err;
}

int xp_ring_window_take(struct xp_process *process, struct xp_thread_ring *ring, pid_t tid,
			const struct xp_call_range *range)
{
	struct window window = { .process = process, .ring = ring };
	const uint64_t begin_tsc = xp_clock_now_tsc();
	int err = copy_calls(&window, range), thread_err = 0;
	uint64_t overwritten = ring->ring.overwritten;
	struct xp_counts *counts;

	xp_ring_count_reading(process, begin_tsc, window.count + WINDOW_CALLS);
	ring->ring.overwritten = 0;
	thread_err = xp_processes_thread(process->all, process->pid, tid, &window.thread);
	counts = window.thread ? &window.thread->counts : &process->sums.counts;
	xp_ring_count_taken_back(counts, ring, range);
	counts->seen += overwritten;
	counts->overwritten += overwritten;
	counts->in_memory += overwritten + window.count;
	if (!window.thread)
		count_unstored(counts, window.count);
	else if (overwritten)
		err = begin_inside(&window) ?: err;
	if (window.thread)
		err = record(&window) ?: err;
	free(window.calls);
	return thread_err ? thread_err : err;
}
