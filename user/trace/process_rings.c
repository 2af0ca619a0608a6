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
 * The times of BPF's records are exact to about a microsecond, on a busy machine. A new thread with the fs base of one
 * that has ended makes its first call later than that: it takes a clone() first. So does the parent of a vfork(), which
 * must wake up first.
 */
#define END_MARGIN_NS 3000 /* where BPF does not tell the number: kernels that free the memory first (before 6.16) */
/* A record of BPF that is still to come may really be older than its time says. */
#define TIME_MARGIN_NS 20000
/*
 * How long the calls of one process are read before it is the turn of the others: at full speed, those of a hundred
 * full rings.
 */
#define TURN_NS 10000000
/*
 * A call takes some 10 ns. A process that takes pages away all the time (shared_pages.h) makes xprof wait for each of
 * them: it is given up if its calls took that long each for that long.
 */
#define SLOW_CALL_NS 2000
#define SLOW_NS 300000000
/*
 * The frame of a call is at the top, or near it. A process that makes up calls that match none is given up if so many
 * frames were looked at for each of its calls, and so many in all.
 */
#define SOUGHT_FRAMES_A_CALL 512
#define SOUGHT_FRAMES (16ull * XP_RING_WORK)
/*
 * How long in a second xprof gives rings to threads of one process that say that they have none, some thousand times.
 * Its threads can say so at each call, of fs bases that they make up. Those that come later enter the kernel meanwhile.
 */
#define TOLD_US 50000

/* Counts what was reserved and never committed, for a thread or for a process. */
static void count_lost(struct xp_counts *counts, struct xp_thread_ring *ring)
{
	counts->seen += ring->ring.lost;
	counts->unstored += ring->ring.lost;
	ring->ring.lost = 0;
}

/* The process says that it has recorded them. No thread has the ring's key any more. */
static void count_left(struct xp_process *process, struct xp_thread_ring *ring)
{
	ring->ring.lost += xp_call_ring_left(&ring->ring);
	count_lost(&process->sums.counts, ring);
}

/* Its calls are recorded through the kernel from now on. What it says that it has recorded in memory is lost. */
static void give_up(struct xp_process *process, const char *why)
{
	struct xp_call_rings *rings = process->rings;

	xp_warn("process %d (%s): its calls are no longer recorded in memory: %s", process->pid, process->comm, why);
	rings->given_up |= rings->tables[0] == process->pid;
	rings->no_children = true; /* each could cost as much */
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

/* Gives up a process that keeps xprof from reading its rings. */
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

/* An event, as what splits the records of a ring into those before it and those after it. */
struct split {
	xp_event_position position; /* 0: BPF does not know the ring, so only the time tells */
	uint32_t taken_back;	    /* with a position: calls that had been taken back, as in struct xp_event_thread */
	uint64_t tsc;
	bool is_child; /* a child of vfork() began or ended */
};

static uint64_t end_margin(const struct xp_process *process)
{
	return xp_clock_ticks(process->all->clock, END_MARGIN_NS);
}

/*
 * The records before an event: by number where BPF knows it, which is exact, and which no lost tick of the counter
 * changes (base/clock.h). They are not taken back any more (`final` in struct xp_call_header). But the parent of a
 * child of vfork() may take a call back since, and then a younger record has the number of an older one: the time
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

/*
 * Whether all that is before this record of BPF was taken: a thread that finds its ring full makes thousands of such
 * records in a row.
 */
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
	/* The calls of a process that makes too much work come later, as if they had come with this record. */
	if (xp_ring_turn_is_over(process))
		return 0;
	/*
	 * Without a position: BPF has not known the ring yet, so that the ring's records are younger, or could not read
	 * it. BPF's time is late by this much at most.
	 */
	range = before(ring, &(struct split){ .position = call.position,
					      .tsc = call.tsc - XP_MIN(call.tsc, end_margin(process)) });
	/* What was taken back is counted elsewhere: the next thread may have taken back since. */
	range.has_taken_back = true;
	range.taken_back = (uint32_t)ring->ring.taken_back;
	err = xp_ring_calls_take(process, ring, thread->tid, &range);
	judge(process);
	return err;
}

/*
 * Records of births and ends were lost. A thread that has ended may have left its ring to another one, so what is there
 * from now on is not taken for it (see end_suspects()). All records of BPF before until_tsc were lost or are there, so
 * that what was taken before that is its own.
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

/* The records of their ends were lost, if all records of BPF from before that have been handled. */
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
 * What was taken back by now may be the next thread's. What was taken back when this was last called is not, if all
 * records of BPF from before that have been handled.
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

	return XP_MAX(taken * 100 / (ring->ring.mask + 1 - XP_CALL_RING_MARGIN), (uint64_t)(taken > 0));
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
	}
	*all = !left && !xp_ring_turn_is_over(process);
	process->reading.until_tsc = 0;
	return err;
}

/* What the turn was too short for, where there is no other: it is lost. */
static void drop_calls(struct xp_thread_ring *ring, const struct xp_call_range *range)
{
	struct xp_call call;

	for (size_t i = 0; i <= ring->ring.mask && xp_call_ring_take(&ring->ring, range, &call, 1); i++)
		ring->ring.lost++;
}

/*
 * What is left in a ring that no thread has any more: of a thread whose birth was not told, reserved by one that was
 * killed, or written by a process that goes on for ever.
 */
static void count_unowned(void *arg, struct xp_thread_ring *ring)
{
	const struct xp_call_range all = until(UINT64_MAX);
	struct xp_process *process = arg;

	xp_ring_count_taken_back(&process->sums.counts, ring, &all);
	drop_calls(ring, &all);
	xp_call_ring_end(&ring->ring);
	count_lost(&process->sums.counts, ring);
}

/* Borrowers that are gone though all records of BPF from before that have been handled: that of their end was lost. */
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

/* The thread's part of the ring ends. Not that of a thread that had this tid before. */
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
 * Takes what comes before a task that began with the fs base of this ring: calls of the thread that has the ring, or of
 * the last one that had it. That one has some left if BPF could not tell their number when it ended.
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
	/* The thread has set up its TLS, or has changed it. */
	ring = xp_call_rings_of(process->rings, pid, tid);
	if (ring && tsc < ring->since_tsc)
		return 0;
	if (ring && ring != xp_call_rings_at(process->rings, pid, event->fs_base))
		err = end_calls(process, tid, lost_end);
	ring = xp_call_rings_at(process->rings, pid, event->fs_base);
	owner = ring ? xp_call_rings_owner(process->rings, ring) : 0;
	if (ring)
		err = take_before_task(process, ring, birth) ?: err;
	/* The end of the one that had it was lost: it would have come first. */
	if (!borrows && owner && owner != tid && !xp_target_thread_lives(pid, owner))
		err = end_calls(process, owner, lost_end) ?: err;
	if (!borrows)
		xp_call_rings_begin(process->rings, pid, tid, event->fs_base, tsc);
	else if (ring && !ring->borrower)
		xp_call_rings_lend(ring, tid);
	return err;
}

/* A child of fork() shares the rings of its parent, if there is a table for it. */
static void share_rings(struct xp_process *child, const struct xp_event_thread *event, uint64_t tsc)
{
	struct xp_process *parent = xp_processes_find(child->all, child->attaching.parent);
	int err;

	if (child->rings || !parent || !parent->rings || !child->attaching.inherits_from || !event->fs_base)
		return;
	err = xp_call_rings_adopt(parent->rings, child->pid, child->start_time, event->fs_base, tsc);
	if (err) {
		parent->rings->no_children |= err == -ETIMEDOUT; /* the next one would make xprof wait, too */
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
	/* Rounded up: what is told takes some time in any case. */
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
	/* One with TLS of its own has a ring of its own. */
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
