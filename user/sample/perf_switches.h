/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Context switches, as SWITCH records of perf.data. perf report --latency (perf 6.15) counts from them how many threads
 * run: it starts with one, adds one for each switch in, and subtracts one for each switch out
 * (machine__process_switch_event() in tools/perf/util/machine.c). So the records of a thread must alternate. If one is
 * missing, because the thread had a CPU when the recording began or a record was lost, it is written with the time of
 * the next one.
 */
#ifndef XPROF_SAMPLE_PERF_SWITCHES_H
#define XPROF_SAMPLE_PERF_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "format/perfdata.h"
#include "sample/perf_threads.h"

/* Zeroed: nothing is written yet. */
struct xp_perf_switches {
	bool has_begun;
};

/* These return 0 or an error of the writer. */
int xp_perf_switches_in(struct xp_perf_switches *switches, struct xp_perfdata *perfdata, struct xp_perf_thread *thread,
			uint64_t tsc, uint32_t cpu);
int xp_perf_switches_out(struct xp_perf_switches *switches, struct xp_perfdata *perfdata, struct xp_perf_thread *thread,
			 uint64_t tsc, uint32_t cpu, bool preempted);
/* The thread ended, or its id now means another one. */
int xp_perf_switches_end(struct xp_perfdata *perfdata, struct xp_perf_thread *thread, uint64_t tsc);

#endif
