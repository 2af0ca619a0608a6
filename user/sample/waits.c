// SPDX-License-Identifier: BSD-2-Clause
#include "sample/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

/* Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl) that wait for a lock or a condition variable. */
#define SYSCALL_FUTEX 202
#define SYSCALL_FUTEX_WAITV 449
#define SYSCALL_FUTEX_WAIT 455

#define ID_BITS 22 /* PID_MAX_LIMIT in include/linux/threads.h */

#define TOGETHER_BYTES (sizeof(struct xp_event_sample) + 2 * XP_SAMPLE_FRAMES_MAX * sizeof(__u64) + XP_STACK_BYTES_MAX)

void xp_waits_free(struct xp_waits *waits)
{
	for (size_t i = 0; i < waits->begins.count; i++)
		free(waits->begins.entries[i].pointer);
	xp_u64_map_free(&waits->begins);
	xp_u64_map_free(&waits->sums_by_thread);
	xp_first_stacks_free(waits->first);
	free(waits->sums);
	free(waits->together);
}

void xp_waits_begin_part(struct xp_waits *waits)
{
	xp_u64_map_free(&waits->sums_by_thread);
	waits->sums_by_thread = (struct xp_u64_map){ 0 };
	free(waits->sums);
	waits->sums = NULL;
	waits->sum_count = waits->sum_room = 0;
	waits->blocked_ns = waits->runnable_ns = 0;
}

/* ---- begins ---- */

static void forget(struct xp_waits *waits, uint32_t tid)
{
	struct xp_wait_begin *begin = xp_u64_map_get(&waits->begins, tid);

	if (!begin)
		return;
	waits->bytes -= offsetof(struct xp_wait_begin, record) + begin->size;
	xp_u64_map_remove(&waits->begins, tid);
	free(begin);
}

/*
 * Stores the start record of a wait. Replaces an earlier start record of the thread: its end was lost or too short to
 * be recorded.
 */
int xp_waits_begin(struct xp_waits *waits, const struct xp_arrival *arrival)
{
	const struct xp_event_sample *record = (const struct xp_event_sample *)arrival->event;
	size_t bare = sizeof(*record) + record->user_frames * sizeof(__u64);
	size_t size = bare + record->stack_bytes;
	struct xp_wait_begin *begin;
	int err;

	/* Start records of sampled waits have no kernel frames. */
	if (record->kernel_frames)
		return 0;
	forget(waits, record->head.tid);
	if (waits->bytes + offsetof(struct xp_wait_begin, record) + size > XP_WAITS_BYTES_MAX)
		size = bare;
	begin = malloc(offsetof(struct xp_wait_begin, record) + size);
	if (!begin)
		return -ENOMEM;
	begin->size = size;
	memcpy(&begin->record, record, size);
	if (size == bare && record->stack_bytes) {
		begin->record.stack_bytes = 0;
		begin->record.head.word |= XP_SAMPLE_NO_ROOM;
	}
	err = xp_u64_map_put(&waits->begins, record->head.tid, begin);
	if (err) {
		free(begin);
		return err;
	}
	waits->bytes += offsetof(struct xp_wait_begin, record) + size;
	return 0;
}

/* ---- ends ---- */

static enum xp_wait_state state_of(const struct xp_event_wait *end)
{
	bool is_lock =
	    end->syscall == SYSCALL_FUTEX || end->syscall == SYSCALL_FUTEX_WAITV || end->syscall == SYSCALL_FUTEX_WAIT;

	if (!end->state)
		return XP_WAIT_PREEMPTED;
	if (end->state & XP_TASK_INTERRUPTIBLE)
		return is_lock ? XP_WAIT_LOCK : XP_WAIT_SLEEP;
	if (end->state & XP_TASK_UNINTERRUPTIBLE)
		return end->state & XP_TASK_NOLOAD ? XP_WAIT_IDLE : XP_WAIT_DISK;
	if (end->state & XP_TASK_TRACED)
		return XP_WAIT_TRACED;
	return end->state & XP_TASK_STOPPED ? XP_WAIT_STOPPED : XP_WAIT_OTHER;
}

static struct xp_wait_record describe(const struct xp_event_wait *end, bool has_stack)
{
	struct xp_wait_record wait = {
		.blocked_ns = end->blocked_ns,
		.runnable_ns = end->runnable_ns,
		.chance = end->chance,
		.state = state_of(end),
		.flags = end->flags | (has_stack ? 0 : XP_WAIT_NO_STACK),
		.syscall = end->syscall >= 0 && end->syscall <= INT32_MAX ? (int32_t)end->syscall : -1,
		.waker_pid = (int32_t)end->waker_pid,
		.waker_tid = (int32_t)end->waker_tid,
	};

	if (wait.state == XP_WAIT_LOCK && end->syscall != SYSCALL_FUTEX_WAITV)
		wait.lock = end->argument;
	memcpy(wait.waker_comm, end->waker_comm, sizeof(wait.waker_comm));
	return wait;
}

/* Combines the user frames of a start record (NULL: none) and the kernel frames of an end record. Returns the size. */
static size_t put_together(uint8_t *to, const struct xp_wait_begin *begin, const struct xp_event_wait *end)
{
	struct xp_event_sample *record = (struct xp_event_sample *)to;
	uint32_t flags = (xp_event_fn(&end->head) & (XP_SAMPLE_KTHREAD | XP_SAMPLE_NO_USER)) | XP_SAMPLE_KERNEL;
	size_t kernel_bytes = end->kernel_frames * sizeof(__u64);

	if (begin) {
		*record = begin->record;
		flags |= xp_event_fn(&begin->record.head);
	} else {
		*record = (struct xp_event_sample){ .ip = end->ip };
		flags |= XP_SAMPLE_NO_ROOM;
	}
	if (end->syscall >= 0)
		flags |= XP_SAMPLE_SYSCALL;
	record->head = end->head;
	record->head.word = xp_event_word(flags, XP_EVENT_SAMPLE);
	memcpy(record->comm, end->comm, sizeof(record->comm));
	record->kernel_frames = end->kernel_frames;
	to += sizeof(*record);
	memcpy(to, end + 1, kernel_bytes);
	to += kernel_bytes;
	if (begin)
		memcpy(to, &begin->record + 1, begin->size - sizeof(begin->record));
	return sizeof(*record) + kernel_bytes + (begin ? begin->size - sizeof(begin->record) : 0);
}

int xp_waits_end(struct xp_waits *waits, const struct xp_arrival *arrival)
{
	const struct xp_event_wait *end = (const struct xp_event_wait *)arrival->event;
	const struct xp_wait_begin *begin;
	struct xp_wait_begin *first;
	bool has_user = !(xp_event_fn(&end->head) & XP_SAMPLE_NO_USER);
	struct xp_samples_wait wait = { .tsc = arrival->tsc, .cpu = arrival->cpu };
	double weight;
	int err;

	if (!waits->together)
		waits->together = malloc(TOGETHER_BYTES);
	if (!waits->together)
		return -ENOMEM;
	first = xp_first_stacks_take(waits->first, end->head.tid, end->began, end->head.time);
	begin = first ?: xp_u64_map_get(&waits->begins, end->head.tid);
	if (begin && (begin->record.head.time != end->began || begin->record.head.pid != end->head.pid))
		begin = NULL;
	wait.record = (const struct xp_event_sample *)waits->together;
	wait.size = put_together(waits->together, begin, end);
	wait.wait = describe(end, begin || !has_user);
	err = xp_samples_wait(waits->samples, &wait);
	weight = xp_wait_record_weight(&wait.wait);
	waits->blocked_ns += weight * (double)end->blocked_ns;
	waits->runnable_ns += weight * (double)end->runnable_ns;
	forget(waits, end->head.tid);
	free(first);
	return err;
}

/* ---- sums ---- */

/* Returns the number of the image that a process runs at the time of this record. */
static unsigned int image_of(const struct xp_waits *waits, pid_t pid)
{
	const struct xp_sampled_process *process =
	    waits->samples ? xp_sampled_processes_find(&waits->samples->processes, pid) : NULL;

	return process ? process->image_number : 1;
}

int xp_waits_sum(struct xp_waits *waits, const struct xp_arrival *arrival)
{
	const struct xp_event_wait_sum *from = (const struct xp_event_wait_sum *)arrival->event;
	bool is_one_too_many = waits->sum_count >= XP_WAIT_SUMS_MAX;
	pid_t pid = waits->sum_count >= 2 * XP_WAIT_SUMS_MAX ? 0 : (pid_t)from->head.pid;
	pid_t tid = is_one_too_many ? 0 : (pid_t)from->head.tid;
	unsigned int image = pid ? image_of(waits, pid) : 0;
	uint64_t key = (uint64_t)image << (2 * ID_BITS) | (uint64_t)pid << ID_BITS | (uint32_t)tid;
	uint32_t *index = xp_u64_map_find(&waits->sums_by_thread, key);
	struct xp_wait_sum *sum;
	int err;

	forget(waits, from->head.tid);
	free(xp_first_stacks_take(waits->first, from->head.tid, 0, 0));
	if (!index) {
		err = XP_ARRAY_RESERVE(waits->sums, waits->sum_room, waits->sum_count + 1);
		if (err)
			return err;
		index = xp_u64_map_add(&waits->sums_by_thread, key, waits->sum_count);
		if (!index)
			return -ENOMEM;
		waits->sums[waits->sum_count++] =
		    (struct xp_wait_sum){ .pid = pid, .tid = tid, .image = image, .goes_on = true };
	}
	sum = &waits->sums[*index];
	memcpy(sum->comm, from->comm, sizeof(sum->comm));
	sum->span_ns += from->span_ns;
	sum->blocked_ns += from->blocked_ns;
	sum->runnable_ns += from->runnable_ns;
	sum->waits += from->waits;
	sum->missed += from->missed;
	sum->goes_on &= (xp_event_fn(&from->head) & XP_WAIT_SUM_EXEC) != 0;
	return 0;
}
