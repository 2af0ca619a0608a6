/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Shared by all BPF programs: the maps, the function that reserves space in a ring, and the loss counters. Uprobe
 * programs are preemptible: another task may run the same program on the same CPU in the middle of a run. So these
 * programs use no per-CPU scratch memory, and counters are incremented atomically. For the same reason, each function
 * of a uprobe program uses at most 48 bytes of stack: since Linux 6.13 (commit a76ab5731e32), a program with a function
 * of 64 bytes or more (rounded up to 16) has one stack per CPU, which the other task overwrites.
 */
#ifndef XPROF_COMMON_BPF_H
#define XPROF_COMMON_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "xprof/event.h"

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* One ring per CPU. The loader sets max_entries and inserts rings of the requested size. */
extern struct rings {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

extern struct counters {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xp_bpf_counters);
} counters SEC(".maps");

/* Followed processes: thread group ID -> number of programs executed since. The loader sets max_entries. */
extern struct targets {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

/* Adds one to a member of this CPU's struct xp_bpf_counters. */
#define COUNT(member)                                                                                                  \
	do {                                                                                                           \
		__u32 zero_ = 0;                                                                                       \
		struct xp_bpf_counters *here_ = bpf_map_lookup_elem(&counters, &zero_);                                \
                                                                                                                       \
		if (here_)                                                                                             \
			__sync_fetch_and_add(&here_->member, 1);                                                       \
	} while (0)

static __always_inline bool followed(__u32 pid)
{
	return bpf_map_lookup_elem(&targets, &pid);
}

/* Set by the loader: calls are recorded in call rings. */
extern const volatile bool has_call_rings;

static __always_inline void count_lost(enum xp_event_kind kind)
{
	COUNT(lost[kind & (XP_EVENT_KINDS_ROOM - 1)]);
}

/* Returns this CPU's ring. */
static __always_inline void *ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

/* Reserves size bytes (a constant) in this CPU's ring; NULL, and counted as lost, if there is no space. */
#define reserve(size, kind)                                                                                            \
	({                                                                                                             \
		void *ring_ = ring_here();                                                                             \
		void *room_ = ring_ ? bpf_ringbuf_reserve(ring_, size, 0) : NULL;                                      \
		if (!room_)                                                                                            \
			count_lost(kind);                                                                              \
		room_;                                                                                                 \
	})

static __always_inline void fill(struct xp_event *event, __u64 time, __u64 pid_tgid, __u64 sp, __u32 fn,
				 enum xp_event_kind kind)
{
	event->time = time;
	event->pid = pid_tgid >> 32;
	event->tid = pid_tgid;
	event->word = xp_event_word(fn, kind);
	event->sp = sp >> 3;
}

/* Maximum overhead of a record in the ring: the kernel's header, and the padding of the last word. */
#define RING_EXTRA_BYTES 15

/*
 * Returns whether a record must wake xprof, which polls, because a wakeup costs microseconds. But large stack dumps and
 * context switches fill a ring while xprof sleeps. So only the record that makes the ring a quarter full wakes it.
 */
static __always_inline __u64 xp_wakeup(__u64 used, __u64 bytes, __u64 room)
{
	bytes += RING_EXTRA_BYTES;
	return used < room / 4 && used + bytes >= room / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Sends an event of the running thread and wakes the loader. For rare events. */
static __always_inline int record_rare(enum xp_event_kind kind)
{
	struct xp_event *event = reserve(sizeof(*event), kind);

	if (!event)
		return 0;
	fill(event, bpf_ktime_get_ns(), bpf_get_current_pid_tgid(), 0, 0, kind);
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif
