/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf events of CPUs that go offline. */
#ifndef XPROF_PERF_EVENT_H
#define XPROF_PERF_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* What was read of an event last; zeroed: nothing yet. */
struct xp_perf_event_look {
	uint64_t enabled_ns;
	uint64_t lost; /* records that found no room, with PERF_FORMAT_LOST (Linux 6.0) */
};

/*
 * Whether the event of a CPU is still enabled. One whose CPU went offline never is again, not even when the CPU is back
 * (perf_event_exit_cpu(), kernel/events/core.c), and nothing else tells: the machine may have slept meanwhile.
 * fd: an enabled event with read_format PERF_FORMAT_TOTAL_TIME_ENABLED, and PERF_FORMAT_LOST or not.
 */
bool xp_perf_event_lives(int fd, struct xp_perf_event_look *look);

#endif
