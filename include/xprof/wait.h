/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The records of waits (record --off-cpu), beside those of event.h. A wait lasts from the moment at which a thread
 * leaves its CPU until it runs again. The record of its begin has the user's registers and stack, which BPF can read in
 * the thread itself only; that of its end has all the rest, the kernel's frames included, which have not changed
 * meanwhile. Their times are those of CLOCK_MONOTONIC.
 */
#ifndef XPROF_WAIT_H
#define XPROF_WAIT_H

#include "xprof/event.h"

/* The kernel's states of tasks (include/linux/sched.h), as far as they are told apart. */
#define XP_TASK_INTERRUPTIBLE 0x1
#define XP_TASK_UNINTERRUPTIBLE 0x2
#define XP_TASK_STOPPED 0x4
#define XP_TASK_TRACED 0x8
#define XP_TASK_DEAD 0x80
#define XP_TASK_NOLOAD 0x400

/* How a wait was chosen: in parts of XP_WAIT_CHOSEN. */
#define XP_WAIT_CHOSEN 65536u

/* Flags of a wait, as in a file (user/format/wait_record.h). */
#define XP_WAIT_IS_FIRST 1u
#define XP_WAIT_IS_LAST 2u
#define XP_WAIT_BY_HARDIRQ 4u
#define XP_WAIT_BY_SOFTIRQ 8u

struct xp_event_wait {
	struct xp_event head; /* the time at which the thread runs again */
	__u64 began;	      /* as the time in the head of the record of its begin */
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u64 ip;	 /* of the user code */
	__s64 syscall;	 /* orig_ax; negative: none */
	__u32 chance;	 /* 1..XP_WAIT_CHOSEN */
	__u32 state;	 /* XP_TASK_*, and others; 0: it was preempted */
	__u32 flags;	 /* XP_WAIT_* */
	__u32 waker_pid; /* 0: unknown */
	__u32 waker_tid;
	__u32 kernel_frames;
	char comm[16];
	char waker_comm[16];
	/* __u64 frames[kernel_frames] */
};
_Static_assert(sizeof(struct xp_event_wait) == 120, "xp_event_wait");

/* The flag of a sum: the thread goes on in another program. */
#define XP_WAIT_SUM_EXEC (1u << 0)

/* A thread has ended, its program, or the recording: all its waits, recorded or not. */
struct xp_event_wait_sum {
	struct xp_event head;
	__u64 span_ns; /* from the begin of the thread, of its program or of the recording, up to now */
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u64 waits;
	__u64 missed; /* those of the waits that the kernel did not report, but counted */
	char comm[16];
};
_Static_assert(sizeof(struct xp_event_wait_sum) == 80, "xp_event_wait_sum");

/* What became of the waits, one struct per CPU: seen = sent + brief + passed + lost. */
struct xp_wait_counters {
	__u64 seen;	 /* that ended, or had to at the end of the recording */
	__u64 sent;	 /* struct xp_event_wait */
	__u64 brief;	 /* shorter than the minimum */
	__u64 passed;	 /* not chosen: others stand for them */
	__u64 lost;	 /* no room in the ring */
	__u64 no_stack;	 /* begins without room in the ring: their waits have no user stack */
	__u64 sums_lost; /* struct xp_event_wait_sum without room */
};

#endif
