/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "trace/thread_stacks.h"
#include "trace/thread_run.h"

const char *xp_filter_name(enum xp_filter filter)
{
	static const char *const names[XP_FILTERS] = {
		[XP_FILTER_UNMATCHED_EXIT] = "unmatched_exit",
		[XP_FILTER_MIN_DURATION] = "min_duration",
		[XP_FILTER_TOO_DEEP] = "too_deep",
		[XP_FILTER_OUTSIDE] = "outside",
	};

	return names[filter];
}

void xp_counts_add(struct xp_counts *sum, const struct xp_counts *counts)
{
	sum->seen += counts->seen;
	sum->written += counts->written;
	for (int i = 0; i < XP_FILTERS; i++)
		sum->filtered[i] += counts->filtered[i];
	sum->unstored += counts->unstored;
	sum->overwritten += counts->overwritten;
	sum->synthesized += counts->synthesized;
	sum->carried += counts->carried;
	sum->in_memory += counts->in_memory;
}

void xp_counts_filter(struct xp_counts *counts, enum xp_filter filter, uint64_t records)
{
	counts->seen += records;
	counts->filtered[filter] += records;
}

uint64_t xp_counts_filtered(const struct xp_counts *counts)
{
	uint64_t sum = 0;

	for (int i = 0; i < XP_FILTERS; i++)
		sum += counts->filtered[i];
	return sum;
}

int xp_thread_new(struct xp_thread **result, const struct xp_thread_options *options, pid_t tid)
{
	struct xp_thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		return -ENOMEM;
	thread->options = options;
	thread->tid = tid;
	thread->first = thread->now = thread;
	*result = thread;
	return 0;
}

static int grow(struct xp_thread *thread);

int xp_thread_new_stack(struct xp_thread **stack, struct xp_thread *first, pid_t tid)
{
	int err = xp_thread_new(stack, first->options, tid);

	if (err)
		return err;
	(*stack)->first = first;
	(*stack)->shared_frames = &first->stacks.frames;
	err = grow(*stack);
	if (err)
		xp_thread_free(*stack);
	return err;
}

void xp_thread_free(struct xp_thread *thread)
{
	if (!thread)
		return;
	free(thread->enc.buf);
	free(thread->frames);
	free(thread->marks);
	free(thread->watched);
	free(thread->delays);
	free(thread->stacks.places);
	free(thread);
}

static void drop_chunk(struct xp_thread *thread)
{
	free(thread->enc.buf);
	memset(&thread->enc, 0, sizeof(thread->enc));
	thread->chunk_number++;
	thread->chunk_written = thread->chunk_carried = 0;
}

int xp_thread_flush(struct xp_thread *thread)
{
	int err = 0;

	if (!thread->enc.buf)
		return 0;
	if (thread->chunk_written || thread->chunk_carried)
		err = thread->options->sink(thread->options->arg, thread);
	if (err) {
		uint64_t *instead = err == XP_CHUNK_KEPT ? &thread->counts.overwritten : &thread->counts.unstored;

		thread->counts.written -= thread->chunk_written;
		*instead += thread->chunk_written;
	}
	drop_chunk(thread);
	return err == XP_CHUNK_KEPT ? 0 : err;
}

/* Starts a chunk if there is none. */
static int chunk_ready(struct xp_thread *thread, uint16_t cpu, uint64_t tsc)
{
	bool is_large = !thread->shared_frames || (thread->had_no_room && !thread->goroutine);
	size_t bytes = is_large ? XP_CHUNK_BYTES : XP_STACK_CHUNK_BYTES;
	uint8_t *buf;

	if (thread->enc.buf)
		return 0;
	buf = malloc(bytes);
	if (!buf)
		return -ENOMEM;
	thread->had_no_room = false;
	xp_fdr_enc_begin(&thread->enc, buf, bytes, cpu, tsc);
	thread->chunk_tsc = tsc;
	return 0;
}

/* Puts a record with `encode`, into a new chunk if this one is full. A macro: each kind has other arguments. */
#define PUT(thread, cpu, tsc, encode)                                                                                  \
	({                                                                                                             \
		int err_ = chunk_ready(thread, cpu, tsc);                                                              \
		if (!err_)                                                                                             \
			err_ = (encode);                                                                               \
		if (err_ == -ENOSPC) {                                                                                 \
			(thread)->had_no_room = true;                                                                  \
			err_ = xp_thread_flush(thread);                                                                \
			if (!err_)                                                                                     \
				err_ = chunk_ready(thread, cpu, tsc);                                                  \
			if (!err_)                                                                                     \
				err_ = (encode);                                                                       \
		}                                                                                                      \
		err_;                                                                                                  \
	})

/* Counts a record, and whether it was written. */
static int account(struct xp_thread *thread, int err)
{
	if (err) {
		thread->counts.unstored++;
		return err;
	}
	thread->counts.written++;
	thread->chunk_written++;
	return 0;
}

static int filtered(struct xp_thread *thread, enum xp_filter filter)
{
	thread->counts.filtered[filter]++;
	return 0;
}

int xp_thread_filter(struct xp_thread *thread, enum xp_filter filter)
{
	thread->counts.seen++;
	return filtered(thread, filter);
}

static bool is_watched(const struct xp_thread *thread, uint32_t fn_id)
{
	const struct xp_watched *watched = thread->options->watched;

	return watched && watched->by_id && watched->by_id[fn_id];
}

/* Removes watched calls that were abandoned: another call has their frame, or an outer call has ended. */
static void leave_watched(struct xp_thread *thread, uint32_t frames)
{
	while (thread->watched_count && thread->watched[thread->watched_count - 1].frame >= frames)
		thread->watched_count--;
}

static int begin_watched(struct xp_thread *thread, uint64_t tsc)
{
	leave_watched(thread, thread->depth);
	return XP_ARRAY_ADD(thread->watched, thread->watched_count, thread->watched_room,
			    (struct xp_watched_call){ tsc, thread->depth });
}

/* Ends the watched call of that frame. Calls that began before the recording, or were forgotten, are unknown. */
static void end_watched(struct xp_thread *thread, uint32_t fn_id, uint32_t frame, uint64_t tsc)
{
	const struct xp_watched_call *call;

	leave_watched(thread, frame + 1);
	if (!thread->watched_count)
		return;
	call = &thread->watched[thread->watched_count - 1];
	if (call->frame != frame)
		return;
	thread->watched_count--;
	thread->options->watched_end(thread->options->arg, thread,
				     &(struct xp_ended_call){ fn_id, frame, call->tsc, tsc });
}

/* Ends the call at the top. It stays open until its exit is written, even if the chunk has no space for the exit. */
static int put_exit(struct xp_thread *thread, uint16_t cpu, uint64_t tsc, uint32_t fn_id,
		    enum xp_fdr_function_kind kind)
{
	int err = PUT(thread, cpu, tsc, xp_fdr_enc_function(&thread->enc, cpu, tsc, fn_id, kind));

	thread->depth--;
	return err;
}

static int synthesize_exits(struct xp_thread *thread, uint32_t depth, uint16_t cpu, uint64_t tsc)
{
	while (thread->depth > depth) {
		uint32_t of_frame = thread->frames[thread->depth - 1].fn_id, fn_id = of_frame & ~XP_FRAME_FORGOTTEN;
		int err = put_exit(thread, cpu, tsc, fn_id, XP_FDR_EXIT);

		if (err)
			return err;
		if (is_watched(thread, fn_id) && !(of_frame & XP_FRAME_FORGOTTEN))
			end_watched(thread, fn_id, thread->depth, tsc);
		thread->counts.synthesized++;
		if (thread->options->synthesized)
			thread->options->synthesized(thread->options->arg, fn_id);
	}
	return 0;
}

/* Ends the calls at the top that will have no exit. */
static int end_forgotten(struct xp_thread *thread, uint16_t cpu, uint64_t tsc)
{
	uint32_t depth = thread->depth;

	while (depth && thread->frames[depth - 1].fn_id & XP_FRAME_FORGOTTEN)
		depth--;
	return synthesize_exits(thread, depth, cpu, tsc);
}

int xp_thread_forget_if(struct xp_thread *thread, bool (*gone)(const void *arg, uint32_t fn_id), const void *arg)
{
	bool any = false;

	for (uint32_t i = 0; i < thread->depth; i++)
		if (gone(arg, thread->frames[i].fn_id & ~XP_FRAME_FORGOTTEN)) {
			thread->frames[i].fn_id |= XP_FRAME_FORGOTTEN;
			any = true;
		}
	return any ? end_forgotten(thread, thread->enc.cpu, thread->last_tsc) : 0;
}

static bool is_function(const void *arg, uint32_t fn_id)
{
	return *(const uint32_t *)arg == fn_id;
}

int xp_thread_forget(struct xp_thread *thread, uint32_t fn_id)
{
	return xp_thread_forget_if(thread, is_function, &fn_id);
}

/* First capacity of a further stack, and limit of all of them. */
#define STACK_FRAMES 16
#define STACK_FRAMES_MAX (2 * XP_FRAMES_MAX)

static int grow(struct xp_thread *thread)
{
	uint32_t room = thread->room ? 2 * thread->room : thread->shared_frames ? STACK_FRAMES : 64;
	struct xp_open_call *frames = realloc(thread->frames, room * sizeof(*frames));
	struct xp_open_call_mark *marks;

	if (!frames)
		return -ENOMEM;
	thread->frames = frames;
	if (thread->options->min_ticks) {
		marks = realloc(thread->marks, room * sizeof(*marks));
		if (!marks)
			return -ENOMEM;
		thread->marks = marks;
	}
	if (thread->shared_frames)
		*thread->shared_frames += room - thread->room;
	thread->room = room;
	return 0;
}

/* Returns whether the limit of open calls is reached. A thread's further stacks, or all goroutines, share it. */
static bool is_too_deep(const struct xp_thread *thread)
{
	return thread->depth == XP_FRAMES_MAX || (thread->depth == thread->room && thread->shared_frames &&
						  *thread->shared_frames + thread->room > STACK_FRAMES_MAX);
}

/*
 * How many frames a search may visit: a minimum, plus those that earlier records have not used. So a throw in a deep
 * recursion finds its catcher, after as many entries. But records that match no frame, which a process can forge, do
 * not each cost a search of all frames.
 */
#define SEARCH_FRAMES_MIN 1024u
#define SEARCH_FRAMES_SAVED 64u /* added by each record */

/* Begins a search from the top down. Returns the last frame to visit. */
static uint32_t search_begin(struct xp_thread *thread)
{
	struct xp_frame_search *search = &thread->search;
	uint64_t saved = search->saved + SEARCH_FRAMES_SAVED * (thread->counts.seen - search->seen);

	search->seen = thread->counts.seen;
	search->saved = (uint32_t)XP_MIN(saved, XP_FRAMES_MAX);
	return thread->depth - XP_MIN(thread->depth, XP_MAX(search->saved, SEARCH_FRAMES_MIN));
}

/* Ends a search. i: the last visited frame. */
static void search_end(struct xp_thread *thread, uint32_t i)
{
	struct xp_frame_search *search = &thread->search;
	uint32_t count = thread->depth - i;

	search->frames += count;
	search->saved -= XP_MIN(search->saved, count);
}

/* Returns the frame with this slot; depth if there is none. */
static uint32_t frame_at(struct xp_thread *thread, uint32_t slot)
{
	const uint32_t last = search_begin(thread);
	uint32_t i = thread->depth, found = thread->depth;

	while (i > last && found == thread->depth)
		if (thread->frames[--i].slot == slot)
			found = i;
	search_end(thread, i);
	return found;
}

/* Returns whether two slots are so far apart that they must be on different stacks. */
static bool far_apart(uint32_t a, uint32_t b)
{
	return a - b + XP_STACK_SLOTS > 2 * XP_STACK_SLOTS;
}

/*
 * Returns the frame that a call at this slot replaces; it and the frames above it were abandoned. depth: none. The
 * frames above must be abandoned, too: a frame higher on the same stack is a caller of the new call, and a frame on
 * another stack may have been interrupted by the new call, if that is the first call on its stack (a signal handler).
 */
static uint32_t frame_replaced(struct xp_thread *thread, uint32_t slot)
{
	const struct xp_open_call *frames = thread->frames;
	const uint32_t last = search_begin(thread);
	uint32_t i = thread->depth, found = thread->depth;
	bool switched = false;

	while (i > last) {
		if (frames[--i].slot == slot) {
			found = switched && i && far_apart(frames[i - 1].slot, slot) ? thread->depth : i;
			break;
		}
		if (far_apart(frames[i].slot, slot))
			switched = true;
		else if ((int32_t)(frames[i].slot - slot) > 0)
			break;
	}
	search_end(thread, i);
	return found;
}

/*
 * Like frame_replaced(), for a goroutine, which has one stack: all frames not above the slot were abandoned by a panic,
 * by runtime.Goexit(), or by an earlier goroutine with the same struct g.
 */
static uint32_t frame_replaced_by_goroutine(const struct xp_thread *thread, uint32_t slot)
{
	uint32_t i = thread->depth;

	while (i && (int32_t)(slot - thread->frames[i - 1].slot) >= 0)
		i--;
	return i;
}

static int put_entry(struct xp_thread *thread, const struct xp_call *call)
{
	const struct xp_event_args *args = (const struct xp_event_args *)call->event;
	const uint32_t fn_id = xp_call_fn(call);
	const uint16_t cpu = call->cpu;

	if (args)
		return PUT(
		    thread, cpu, call->tsc,
		    xp_fdr_enc_args(&thread->enc, cpu, call->tsc, fn_id, (const uint64_t *)args->args, args->count));
	return PUT(thread, cpu, call->tsc, xp_fdr_enc_function(&thread->enc, cpu, call->tsc, fn_id, XP_FDR_ENTER));
}

static int enter(struct xp_thread *thread, const struct xp_call *call)
{
	uint32_t depth = thread->depth;
	int err = 0;

	/* A nested call is at a lower address; anything else means an abandoned frame or another stack. */
	if (thread->goroutine)
		depth = frame_replaced_by_goroutine(thread, call->slot);
	else if (depth && (int32_t)(call->slot - thread->frames[depth - 1].slot) >= 0)
		depth = frame_replaced(thread, call->slot);
	if (depth < thread->depth)
		err = synthesize_exits(thread, depth, call->cpu, call->tsc);
	if (!err && is_too_deep(thread)) {
		thread->too_deep++;
		return filtered(thread, XP_FILTER_TOO_DEEP);
	}
	if (!err && thread->depth == thread->room)
		err = grow(thread);
	if (!err && is_watched(thread, xp_call_fn(call)))
		err = begin_watched(thread, call->tsc);
	if (err)
		return account(thread, err);

	thread->frames[thread->depth] = (struct xp_open_call){ xp_call_fn(call), call->slot, call->tsc };
	if (thread->marks)
		thread->marks[thread->depth] =
		    (struct xp_open_call_mark){ xp_fdr_enc_mark(&thread->enc), 0, thread->chunk_number };
	err = put_entry(thread, call);
	if (account(thread, err))
		return err;
	if (thread->marks)
		thread->marks[thread->depth].end = thread->enc.len;
	thread->depth++;
	return 0;
}

int xp_thread_begin_part(struct xp_thread *thread)
{
	int err = 0;

	drop_chunk(thread);
	thread->counts = (struct xp_counts){ 0 };
	thread->clamped = 0;
	thread->search.seen = 0;
	for (uint32_t i = 0; i < thread->depth && !err; i++) {
		const struct xp_open_call *call = &thread->frames[i];
		const uint16_t cpu = thread->enc.cpu;

		err = PUT(
		    thread, cpu, call->tsc,
		    xp_fdr_enc_function(&thread->enc, cpu, call->tsc, call->fn_id & ~XP_FRAME_FORGOTTEN, XP_FDR_ENTER));
		thread->counts.carried += !err;
		thread->chunk_carried += !err;
	}
	return err;
}

/* Returns the frame that this exit ends; depth if there is none. */
static uint32_t frame_of_exit(struct xp_thread *thread, const struct xp_call *call)
{
	uint32_t fn_id = xp_call_fn(call);
	const struct xp_open_call *top;
	uint32_t i;

	if (!thread->depth)
		return 0;
	top = &thread->frames[thread->depth - 1];
	if (top->fn_id == fn_id && top->slot == call->slot)
		return thread->depth - 1;
	i = frame_at(thread, call->slot);
	if (i < thread->depth && thread->frames[i].fn_id == fn_id)
		return i;
	/* In some calling conventions (tailcc, swifttailcc), a tail call moves the return address. */
	if (xp_call_kind(call) == XP_EVENT_TAIL_EXIT && top->fn_id == fn_id)
		return thread->depth - 1;
	return thread->depth;
}

/* Discards the entry of a call that was too short, if nothing was written since. */
static bool take_back(struct xp_thread *thread, uint32_t frame, uint64_t tsc)
{
	const struct xp_open_call_mark *mark = &thread->marks[frame];

	if (tsc - thread->frames[frame].tsc >= thread->options->min_ticks || mark->chunk != thread->chunk_number ||
	    mark->end != thread->enc.len)
		return false;
	if (mark->before.len) {
		xp_fdr_enc_rewind(&thread->enc, mark->before);
	} else {
		/* The entry was the chunk's first record. */
		xp_fdr_enc_begin(&thread->enc, thread->enc.buf, thread->enc.cap, thread->enc.cpu, thread->chunk_tsc);
	}
	thread->chunk_written--;
	thread->counts.written--;
	thread->counts.filtered[XP_FILTER_MIN_DURATION] += 2;
	return true;
}

static int leave(struct xp_thread *thread, const struct xp_call *call)
{
	uint32_t frame = frame_of_exit(thread, call);
	int err;

	if (frame == thread->depth) {
		if (!thread->too_deep)
			return filtered(thread, XP_FILTER_UNMATCHED_EXIT);
		thread->too_deep--;
		return filtered(thread, XP_FILTER_TOO_DEEP);
	}
	thread->too_deep = 0;
	err = synthesize_exits(thread, frame + 1, call->cpu, call->tsc);
	if (err)
		return account(thread, err);
	if (is_watched(thread, xp_call_fn(call)))
		end_watched(thread, xp_call_fn(call), frame, call->tsc);
	if (thread->marks && take_back(thread, frame, call->tsc)) {
		thread->depth--;
		return 0;
	}
	err = account(thread, put_exit(thread, call->cpu, call->tsc, xp_call_fn(call), xp_call_fdr_kind(call)));
	return err ? err : end_forgotten(thread, call->cpu, call->tsc);
}

/* Counts the record. Returns its TSC, raised to that of the previous record if needed. */
static uint64_t see(struct xp_thread *thread, uint64_t tsc)
{
	thread->counts.seen++;
	if (tsc < thread->last_tsc) {
		thread->clamped++;
		return thread->last_tsc;
	}
	thread->last_tsc = tsc;
	return tsc;
}

/* A custom or typed event. */
static int put_event(struct xp_thread *thread, const struct xp_call *call)
{
	const struct xp_event_payload *event = (const struct xp_event_payload *)call->event;
	const uint64_t tsc = call->tsc;
	const uint16_t cpu = call->cpu;
	int err;

	if (xp_call_kind(call) == XP_EVENT_TYPED)
		err = PUT(thread, cpu, tsc,
			  xp_fdr_enc_typed(&thread->enc, cpu, tsc, event->type, event->payload, event->size));
	else
		err = PUT(thread, cpu, tsc, xp_fdr_enc_custom(&thread->enc, cpu, tsc, event->payload, event->size));
	return account(thread, err);
}

static int put_on_stack(struct xp_thread *thread, struct xp_call call)
{
	call.tsc = see(thread, call.tsc);
	if (xp_call_is_entry(&call))
		return enter(thread, &call);
	return call.event ? put_event(thread, &call) : leave(thread, &call);
}

int xp_thread_put_any(struct xp_thread *thread, struct xp_call call)
{
	uint64_t frames;
	int err;

	if (thread->options->new_stack && !thread->goroutine)
		xp_stacks_choose(thread, &call);
	if (thread->now == thread)
		return put_on_stack(thread, call);
	/* The caller has counted the record for the thread. */
	thread->counts.in_memory -= call.in_memory;
	thread->now->counts.in_memory += call.in_memory;
	frames = thread->now->search.frames;
	err = put_on_stack(thread->now, call);
	thread->search.frames += thread->now->search.frames - frames;
	return err;
}
