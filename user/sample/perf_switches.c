// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_switches.h"

static int put(struct xp_perfdata *perfdata, struct xp_perf_thread *thread, uint64_t tsc, bool out, bool preempted)
{
	thread->running = out ? XP_PERF_NOT_RUNNING : XP_PERF_RUNNING;
	return xp_perfdata_switch(perfdata, &(struct xp_perfdata_switch){ .tsc = tsc,
									  .pid = thread->pid,
									  .tid = thread->tid,
									  .cpu = thread->cpu,
									  .out = out,
									  .preempted = preempted });
}

int xp_perf_switches_in(struct xp_perf_switches *switches, struct xp_perfdata *perfdata, struct xp_perf_thread *thread,
			uint64_t tsc, uint32_t cpu)
{
	int err = 0;

	/*
	 * perf's count starts at one, so the first record of the file must be a switch out. Also add a switch out that
	 * was lost.
	 */
	if (thread->running == XP_PERF_RUNNING || !switches->has_begun)
		err = put(perfdata, thread, tsc, true, false);
	switches->has_begun = true;
	thread->cpu = cpu;
	return put(perfdata, thread, tsc, false, false) ?: err;
}

int xp_perf_switches_out(struct xp_perf_switches *switches, struct xp_perfdata *perfdata, struct xp_perf_thread *thread,
			 uint64_t tsc, uint32_t cpu, bool preempted)
{
	int err = 0;

	if (thread->running != XP_PERF_RUNNING)
		err = xp_perf_switches_in(switches, perfdata, thread, tsc, cpu);
	thread->cpu = cpu;
	return put(perfdata, thread, tsc, true, preempted) ?: err;
}

int xp_perf_switches_end(struct xp_perfdata *perfdata, struct xp_perf_thread *thread, uint64_t tsc)
{
	return thread->running == XP_PERF_RUNNING ? put(perfdata, thread, tsc, true, false) : 0;
}
