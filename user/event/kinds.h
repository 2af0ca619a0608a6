/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of event kinds: the name, the minimum size and the validity check of each kind. */
#ifndef XPROF_EVENT_KINDS_H
#define XPROF_EVENT_KINDS_H

#include <stdbool.h>
#include <stddef.h>

#include "event/arrival.h"

struct xp_kind {
	const char *name; /* in the manifest */
	size_t size;	  /* of its struct, in bytes */
	bool of_program;  /* a call or an event of the target's program; others are internal to xprof */
	/* Whether counts and texts in an event of at least that size are valid; NULL: it has none. */
	bool (*is_valid)(const struct xp_event *event, size_t size);
};

/* [0, XP_EVENT_KINDS) */
extern const struct xp_kind xp_kinds[XP_EVENT_KINDS];

/*
 * Checks an event once, before anything else reads it: part of its content may come from memory that a target can
 * write. Returns 0, or -EBADMSG if the event has no kind, is shorter than its kind and counts require, has a count
 * above the limit, or has a text without an end.
 */
int xp_event_check(const struct xp_arrival *arrival);

#endif
