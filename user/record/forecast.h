/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of a call on this machine, and the cost of all calls for the targets. In a recording, they come from the
 * calls of its first moments; in a dry run, from calls that are recorded but not stored. xprof does not count calls
 * with uprobes beforehand, because uprobes would slow down the calls.
 */
#ifndef XPROF_RECORD_FORECAST_H
#define XPROF_RECORD_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/cost_watch.h"
#include "budget/probe_cost.h"

struct xp_probes;
struct xp_targets;

struct xp_forecast {
	struct xp_probe_cost probe_cost; /* entry_ns 0: unknown */
	/* After xp_forecast_expect(): */
	size_t sleds;
	size_t sites;		/* entries and exits of functions without sleds */
	uint64_t private_bytes; /* of code: see xp_object_page_bytes() */
	bool probed;		/* some of them have uprobes, so that a dry run records no calls */
	double call_ns;		/* cost of a call of the object with most sleds; 0: not known */
	double child_ns;	/* of a call in children to come, where it costs more; otherwise 0 */
	/* Calls were recorded: */
	bool made;
	struct xp_cost_seen seen;
};

/*
 * Measures the cost of a call, unless no target can have sleds. Requires uprobe_multi. Without uprobe_multi or after an
 * error (printed with -v), there is no forecast, and recording continues.
 */
void xp_forecast_measure(struct xp_targets *targets);
/* Call this after everything is attached: chooses the cost of a typical call. */
void xp_forecast_expect(struct xp_targets *targets);
/* Formats "4812 sleds, about 310 000 calls/s: ..."; "" if the cost of a call is unknown. */
void xp_forecast_text(const struct xp_forecast *forecast, char *text, size_t size);
/* Formats "4812 sleds and 177 entries and exits". */
void xp_places_text(char *text, size_t size, size_t sleds, size_t sites);
/* Formats two significant digits and groups of three digits: "310 000". */
void xp_forecast_format(char *to, size_t size, double rate);

#endif
