/* SPDX-License-Identifier: BSD-2-Clause */
/* The start of a perf.data file that xprof writes: the header, and the events with their ids. */
#ifndef XPROF_FORMAT_PERFDATA_HEAD_H
#define XPROF_FORMAT_PERFDATA_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "format/perfdata.h"
#include "format/perfdata_put.h"

/* The ID of an event is its index + 1. A file with only one event has no IDs. */
enum { XP_PERFDATA_EVENT_SAMPLES, XP_PERFDATA_EVENT_WAITS, XP_PERFDATA_EVENTS_MAX = 3 };
struct xp_perfdata_head_event {
	uint8_t attr[XP_PERFDATA_ATTR_BYTES];
	struct xp_perfdata_section ids; /* empty in a file with only one event */
};

/* The IDs follow the last event of the file. In a file with only one event, the head ends after that event. */
struct xp_perfdata_head {
	struct xp_perfdata_header header;
	struct xp_perfdata_head_event events[XP_PERFDATA_EVENTS_MAX];
	uint64_t ids[XP_PERFDATA_EVENTS_MAX]; /* space for the IDs, at the end of the head that is written */
};

/* Number of events. */
static inline size_t xp_perfdata_head_count(const struct xp_perfdata_options *options)
{
	return 1 + options->waits + options->usdt;
}

/* Index of the event of USDT probes: the last one. */
static inline size_t xp_perfdata_head_usdt(const struct xp_perfdata_options *options)
{
	return xp_perfdata_head_count(options) - 1;
}

size_t xp_perfdata_head_bytes(const struct xp_perfdata_options *options);
void xp_perfdata_head_fill(struct xp_perfdata_head *head, const struct xp_perfdata_options *options);

#endif
