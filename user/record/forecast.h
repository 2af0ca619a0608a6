/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a call costs on this machine, and what calls cost the targets: in a recording from the calls of its first
 * moments, and in a dry run from calls that are recorded in the same way, but not stored. Nothing is counted by uprobes
 * beforehand: they slow down what they count.
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
	struct xp_probe_cost probe_cost; /* entry_ns 0: not known */
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
 * Measures the cost of a call, unless no target can have sleds. Needs uprobe_multi. Without it, or after an error,
 * which -v shows, there is no forecast; recording goes on.
 */
void xp_forecast_measure(struct xp_targets *targets);
/* Call it when everything is attached: chooses the cost of a typical call. */
void xp_forecast_expect(struct xp_targets *targets);
/* "4812 sleds, about 310 000 calls/s: ..." Empty if not even the cost of a call is known. */
void xp_forecast_text(const struct xp_forecast *forecast, char *text, size_t size);
/* "4812 sleds and 177 entries and exits" */
void xp_places_text(char *text, size_t size, size_t sleds, size_t sites);
/* Two significant digits, and groups of three digits: "310 000". */
void xp_forecast_format(char *to, size_t size, double rate);

#endif
