/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Tells the loader the fs base of a thread, by which the stub finds the thread's call ring (user/sled/call_rings.h). */
#ifndef XPROF_THREAD_BPF_H
#define XPROF_THREAD_BPF_H

#include "common.bpf.h"

#define CLONE_VM 0x100
#define CLONE_THREAD 0x10000

/* A part of struct xp_call_slot (user/arch/x86_64/stub.h), and its offset there. */
#define CALL_SLOT_COUNTS 16
struct ring_counts {
	__u64 head;
	__u64 taken_back;
};

/* Threads that fell through to the uprobe -> the fs base that the loader was told of. */
extern struct told_threads {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} told_threads SEC(".maps");

/* Threads with a call ring -> the address of their struct xp_call_slot. The loader keeps it. */
extern struct call_slots {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u64);
} call_slots SEC(".maps");

static __always_inline xp_event_position ring_counts(__u64 pid_tgid, __u32 *taken_back)
{
	__u32 tid = pid_tgid;
	__u64 *slot = bpf_map_lookup_elem(&call_slots, &tid);
	struct ring_counts counts;

	if (!slot || bpf_probe_read_user(&counts, sizeof(counts), (const void *)(*slot + CALL_SLOT_COUNTS)))
		return 0;
	*taken_back = counts.taken_back;
	return counts.head + 1;
}

static __always_inline xp_event_position ring_position(__u64 pid_tgid)
{
	__u32 taken_back;

	return ring_counts(pid_tgid, &taken_back);
}

/* ring_of: a thread whose position belongs to the record; 0: none. */
static __always_inline bool record_thread(__u32 pid, __u32 tid, __u64 fs_base, __u64 clone_flags, __u64 ring_of,
					  enum xp_event_kind kind)
{
	struct xp_event_thread *event = reserve(sizeof(*event), kind);

	if (!event)
		return false;
	fill(&event->head, now(), (__u64)pid << 32 | tid, 0, 0, kind);
	event->fs_base = fs_base;
	event->clone_flags = clone_flags;
	event->taken_back = 0;
	event->position = ring_of ? ring_counts(ring_of, &event->taken_back) : 0;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return true;
}

/* A thread that has no call ring, or a full one: told once for each fs base that it has. */
static __always_inline void tell_thread(__u64 pid_tgid, __u64 fs_base)
{
	__u32 tid = pid_tgid;
	__u64 *told = bpf_map_lookup_elem(&told_threads, &tid);

	if (told && *told == fs_base)
		return;
	if (record_thread(pid_tgid >> 32, tid, fs_base, CLONE_VM | CLONE_THREAD, 0, XP_EVENT_THREAD))
		bpf_map_update_elem(&told_threads, &tid, &fs_base, BPF_ANY);
}

static __always_inline void forget_thread(__u32 tid)
{
	bpf_map_delete_elem(&told_threads, &tid);
}

#endif
