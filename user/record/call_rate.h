/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the calls of the targets' functions for a moment, before sleds are attached, and computes what recording them
 * will cost.
 */
#ifndef XPROF_RECORD_CALL_RATE_H
#define XPROF_RECORD_CALL_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/probe_cost.h"
#include "sled/object.h"

struct xp_probes;
struct xp_targets;

/* An object whose calls were counted. */
struct xp_call_rate_object {
	struct xp_object *object;
	uint64_t *calls; /* [functions of the object + 1], indexed by function ID */
};

/* Owns the counts; the objects are those of the recording. */
struct xp_call_rates {
	bool made; /* if not set, only probe_cost may be known */
	struct xp_call_rate_object *objects;
	size_t object_count;
	size_t object_room;
	size_t processes;
	size_t sleds;
	uint64_t own_ns;   /* CPU time of the targets during the count, without that of the counting */
	bool follows;	   /* children of fork() are recorded, too, by patched sleds, but not in memory */
	bool has_children; /* some of the processes are such children */
	struct xp_probe_cost probe_cost;
	struct xp_forecast_input input;
	/* After xp_call_rates_forecast(): */
	struct xp_forecast forecast;
	double call_ns;	 /* cost of a call, the average of those counted, or a typical one; 0: not known */
	double child_ns; /* of a call in children to come, where it costs more; otherwise 0 */
};

/*
 * Counts the calls of the running targets for a moment, and estimates the cost of recording them. Requires
 * uprobe_multi. Without it, or after an error, which -v shows, there is no estimate, and the recording continues.
 */
void xp_call_rates_count(struct xp_targets *targets);
void xp_call_rates_free(struct xp_call_rates *rates);
/* Makes the forecast, once it is known which sleds are probed and which are patched. */
void xp_call_rates_forecast(struct xp_call_rates *rates, const struct xp_probes *probes);
/* "4812 sleds, about 310 000 calls/s: ..." Empty if not even the cost of a call is known. */
void xp_call_rates_text(const struct xp_call_rates *rates, char *text, size_t size);
/* Two significant digits, and groups of three digits: "310 000". */
void xp_call_rates_format(char *to, size_t size, double rate);

#endif
