/* SPDX-License-Identifier: BSD-2-Clause */
/* A BPF event, as the merge passes it on. */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include "event/arrival.h"

/* Makes an event from a struct that starts with a struct xp_event. */
#define ARRIVAL(of, at_tsc)                                                                                            \
	(&(const struct xp_arrival){ .event = (const struct xp_event *)&(of), .size = sizeof(of), .tsc = (at_tsc) })

#endif
