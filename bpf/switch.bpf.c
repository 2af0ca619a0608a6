// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Program on the scheduler's context switches, for the PERF_RECORD_SWITCH of perf.data. It runs with interrupts off.
 * One record contains the thread that leaves the CPU and the thread that gets it; a thread that is not recorded has TID
 * 0. The last quarter of a ring is reserved for more important records: starts and exits of threads, samples without
 * stacks, waits.
 */
#include "common.bpf.h"

#define TASK_DEAD 0x80 /* include/linux/sched.h */

/* Set by the loader: record the context switches of all threads. By default, those of the targets. */
const volatile bool switches_of_all = false;
const volatile __u32 switches_of_tid = 0; /* 0: no thread in particular */

/* The idle task has pid 0, and is never recorded. */
static __always_inline bool is_recorded(__u64 pid_tgid)
{
	if (switches_of_tid)
		return (__u32)pid_tgid == switches_of_tid;
	return (__u32)pid_tgid && (switches_of_all || followed(pid_tgid >> 32));
}

static __always_inline __u64 recorded_id(struct task_struct *task)
{
	__u64 pid_tgid = (__u64)BPF_CORE_READ(task, tgid) << 32 | (__u32)BPF_CORE_READ(task, pid);

	return is_recorded(pid_tgid) ? pid_tgid : 0;
}

/* Returns how prev leaves the CPU: a preempted thread may be in any state. */
static __always_inline __u32 leaves_as(struct task_struct *prev, bool preempt)
{
	__u32 state = BPF_CORE_READ(prev, __state);

	if (preempt || !state)
		return XP_SWITCH_RUNNABLE;
	return state & TASK_DEAD ? XP_SWITCH_DEAD : 0;
}

SEC("raw_tp/sched_switch")
int BPF_PROG(switch_threads, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 out = recorded_id(prev), in = recorded_id(next);
	struct xp_event_switch *event;
	void *ring = ring_here();
	__u64 room, used;

	if (!(out | in))
		return 0;
	room = ring ? bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) : 0;
	used = ring ? bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) : 0;
	event = ring && used <= room - room / 4 ? bpf_ringbuf_reserve(ring, sizeof(*event), 0) : NULL;
	if (!event) {
		count_lost(XP_EVENT_SWITCH);
		return 0;
	}
	fill(&event->head, bpf_ktime_get_ns(), out, 0, leaves_as(prev, preempt), XP_EVENT_SWITCH);
	event->next_pid = in >> 32;
	event->next_tid = in;
	bpf_ringbuf_submit(event, xp_wakeup(used, sizeof(*event), room));
	return 0;
}
