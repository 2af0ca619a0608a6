/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Events of waits (record --off-cpu), in addition to those of event.h. A wait lasts from the time when a thread leaves
 * its CPU until it runs again. The event of its start has the user registers and stack, which BPF can read only in the
 * thread itself. The event of its end has everything else, including the kernel frames, which have not changed
 * meanwhile. Times are CLOCK_MONOTONIC.
 */
#ifndef XPROF_WAIT_H
#define XPROF_WAIT_H

#include "xprof/event.h"

/* Task states of the kernel (include/linux/sched.h) that xprof distinguishes. */
#define XP_TASK_INTERRUPTIBLE 0x1
#define XP_TASK_UNINTERRUPTIBLE 0x2
#define XP_TASK_STOPPED 0x4
#define XP_TASK_TRACED 0x8
#define XP_TASK_DEAD 0x80
#define XP_TASK_NOLOAD 0x400

/* A sampling probability of 1: probabilities are multiples of 1 / XP_WAIT_CHOSEN. */
#define XP_WAIT_CHOSEN 65536u

/* Flags of a wait, as in a file (user/format/wait_record.h). */
#define XP_WAIT_IS_FIRST 1u
#define XP_WAIT_IS_LAST 2u
#define XP_WAIT_BY_HARDIRQ 4u
#define XP_WAIT_BY_SOFTIRQ 8u

struct xp_event_wait {
	struct xp_event head; /* time: when the thread runs again */
	__u64 began;	      /* the time in the event of its start */
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u64 ip;	 /* user instruction pointer */
	__s64 syscall;	 /* orig_ax; negative: none */
	__u64 argument;	 /* the first one of the system call; 0: unknown */
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
_Static_assert(sizeof(struct xp_event_wait) == 128, "xp_event_wait");

/* Flag of a sum: the thread executed another program. */
#define XP_WAIT_SUM_EXEC (1u << 0)

/* Sums of all waits of a thread, recorded or not, when it exits, executes a program, or the recording ends. */
struct xp_event_wait_sum {
	struct xp_event head;
	__u64 span_ns; /* time since the thread started, its last exec, or the start of the recording */
	__u64 blocked_ns;
	__u64 runnable_ns;
	__u64 waits;
	__u64 missed; /* waits that the kernel counted, but did not report; included in waits */
	char comm[16];
};
_Static_assert(sizeof(struct xp_event_wait_sum) == 80, "xp_event_wait_sum");

/* Counters of waits, one struct per CPU: seen = sent + too_short + skipped + lost. */
struct xp_wait_counters {
	__u64 seen;	 /* waits that ended, at the latest at the end of the recording */
	__u64 sent;	 /* struct xp_event_wait */
	__u64 too_short; /* below the minimum */
	__u64 skipped;	 /* not sampled: recorded waits represent these waits */
	__u64 lost;	 /* no space in the ring */
	__u64 no_stack;	 /* starts without space in the ring: these waits have no user stack */
	__u64 sums_lost; /* struct xp_event_wait_sum without space */
};

#endif
