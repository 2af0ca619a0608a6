/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Per-thread state of the programs in wait.bpf.c, and how waits are sampled.
 *
 * The sampling probability of a wait is fixed when the wait starts, and does not depend on the wait itself. So the sum
 * of the recorded waits, each divided by its probability, is unbiased. A thread accumulates time as credit, up to
 * 2 << CREDIT_SHIFT ns. A wait costs 1 << PRICE_SHIFT ns times its probability. With at least 1 << CREDIT_SHIFT ns of
 * credit, all waits are recorded; with less, the probability is proportional. So a thread that waits all the time has
 * 1 s >> PRICE_SHIFT waits per second recorded, and bursts completely. Waits of long_ns and more are always recorded.
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

/* Value of thread.began: use began_ns instead. No wait begins in the first ns of a clock. */
#define BEGAN_AT_NS 1

#define PF_EXITING 0x00000004

struct rings rings SEC(".maps");
struct targets targets SEC(".maps");
struct stack_sizes stack_sizes SEC(".maps");

struct thread {
	__u64 began;	/* by clock_of(); BEGAN_AT_NS; 0: the thread runs */
	__u64 began_ns; /* by bpf_ktime_get_ns(); 0: unknown, for most waits that are not sampled */
	__u64 woken;	/* time by clock_of() if the scheduler does not record it, else non-zero; 0: not woken */
	__u64 delay;	/* run_delay at the start of the wait */
	__u32 state;
	__u32 chance; /* sampling probability; 0: not sampled */
	__u32 flags;
	bool has_ended;
	bool is_new; /* the thread has not run yet */
	__u64 paid;
	/* The newest attempt to wake the thread. */
	__u32 waker_pid;
	__u32 waker_tid;
	__u32 waker_flags;
	__u32 random;
	char waker_comm[16];
	/* How much recording its start delayed the wait, and the CPU that recorded it. 0: no delay. */
	__u32 delayed_ns;
	__u32 cpu;
	/* Sums since the thread's last exec. */
	__u32 tid; /* exec can change it to the TID of the first thread */
	__u64 since;
	__u64 waits;
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u64 missed; /* context switches that were not reported to the programs */
	/* The kernel's accounts: switches at the start of the current or last wait; times at the start of the sums. */
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
	__u64 behind; /* not used: for the verifier */
};

struct room {
	struct sample sample;
	struct end end;
};

/* Scratch buffers: one per CPU, for programs that nothing interrupts, and one for the loader's iterators. */
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
const volatile __u32 room_of_iterator = 0; /* index of the iterators' buffer in wait_rooms */
const volatile __u64 min_ns = 0;
const volatile __u64 long_ns = 0; /* waits of this length are always recorded */

/* Set by the loader if there are many threads: a wait costs 2^slow times as much credit. */
__u32 slow = 0;
/* Set by the loader: the end of the recording, at which open waits end. 0: not yet. */
__u64 stopped = 0;
/* bpf_ktime_get_ns() minus clock_of(), at the last time when both were read. */
__u64 clock_offset = 0;

/*
 * Set by the loader: the address of preempt_count minus the address of the run queue of the same CPU; 0: unknown. Both
 * are per-CPU variables; BTF has their offsets, while kernels without CONFIG_KALLSYMS_ALL have no symbols of them.
 */
const volatile __s64 count_from_queue = 0;
/* Whether the kernel has bpf_rdonly_cast() (Linux 6.2, commit a35b9af4ec2c): it saves 35 ns of a wake-up. */
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

/* Not atomic: nothing interrupts these programs, and the iterator counts only after they are detached. */
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
	/* A wait costs its expected price even if it is not sampled, so that probabilities, and weights, vary less. */
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

/* Reads the kernel's account of the thread's runnable time, up to its last wait. Returns false if there is none. */
static __always_inline bool read_run_delay(struct task_struct *current, __u64 *run_delay)
{
	struct task_struct___group *task = (void *)current;

	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return false;
	*run_delay = task->sched_info.run_delay;
	return true;
}

/* Returns whether the scheduler records when it queued a thread, and its clock. The loader's relocations decide. */
static __always_inline bool has_scheduler_clock(void)
{
	struct task_struct___group *task = NULL;
	struct cfs_rq *cfs_rq = NULL;
	struct rq *rq = NULL;

	return bpf_core_field_exists(task->sched_info.last_queued) && bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(cfs_rq->rq) && bpf_core_field_exists(rq->clock);
}

/*
 * Returns the time of a switch of this thread. The scheduler has just read this clock, so it saves the 70 ns of
 * bpf_ktime_get_ns() in each switch, and durations equal those of the kernel's accounts. The clock has the rate of the
 * TSC, without NTP's adjustment (at most 0.05 %).
 */
static __always_inline __u64 clock_of(struct task_struct *current)
{
	struct task_struct___group *task = (void *)current;

	return has_scheduler_clock() ? task->se.cfs_rq->rq->clock : bpf_ktime_get_ns();
}

/* Reads bpf_ktime_get_ns() at a switch, and updates clock_offset. */
static __always_inline __u64 ktime_at(__u64 clock)
{
	__u64 now = bpf_ktime_get_ns();

	clock_offset = now - clock;
	return now;
}

/* Returns how long a waiting thread has been queued, if the kernel's account does not include it yet. */
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

/* Returns how long a thread was queued during its wait. A change of the queue adds the time before to the account. */
static __always_inline __u64 delay_of(struct task_struct *current, const struct thread *thread, __u64 clock)
{
	struct task_struct___group *task = (void *)current;

	return task->sched_info.run_delay - thread->delay + queued_ns(current, thread, clock);
}

/* Returns the duration of a wait that ends at this time. now: bpf_ktime_get_ns(), or 0. */
static __always_inline __u64 duration_of(struct task_struct *current, struct thread *thread, __u64 clock, __u64 now)
{
	__u64 ns = clock - thread->began;

	if (thread->began == BEGAN_AT_NS)
		ns = (now ?: ktime_at(clock)) - thread->began_ns;
	if (thread->is_new && has_scheduler_clock())
		ns = delay_of(current, thread, clock);
	thread->is_new = false;
	return ns > 1ull << 63 ? 0 : ns; /* the clocks of the CPUs differ */
}

/* Returns the runnable part of a wait of ns that ends at this time. */
static __always_inline __u64 runnable_of(struct task_struct *current, const struct thread *thread, __u64 clock,
					 __u64 ns)
{
	__u64 delay;

	if (!thread->state)
		return ns;
	if (has_scheduler_clock())
		delay = delay_of(current, thread, clock);
	else /* it may have been woken while it was about to leave its CPU */
		delay = !thread->woken ? 0 : thread->woken < thread->began ? ns : clock - thread->woken;
	return delay < ns ? delay : ns;
}

/*
 * Returns the part of this runnable time that the kernel's account does not include. If a thread is preempted after it
 * set its state and before it sleeps, the kernel does not count its time until it runs again (sched_info_depart() in
 * kernel/sched/stats.h). With preemption in the kernel (PREEMPT_LAZY, Debian since 6.13) this was 4 to 32 ms in 2 s.
 */
static __always_inline __u64 uncounted_of(struct task_struct *current, const struct thread *thread, __u64 clock,
					  __u64 runnable_ns)
{
	__u64 counted_ns = has_scheduler_clock() ? delay_of(current, thread, clock) : runnable_ns;

	return counted_ns < runnable_ns ? runnable_ns - counted_ns : 0;
}

/* Returns how often the thread has left its CPU. */
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
