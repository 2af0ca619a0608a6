// SPDX-License-Identifier: BSD-2-Clause
#include "trace/ring_recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/u64_map.h"
#include "base/util.h"
#include "target/target.h"
#include "trace/earlier_calls.h"
#include "trace/ring_calls.h"
#include "trace/spool_layout.h"

/* A spool may have been made by anybody: further stacks are empty. */
#define STACK_BYTES_MAX (16u << 20)

/* What the spool says about a thread. */
struct stack {
	uint64_t last_tsc; /* of its last chunk */
	uint32_t depth;
	struct xp_open_call frames[];
};

struct work {
	struct xp_ring_recovery *recovery;
	struct xp_spool *spool;
	struct xp_spool_rings *rings; /* NULL: none */
	struct xp_u64_map stacks;     /* by tid */
	struct xp_thread_options options;
	struct xp_thread *thread; /* the one whose calls are being taken */
	uint64_t stack_bytes;	  /* of the frames of all stacks */
	uint64_t end;		  /* of the frames of the spool so far */
	/* Where the frames of a recovery begin that was cut off; 0: there was none. */
	uint64_t cut_off_at;
	bool taken; /* an earlier recovery has stored all calls of the rings */
};

static int put_stack(struct work *work, int32_t tid, const struct xp_open_call *frames, size_t bytes, uint64_t tsc)
{
	struct stack *before = xp_u64_map_get(&work->stacks, (uint32_t)tid), *stack;
	int err;

	work->stack_bytes -= before ? before->depth * sizeof(*frames) : 0;
	if (bytes > XP_SPOOL_STACK_MAX * sizeof(*frames) || bytes > STACK_BYTES_MAX - work->stack_bytes)
		bytes = 0;
	stack = malloc(sizeof(*stack) + bytes);
	if (!stack)
		return -ENOMEM;
	stack->last_tsc = XP_MAX(tsc, before ? before->last_tsc : 0);
	stack->depth = (uint32_t)(bytes / sizeof(*frames));
	if (bytes)
		memcpy(stack->frames, frames, bytes);
	for (uint32_t i = 0; i < stack->depth; i++) /* a budget's mark is of no use any more */
		stack->frames[i].fn_id &= XP_FN_MAX;
	err = xp_u64_map_put(&work->stacks, (uint32_t)tid, stack);
	work->stack_bytes += err ? 0 : bytes;
	free(err ? stack : before);
	return err;
}

static int keep_rings(struct work *work, const uint8_t *bytes, size_t size)
{
	struct xp_spool_rings *copy = malloc(size + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, size);
	if (size < sizeof(*copy) || (size - sizeof(*copy)) / sizeof(copy->ranges[0]) < copy->range_count) {
		free(copy);
		return 0;
	}
	free(work->rings);
	work->rings = copy;
	return 0;
}

static int take_spool(void *arg, int kind, int32_t tid, uint64_t tsc, const uint8_t *bytes, size_t size)
{
	struct work *work = arg;
	uint64_t begin = work->end;

	work->end += sizeof(struct xp_spool_frame) + size;
	if (kind == XP_SPOOL_NOTE_TAKEN)
		work->taken = true;
	if (kind == XP_SPOOL_NOTE_TAKING && !work->cut_off_at)
		work->cut_off_at = begin;
	if (work->cut_off_at)
		return 0;
	switch (kind) {
	case 0:
		return put_stack(work, tid, NULL, 0, tsc);
	case XP_SPOOL_NOTE_STACK:
		return put_stack(work, tid, (const struct xp_open_call *)bytes,
				 size - size % sizeof(struct xp_open_call), 0);
	case XP_SPOOL_NOTE_RINGS:
		return keep_rings(work, bytes, size);
	default:
		return 0;
	}
}

static int store_chunk(void *arg, struct xp_thread *thread)
{
	struct work *work = arg;

	return xp_spool_append(work->spool, thread->tid, thread->name, &thread->enc);
}

static int end_thread(struct work *work)
{
	int err;

	if (!work->thread)
		return 0;
	err = xp_thread_flush(work->thread);
	xp_counts_add(&work->recovery->counts, &work->thread->counts);
	xp_thread_free(work->thread);
	work->thread = NULL;
	return err;
}

/*
 * As xp_ring_call_convert() does it, by what the spool says of the functions. False: the process has no such function,
 * or it was not attached yet.
 */
static bool convert(void *arg, const struct xp_ring_call *from, struct xp_call *to)
{
	const struct xp_spool_rings *rings = arg;
	uint32_t kind = from->word >> XP_FN_BITS;

	if (kind > XP_EVENT_TAIL_EXIT)
		return false;
	for (uint64_t i = 0; i < rings->range_count; i++) {
		const struct xp_spool_range *range = &rings->ranges[i];
		uint32_t offset = (from->word & XP_FN_MAX) - range->fn_base - 1;

		if (offset >= range->function_count)
			continue;
		*to =
		    (struct xp_call){ from->tsc, xp_event_word(1 + offset + range->fdr_base, (enum xp_event_kind)kind),
				      xp_ring_return_slot(from->sp, kind) };
		return from->tsc >= range->begin_tsc;
	}
	return false;
}

static int begin_thread(struct work *work, pid_t tid, const struct xp_newest_calls *calls, bool inside)
{
	const struct stack *stack = xp_u64_map_get(&work->stacks, (uint32_t)tid);
	uint64_t frames;
	int err;

	if (work->thread && work->thread->tid == tid)
		return 0;
	err = end_thread(work) ?: xp_thread_new(&work->thread, &work->options, tid);
	if (err)
		return err;
	xp_target_thread_name(work->recovery->pid, tid, work->thread->name);
	work->thread->log_chunk = UINT64_MAX; /* the log gets the entries of earlier calls, too */
	if (stack)
		return xp_thread_resume(work->thread, stack->frames, stack->depth, stack->last_tsc);
	return inside ? xp_earlier_calls_enter(work->thread, calls, &frames) : 0;
}

static int take_calls(void *arg, pid_t tid, const struct xp_ring_call *list, size_t count, bool inside)
{
	struct work *work = arg;
	const struct xp_newest_calls calls = { list, count, convert, work->rings, XP_RING_WORK };
	int err = begin_thread(work, tid, &calls, inside);

	for (size_t i = 0; i < count && !err; i++) {
		struct xp_call call;

		if (convert(work->rings, &list[i], &call))
			err = xp_thread_put(work->thread, list[i].cpu, call);
		else
			err = xp_thread_filter(work->thread, XP_FILTER_OUTSIDE);
	}
	return err;
}

/* All calls of the rings, or none: they stay with the process until they are stored. */
static int take(struct work *work, struct xp_left_rings *left)
{
	uint64_t begin = work->cut_off_at ? work->cut_off_at : work->end;
	int err = work->cut_off_at ? xp_spool_cut(work->spool, begin) : 0;

	work->options = (struct xp_thread_options){
		.min_ticks = work->rings->min_ticks,
		.sink = store_chunk,
		.arg = work,
	};
	err = err ?: xp_spool_note(work->spool, XP_SPOOL_NOTE_TAKING, 0, "", 0);
	err = err ?: xp_left_rings_take(left, take_calls, work, &work->recovery->left);
	err = end_thread(work) ?: err;
	err = err ?: xp_spool_note(work->spool, XP_SPOOL_NOTE_TAKEN, 0, "", 0);
	err = err ?: xp_spool_flush(work->spool);
	if (err)
		xp_spool_cut(work->spool, begin); /* if this fails, the next recovery does it */
	else
		xp_left_rings_clear(left);
	return err;
}

static void free_stacks(struct work *work)
{
	for (size_t i = 0; i < work->stacks.count; i++)
		free(work->stacks.entries[i].pointer);
	xp_u64_map_free(&work->stacks);
}

/* Whether it is still there: its PID may be another one's. */
static int find_process(const struct work *work, char *why, size_t why_size)
{
	pid_t pid = work->recovery->pid;
	uint64_t start_time;
	int err = xp_target_find_start_time(pid, &start_time);

	if (!err && start_time != work->rings->start_time)
		err = -ESRCH;
	if (err == -ESRCH)
		snprintf(why, why_size, "process %d has ended", pid);
	else if (err)
		snprintf(why, why_size, "cannot read the start time of process %d: %s", pid, strerror(-err));
	return err;
}

int xp_ring_recover(struct xp_ring_recovery *recovery, int dir_fd, const char *name, uint64_t patience_ns, char *why,
		    size_t why_size)
{
	struct work work = { .recovery = recovery, .end = XP_SPOOL_HEADER_BYTES };
	const struct xp_spool_taker taker = { take_spool, &work };
	struct xp_left_rings *left = NULL;
	int err;

	memset(recovery, 0, sizeof(*recovery));
	why[0] = 0;
	err = xp_spool_reopen(&work.spool, dir_fd, name, patience_ns, &recovery->pid, &taker);
	if (!err && (!work.rings || work.taken))
		err = -ENODATA;
	if (!err)
		err = find_process(&work, why, why_size);
	if (!err)
		err = xp_left_rings_open(&left, recovery->pid, work.rings->recording, why, why_size);
	if (!err) {
		err = take(&work, left);
		if (err)
			snprintf(why, why_size, "cannot store the calls that process %d holds in its memory: %s",
				 recovery->pid, strerror(-err));
	}
	xp_left_rings_free(left);
	xp_spool_free(work.spool);
	free_stacks(&work);
	free(work.rings);
	return err;
}

/* ---- of which recording it is ---- */

/* Ends the reading of a spool at the note that was looked for. */
#define FOUND (-EEXIST)

static int find_recording(void *arg, int kind, int32_t tid, uint64_t tsc, const uint8_t *bytes, size_t size)
{
	const uint64_t *recording = arg;
	struct xp_spool_rings rings;

	(void)tid;
	(void)tsc;
	if (kind != XP_SPOOL_NOTE_RINGS || size < sizeof(rings))
		return 0;
	memcpy(&rings, bytes, sizeof(rings));
	return memcmp(rings.recording, recording, sizeof(rings.recording)) ? 0 : FOUND;
}

bool xp_ring_recovery_is_of(int dir_fd, const char *name, uint64_t patience_ns, pid_t pid, const uint64_t recording[2])
{
	uint64_t wanted[2] = { recording[0], recording[1] }, end;
	const struct xp_spool_taker taker = { find_recording, wanted };
	int fd = xp_spool_open(dir_fd, name, patience_ns), err;
	pid_t its_pid = 0;

	if (fd < 0)
		return false;
	err = xp_spool_read(fd, name, &its_pid, &end, &taker);
	close(fd);
	return err == FOUND && its_pid == pid;
}
