// SPDX-License-Identifier: BSD-2-Clause
#include "trace/ring_calls.h"

#include "base/util.h"
#include "trace/thread_run.h"

#define CALLS_PER_RUN 1024 /* after this many, the writer gets the space back */
#define CALLS_PER_TAKE 16  /* calls after a call that is not plain usually are plain */
#define CALLS_PER_TAKE_MAX 256

/* The functions of one object whose plain calls are read. */
struct plain_functions {
	uint32_t first; /* their numbers */
	uint32_t count;
	uint32_t to_log;     /* their ids in the log are this much more, modulo 2^32 */
	uint64_t begin_tsc;  /* when their sleds, and those of all processes, were attached */
	uint32_t tail_exits; /* XP_EVENT_TAIL_EXIT if these become exits: see xp_thread_take() */
	struct xp_function_budget *budget;
};

static bool find_plain_functions(const struct xp_process *process, uint32_t fn, struct plain_functions *functions)
{
	uint32_t id;
	const struct xp_range *range = xp_functions_find(&process->functions, fn, &id);

	if (!range || fn != range->fn_base + id)
		return false;
	*functions = (struct plain_functions){
		.first = range->fn_base + 1,
		.count = range->function_count,
		.to_log = range->fdr_base - range->fn_base,
		.begin_tsc = XP_MAX(range->sleds.begin_tsc, process->all->begin_tsc),
		.tail_exits = range->object->plan ? XP_EVENT_TAIL_EXIT : 0,
		.budget = range->budget,
	};
	return true;
}

/* Times of records, with the CPU: all plain calls of a run have the upper bits of now, and the same CPU. */
struct plain_times {
	uint64_t tsc_high;
	uint64_t last; /* time of the thread's last call */
	uint64_t end;
};

/* Returns false if no call is plain, because the upper bits have changed. */
static bool find_plain_times(const struct xp_thread *thread, const struct xp_call_range *range,
			     struct plain_times *times)
{
	const uint64_t low = UINT64_MAX >> XP_CALL_CPU_BITS, high = range->now_tsc & ~low;
	const uint64_t end_tsc = XP_MIN(range->until_tsc, thread->process->all->stop_tsc);

	if ((thread->last_tsc & ~low) != high || end_tsc < high)
		return false;
	*times = (struct plain_times){
		.tsc_high = high,
		.last = thread->last_tsc << XP_CALL_CPU_BITS | thread->enc.cpu,
		.end = end_tsc - high > low ? UINT64_MAX : (end_tsc - high) << XP_CALL_CPU_BITS,
	};
	return true;
}

/*
 * Reads plain calls, up to the first other call. The process may write anything into the ring at any time: each field
 * was read once, into the cursor. Returns their number. looked_at: functions may have a budget, or be watched; a
 * constant, so that the loop has no tests for that if they do not.
 */
static inline __attribute__((always_inline)) size_t take_run(struct xp_thread *thread, struct xp_call_ring *ring,
							     const struct xp_call_range *range, bool looked_at)
{
	struct xp_call_cursor cursor = xp_call_cursor_begin(ring, range, CALLS_PER_RUN);
	struct xp_thread_run run = xp_thread_run_begin(thread, thread->enc.cpu);
	struct plain_functions functions = { 0 };
	const uint64_t begin = cursor.next;
	struct plain_times times;

	if (!find_plain_times(thread, range, &times))
		return 0;
	if (!looked_at)
		run.watched = NULL;
	while (cursor.next < cursor.end && cursor.word) {
		const struct xp_call_behind behind = xp_call_cursor_behind(&cursor);
		const uint64_t since_last = cursor.time - times.last;
		uint32_t word = (uint32_t)cursor.word, kind = word >> XP_FN_BITS, fn = word & XP_FN_MAX;
		struct xp_function_budget *budget = NULL;

		/* One test for three conditions: not older, within 32 bits of the previous record, and the same CPU. */
		if (since_last & ~((uint64_t)UINT32_MAX << XP_CALL_CPU_BITS) || cursor.time >= times.end ||
		    kind > XP_EVENT_TAIL_EXIT || !xp_call_cursor_is_ordered(&cursor, behind))
			break;
		/* Later records are not older. */
		if (fn - functions.first >= functions.count &&
		    (!find_plain_functions(thread->process, fn, &functions) ||
		     (times.tsc_high | cursor.time >> XP_CALL_CPU_BITS) < functions.begin_tsc ||
		     (!looked_at && functions.budget)))
			break;
		if (looked_at && functions.budget) {
			budget = &functions.budget[1 + fn - functions.first];
			if (xp_function_is_out(budget, times.tsc_high | cursor.time >> XP_CALL_CPU_BITS))
				break;
		}
		word -= (kind & functions.tail_exits) / 2 << XP_FN_BITS;
		if (!xp_thread_run_put(&run, since_last >> XP_CALL_CPU_BITS, word + functions.to_log,
				       xp_call_record_slot((uint32_t)(cursor.word >> 32), kind),
				       times.tsc_high | cursor.time >> XP_CALL_CPU_BITS))
			break;
		times.last = cursor.time;
		xp_call_cursor_take(&cursor, behind);
		if (budget && kind == XP_EVENT_ENTRY)
			xp_process_count_entry(thread->process, budget, true);
	}
	run.last_tsc = times.tsc_high | times.last >> XP_CALL_CPU_BITS;
	xp_thread_run_end(thread, &run);
	xp_call_ring_advance(ring, cursor.next);
	return cursor.next - begin;
}

static size_t take_plain(struct xp_thread *thread, struct xp_call_ring *ring, const struct xp_call_range *range)
{
	if (thread->process->all->accounts.kept || thread->options->watched)
		return take_run(thread, ring, range, true);
	return take_run(thread, ring, range, false);
}

bool xp_ring_turn_is_over(const struct xp_process *process)
{
	const struct xp_ring_reading *reading = &process->reading;

	return reading->work >= XP_RING_WORK || (reading->until_tsc && xp_clock_now_tsc() >= reading->until_tsc);
}

static void count_reading(struct xp_process *process, uint64_t begin_tsc, size_t count)
{
	process->reading.ticks += xp_clock_now_tsc() - begin_tsc;
	process->reading.calls += count;
}

static int record(struct xp_thread *thread, struct xp_call *calls, size_t count)
{
	const uint64_t frames_before = thread->search.frames;
	uint64_t frames;
	int err = 0;

	for (size_t i = 0; i < count; i++) {
		int taken = xp_thread_take(thread, &calls[i]);

		err = (taken == 1 ? xp_thread_filter(thread, XP_FILTER_OUTSIDE) : taken) ?: err;
	}
	frames = thread->search.frames - frames_before;
	thread->process->reading.work += frames;
	thread->process->reading.frames += frames;
	return err;
}

/* What xp_ring_calls_take() reads. */
struct taking {
	struct xp_process *process;
	struct xp_thread_ring *ring;
	pid_t tid;
	const struct xp_call_range *range;
	struct xp_thread *thread; /* NULL: not known yet */
	int err;		  /* the last error */
};

/* Reads calls of any kind, up to `room`. Returns their number. */
static size_t take_any(struct taking *taking, size_t room)
{
	struct xp_process *process = taking->process;
	struct xp_call calls[CALLS_PER_TAKE_MAX];
	uint64_t begin_tsc = xp_clock_now_tsc();
	size_t count = xp_call_ring_take(&taking->ring->ring, taking->range, calls, room);
	struct xp_counts *counts;

	count_reading(process, begin_tsc, count);
	if (count && !taking->thread)
		taking->err =
		    xp_processes_thread(process->all, process->pid, taking->tid, &taking->thread) ?: taking->err;
	counts = taking->thread ? &taking->thread->counts : &process->sums.counts;
	counts->in_memory += count;
	if (!taking->thread) {
		counts->seen += count;
		counts->unstored += count;
	} else if (taking->ring->borrower) {
		for (size_t i = 0; i < count; i++)
			xp_thread_filter(taking->thread, XP_FILTER_OUTSIDE);
	} else {
		taking->err = record(taking->thread, calls, count) ?: taking->err;
	}
	return count;
}

void xp_ring_count_taken_back(struct xp_counts *counts, struct xp_thread_ring *ring, const struct xp_call_range *range)
{
	uint64_t records = 2 * xp_call_ring_taken_back(&ring->ring, range);

	xp_counts_filter(counts, ring->borrower ? XP_FILTER_OUTSIDE : XP_FILTER_MIN_DURATION, records);
	counts->in_memory += records;
}

static bool may_be_plain(const struct taking *taking)
{
	return !taking->ring->borrower && !xp_call_ring_is_disordered(&taking->ring->ring) &&
	       !(taking->thread && taking->thread->marks);
}

int xp_ring_calls_take(struct xp_process *process, struct xp_thread_ring *ring, pid_t tid,
		       const struct xp_call_range *range)
{
	struct taking taking = { .process = process, .ring = ring, .tid = tid, .range = range };
	const uint64_t begin = ring->ring.next;

	if (xp_call_ring_is_empty(&ring->ring) && !ring->ring.min_ticks)
		return 0;
	taking.thread = xp_u64_map_get(&process->all->threads, (uint32_t)tid);
	if (taking.thread && taking.thread->process != process)
		taking.thread = NULL;
	xp_ring_count_taken_back(taking.thread ? &taking.thread->counts : &process->sums.counts, ring, range);
	while (ring->ring.next - begin <= ring->ring.mask && !xp_ring_turn_is_over(process)) {
		bool is_plain = may_be_plain(&taking);
		size_t room = is_plain ? CALLS_PER_TAKE : CALLS_PER_TAKE_MAX, plain = 0;

		if (taking.thread && is_plain) {
			struct xp_thread *stack = taking.thread->now;
			uint64_t begin_tsc = xp_clock_now_tsc();

			plain = take_plain(stack, &ring->ring, range);
			count_reading(process, begin_tsc, plain);
			stack->counts.in_memory += plain;
		}
		if (plain < CALLS_PER_RUN && take_any(&taking, room) < room)
			break;
	}
	return taking.err;
}
