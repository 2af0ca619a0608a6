/* SPDX-License-Identifier: BSD-2-Clause */
/* An event as the merge (kernel/merge.h) passes it on, with its size, CPU and time. */
#ifndef XPROF_EVENT_ARRIVAL_H
#define XPROF_EVENT_ARRIVAL_H

#include <stddef.h>
#include <stdint.h>

#include "xprof/event.h"

struct xp_arrival {
	const struct xp_event *event; /* valid until the next one arrives */
	size_t size;		      /* of the event in the ring, in bytes; may be more than what it holds */
	unsigned int cpu;
	uint64_t tsc; /* its time */
};

#endif
