/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of event kinds: the name, the minimum size and the validity check of each kind. */
#ifndef XPROF_EVENT_KINDS_H
#define XPROF_EVENT_KINDS_H

#include <stdbool.h>
#include <stddef.h>

#include "event/arrival.h"

struct xp_kind {
	const char *name; /* in the manifest */
	size_t size;	  /* size of the struct in bytes */
	bool of_program;  /* true: a call or event of the target program; false: internal to xprof */
	/*
	 * Returns whether counts and strings in an event of at least `size` bytes are valid. NULL: the kind has none.
	 */
	bool (*is_valid)(const struct xp_event *event, size_t size);
};

/* [0, XP_EVENT_KINDS) */
extern const struct xp_kind xp_kinds[XP_EVENT_KINDS];

/*
 * Validates an event. Call this once, before any other function reads the event: a target may have written a part of
 * it. Returns 0, or -EBADMSG if the kind is unknown, the event is shorter than its kind and its counts require, a count
 * exceeds its limit, or a string has no end.
 */
int xp_event_check(const struct xp_arrival *arrival);

#endif
