// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_events.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"

/* perf writes an event per event and CPU. */
#define EVENTS_MAX 4096
#define IDS_MAX 65536
#define ATTR_BYTES_MAX 4096 /* a page: the kernel's limit */

static uint64_t event_offset(const struct xp_perfdata_events *events, uint64_t index)
{
	return events->offset + index * events->event_bytes;
}

void xp_perfdata_events_get(const struct xp_perfdata_events *events, uint64_t index, struct xp_perfdata_event *event)
{
	const uint8_t *at = events->file + event_offset(events, index);
	uint64_t attr_bytes = events->event_bytes - sizeof(event->ids);

	memset(event, 0, sizeof(*event));
	memcpy(&event->attr, at, XP_MIN(attr_bytes, (uint64_t)sizeof(event->attr)));
	memcpy(&event->ids, at + attr_bytes, sizeof(event->ids));
}

static int check_event(const struct xp_perfdata_events *events, uint64_t index, const struct xp_perfdata_event *event,
		       struct xp_violation *violation)
{
	uint64_t attr_bytes = events->event_bytes - sizeof(event->ids), at = event_offset(events, index);

	if ((event->attr.size ? event->attr.size : PERF_ATTR_SIZE_VER0) != attr_bytes)
		return xp_violate(violation, at + offsetof(struct perf_event_attr, size),
				  "The attributes of an event have %u bytes, but their room in the file is %" PRIu64,
				  event->attr.size, attr_bytes);
	if (!xp_perfdata_fits(&event->ids, events->file_bytes) || event->ids.size % 8)
		return xp_violate(violation, at + attr_bytes, "The ids of an event lie outside the file");
	return 0;
}

/* Returns whether two events have records with the same fields. */
static bool same_layout(const struct perf_event_attr *a, const struct perf_event_attr *b)
{
	return a->sample_type == b->sample_type && a->sample_id_all == b->sample_id_all;
}

static int by_id(const void *a, const void *b)
{
	const struct xp_perfdata_id *x = a, *y = b;

	return xp_compare(x->id, y->id) ?: xp_compare(x->event, y->event);
}

static int read_ids(struct xp_perfdata_events *events, size_t count, struct xp_violation *violation)
{
	if (!count)
		return 0;
	events->ids = calloc(count, sizeof(*events->ids));
	if (!events->ids)
		return xp_violate(violation, 0, "There is not enough memory for the ids of the events");
	for (uint64_t i = 0; i < events->count; i++) {
		struct xp_perfdata_event event;

		xp_perfdata_events_get(events, i, &event);
		for (uint64_t at = 0; at < event.ids.size; at += 8) {
			struct xp_perfdata_id *id = &events->ids[events->id_count++];

			memcpy(&id->id, events->file + event.ids.offset + at, sizeof(id->id));
			id->event = i;
		}
	}
	qsort(events->ids, events->id_count, sizeof(*events->ids), by_id);
	return 0;
}

int xp_perfdata_events_read(struct xp_perfdata_events *events, const uint8_t *bytes, uint64_t size,
			    const struct xp_perfdata_header *header, struct xp_violation *violation)
{
	uint64_t at = offsetof(struct xp_perfdata_header, attr_size), ids = 0, with_id = 0;

	*events = (struct xp_perfdata_events){
		.file = bytes, .file_bytes = size, .offset = header->attrs.offset, .event_bytes = header->attr_size
	};
	if (header->attr_size < PERF_ATTR_SIZE_VER0 + sizeof(struct xp_perfdata_section) ||
	    header->attr_size > ATTR_BYTES_MAX)
		return xp_violate(violation, at, "An event has %" PRIu64 " bytes", header->attr_size);
	events->count = header->attrs.size / header->attr_size;
	if (header->attrs.size % header->attr_size || !events->count || events->count > EVENTS_MAX)
		return xp_violate(violation, at,
				  "The events take %" PRIu64 " bytes, which is not 1 to %d times %" PRIu64,
				  header->attrs.size, EVENTS_MAX, header->attr_size);
	xp_perfdata_events_get(events, 0, &events->current);
	for (uint64_t i = 0; i < events->count; i++) {
		struct xp_perfdata_event event;
		int err;

		xp_perfdata_events_get(events, i, &event);
		err = check_event(events, i, &event, violation);
		if (err)
			return err;
		ids += event.ids.size / 8;
		if (ids > IDS_MAX)
			return xp_violate(violation, event_offset(events, i), "The events have more than %d ids",
					  IDS_MAX);
		events->by_id |= !same_layout(&event.attr, &events->current.attr);
		with_id += !!(event.attr.sample_type & PERF_SAMPLE_IDENTIFIER);
	}
	if (events->by_id && with_id != events->count)
		return xp_violate(violation, header->attrs.offset,
				  "The events differ in what their records hold, and the records have no event id");
	return read_ids(events, ids, violation);
}

void xp_perfdata_events_free(struct xp_perfdata_events *events)
{
	free(events->ids);
	events->ids = NULL;
	events->id_count = 0;
}

bool xp_perfdata_events_find(struct xp_perfdata_events *events, uint64_t id)
{
	size_t at;

	if (id && id == events->current_id)
		return true;
	/* ID 0 matches any event. */
	if (!id) {
		xp_perfdata_events_get(events, 0, &events->current);
		events->current_id = 0;
		return true;
	}
	at = XP_FIND_FIRST(events->id_count, i, events->ids[i].id < id);
	if (at == events->id_count || events->ids[at].id != id)
		return false;
	xp_perfdata_events_get(events, events->ids[at].event, &events->current);
	events->current_id = id;
	return true;
}
