/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The waits of a recording (record --off-cpu): owns the programs on the scheduler's tracepoints, and the records of
 * waits until they are samples. Without the option, all is zero and the functions do nothing.
 */
#ifndef XPROF_RECORD_OFF_CPU_H
#define XPROF_RECORD_OFF_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/wait_programs.h"
#include "record/sampling.h"
#include "sample/waits.h"

/*
 * How many waits a second may be recorded of all threads together. It bounds what the records cost the threads and the
 * reader, however many threads wait. Measured with 10, 40 and 160 threads that wait 100 times a second each: a recorded
 * wait takes 5 to 9 us of its thread and 2 to 4 us of xprof, so these are 2 to 4 % and 1 to 2 % of a CPU. Sums over
 * 10 s of waits of one kind, if each was recorded with a small chance, are then right within 0.5 % (one sigma).
 */
#define XP_OFF_CPU_WAITS_PER_S_MAX 4000u

struct xp_off_cpu {
	bool on;
	struct xp_wait_programs programs;
	struct xp_waits waits;
	/* Of this part of the recording, as of the last xp_off_cpu_tend(), or the end; and before this part. */
	struct xp_wait_counters counters, counters_before;
	unsigned int slow; /* see xp_wait_programs_slow() */
	uint64_t tended_ns;
};

/*
 * After the other programs and sampling, which is borrowed. From then on, threads that targets create are recorded.
 * Returns 0 or -errno with a sentence (why.h).
 */
int xp_off_cpu_setup(struct xp_off_cpu *off_cpu, struct xp_sampling *sampling);
void xp_off_cpu_free(struct xp_off_cpu *off_cpu);

/*
 * A part of the recording ends, and a new one begins. While the counters are read, a CPU may be between two of them:
 * what it counts is counted in the next part, so that the numbers of each part add up. Returns 0 or -errno.
 */
int xp_off_cpu_end_part(struct xp_off_cpu *off_cpu);
void xp_off_cpu_begin_part(struct xp_off_cpu *off_cpu);

/* Records the threads that new targets have. */
int xp_off_cpu_scan(struct xp_off_cpu *off_cpu);
/* Call it every second. */
int xp_off_cpu_tend(struct xp_off_cpu *off_cpu);
/*
 * Returns the new number of steps for xp_wait_programs_slow(), given the recorded waits per second: as many steps more
 * as bring the rate below the maximum; fewer if the rate is below a quarter of the maximum.
 */
unsigned int xp_off_cpu_pace(unsigned int slow, uint64_t rate);
/* Ends the waits that are open. make_room: called now and then, since their records fill the rings. */
void xp_off_cpu_stop(struct xp_off_cpu *off_cpu, void (*make_room)(void *arg), void *arg);

/* The numbers of waits: seen = written + filtered + lost. */
struct xp_off_cpu_totals {
	uint64_t seen;
	uint64_t written;
	uint64_t too_short; /* shorter than the minimum of the option */
	uint64_t skipped;   /* not sampled: the written waits represent these waits */
	uint64_t lost;	    /* no space in a ring, or no place on the disk */
	uint64_t missed;    /* the kernel counted them, but did not report them; not part of seen */
	/* The sums of all waits, recorded or not. */
	size_t threads;
	double span_ns;
	double blocked_ns;
	double runnable_ns;
};
void xp_off_cpu_totals(const struct xp_off_cpu *off_cpu, struct xp_off_cpu_totals *totals);

#endif
