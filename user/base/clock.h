/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one clock of a recording: the TSC. BPF programs read it as the count of the msr PMU's tsc event, which differs
 * from the TSC by a constant per CPU (arch/x86/events/msr.c: the count is the sum of the differences of rdtsc since
 * the event was enabled). This module opens the counters, finds the constants, and knows frequency and wall time.
 *
 * Where a counter is missing (no msr PMU, a CPU that came online later), records carry CLOCK_MONOTONIC
 * (XP_TIME_KTIME), which is converted through the newest pair of both clocks.
 *
 * Not thread-safe: xp_clock_update() must not run beside another call on the same clock.
 */
#ifndef XPROF_CLOCK_H
#define XPROF_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include <x86intrin.h>

#include "base/util.h"
#include "xprof/event.h"

/* The same moment on two clocks; the TSC is known to +-error_tsc cycles. */
struct xp_clock_pair {
	uint64_t tsc;
	uint64_t ns;
	uint64_t error_tsc;
};

/* What a base can be: low <= base <= high, in wrapping 64-bit arithmetic (high - low is the uncertainty). */
struct xp_clock_interval {
	uint64_t low;
	uint64_t high;
};

struct xp_clock_cpu {
	uint64_t base;	    /* TSC = count + base */
	uint64_t error_tsc; /* base is known to +-this */
	int fd;		    /* of the counter, -1: none, or given up */
	bool calibrated;    /* had a counter at the start: base is good */
};

/* Public for the sake of xp_clock_tsc() alone: use the functions for everything else. */
struct xp_clock {
	struct xp_clock_cpu *cpus; /* [cpu_count], index: CPU number */
	unsigned int cpu_count;	   /* possible CPUs */
	uint64_t hz;		   /* TSC ticks a second, never 0 */
	uint64_t mono_hz;	   /* TSC ticks in a second of CLOCK_MONOTONIC, which NTP speeds up and slows down */
	struct xp_clock_pair mono; /* CLOCK_MONOTONIC, the newest */
	struct xp_clock_pair real; /* CLOCK_REALTIME at the start */
	struct xp_clock_pair raw;  /* CLOCK_MONOTONIC_RAW at the start */
	uint64_t ktime_error_ns;   /* how far conversions of CLOCK_MONOTONIC were off, the worst */
	bool hz_from_kernel;	   /* hz is the kernel's own, otherwise measured */
	bool constant_tsc;
	bool nonstop_tsc;
};

/*
 * Opens the counters of all online CPUs and calibrates them: some 20 ms, during which the calling thread
 * visits each CPU. A machine without usable counters gives a clock too, whose source is "ktime".
 * Errors: -ENOMEM, and those of clock_gettime. The caller frees *clock with xp_clock_free().
 */
int xp_clock_open(struct xp_clock **clock);
void xp_clock_free(struct xp_clock *clock);

/* The counter of a CPU for a BPF_MAP_TYPE_PERF_EVENT_ARRAY; stays the clock's. -1: none, leave the slot empty. */
int xp_clock_counter_fd(const struct xp_clock *clock, int cpu);

/*
 * To be called about once a second: takes a new pair of CLOCK_MONOTONIC and TSC, refines the frequency,
 * and looks whether all counters still run (one stops for good when its CPU goes offline) and are right to 10 us or so
 * beyond their bound: what one that is not has lost so far is added to its bound.
 * Returns 1 when a counter was given up: delete from the map the slots whose xp_clock_counter_fd() is now -1, so that
 * programs on that CPU fall back to CLOCK_MONOTONIC. Its base stays valid for records that are under way. 0 otherwise,
 * -errno on failure, which leaves the clock as it was.
 */
int xp_clock_update(struct xp_clock *clock);

/*
 * To be called at the end: a look, on each CPU, how many ticks its counter has lost (others who open counters of the
 * same kind make it lose some), and a last xp_clock_update(), which gives up only those that have stopped by then or
 * whose CPU's TSC is out of step. xp_clock_error_ns() includes the lost ticks from then on. 0 or -errno.
 */
int xp_clock_verify(struct xp_clock *clock);

/* CLOCK_MONOTONIC -> TSC, also before the pair; 128 bits hold the product of any two. */
static inline uint64_t xp_clock_tsc_of_ktime(const struct xp_clock *clock, uint64_t ns)
{
	__int128 delta_ns = (__int128)ns - (__int128)clock->mono.ns;

	return clock->mono.tsc + (uint64_t)(delta_ns * (__int128)clock->mono_hz / (__int128)XP_NS_PER_S);
}

/* xp_rec.time of a record from this CPU's ring -> TSC. */
static inline uint64_t xp_clock_tsc(const struct xp_clock *clock, unsigned int cpu, uint64_t rec_time)
{
	if (__builtin_expect(rec_time & XP_TIME_KTIME || cpu >= clock->cpu_count, 0))
		return xp_clock_tsc_of_ktime(clock, rec_time & ~XP_TIME_KTIME);
	return rec_time + clock->cpus[cpu].base;
}

/* The TSC now: not before everything above it in the program, not after what is below. */
static inline uint64_t xp_clock_now_tsc(void)
{
	uint64_t tsc;

	/* rdtsc waits for nothing by itself; lfence before and after it orders it (Intel SDM, RDTSC). */
	_mm_lfence();
	tsc = __rdtsc();
	_mm_lfence();
	return tsc;
}

/* CLOCK_REALTIME, ns since 1970, at that TSC; the wall clock's steps during the recording do not show in it. */
uint64_t xp_clock_wall_ns(const struct xp_clock *clock, uint64_t tsc);
/* How long so many ticks last. */
uint64_t xp_clock_ns(const struct xp_clock *clock, uint64_t tsc_delta);
/* The reverse: ticks in so many ns. */
uint64_t xp_clock_ticks(const struct xp_clock *clock, uint64_t ns);
/* TSC ticks a second, never 0. Best known after the last xp_clock_update(). */
uint64_t xp_clock_hz(const struct xp_clock *clock);
/* "msr/tsc" when at least one counter was opened, "ktime" otherwise. */
const char *xp_clock_source(const struct xp_clock *clock);
/* After xp_clock_verify(): TSCs from counters are right to +-this; with the source "ktime", the bound of the converted
 * ones. */
uint64_t xp_clock_error_ns(const struct xp_clock *clock);
/* TSCs converted from CLOCK_MONOTONIC were right to +-this so far. */
uint64_t xp_clock_ktime_error_ns(const struct xp_clock *clock);
/* Flags of /proc/cpuinfo, true only when every CPU there has them. */
void xp_clock_cpu_flags(bool *constant_tsc, bool *nonstop_tsc);
/* Whether this machine has a counter that can be opened and read: 0 or -errno, -ENOENT without the msr PMU. */
int xp_clock_probe(void);
/* The flags as they were when the clock was opened. */
bool xp_clock_constant_tsc(const struct xp_clock *clock);
bool xp_clock_nonstop_tsc(const struct xp_clock *clock);

/* The arithmetic behind, for tests. */

/* The interval of a base from count read between two rdtsc. */
static inline struct xp_clock_interval xp_clock_bracket(uint64_t before, uint64_t count, uint64_t after)
{
	return (struct xp_clock_interval){ before - count, after - count };
}
/* Narrows interval to what it has in common with other. -ERANGE, interval unchanged: they have nothing in common. */
int xp_clock_intersect(struct xp_clock_interval *interval, struct xp_clock_interval other);
/* Ticks a second from ticks in ns; 0 when ns is 0 or the result does not fit. */
uint64_t xp_clock_frequency(uint64_t ticks, uint64_t ns);
/* Ticks a second from the perf mmap page's time_mult and time_shift (ns = ticks * mult >> shift); 0: no such. */
uint64_t xp_clock_frequency_perf(uint32_t time_mult, uint16_t time_shift);
/* The flag words of /proc/cpuinfo's text: true when it has a "flags" line and each such line has the word. */
bool xp_clock_cpuinfo_has(const char *cpuinfo, const char *flag);

#endif
