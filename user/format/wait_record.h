/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a perf.data file of xprof has for a wait, besides what it has for a sample: the raw data (PERF_SAMPLE_RAW) of
 * the samples of the event `offcpu-time`.
 *
 * A wait of a thread begins when it leaves its CPU and ends when it runs again. It has a blocked part, until something
 * wakes the thread, and a runnable part, until the thread gets a CPU. A wait of a preempted thread has the second part
 * only. The sample's time is the end of the wait, its CPU the one on which the thread runs again, its call chain the
 * place where the thread waited, and its period the time in ns that it stands for: the duration times the weight.
 *
 * Where there are many waits, only some are recorded, each with a known chance, and stand for the others: sums over
 * waits, each times its weight, are unbiased.
 *
 * The layout, little-endian: magic 4 bytes, blocked_ns 8, runnable_ns 8, chance 4, state 4, flags 4, syscall 4,
 * waker_pid 4, waker_tid 4, waker_comm 16. In a file, the 8-byte numbers are aligned: the size of raw data, 4 bytes,
 * precedes them.
 */
#ifndef XPROF_FORMAT_WAIT_RECORD_H
#define XPROF_FORMAT_WAIT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_WAIT_EVENT "offcpu-time" /* as perf record --off-cpu names it */
#define XP_WAIT_RECORD_BYTES 60
#define XP_WAIT_CHANCE_ONE 65536u

/* What a thread was when it left its CPU: the letters of ps(1) and perf sched, and L. */
enum xp_wait_state {
	XP_WAIT_PREEMPTED = 'R', /* it could have gone on */
	XP_WAIT_SLEEP = 'S',	 /* interruptible: timers, pipes, sockets, ... */
	XP_WAIT_LOCK = 'L',	 /* interruptible, in futex(2) or futex_waitv(2): mutexes, condition variables, joins */
	XP_WAIT_DISK = 'D',	 /* uninterruptible: disks, page faults from files, locks in the kernel */
	XP_WAIT_STOPPED = 'T',	 /* by a signal */
	XP_WAIT_TRACED = 't',	 /* by a debugger */
	XP_WAIT_IDLE = 'I',	 /* a kernel thread without work */
	XP_WAIT_OTHER = 'X',	 /* such as parked kernel threads */
};

#define XP_WAIT_FIRST (1u << 0)	   /* it had begun before the recording, and counts from then on */
#define XP_WAIT_LAST (1u << 1)	   /* it was not over at the end of the recording, and counts until then */
#define XP_WAIT_HARDIRQ (1u << 2)  /* woken by a device's interrupt or a timer; there is no waker */
#define XP_WAIT_SOFTIRQ (1u << 3)  /* ... by the kernel's deferred work, while the waker ran, and perhaps for it */
#define XP_WAIT_NO_STACK (1u << 4) /* the user stack was not read, since there were too many waits: its leaf only */

struct xp_wait_record {
	uint64_t blocked_ns; /* with a chance below 1: without what the record itself has added to the wait */
	uint64_t runnable_ns;
	uint32_t chance;     /* 1..XP_WAIT_CHANCE_ONE, in parts of it: how likely it was that the wait is recorded */
	uint32_t state;	     /* enum xp_wait_state */
	uint32_t flags;	     /* XP_WAIT_* */
	int32_t syscall;     /* number of the system call in which it waits; -1: none */
	int32_t waker_pid;   /* 0: unknown, or none */
	int32_t waker_tid;   /* 0: unknown, none, or an idle CPU */
	char waker_comm[16]; /* terminated; the kernel's bytes, not cleaned */
};

static inline uint64_t xp_wait_record_ns(const struct xp_wait_record *wait)
{
	return wait->blocked_ns + wait->runnable_ns;
}

/* How many waits it stands for. */
static inline double xp_wait_record_weight(const struct xp_wait_record *wait)
{
	return (double)XP_WAIT_CHANCE_ONE / wait->chance;
}

/* How much time it stands for, as its sample's period says. At most UINT64_MAX. */
uint64_t xp_wait_record_period(const struct xp_wait_record *wait);

void xp_wait_record_write(const struct xp_wait_record *wait, uint8_t raw[XP_WAIT_RECORD_BYTES]);
/* Returns false if this is not a wait: of another program's event, or with a chance of 0 or above 1. */
bool xp_wait_record_read(struct xp_wait_record *wait, const uint8_t *raw, size_t size);

/* What the state means, for people: "sleeping", ... */
const char *xp_wait_state_text(uint32_t state);

#endif
