/* SPDX-License-Identifier: BSD-2-Clause */
/* An event of BPF as the merge hands it on. */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include "event/arrival.h"

/* of: a struct that begins with a struct xp_event. */
#define ARRIVAL(of, at_tsc)                                                                                            \
	(&(const struct xp_arrival){ .event = (const struct xp_event *)&(of), .size = sizeof(of), .tsc = (at_tsc) })

#endif
