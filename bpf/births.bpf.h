/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counts the threads and children that followed processes create, so that short-lived ones are sampled. The sampling
 * event of a thread starts with the thread, so a thread that lives for less than a period has no sample. While followed
 * processes create threads or children, the loader therefore samples the CPUs: the period of a CPU continues from task
 * to task.
 */
#ifndef XPROF_BIRTHS_BPF_H
#define XPROF_BIRTHS_BPF_H

#include "common.bpf.h"

/*
 * Set by the loader while it samples CPUs because births rises. If not set, sampling events record every task that they
 * hit.
 */
extern const volatile bool watches_births;
/* Number of threads and children that followed processes have created. */
extern __u32 births;

/*
 * Followed tasks that are exiting, and their start time, which distinguishes them from a later task with the same ID.
 * They are no longer in `targets`, but still have to free their memory (since Linux 6.16; before, they have freed it).
 */
extern struct ending_tasks {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} ending_tasks SEC(".maps");

#define PF_EXITING 0x00000004

static __always_inline void note_end(struct task_struct *task, __u32 tid)
{
	__u64 start_time = BPF_CORE_READ(task, start_time);

	if (watches_births)
		bpf_map_update_elem(&ending_tasks, &tid, &start_time, BPF_ANY);
}

static __always_inline bool is_ending(struct task_struct *task, __u32 tid)
{
	__u64 *start_time;

	if (!(BPF_CORE_READ(task, flags) & PF_EXITING))
		return false;
	start_time = bpf_map_lookup_elem(&ending_tasks, &tid);
	return start_time && *start_time == BPF_CORE_READ(task, start_time);
}

#endif
