/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clock of a recording. It is the TSC, because call rings and FDR logs contain TSC values. BPF programs read
 * CLOCK_MONOTONIC; this module converts that to TSC. It also has the frequency of the TSC and the wall time.
 *
 * xprof reads a pair of both clocks before each pass over the rings, and converts the times of recent events with it.
 * With passes 1 to 100 ms apart on two busy CPUs of a virtual machine, 99 of 100 times were within 170 ns, and no
 * events changed their order.
 *
 * Not thread-safe: xp_clock_update() and xp_clock_mark() must not run concurrently with another call on the same clock.
 */
#ifndef XPROF_BASE_CLOCK_H
#define XPROF_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

#include "base/util.h"

/* The same moment on a kernel clock and on the TSC. The TSC value is accurate to +-error_tsc cycles. */
struct xp_clock_pair {
	uint64_t tsc;
	uint64_t ns;
	uint64_t error_tsc;
};

struct xp_clock {
	uint64_t hz;		    /* TSC ticks per second, never 0; most accurate after the last xp_clock_update() */
	uint64_t mono_hz;	    /* TSC ticks per second of CLOCK_MONOTONIC, which NTP slews */
	struct xp_clock_pair mono;  /* CLOCK_MONOTONIC, the newest pair */
	struct xp_clock_pair paced; /* the pair from which mono_hz is measured next */
	struct xp_clock_pair real;  /* CLOCK_REALTIME at the start, or at the last xp_clock_new_wall() */
	struct xp_clock_pair raw;   /* CLOCK_MONOTONIC_RAW at the start */
	uint64_t error_ns;	    /* worst error so far of a converted time */
	bool hz_from_kernel;	    /* the kernel reported hz; otherwise hz was measured */
	bool constant_tsc;	    /* CPU flags when the clock was opened */
	bool nonstop_tsc;
};

/*
 * Opens the clock. If the kernel does not report the TSC frequency, this takes 20 ms. Returns 0 or -errno: -ENOMEM, or
 * an error of clock_gettime(2). The caller frees *clock with xp_clock_free().
 */
int xp_clock_open(struct xp_clock **clock);
void xp_clock_free(struct xp_clock *clock);

/*
 * Reads a new pair and refines the frequencies. Call this about once a second, and at the end. Returns 0, or -errno and
 * leaves the clock unchanged.
 */
int xp_clock_update(struct xp_clock *clock);

/*
 * Reads a new pair and returns the current TSC. Events that are recorded after this call have this TSC or a later one.
 */
uint64_t xp_clock_mark(struct xp_clock *clock);

/*
 * Converts CLOCK_MONOTONIC, as in xp_event.time, to TSC. Times before the pair are valid, too. 128 bits hold the
 * product of any two values.
 */
static inline uint64_t xp_clock_tsc(const struct xp_clock *clock, uint64_t ns)
{
	__int128 delta_ns = (__int128)ns - (__int128)clock->mono.ns;

	return clock->mono.tsc + (uint64_t)(delta_ns * (__int128)clock->mono_hz / (__int128)XP_NS_PER_S);
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

/*
 * Reads the wall time again, for times from now on: over days, the error of hz adds up, and the wall clock may be set.
 * Returns 0, or -errno and leaves the clock unchanged.
 */
int xp_clock_new_wall(struct xp_clock *clock);
/* Returns CLOCK_REALTIME at that TSC, in ns since 1970. Ignores steps since the last xp_clock_new_wall(). */
uint64_t xp_clock_wall_ns(const struct xp_clock *clock, uint64_t tsc);
/* Converts TSC ticks to ns. */
uint64_t xp_clock_ns(const struct xp_clock *clock, uint64_t tsc_delta);
/* Converts ns to TSC ticks. */
uint64_t xp_clock_ticks(const struct xp_clock *clock, uint64_t ns);
/* Reads the flags of the first CPU in /proc/cpuinfo. */
void xp_clock_cpu_flags(bool *constant_tsc, bool *nonstop_tsc);

/* ---- arithmetic, public for tests ---- */

/* Returns ticks per second, for a number of ticks in ns. Returns 0 if ns is 0 or the result does not fit. */
uint64_t xp_clock_frequency(uint64_t ticks, uint64_t ns);
/*
 * Returns ticks per second, from time_mult and time_shift of the perf mmap page (ns = ticks * mult >> shift). Returns 0
 * if they are invalid.
 */
uint64_t xp_clock_frequency_perf(uint32_t time_mult, uint16_t time_shift);

#endif
