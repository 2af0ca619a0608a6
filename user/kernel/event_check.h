/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks that a record of a ring is complete. A reader checks each record once, before anything else: part of its
 * content may come from memory that a target can write.
 */
#ifndef XPROF_KERNEL_EVENT_CHECK_H
#define XPROF_KERNEL_EVENT_CHECK_H

#include <stddef.h>

#include "xprof/event.h"

/*
 * Returns 0, or -EBADMSG if the record has no kind, is shorter than its kind and counts require, has a count above the
 * limit, or has an unterminated text.
 */
int xp_event_check(const struct xp_event *event, size_t size);

#endif
