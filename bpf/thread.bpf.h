/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reports the fs base of threads to the loader: it is the key of a thread's call ring (user/sled/call_rings.h). */
#ifndef XPROF_THREAD_BPF_H
#define XPROF_THREAD_BPF_H

#include "common.bpf.h"

#define CLONE_VM 0x100
#define CLONE_THREAD 0x10000

/* A part of struct xp_call_header (user/arch/x86_64/stub.h), and its offset there. */
#define CALL_HEADER_COUNTS 16
struct ring_counts {
	__u64 head;
	__u64 taken_back;
};

/*
 * Set by the loader: the flag in thread_info.flags of threads that must not execute rdtsc (PR_SET_TSC in prctl(2)),
 * which call rings require. 0: unknown.
 */
extern __u64 no_tsc_flag;
/* Number of lost events of thread starts and exits. */
extern __u64 tasks_lost;
/* Incremented by the loader when call rings become free: threads without a ring are then reported again. */
extern __u64 told_round;
#define TOLD_ROUND_SHIFT 48 /* above user addresses */

/*
 * Threads that fell back to the uprobe -> the fs base that was reported to the loader. A report costs the loader time,
 * and a thread can change its fs base at each call, so a thread is reported at most once per millisecond.
 */
#define TOLD_PAUSE_NS 1000000
struct told {
	__u64 fs_base; /* and told_round << TOLD_ROUND_SHIFT */
	__u64 ns;
};
extern struct told_threads {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct told);
} told_threads SEC(".maps");

/*
 * Call rings -> the address of their struct xp_call_header in the process; the loader maintains the map. The key has
 * the fs base, not the thread: a new thread may use the ring of an exited thread, and exit, before the loader is
 * informed.
 */
extern struct call_headers {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct xp_ring_key);
	__type(value, __u64);
} call_headers SEC(".maps");
/* Incremented by the loader after it has added headers. */
extern __u64 call_headers_round;

/*
 * Reported threads without a call ring fall back at each call. This cache avoids lookups for them until their state may
 * have changed. It is indexed by TID, so threads may overwrite each other's words; then both do the lookups. A state is
 * one word, because two words could be of two threads. Two states have the same word with a probability of 2^-64.
 */
#define RINGLESS_THREADS 4096
#define RINGLESS_MIX 0x9e3779b97f4a7c15ull
extern __u64 ringless[RINGLESS_THREADS];

#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000 /* Linux 6.4 */

/*
 * Returns whether the kernel created the thread for itself, for io_uring or vhost. Such a thread executes no code of
 * the process, and has the fs base of the thread that caused it, so it must not get that thread's ring.
 */
static __always_inline bool is_kernel_worker(struct task_struct *task)
{
	return BPF_CORE_READ(task, flags) & (PF_IO_WORKER | PF_USER_WORKER);
}

static __always_inline __u64 fs_base_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, thread.fsbase);
}

static __always_inline const __u64 *find_call_header(__u32 pid, __u64 fs_base)
{
	struct xp_ring_key key = { .fs_base = fs_base, .pid = pid };

	return bpf_map_lookup_elem(&call_headers, &key);
}

static __always_inline xp_event_position ring_counts(__u32 pid, __u64 fs_base, __u32 *taken_back)
{
	const __u64 *header = find_call_header(pid, fs_base);
	struct ring_counts counts;

	if (!header || bpf_probe_read_user(&counts, sizeof(counts), (const void *)(*header + CALL_HEADER_COUNTS)))
		return 0;
	*taken_back = counts.taken_back;
	return counts.head + 1;
}

/* Returns whether the thread is known to be allowed to execute rdtsc. */
static __always_inline bool has_tsc(struct task_struct *task)
{
	return no_tsc_flag && !(BPF_CORE_READ(task, thread_info.flags) & no_tsc_flag);
}

/* Sends an event. task: the new task; NULL: the task exits. ring: fs base of the ring whose position is sent; 0: none.
 */
static __always_inline bool record_thread(__u64 pid_tgid, struct task_struct *task, __u64 fs_base, __u64 clone_flags,
					  __u64 ring, enum xp_event_kind kind)
{
	struct xp_event_thread *event = reserve(sizeof(*event), kind);

	if (!event) {
		__sync_fetch_and_add(&tasks_lost, 1);
		return false;
	}
	fill(&event->head, bpf_ktime_get_ns(), pid_tgid, 0, 0, kind);
	event->fs_base = fs_base;
	event->clone_flags = clone_flags;
	if (task && !has_tsc(task)) {
		event->fs_base = 0;
		event->clone_flags |= XP_TASK_NO_TSC;
	}
	event->taken_back = 0;
	event->position = ring ? ring_counts(pid_tgid >> 32, ring, &event->taken_back) : 0;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return true;
}

static __always_inline void forget_thread(__u32 tid)
{
	bpf_map_delete_elem(&told_threads, &tid);
	ringless[tid % RINGLESS_THREADS] = 0;
}

#endif
