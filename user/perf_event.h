/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf events of CPUs that go offline. */
#ifndef XPROF_PERF_EVENT_H
#define XPROF_PERF_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the event of a CPU is still enabled. One whose CPU went offline never is again, not even when the CPU is back
 * (perf_event_exit_cpu(), kernel/events/core.c), and nothing else tells: the machine may have slept meanwhile.
 * fd: an enabled event with read_format PERF_FORMAT_TOTAL_TIME_ENABLED. enabled_ns: 0 first, then of the last look.
 */
bool xp_perf_event_lives(int fd, uint64_t *enabled_ns);

#endif
