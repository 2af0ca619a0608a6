/* SPDX-License-Identifier: BSD-2-Clause */
/* An event with its size, CPU and time, as the merge (kernel/merge.h) returns it. */
#ifndef XPROF_EVENT_ARRIVAL_H
#define XPROF_EVENT_ARRIVAL_H

#include <stddef.h>
#include <stdint.h>

#include "xprof/event.h"

struct xp_arrival {
	const struct xp_event *event; /* valid until the next event arrives */
	size_t size;		      /* size of the event in the ring, in bytes; may be larger than its content */
	unsigned int cpu;
	uint64_t tsc; /* time of the event */
};

#endif
