/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw data (PERF_SAMPLE_RAW) of a wait in perf.data: each wait is a sample of the event `offcpu-time`.
 *
 * A wait starts when a thread leaves its CPU, and ends when the thread runs again. The thread is blocked until
 * something wakes it, and then runnable until it gets a CPU. A preempted thread is only runnable. The time of the
 * sample is the end of the wait. Its CPU is the CPU on which the thread runs again. Its call chain shows where the
 * thread waited. Its period is the duration in ns times the weight.
 *
 * If there are many waits, xprof records each with a known probability. The weight is 1 / probability, so sums of waits
 * times their weights are unbiased.
 *
 * The layout, little-endian: magic 4 bytes, blocked_ns 8, runnable_ns 8, chance 4, state 4, flags 4, syscall 4,
 * waker_pid 4, waker_tid 4, waker_comm 16, lock 8. In a file, the 8-byte numbers are aligned: the size of raw data,
 * 4 bytes, precedes them. Files of older versions do not have the lock.
 */
#ifndef XPROF_FORMAT_WAIT_RECORD_H
#define XPROF_FORMAT_WAIT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_WAIT_EVENT "offcpu-time" /* as perf record --off-cpu names it */
#define XP_WAIT_RECORD_BYTES 68
#define XP_WAIT_RECORD_OLD_BYTES 60
#define XP_WAIT_CHANCE_ONE 65536u

/* State of a thread when it left its CPU: letters of ps(1) and perf sched; and L, and F, which files do not contain. */
enum xp_wait_state {
	XP_WAIT_PREEMPTED = 'R', /* runnable */
	XP_WAIT_SLEEP = 'S',	 /* interruptible: timers, pipes, sockets, ... */
	XP_WAIT_LOCK = 'L',	 /* interruptible, in futex(2) or futex_waitv(2): mutexes, condition variables, joins */
	XP_WAIT_FUTEX = 'F',	 /* set after reading: a futex that is not known to be a lock (read_waits.h) */
	XP_WAIT_DISK = 'D',	 /* uninterruptible: disks, page faults from files, locks in the kernel */
	XP_WAIT_STOPPED = 'T',	 /* stopped by a signal */
	XP_WAIT_TRACED = 't',	 /* stopped by a debugger */
	XP_WAIT_IDLE = 'I',	 /* a kernel thread without work */
	XP_WAIT_OTHER = 'X',	 /* such as parked kernel threads */
};

#define XP_WAIT_FIRST                                                                                                  \
	(1u << 0)		  /* started before the recording: the duration counts from the start of the recording \
				   */
#define XP_WAIT_LAST (1u << 1)	  /* still going on at the end of the recording: the duration counts until then */
#define XP_WAIT_HARDIRQ (1u << 2) /* woken by a device interrupt or a timer; there is no waker */
#define XP_WAIT_SOFTIRQ (1u << 3) /* woken by a softirq while the waker ran, perhaps because of the waker */
#define XP_WAIT_NO_STACK (1u << 4) /* only the leaf of the user stack was read, because there were too many waits */

struct xp_wait_record {
	uint64_t blocked_ns; /* if chance is below XP_WAIT_CHANCE_ONE: without the delay by recording */
	uint64_t runnable_ns;
	uint32_t chance;     /* probability that this wait was recorded, in units of 1 / XP_WAIT_CHANCE_ONE; never 0 */
	uint32_t state;	     /* enum xp_wait_state */
	uint32_t flags;	     /* XP_WAIT_* */
	int32_t syscall;     /* number of the system call in which the thread waited; -1: none */
	int32_t waker_pid;   /* 0: unknown, or none */
	int32_t waker_tid;   /* 0: unknown, none, or an idle CPU */
	char waker_comm[16]; /* terminated; not cleaned */
	uint64_t lock;	     /* address of the futex of a wait for a lock; 0: unknown, or several */
};

static inline uint64_t xp_wait_record_ns(const struct xp_wait_record *wait)
{
	return wait->blocked_ns + wait->runnable_ns;
}

/* Returns the weight: the number of waits that this wait represents. */
static inline double xp_wait_record_weight(const struct xp_wait_record *wait)
{
	return (double)XP_WAIT_CHANCE_ONE / wait->chance;
}

/* Returns the period of the sample: the duration times the weight, at most UINT64_MAX. */
uint64_t xp_wait_record_period(const struct xp_wait_record *wait);

void xp_wait_record_write(const struct xp_wait_record *wait, uint8_t raw[XP_WAIT_RECORD_BYTES]);
/* Returns false if the bytes are not a wait, or its chance is invalid. */
bool xp_wait_record_read(struct xp_wait_record *wait, const uint8_t *raw, size_t size);

/* Returns the name of a state for users: "sleeping", ... */
const char *xp_wait_state_text(uint32_t state);

#endif
