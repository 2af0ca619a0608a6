/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clock of a recording is the TSC. BPF programs read it as the count of the msr PMU's tsc event. The count differs
 * from the TSC by a constant per CPU (arch/x86/events/msr.c: the count is the sum of rdtsc differences since the event
 * was enabled). This module opens the counters, determines the constants, and converts to frequency and wall time.
 *
 * Where a counter is missing (no msr PMU, a CPU that came online later), records carry CLOCK_MONOTONIC (XP_TIME_KTIME).
 * The newest pair of both clocks converts those times. So do all records of a recording with call rings: counters lose
 * ticks while others open some, up to a millisecond when a hypervisor takes the CPU then, and rings have the TSC
 * itself.
 *
 * Not thread-safe: xp_clock_update() must not run concurrently with another call on the same clock.
 */
#ifndef XPROF_BASE_CLOCK_H
#define XPROF_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include <x86intrin.h>

#include "base/clock_pair.h"
#include "base/util.h"
#include "xprof/event.h"

/* The possible values of a base: low <= base <= high, in wrapping 64-bit arithmetic. high - low is the uncertainty. */
struct xp_clock_interval {
	uint64_t low;
	uint64_t high;
};

struct xp_clock_cpu {
	uint64_t base;	    /* TSC = count + base */
	uint64_t error_tsc; /* base is accurate to +-this */
	int fd;		    /* the counter; -1: none, or given up */
	bool calibrated;    /* had a counter at the start: base is valid */
};

/* For xp_clock_tsc(), and for the figures at its end. */
struct xp_clock {
	struct xp_clock_cpu *cpus;  /* [cpu_count], indexed by CPU number */
	unsigned int cpu_count;	    /* possible CPUs */
	uint64_t hz;		    /* TSC ticks per second, never 0; most accurate after the last xp_clock_update() */
	uint64_t mono_hz;	    /* TSC ticks per second of CLOCK_MONOTONIC, which NTP slews */
	struct xp_clock_pair mono;  /* CLOCK_MONOTONIC, the newest pair */
	struct xp_clock_pair paced; /* the one from which mono_hz is measured next */
	struct xp_clock_pair real;  /* CLOCK_REALTIME at the start */
	struct xp_clock_pair raw;   /* CLOCK_MONOTONIC_RAW at the start */
	uint64_t ktime_error_ns;    /* worst error so far of a converted CLOCK_MONOTONIC time */
	bool hz_from_kernel;	    /* hz comes from the kernel; otherwise it is measured */
	bool constant_tsc;	    /* as the clock was opened */
	bool nonstop_tsc;
};

/*
 * Opens the counters of all online CPUs and calibrates them. This takes about 20 ms, in which the calling thread visits
 * each CPU. A machine without usable counters also gets a clock; its source is "ktime". Returns 0 or -errno: -ENOMEM,
 * or an error of clock_gettime(2). The caller frees *clock with xp_clock_free().
 */
int xp_clock_open(struct xp_clock **clock);
void xp_clock_free(struct xp_clock *clock);

/*
 * The counter of a CPU for a BPF_MAP_TYPE_PERF_EVENT_ARRAY. The clock keeps ownership. -1: no counter, leave the slot
 * empty.
 */
int xp_clock_counter_fd(const struct xp_clock *clock, int cpu);

/*
 * Call this about once a second. It takes a new pair of CLOCK_MONOTONIC and TSC, refines the frequency, and checks that
 * all counters still run (a counter stops permanently when its CPU goes offline) and are within about 10 us of their
 * bound. A counter that fails the check is given up, and the ticks that it has lost are added to its bound.
 *
 * Returns 1 if a counter was given up. The caller then deletes the map slots whose xp_clock_counter_fd() is now -1, so
 * that programs on those CPUs fall back to CLOCK_MONOTONIC. The base stays valid for records in flight. Returns 0 if no
 * counter was given up, and -errno on failure, which leaves the clock unchanged.
 */
int xp_clock_update(struct xp_clock *clock);

/*
 * The TSC now, for a pass over records: those that are stamped later are not older, whichever clock they have. Takes a
 * new pair of CLOCK_MONOTONIC and TSC, so that the times of recent records are converted within some 100 ns.
 */
uint64_t xp_clock_mark(struct xp_clock *clock);

/*
 * Call this at the end. It measures on each CPU how many ticks the counter has lost (other users who open counters of
 * the same kind make it lose some), then calls xp_clock_update() a last time. That call gives up only counters that
 * have stopped by then or whose CPU's TSC is out of step. Afterwards xp_clock_error_ns() includes the lost ticks.
 * Returns 0 or -errno.
 */
int xp_clock_verify(struct xp_clock *clock);

/* Converts CLOCK_MONOTONIC to TSC, also for times before the pair. 128 bits hold the product of any two values. */
static inline uint64_t xp_clock_tsc_of_ktime(const struct xp_clock *clock, uint64_t ns)
{
	__int128 delta_ns = (__int128)ns - (__int128)clock->mono.ns;

	return clock->mono.tsc + (uint64_t)(delta_ns * (__int128)clock->mono_hz / (__int128)XP_NS_PER_S);
}

/* Converts xp_event.time of a record from this CPU's ring to TSC. */
static inline uint64_t xp_clock_tsc(const struct xp_clock *clock, unsigned int cpu, uint64_t rec_time)
{
	if (__builtin_expect(rec_time & XP_TIME_KTIME || cpu >= clock->cpu_count, 0))
		return xp_clock_tsc_of_ktime(clock, rec_time & ~XP_TIME_KTIME);
	return rec_time + clock->cpus[cpu].base;
}

/* Reads the TSC, ordered after all earlier and before all later instructions of the program. */
static inline uint64_t xp_clock_now_tsc(void)
{
	uint64_t tsc;

	/* rdtsc is not serializing. lfence before and after orders it (Intel SDM, RDTSC). */
	_mm_lfence();
	tsc = __rdtsc();
	_mm_lfence();
	return tsc;
}

/* CLOCK_REALTIME at that TSC, ns since 1970. Steps of the wall clock during the recording have no effect. */
uint64_t xp_clock_wall_ns(const struct xp_clock *clock, uint64_t tsc);
/* Converts TSC ticks to ns. */
uint64_t xp_clock_ns(const struct xp_clock *clock, uint64_t tsc_delta);
/* Converts ns to TSC ticks. */
uint64_t xp_clock_ticks(const struct xp_clock *clock, uint64_t ns);
/* "msr/tsc" if at least one counter was opened, otherwise "ktime". */
const char *xp_clock_source(const struct xp_clock *clock);
/*
 * The error bound of TSCs from counters, valid after xp_clock_verify(). With the source "ktime": the bound of converted
 * times.
 */
uint64_t xp_clock_error_ns(const struct xp_clock *clock);
/* Reads the flags from /proc/cpuinfo. A flag is true only if every CPU listed there has it. */
void xp_clock_cpu_flags(bool *constant_tsc, bool *nonstop_tsc);
/*
 * Checks that this machine has a counter that can be opened and read. Returns 0 or -errno: -ENOENT without the msr PMU.
 */
int xp_clock_probe(void);

/* ---- arithmetic, public for tests ---- */

/* The interval of a base, from a count that was read between two rdtsc. */
static inline struct xp_clock_interval xp_clock_bracket(uint64_t before, uint64_t count, uint64_t after)
{
	return (struct xp_clock_interval){ before - count, after - count };
}
/*
 * Narrows interval to its intersection with other. Returns 0 or -ERANGE: they do not intersect, interval is unchanged.
 */
int xp_clock_intersect(struct xp_clock_interval *interval, struct xp_clock_interval other);
/* Ticks per second, from ticks in ns. Returns 0 if ns is 0 or the result does not fit. */
uint64_t xp_clock_frequency(uint64_t ticks, uint64_t ns);
/*
 * Ticks per second, from time_mult and time_shift of the perf mmap page (ns = ticks * mult >> shift). Returns 0 if they
 * are invalid.
 */
uint64_t xp_clock_frequency_perf(uint32_t time_mult, uint16_t time_shift);
/* Searches the text of /proc/cpuinfo. Returns true if it has a "flags" line and every such line has the flag. */
bool xp_clock_cpuinfo_has(const char *cpuinfo, const char *flag);

#endif
