/* SPDX-License-Identifier: BSD-2-Clause */
/* Where an event of each kind goes. */
#ifndef XPROF_RECORD_ARRIVALS_H
#define XPROF_RECORD_ARRIVALS_H

#include "record/recording.h"

/* Checks an event and hands it to what handles its kind. Returns 0 or -errno: -EBADMSG if it is not valid. */
int xp_arrivals_take(struct xp_recording *recording, const struct xp_arrival *arrival);

#endif
