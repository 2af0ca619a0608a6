/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes context switches as SWITCH records of perf.data. perf report --latency (perf 6.15) counts the running threads
 * with these records: the count starts at one, each switch in adds one, and each switch out subtracts one
 * (machine__process_switch_event() in tools/perf/util/machine.c). So the switches in and out of a thread must
 * alternate. A switch is missing if the thread was on a CPU when the recording started, or if a record was lost. Then
 * xprof adds the missing switch, with the time of the next switch.
 */
#ifndef XPROF_SAMPLE_PERF_SWITCHES_H
#define XPROF_SAMPLE_PERF_SWITCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "format/perfdata.h"
#include "sample/perf_threads.h"

/* Initially zeroed: no record is written yet. */
struct xp_perf_switches {
	bool has_begun;
};

/* These return 0 or an error of the writer. */
int xp_perf_switches_in(struct xp_perf_switches *switches, struct xp_perfdata *perfdata, struct xp_perf_thread *thread,
			uint64_t tsc, uint32_t cpu);
int xp_perf_switches_out(struct xp_perf_switches *switches, struct xp_perfdata *perfdata, struct xp_perf_thread *thread,
			 uint64_t tsc, uint32_t cpu, bool preempted);
/* Call this when the thread has exited, or when its TID belongs to a new thread. */
int xp_perf_switches_end(struct xp_perfdata *perfdata, struct xp_perf_thread *thread, uint64_t tsc);

#endif
