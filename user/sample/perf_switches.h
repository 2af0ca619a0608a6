/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who has a CPU, as SWITCH records of the perf.data file. From them perf report --latency (perf 6.15) counts how many
 * threads run at a time: it adds one for each switch in, takes one off for each switch out, and begins with one
 * (machine__process_switch_event() in tools/perf/util/machine.c). So for each thread the file has them by turns. Where
 * the scheduler's program saw only one of two (the thread had a CPU when the recording began, or the other record was
 * lost), the missing one is written at the same time.
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
