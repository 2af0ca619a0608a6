/* SPDX-License-Identifier: BSD-2-Clause */
/* The events of a perf.data file. They define the fields of its records. Records refer to their event by an ID. */
#ifndef XPROF_FORMAT_PERFDATA_EVENTS_H
#define XPROF_FORMAT_PERFDATA_EVENTS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/perfdata_put.h"
#include "format/violation.h"

/* An event, and the section with its IDs. */
struct xp_perfdata_event {
	struct perf_event_attr attr; /* fields that are missing in the file are 0 */
	struct xp_perfdata_section ids;
};

/* Maps an id to its event. */
struct xp_perfdata_id {
	uint64_t id;
	uint64_t event;
};

struct xp_perfdata_events {
	uint64_t count;			  /* at least 1 */
	bool by_id;			  /* the events have different fields: look up the event of each record */
	struct xp_perfdata_event current; /* event of the last record */

	/* private */
	const uint8_t *file;
	uint64_t file_bytes;
	uint64_t offset; /* file offset of the first event */
	uint64_t event_bytes;
	uint64_t current_id;
	struct xp_perfdata_id *ids; /* [id_count], sorted by ID; NULL: no event has IDs */
	size_t id_count;
};

/*
 * Reads the events of the file bytes[size], which must outlive *events. The caller calls xp_perfdata_events_free(),
 * also after an error. Returns 0, or -EBADMSG and sets *violation.
 */
int xp_perfdata_events_read(struct xp_perfdata_events *events, const uint8_t *bytes, uint64_t size,
			    const struct xp_perfdata_header *header, struct xp_violation *violation);
void xp_perfdata_events_free(struct xp_perfdata_events *events);
/* Gets an event. index must be below count. */
void xp_perfdata_events_get(const struct xp_perfdata_events *events, uint64_t index, struct xp_perfdata_event *event);
/* Makes the event with this ID the current one. Returns false if there is none. */
bool xp_perfdata_events_find(struct xp_perfdata_events *events, uint64_t id);

#endif
