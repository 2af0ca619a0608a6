/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An entry or exit of a function. It arrives through the kernel (from a probe on the function or from the uprobe of the
 * stub) or in a call ring (sled/call_ring.h), which the stub writes. XRay's custom and typed events have the same form.
 */
#ifndef XPROF_EVENT_CALL_H
#define XPROF_EVENT_CALL_H

#include <stdbool.h>

#include "event/arrival.h"

struct xp_call {
	uint64_t tsc;
	uint32_t word; /* xp_event_word() of the function ID and the event kind */
	uint32_t slot; /* stack address of the return address, in units of 8 bytes, as xp_event.sp */
	uint16_t cpu;
	bool in_memory;		    /* true: from a call ring */
	uint8_t fell_through;	    /* enum xp_fell_through */
	xp_event_position position; /* for an event: the number of earlier calls in the call ring of its thread */
	/*
	 * The event if the kind has more data than the members above, otherwise NULL. Valid until the next event
	 * arrives.
	 */
	const struct xp_event *event;
};

static inline uint32_t xp_call_fn(const struct xp_call *call)
{
	return call->word & XP_FN_MAX;
}

static inline enum xp_event_kind xp_call_kind(const struct xp_call *call)
{
	return (enum xp_event_kind)(call->word >> XP_FN_BITS);
}

static inline bool xp_call_is_entry(const struct xp_call *call)
{
	return xp_call_kind(call) == XP_EVENT_ENTRY || xp_call_kind(call) == XP_EVENT_ENTRY_ARGS;
}

/* Converts a checked event (kinds.h) of a target program to a call. */
static inline struct xp_call xp_call_of(const struct xp_arrival *arrival)
{
	const struct xp_event *event = arrival->event;
	struct xp_call call = { arrival->tsc, event->word, event->sp, .cpu = (uint16_t)arrival->cpu };

	if (xp_call_kind(&call) == XP_EVENT_GO_ENTRY || xp_call_kind(&call) == XP_EVENT_GO_EXIT) {
		call.word = xp_event_word(event->word,
					  xp_call_kind(&call) == XP_EVENT_GO_ENTRY ? XP_EVENT_ENTRY : XP_EVENT_EXIT);
	} else if (xp_call_kind(&call) == XP_EVENT_ENTRY_ARGS) {
		call.position = ((const struct xp_event_args *)event)->position;
		call.event = event;
	} else if (xp_call_kind(&call) > XP_EVENT_TAIL_EXIT) {
		call.position = ((const struct xp_event_payload *)event)->position;
		call.event = event;
	} else if (arrival->size >= sizeof(struct xp_event_call)) {
		call.position = ((const struct xp_event_call *)event)->position;
		call.fell_through = (uint8_t)((const struct xp_event_call *)event)->fell_through;
	}
	return call;
}

#endif
