/* SPDX-License-Identifier: BSD-2-Clause */
/* The events of a perf.data file, which say what its records hold, and the ids by which records name their events. */
#ifndef XPROF_FORMAT_PERFDATA_EVENTS_H
#define XPROF_FORMAT_PERFDATA_EVENTS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/perfdata_put.h"
#include "format/violation.h"

/* An event, and the section of its ids. */
struct xp_perfdata_event {
	struct perf_event_attr attr; /* fields that the file does not have are 0 */
	struct xp_perfdata_section ids;
};

/* Maps an id to its event. */
struct xp_perfdata_id {
	uint64_t id;
	uint64_t event;
};

struct xp_perfdata_events {
	uint64_t count;			  /* at least 1 */
	bool by_id;			  /* their record layouts differ: each record's event must be looked up */
	struct xp_perfdata_event current; /* of the last record */

	/* private */
	const uint8_t *file;
	uint64_t file_bytes;
	uint64_t offset; /* of the first event */
	uint64_t event_bytes;
	uint64_t current_id;
	struct xp_perfdata_id *ids; /* [id_count], sorted by id; NULL: no event has ids */
	size_t id_count;
};

/*
 * bytes[size] is the file, which must outlive *events. Call xp_perfdata_events_free() on success and on error. Returns
 * 0, or -EBADMSG and sets *violation.
 */
int xp_perfdata_events_read(struct xp_perfdata_events *events, const uint8_t *bytes, uint64_t size,
			    const struct xp_perfdata_header *header, struct xp_violation *violation);
void xp_perfdata_events_free(struct xp_perfdata_events *events);
/* index < count. */
void xp_perfdata_events_get(const struct xp_perfdata_events *events, uint64_t index, struct xp_perfdata_event *event);
/* Makes the event with this id current. Returns false if there is none. */
bool xp_perfdata_events_find(struct xp_perfdata_events *events, uint64_t id);

#endif
