/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf events of CPUs that go offline. */
#ifndef XPROF_KERNEL_PERF_EVENT_H
#define XPROF_KERNEL_PERF_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* The values last read from an event; zeroed: none yet. */
struct xp_perf_event_look {
	uint64_t enabled_ns;
	uint64_t lost; /* records lost for lack of room, with PERF_FORMAT_LOST (Linux 6.0) */
};

/*
 * Whether the event of a CPU is still enabled. Once its CPU goes offline, an event is never enabled again, even when
 * the CPU returns (perf_event_exit_cpu(), kernel/events/core.c). No other sign of this is reliable: the machine may
 * have been suspended in between. fd: an enabled event with read_format PERF_FORMAT_TOTAL_TIME_ENABLED, with or without
 * PERF_FORMAT_LOST.
 */
bool xp_perf_event_lives(int fd, struct xp_perf_event_look *look);

#endif
