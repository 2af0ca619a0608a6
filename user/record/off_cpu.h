/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The waits of a recording (record --off-cpu): owns the BPF programs on the scheduler's tracepoints, and the records of
 * waits until they become samples. Without the option, all members are zero and the functions do nothing.
 */
#ifndef XPROF_RECORD_OFF_CPU_H
#define XPROF_RECORD_OFF_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/wait_programs.h"
#include "record/sampling.h"
#include "sample/waits.h"

/*
 * Maximum number of recorded waits per second of all threads together. It bounds the cost for threads and for xprof.
 * Measured with 10, 40 and 160 threads that each wait 100 times per second: a recorded wait costs its thread 5 to 9 us
 * and xprof 2 to 4 us, so the maximum costs 2 to 4 % and 1 to 2 % of a CPU. Sums over 10 s of waits of one kind, each
 * recorded with a small probability, are then exact to 0.5 % (one sigma).
 */
#define XP_OFF_CPU_WAITS_PER_S_MAX 4000u

struct xp_off_cpu {
	bool on;
	struct xp_wait_programs programs;
	struct xp_waits waits;
	/* Counters of this part, as of the last xp_off_cpu_tend() or the end; counters before this part. */
	struct xp_wait_counters counters, counters_before;
	unsigned int slow; /* see xp_wait_programs_slow() */
	uint64_t tended_ns;
};

/*
 * Call this after the other BPF programs and sampling are set up. Borrows sampling. From then on, new threads of
 * targets are recorded. Returns 0 or -errno with a message (why.h).
 */
int xp_off_cpu_setup(struct xp_off_cpu *off_cpu, struct xp_sampling *sampling);
void xp_off_cpu_free(struct xp_off_cpu *off_cpu);

/*
 * Ends a part of the recording and begins the next. A CPU that increments counters during this counts in the next part,
 * so the counts of each part add up. Returns 0 or -errno.
 */
int xp_off_cpu_end_part(struct xp_off_cpu *off_cpu);
void xp_off_cpu_begin_part(struct xp_off_cpu *off_cpu);

/* Starts to record the existing threads of new targets. */
int xp_off_cpu_scan(struct xp_off_cpu *off_cpu);
/* Call this every second. */
int xp_off_cpu_tend(struct xp_off_cpu *off_cpu);
/*
 * Returns the new number of steps for xp_wait_programs_slow(), from the number of recorded waits per second: more steps
 * until the rate is below the maximum, fewer if the rate is below a quarter of the maximum.
 */
unsigned int xp_off_cpu_pace(unsigned int slow, uint64_t rate);
/* Ends open waits. Calls make_room from time to time, because the records of these waits fill the rings. */
void xp_off_cpu_stop(struct xp_off_cpu *off_cpu, void (*make_room)(void *arg), void *arg);

/* Numbers of waits: seen = written + filtered + lost. */
struct xp_off_cpu_totals {
	uint64_t seen;
	uint64_t written;
	uint64_t too_short; /* shorter than the minimum of the option */
	uint64_t skipped;   /* not sampled: written waits represent these waits */
	uint64_t lost;	    /* no space in a ring or on the disk */
	uint64_t missed;    /* counted by the kernel, but not reported; not included in seen */
	/* Sums over all waits, recorded or not. */
	size_t threads;
	double span_ns;
	double blocked_ns;
	double runnable_ns;
};
void xp_off_cpu_totals(const struct xp_off_cpu *off_cpu, struct xp_off_cpu_totals *totals);

#endif
