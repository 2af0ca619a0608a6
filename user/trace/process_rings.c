// SPDX-License-Identifier: BSD-2-Clause
#include "trace/process_rings.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>

#include "base/util.h"
#include "sled/call_rings.h"
#include "target/target.h"
#include "trace/ring_calls.h"

/*
 * BPF times are exact to about 1 us on a busy machine. A new thread with the fs base of an exited thread makes its
 * first call later than that, after a clone(); so does the parent of a vfork(), which must wake up first.
 */
#define END_MARGIN_NS 3000 /* if BPF has no record number: kernels that free the memory first (before 6.16) */
/* A BPF record that arrives later may be this much older than its time. */
#define TIME_MARGIN_NS 20000
/* Time limit for the calls of one process before those of others are read: a hundred full rings at full speed. */
#define TURN_NS 10000000
/*
 * Reading a call takes 10 ns. A process that keeps removing pages (shared_pages.h) makes xprof wait for each page. It
 * is given up if its calls took this long each, and this long in total.
 */
#define SLOW_CALL_NS 2000
#define SLOW_NS 300000000
/*
 * The frame of a call is at the top of the shadow stack, or near it. A process with forged calls that match no frame is
 * given up if this many frames were searched for each call, and this many in total.
 */
#define SOUGHT_FRAMES_A_CALL 512
#define SOUGHT_FRAMES (16ull * XP_RING_WORK)
/*
 * Time per second for ring requests of one process, enough for some thousand. Its threads can request a ring at each
 * call, with forged fs bases. Later requests enter the kernel meanwhile.
 */
#define TOLD_US 50000

/* Counts records that were reserved and never committed, for a thread or for a process. */
static void count_lost(struct xp_counts *counts, struct xp_thread_ring *ring)
{
	counts->seen += ring->ring.lost;
	counts->unstored += ring->ring.lost;
	ring->ring.lost = 0;
}

/* Counts records that the process claims to have made. The ring has no key any more. */
static void count_left(struct xp_process *process, struct xp_thread_ring *ring)
{
	ring->ring.lost += xp_call_ring_left(&ring->ring);
	count_lost(&process->sums.counts, ring);
}

/* Records the process through the kernel from now on. Its remaining records in memory are lost. */
static void give_up(struct xp_process *process, const char *why)
{
	struct xp_call_rings *rings = process->rings;

	xp_warn("process %d (%s): its calls are no longer recorded in memory: %s", process->pid, process->comm, why);
	rings->given_up |= rings->tables[0] == process->pid;
	rings->no_children = true; /* each child could cost as much */
	xp_call_rings_stop(rings, process->pid);
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, process->pid, ring));) {
		count_left(process, ring);
		xp_call_rings_end(rings, process->pid, xp_call_rings_owner(rings, ring));
	}
	process->rings = NULL;
	xp_call_rings_forget(rings, process->pid);
	xp_call_rings_free(rings);
}

static bool is_slow(const struct xp_process *process)
{
	const struct xp_clock *clock = process->all->clock;

	return process->reading.ticks > xp_clock_ticks(clock, SLOW_NS) &&
	       process->reading.ticks > process->reading.calls * xp_clock_ticks(clock, SLOW_CALL_NS);
}

static bool is_sought(const struct xp_ring_reading *reading)
{
	return reading->frames > SOUGHT_FRAMES && reading->frames > reading->calls * SOUGHT_FRAMES_A_CALL;
}

/* Gives up a process that delays xprof's reading of its rings. */
static void judge(struct xp_process *process)
{
	const struct xp_clock *clock = process->all->clock;
	struct xp_ring_reading *reading = &process->reading;
	uint64_t now_tsc = xp_clock_now_tsc();

	if (xp_call_rings_torn(process->rings))
		give_up(process, "there is no memory for pages that it has given back");
	else if (is_slow(process))
		give_up(process, "it makes xprof wait for the pages of that memory, which it gives back");
	else if (is_sought(reading))
		give_up(process, "they are not those of a program: calls return that did not begin");
	if (now_tsc - reading->since_tsc > xp_clock_ticks(clock, XP_NS_PER_S))
		*reading = (struct xp_ring_reading){ .since_tsc = now_tsc,
						     .next = reading->next,
						     .work = reading->work,
						     .tasks_lost = reading->tasks_lost };
}

static struct xp_call_range until(uint64_t tsc)
{
	return (
	    struct xp_call_range){ .until_tsc = tsc, .end = UINT64_MAX, .now_tsc = xp_clock_now_tsc(), .all = true };
}

/* An event that divides the records of a ring into earlier and later ones. */
struct split {
	xp_event_position position; /* 0: BPF does not know the ring, so only the time counts */
	uint32_t taken_back;	    /* with a position: number of discarded calls, as in struct xp_event_thread */
	uint64_t tsc;
	bool is_child; /* the event is the start or exit of a vfork() child */
};

static uint64_t end_margin(const struct xp_process *process)
{
	return xp_clock_ticks(process->all->clock, END_MARGIN_NS);
}

/*
 * Returns the range of records before an event: by number if BPF knows it, which is exact even if the TSC is not
 * (base/clock.h). Those records are not discarded any more (`final` in struct xp_call_header). But the parent of a
 * vfork() child may have discarded a call since; then a later record has the number of an earlier one, so the time
 * counts, too.
 */
static struct xp_call_range before(const struct xp_thread_ring *ring, const struct split *split)
{
	struct xp_call_range range = until(split->tsc);

	if (!split->position)
		return range;
	range.end = xp_call_ring_number(&ring->ring, split->position - 1);
	range.has_taken_back = true;
	range.taken_back = split->taken_back;
	if (!split->is_child || !ring->ring.min_ticks)
		range.until_tsc = UINT64_MAX;
	return range;
}

/* Returns whether all records before this BPF record have been read: a full ring causes thousands in a row. */
static bool is_taken_until(const struct xp_call_ring *ring, xp_event_position position)
{
	return position && !xp_call_ring_is_disordered(ring) &&
	       (int64_t)(xp_call_ring_number(ring, position - 1) - ring->next) <= 0;
}

int xp_thread_take_before(struct xp_thread *thread, struct xp_call call)
{
	struct xp_process *process = thread->process;
	struct xp_thread_ring *ring = xp_call_rings_of(process->rings, process->pid, thread->tid);
	struct xp_call_range range;
	int err;

	if (!ring || is_taken_until(&ring->ring, call.position))
		return 0;
	/* If the process has used up its turn, read its calls later, as if they came with this record. */
	if (xp_ring_turn_is_over(process))
		return 0;
	/*
	 * Without a position, BPF did not know the ring yet, so the ring's records are later; or BPF could not read the
	 * ring. BPF times are late by at most this much.
	 */
	range = before(ring, &(struct split){ .position = call.position,
					      .tsc = call.tsc - XP_MIN(call.tsc, end_margin(process)) });
	/* Count discarded calls elsewhere: the next thread may have discarded some since. */
	range.has_taken_back = true;
	range.taken_back = (uint32_t)ring->ring.taken_back;
	err = xp_ring_calls_take(process, ring, thread->tid, &range);
	judge(process);
	return err;
}

/*
 * Events of thread starts and exits were lost. An exited thread may have left its ring to another thread, so this does
 * not assign later records to the exited thread (see end_suspects()). All BPF records before until_tsc have arrived or
 * were lost, so records that were read before are its own.
 */
static void suspect(struct xp_process *process)
{
	struct xp_call_rings *rings = process->rings;
	uint32_t lost =
	    process->all->tasks_lost ? (uint32_t)__atomic_load_n(process->all->tasks_lost, __ATOMIC_ACQUIRE) : 0;

	if (lost == process->reading.tasks_lost)
		return;
	process->reading.tasks_lost = lost;
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, process->pid, ring));) {
		pid_t tid = xp_call_rings_owner(rings, ring);

		if (tid && !ring->ended_tsc && !xp_target_thread_lives(process->pid, tid))
			ring->ended_tsc = xp_clock_now_tsc();
	}
}

/* Ends threads whose exit events were lost, after all earlier BPF records have been handled. */
static int end_suspects(struct xp_process *process, uint64_t done_tsc)
{
	struct xp_call_rings *rings = process->rings;
	int err = 0;

	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, process->pid, ring));) {
		pid_t tid = xp_call_rings_owner(rings, ring);

		if (!tid || !ring->ended_tsc || ring->ended_tsc >= done_tsc)
			continue;
		xp_call_rings_end(rings, process->pid, tid);
		err = xp_processes_end_thread(process->all, tid) ?: err;
	}
	return err;
}

/*
 * Counts the discarded calls of the ring's thread. Calls that were discarded since the last check may be those of the
 * next thread. Earlier ones are not, once all BPF records from before that check have been handled.
 */
static void count_taken_back_until(struct xp_thread_ring *ring, uint64_t done_tsc, struct xp_call_range *range)
{
	range->has_taken_back = true;
	range->taken_back = ring->seen_tsc < done_tsc ? ring->seen_taken_back : (uint32_t)ring->ring.taken_back;
	if (ring->seen_tsc >= done_tsc)
		return;
	ring->seen_taken_back = xp_call_ring_told_taken_back(&ring->ring);
	ring->seen_tsc = xp_clock_now_tsc();
}

/* How full the ring was, in percent, after the calls that were taken since its last turn. At least 1 if there were any.
 */
static uint64_t filled_percent(const struct xp_thread_ring *ring)
{
	const uint64_t taken = ring->ring.next - ring->next_before;

	return XP_MAX(taken * 100 / (ring->ring.ready - XP_CALL_RING_MARGIN), (uint64_t)(taken > 0));
}

/*
 * Takes the calls of all threads, for a turn of the process that begins where the one before ended. *all: whether all
 * rings had their turn. *most: raised to the part of a ring, in percent, that filled up since its last turn.
 */
static int take_turn(struct xp_process *process, uint64_t until_tsc, bool *all, uint64_t *most)
{
	struct xp_call_range range = until(until_tsc);
	const uint64_t done_tsc = until_tsc + xp_clock_ticks(process->all->clock, TIME_MARGIN_NS);
	struct xp_call_rings *rings = process->rings;
	size_t left = rings->count;
	int err = 0;

	range.all = false;
	process->reading.until_tsc = range.now_tsc + xp_clock_ticks(process->all->clock, TURN_NS);
	for (; left && !xp_ring_turn_is_over(process); left--) {
		size_t i = process->reading.next++ % rings->count;
		struct xp_thread_ring *ring = &rings->list[i];

		if (!rings->fs_bases[i] || rings->pids[i] != process->pid)
			continue;
		count_taken_back_until(ring, done_tsc, &range);
		if (rings->tids[i] && !ring->ended_tsc)
			err = xp_ring_calls_take(process, ring, rings->tids[i], &range) ?: err;
		*most = XP_MAX(*most, filled_percent(ring));
		ring->next_before = ring->ring.next;
		xp_call_rings_grow(rings, ring);
	}
	*all = !left && !xp_ring_turn_is_over(process);
	process->reading.until_tsc = 0;
	return err;
}

/* Counts calls as lost that the last turn had no time for. */
static void drop_calls(struct xp_thread_ring *ring, const struct xp_call_range *range)
{
	struct xp_call call;

	for (size_t i = 0; i <= ring->ring.mask && xp_call_ring_take(&ring->ring, range, &call, 1); i++)
		ring->ring.lost++;
}

/* Counts records of a ring without a thread: the thread's start event was lost, it was killed, or it is hostile. */
static void count_unowned(void *arg, struct xp_thread_ring *ring)
{
	const struct xp_call_range all = until(UINT64_MAX);
	struct xp_process *process = arg;

	xp_ring_count_taken_back(&process->sums.counts, ring, &all);
	drop_calls(ring, &all);
	xp_call_ring_end(&ring->ring);
	count_lost(&process->sums.counts, ring);
}

/* Ends vfork() children that have exited, if their exit events were lost: all earlier BPF records have been handled. */
static void end_borrowing(const struct xp_process *process, uint64_t done_tsc)
{
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(process->rings, process->pid, ring));) {
		if (!ring->borrower || !kill(ring->borrower, 0) || errno != ESRCH)
			continue;
		if (!ring->gone_tsc)
			ring->gone_tsc = xp_clock_now_tsc();
		else if (ring->gone_tsc < done_tsc)
			ring->borrower = 0;
	}
}

int xp_processes_take_calls(struct xp_processes *processes, uint64_t done_tsc)
{
	uint64_t until_tsc = done_tsc - xp_clock_ticks(processes->clock, TIME_MARGIN_NS);
	uint64_t most = 0;
	bool all = true, its_all;
	int err = 0;

	if (!done_tsc)
		return 0;
	for (struct xp_process *process = processes->first_live; process; process = process->next_live) {
		if (!process->rings)
			continue;
		suspect(process);
		err = end_suspects(process, done_tsc) ?: err;
		err = take_turn(process, until_tsc, &its_all, &most) ?: err;
		all &= its_all;
		process->reading.work = 0;
		end_borrowing(process, done_tsc);
		xp_call_rings_recycle(process->rings, process->pid, done_tsc, count_unowned, process);
		judge(process);
	}
	if (err)
		return err;
	return all ? (int)XP_MIN(most, 100u) : 100;
}

/* Reads the thread's last calls from the ring. Ignores a thread that had the same TID before. */
static int end_calls(struct xp_process *process, pid_t tid, struct split end)
{
	struct xp_thread_ring *ring = xp_call_rings_of(process->rings, process->pid, tid);
	struct xp_call_range range;
	int err;

	if (!ring || end.tsc < ring->since_tsc)
		return 0;
	end.tsc += end_margin(process);
	range = before(ring, &end);
	err = xp_ring_calls_take(process, ring, tid, &range);
	if (xp_ring_turn_is_over(process))
		drop_calls(ring, &range);
	count_lost(&process->sums.counts, ring);
	xp_call_rings_end(process->rings, process->pid, tid);
	ring->left_tid = end.position ? 0 : tid;
	return err;
}

/*
 * Reads the records from before the start of a task with this ring's fs base: those of the ring's current thread, or of
 * its last one, if BPF could not read their number when that thread exited.
 */
static int take_before_task(struct xp_process *process, struct xp_thread_ring *ring, struct split birth)
{
	pid_t owner = xp_call_rings_owner(process->rings, ring);
	struct xp_call_range range;
	int err;

	birth.tsc += birth.position ? end_margin(process) : 0;
	range = before(ring, &birth);
	if (owner)
		return xp_ring_calls_take(process, ring, owner, &range);
	if (birth.is_child || !ring->left_tid || !birth.position || (int64_t)(range.end - ring->ring.next) <= 0)
		return 0;
	err = xp_ring_calls_take(process, ring, ring->left_tid, &range);
	return xp_processes_end_thread(process->all, ring->left_tid) ?: err;
}

static int begin_task(struct xp_process *process, const struct xp_event_thread *event, uint64_t tsc)
{
	const pid_t pid = process->pid, tid = (pid_t)event->head.tid;
	bool borrows = event->clone_flags & CLONE_VFORK && !(event->clone_flags & CLONE_THREAD);
	const struct split birth = { event->position, event->taken_back, tsc, borrows }, lost_end = { .tsc = tsc };
	struct xp_thread_ring *ring;
	pid_t owner;
	int err = 0;

	if (event->clone_flags & XP_TASK_NO_TSC && !process->attaching.has_no_tsc) {
		xp_info("process %d (%s): threads that may not read the TSC (PR_SET_TSC in prctl(2)) are recorded "
			"through the kernel, not in memory",
			process->pid, process->comm);
		process->attaching.has_no_tsc = true;
	}
	/* The thread has set up or changed its TLS. */
	ring = xp_call_rings_of(process->rings, pid, tid);
	if (ring && tsc < ring->since_tsc)
		return 0;
	if (ring && ring != xp_call_rings_at(process->rings, pid, event->fs_base))
		err = end_calls(process, tid, lost_end);
	ring = xp_call_rings_at(process->rings, pid, event->fs_base);
	owner = ring ? xp_call_rings_owner(process->rings, ring) : 0;
	if (ring)
		err = take_before_task(process, ring, birth) ?: err;
	/* The exit event of the previous owner was lost: it would have arrived first. */
	if (!borrows && owner && owner != tid && !xp_target_thread_lives(pid, owner))
		err = end_calls(process, owner, lost_end) ?: err;
	if (!borrows)
		xp_call_rings_begin(process->rings, pid, tid, event->fs_base, tsc);
	else if (ring && !ring->borrower)
		xp_call_rings_lend(ring, tid);
	return err;
}

/* A forked child shares the rings of its parent, if there is a free table. */
static void share_rings(struct xp_process *child, const struct xp_event_thread *event, uint64_t tsc)
{
	struct xp_process *parent = xp_processes_find(child->all, child->attaching.parent);
	int err;

	if (child->rings || !parent || !parent->rings || !child->attaching.inherits_from || !event->fs_base)
		return;
	err = xp_call_rings_adopt(parent->rings, child->pid, child->start_time, event->fs_base, tsc);
	if (err) {
		parent->rings->no_children |= err == -ETIMEDOUT; /* the next child would make xprof wait, too */
		xp_debug("process %d, a child, gets no call rings: %s", child->pid, strerror(-err));
		return;
	}
	child->rings = xp_call_rings_share(parent->rings);
	for (size_t i = 0; i < child->functions.range_count; i++)
		if (child->functions.ranges[i].sleds.mode == XP_SLEDS_PATCHED)
			child->functions.ranges[i].sleds.memory = true;
}

int xp_processes_begin_task(struct xp_processes *processes, const struct xp_arrival *arrival)
{
	const struct xp_event_thread *event = (const struct xp_event_thread *)arrival->event;
	struct xp_process *process = xp_processes_find(processes, (pid_t)event->head.pid);
	const uint64_t begin_tsc = xp_clock_now_tsc();
	uint64_t told_us;
	int err;

	if (process && !(event->clone_flags & CLONE_VM))
		share_rings(process, event, arrival->tsc);
	if (!process || !process->rings || !(event->clone_flags & CLONE_VM))
		return 0;
	process->attaching.sharers += !(event->clone_flags & CLONE_THREAD);
	if (!(event->clone_flags & XP_TASK_TOLD))
		return begin_task(process, event, arrival->tsc);
	if (process->reading.told_us > TOLD_US) {
		process->rings->refused = true;
		return 0;
	}
	err = begin_task(process, event, arrival->tsc);
	/* Round up: each report takes some time. */
	told_us = process->reading.told_us + xp_clock_ns(processes->clock, xp_clock_now_tsc() - begin_tsc) / 1000 + 1;
	process->reading.told_us = (uint32_t)XP_MIN(told_us, UINT32_MAX);
	return err;
}

int xp_processes_end_task(struct xp_processes *processes, const struct xp_arrival *arrival)
{
	const struct xp_event_thread *event = (const struct xp_event_thread *)arrival->event;
	struct xp_process *process = xp_processes_find(processes, (pid_t)event->head.pid);
	struct split end = { event->position, event->taken_back, arrival->tsc, .is_child = true };
	int err = 0;

	if (!process || !process->rings)
		return 0;
	process->attaching.sharers -= process->attaching.sharers > 0;
	end.tsc += end_margin(process);
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(process->rings, process->pid, ring));) {
		struct xp_call_range range;

		if (ring->borrower != (pid_t)event->head.tid)
			continue;
		range = before(ring, &end);
		err = xp_ring_calls_take(process, ring, xp_call_rings_owner(process->rings, ring), &range) ?: err;
		ring->borrower = 0;
	}
	/* A vfork() child that has set up its own TLS has its own ring: end that ring, too. */
	return end_calls(process, (pid_t)event->head.tid, (struct split){ .tsc = arrival->tsc }) ?: err;
}

void xp_process_explain_end(struct xp_process *process, const struct xp_event_task *event)
{
	const pid_t tid = (pid_t)event->head.tid;

	if (!event->no_tsc || (event->exit_code & 0x7f) != SIGSEGV || process->attaching.killed_by_tsc ||
	    !process->rings || !xp_call_rings_of(process->rings, process->pid, tid))
		return;
	process->attaching.killed_by_tsc = true;
	xp_warn("process %d (%s) died because its thread %d disabled its TSC (PR_SET_TSC in prctl(2)) while its calls "
		"were recorded in memory; record it with --call-mode patch",
		process->pid, process->comm, tid);
}

int xp_processes_end_calls(struct xp_processes *processes, const struct xp_arrival *arrival)
{
	const struct xp_event_task *event = (const struct xp_event_task *)arrival->event;
	const struct split end = { event->position, event->taken_back, arrival->tsc, .is_child = false };
	struct xp_process *process = xp_processes_find(processes, (pid_t)event->head.pid);

	return process && process->rings ? end_calls(process, (pid_t)event->head.tid, end) : 0;
}

int xp_process_end_calls(struct xp_process *process)
{
	const struct xp_call_range all = until(UINT64_MAX);
	struct xp_call_rings *rings = process->rings;
	int err = 0;

	if (!rings)
		return 0;
	xp_call_rings_stop(rings, process->pid);
	process->reading.work = 0;
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, process->pid, ring));) {
		pid_t tid = xp_call_rings_owner(rings, ring);

		if (tid && !is_slow(process))
			err = xp_ring_calls_take(process, ring, tid, &all) ?: err;
		if (is_slow(process))
			count_left(process, ring);
		else
			count_unowned(process, ring);
	}
	process->rings = NULL;
	xp_call_rings_leave(rings, process->pid, process->attaching.sharers > 0);
	xp_call_rings_free(rings);
	return err;
}
