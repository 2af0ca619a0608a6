/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs of wait.bpf.c know of a thread, and which of its waits are recorded.
 *
 * Each thread chooses its waits at random when they begin, with a chance that depends on how many it had before, but
 * not on the wait itself: so sums over chosen waits, divided by their chances, are unbiased. A thread saves up time
 * (paid_ns): a wait is worth PRICE_NS. While it has saved CREDIT_NS, each wait is chosen; with less, a part in
 * proportion. So a thread that waits without end has 1 s / PRICE_NS waits a second recorded, and bursts wholly. Long
 * waits, of which there can be only few, are recorded in any case.
 */
#ifndef XPROF_WAIT_BPF_H
#define XPROF_WAIT_BPF_H

#include "stack.bpf.h"
#include "xprof/wait.h"

#define PRICE_SHIFT 21	/* 2.1 ms: 477 waits a second */
#define CREDIT_SHIFT 28 /* 268 ms: a burst of 128 waits */
#define CHANCE_SHIFT 16
#define CHANCE_MIN (XP_WAIT_CHOSEN >> 12)
_Static_assert(XP_WAIT_CHOSEN == 1 << CHANCE_SHIFT, "chances");
#define FIRST_BYTES_MAX 16384u

/* Of thread.began: only began_ns tells when. No wait begins in the first ns of a clock. */
#define BEGAN_AT_NS 1

#define PF_EXITING 0x00000004

struct rings rings SEC(".maps");
struct targets targets SEC(".maps");
struct stack_sizes stack_sizes SEC(".maps");

struct thread {
	__u64 began;	/* by clock_of(); BEGAN_AT_NS; 0: it runs */
	__u64 began_ns; /* by bpf_ktime_get_ns(); 0: unknown, for most of the waits that are not chosen */
	__u64 woken;	/* by clock_of(), where the scheduler does not tell; else non-zero; 0: not since it ran */
	__u64 delay;	/* run_delay at the begin of the wait */
	__u32 state;
	__u32 chance; /* 0: not chosen */
	__u32 flags;
	bool has_ended;
	bool is_new; /* it has not run yet */
	__u64 paid;
	/* The newest attempt to wake it. */
	__u32 waker_pid;
	__u32 waker_tid;
	__u32 waker_flags;
	__u32 random;
	char waker_comm[16];
	/* How much longer the wait has become by the record of its begin, and the CPU that wrote it. 0: not longer. */
	__u32 delayed_ns;
	__u32 cpu;
	/* Sums of the thread's present program. */
	__u32 tid; /* an exec may give it that of the first thread */
	__u64 since;
	__u64 waits;
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u64 missed; /* switches that were not reported to us */
	/* The kernel's accounts: of switches at the begin of the wait, or else of the last one; of times at first. */
	__u64 switches;
	__u64 run_delay;
	__u64 run_ns;
	__u64 open_ns;	    /* not in the kernel's account at the end */
	__u64 uncounted_ns; /* sum of uncounted_of() */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct end {
	struct xp_event_wait wait;
	__u64 frames[XP_SAMPLE_FRAMES_MAX];
	__u64 behind; /* for the verifier */
};

struct room {
	struct sample sample;
	struct end end;
};

/* One per CPU, for programs that nothing interrupts, and one more for the loader's iterators. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct room);
} wait_rooms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xp_wait_counters);
} wait_counters SEC(".maps");

const volatile __u32 sample_stacks; /* enum xp_sample_stacks */
const volatile bool all_threads = false;
const volatile __u32 only_tid = 0;
const volatile bool follow_children = false;
const volatile __u32 room_of_iterator = 0; /* its index in wait_rooms */
const volatile __u64 min_ns = 0;
const volatile __u64 long_ns = 0; /* recorded in any case */

/* Set by the loader: a wait costs the thread 2^slow times as much, since there are many threads. */
__u32 slow = 0;
/* Set by the loader: the time of the end; open waits end then. 0: not yet. */
__u64 stopped = 0;
/* From clock_of() to bpf_ktime_get_ns(), as it was when both were last read. */
__u64 clock_offset = 0;

/*
 * Set by the loader: where the kernel counts what interrupts what (preempt_count), from the run queue of the same CPU.
 * Both are per-CPU variables, to whose places BTF has the offsets; kernels without CONFIG_KALLSYMS_ALL have no symbol.
 * 0: not known.
 */
const volatile __s64 count_from_queue = 0;
/* Whether the kernel has bpf_rdonly_cast() (Linux 6.2, commit a35b9af4ec2c): it saves a helper, 35 ns of a wake-up. */
const volatile bool has_cast = false;
extern void *bpf_rdonly_cast(const void *from, __u32 type) __ksym __weak;
/* Any structure of the kernel that begins with an int. */
struct refcount_struct {
	int counter;
};
struct rq {
	unsigned long long clock;
} __attribute__((preserve_access_index));
struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));
struct sched_entity___group {
	unsigned long long sum_exec_runtime;
	struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));
struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
} __attribute__((preserve_access_index));
struct task_struct___group {
	struct sched_entity___group se;
	struct sched_info sched_info;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned int in_execve : 1;
	/* An int before Linux 7.3, a byte since. libbpf adapts the size of a load if both types are unsigned. */
	unsigned int on_cpu;
} __attribute__((preserve_access_index));
/* include/linux/preempt.h */
#define SOFTIRQ_SERVED 0x00000100
#define HARDIRQ_MASK 0x000f0000
#define NMI_MASK 0x00f00000

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, NULL, 0);
}

static __always_inline struct room *room_at(__u32 index)
{
	return bpf_map_lookup_elem(&wait_rooms, &index);
}

/* Not atomic: nothing interrupts these programs, and the iterator that counts runs when the others are gone. */
static __always_inline struct xp_wait_counters *counters_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wait_counters, &zero);
}

static __always_inline __u32 next_chance(struct thread *thread, __u64 now)
{
	__s64 saved = now - thread->paid;
	__u32 chance;

	if (saved > 2ll << CREDIT_SHIFT) {
		saved = 2ll << CREDIT_SHIFT;
		thread->paid = now - saved;
	}
	chance = saved < 0 ? 0 : saved >> (CREDIT_SHIFT - CHANCE_SHIFT);
	if (chance < CHANCE_MIN)
		chance = CHANCE_MIN;
	if (chance > XP_WAIT_CHOSEN)
		chance = XP_WAIT_CHOSEN;
	/* What is expected is paid, not what is drawn: the chance varies less, and with it the weights. */
	thread->paid += (__u64)chance << (PRICE_SHIFT - CHANCE_SHIFT + (slow & 31));
	return chance;
}

/* Marsaglia's xorshift: bpf_get_prandom_u32() takes 20 ns. */
static __always_inline __u32 next_random(struct thread *thread)
{
	__u32 random = thread->random;

	random ^= random << 13;
	random ^= random >> 17;
	random ^= random << 5;
	thread->random = random;
	return random;
}

static __always_inline bool draw(struct thread *thread)
{
	return thread->chance >= XP_WAIT_CHOSEN || (next_random(thread) & (XP_WAIT_CHOSEN - 1)) < thread->chance;
}

static __always_inline __u32 preempt_count(struct task_struct *current)
{
	struct task_struct___group *task = (void *)current;
	__u64 queue;
	__u32 count;

	if (!count_from_queue || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	queue = (__u64)task->se.cfs_rq->rq;
	if (has_cast) {
		const struct refcount_struct *there = bpf_rdonly_cast((void *)(queue + count_from_queue),
								      bpf_core_type_id_kernel(struct refcount_struct));

		return there->counter;
	}
	return bpf_probe_read_kernel(&count, sizeof(count), (void *)(queue + count_from_queue)) ? 0 : count;
}

/* The time that the thread was runnable, up to its last wait, by the kernel's account. false: there is none. */
static __always_inline bool read_run_delay(struct task_struct *current, __u64 *run_delay)
{
	struct task_struct___group *task = (void *)current;

	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return false;
	*run_delay = task->sched_info.run_delay;
	return true;
}

/* Whether the scheduler tells when it puts a thread into a queue, and its clock. The loader's relocations decide. */
static __always_inline bool has_scheduler_clock(void)
{
	struct task_struct___group *task = NULL;
	struct cfs_rq *cfs_rq = NULL;
	struct rq *rq = NULL;

	return bpf_core_field_exists(task->sched_info.last_queued) && bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(cfs_rq->rq) && bpf_core_field_exists(rq->clock);
}

/*
 * The time of a switch of this thread. The scheduler has just read its clock for this: that saves bpf_ktime_get_ns(),
 * some 70 ns of what a switch costs, and durations are those of the kernel's accounts. Its rate is that of the TSC, not
 * adjusted by NTP (at most 0.05 %).
 */
static __always_inline __u64 clock_of(struct task_struct *current)
{
	struct task_struct___group *task = (void *)current;

	return has_scheduler_clock() ? task->se.cfs_rq->rq->clock : bpf_ktime_get_ns();
}

/* Both clocks at a switch. */
static __always_inline __u64 ktime_at(__u64 clock)
{
	__u64 now = bpf_ktime_get_ns();

	clock_offset = now - clock;
	return now;
}

/* How long a thread that waits has been in a queue, which is not in the kernel's account yet. */
static __always_inline __u64 queued_ns(struct task_struct *current, const struct thread *thread, __u64 clock)
{
	struct task_struct___group *task = (void *)current;
	__u64 since;

	if (has_scheduler_clock())
		since = task->sched_info.last_queued;
	else if (thread->state)
		since = thread->woken;
	else
		since = thread->began == BEGAN_AT_NS ? thread->began_ns : thread->began;
	return since && since < clock ? clock - since : 0;
}

/* How long a thread was in a queue during its wait. Each change of the queue adds to the account what was before. */
static __always_inline __u64 delay_of(struct task_struct *current, const struct thread *thread, __u64 clock)
{
	struct task_struct___group *task = (void *)current;

	return task->sched_info.run_delay - thread->delay + queued_ns(current, thread, clock);
}

/* The duration of a wait that ends at this time. now: by the other clock, or 0. */
static __always_inline __u64 duration_of(struct task_struct *current, struct thread *thread, __u64 clock, __u64 now)
{
	__u64 ns = clock - thread->began;

	if (thread->began == BEGAN_AT_NS)
		ns = (now ?: ktime_at(clock)) - thread->began_ns;
	if (thread->is_new && has_scheduler_clock())
		ns = delay_of(current, thread, clock);
	thread->is_new = false;
	return ns > 1ull << 63 ? 0 : ns; /* the CPUs' clocks are not in step */
}

/* How long a thread was runnable, of a wait of ns that ends at this time. */
static __always_inline __u64 runnable_of(struct task_struct *current, const struct thread *thread, __u64 clock,
					 __u64 ns)
{
	__u64 delay;

	if (!thread->state)
		return ns;
	if (has_scheduler_clock())
		delay = delay_of(current, thread, clock);
	else /* it may be woken while it is about to leave its CPU */
		delay = !thread->woken ? 0 : thread->woken < thread->began ? ns : clock - thread->woken;
	return delay < ns ? delay : ns;
}

/*
 * How much of this time in a queue the kernel does not add to its account. If a thread is preempted after it has set
 * its state and before it sleeps, the kernel does not count its time until it runs again (sched_info_depart() in
 * kernel/sched/stats.h). With preemption in the kernel (PREEMPT_LAZY, Debian since 6.13) this was 4 to 32 ms in 2 s.
 */
static __always_inline __u64 uncounted_of(struct task_struct *current, const struct thread *thread, __u64 clock,
					  __u64 runnable_ns)
{
	__u64 counted_ns = has_scheduler_clock() ? delay_of(current, thread, clock) : runnable_ns;

	return counted_ns < runnable_ns ? runnable_ns - counted_ns : 0;
}

/* How often the thread has left its CPU. */
static __always_inline __u64 switches_of(struct task_struct *current)
{
	struct task_struct___group *task = (void *)current;

	return task->nvcsw + task->nivcsw;
}

static __always_inline bool is_on_cpu(struct task_struct *current)
{
	return ((struct task_struct___group *)current)->on_cpu;
}

static __always_inline void start_accounts(struct task_struct *current, struct thread *thread, __u64 now)
{
	struct task_struct___group *task = (void *)current;

	thread->tid = current->pid;
	thread->since = now;
	thread->waits = 0;
	thread->blocked_ns = 0;
	thread->runnable_ns = 0;
	thread->missed = 0;
	thread->uncounted_ns = 0;
	thread->random = bpf_get_prandom_u32() | 1;
	thread->switches = switches_of(current);
	thread->run_ns = task->se.sum_exec_runtime;
	read_run_delay(current, &thread->run_delay);
}

#endif
