// SPDX-License-Identifier: BSD-2-Clause
#include "check/perfetto_reading.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define ID_BITS 38 /* of interned ids in keys */
#define KIND_BITS 4
_Static_assert(XP_PERFETTO_STATES_MAX == 1u << (64 - ID_BITS - KIND_BITS), "keys have room for all");

/* ---- fields ---- */

enum { NUMBER = 1, BYTES, NUMBERS, FIXED };

struct rule {
	uint32_t number;
	uint32_t type;
};

#define RULES 16
static const struct rule rules[][RULES] = {
	[XP_PERFETTO_PACKET] = { { 6, BYTES },
				 { 8, NUMBER },
				 { 10, NUMBER },
				 { 11, BYTES },
				 { 12, BYTES },
				 { 13, NUMBER },
				 { 45, BYTES },
				 { 50, BYTES },
				 { 58, NUMBER },
				 { 59, BYTES },
				 { 60, BYTES },
				 { 135, BYTES } },
	[XP_PERFETTO_DEFAULTS] = { { 11, BYTES }, { 58, NUMBER }, { 100, BYTES } },
	[XP_PERFETTO_EVENT_DEFAULTS] = { { 11, NUMBER } },
	[XP_PERFETTO_SNAPSHOT] = { { 1, BYTES }, { 2, NUMBER } },
	[XP_PERFETTO_CLOCK] = { { 1, NUMBER }, { 2, NUMBER }, { 3, NUMBER }, { 4, NUMBER } },
	[XP_PERFETTO_TRACK_DESCRIPTOR] = { { 1, NUMBER }, { 2, BYTES }, { 3, BYTES }, { 4, BYTES }, { 5, NUMBER } },
	[XP_PERFETTO_TRACK_EVENT] = { { 4, BYTES },
				      { 9, NUMBER },
				      { 10, NUMBER },
				      { 11, NUMBER },
				      { 23, BYTES },
				      { 47, FIXED },
				      { 48, FIXED } },
	[XP_PERFETTO_ANNOTATION] = { { 1, NUMBER }, { 3, NUMBER }, { 6, BYTES }, { 10, BYTES } },
	[XP_PERFETTO_INTERNED_DATA] = { { 2, BYTES },
					{ 3, BYTES },
					{ 5, BYTES },
					{ 6, BYTES },
					{ 7, BYTES },
					{ 16, BYTES },
					{ 17, BYTES },
					{ 18, BYTES },
					{ 19, BYTES } },
	[XP_PERFETTO_INTERNED_TEXT] = { { 1, NUMBER }, { 2, BYTES } },
	[XP_PERFETTO_MAPPING] = { { 1, NUMBER }, { 2, NUMBER }, { 7, NUMBERS } },
	[XP_PERFETTO_FRAME] = { { 1, NUMBER },
				{ 2, NUMBER },
				{ 3, NUMBER },
				{ 4, NUMBER },
				{ 5, NUMBER },
				{ 6, NUMBER },
				{ 7, NUMBER },
				{ 8, BYTES } },
	[XP_PERFETTO_CALLSTACK] = { { 1, NUMBER }, { 2, NUMBERS } },
	[XP_PERFETTO_SAMPLE] = { { 1, BYTES }, { 3, BYTES }, { 6, NUMBER }, { 11, NUMBER } },
	[XP_PERFETTO_TASK] = { { 2, NUMBER }, { 3, NUMBER } },
	[XP_PERFETTO_EXECUTION] = { { 2, NUMBER }, { 3, NUMBER } },
	[XP_PERFETTO_SYSTEM] = { { 1, BYTES }, { 4, BYTES } },
};

int xp_perfetto_violate(const struct xp_perfetto_reading *reading, const char *what, uint64_t number)
{
	return xp_violate(reading->violation, reading->reader->offset, "%s %" PRIu64, what, number);
}

int xp_perfetto_field(const struct xp_perfetto_reading *reading, struct xp_proto_cursor *cursor,
		      enum xp_perfetto_message message, struct xp_proto_field *field)
{
	int more;

	while ((more = xp_proto_next(cursor, field)) > 0) {
		const struct rule *rule = rules[message];
		size_t i = 0;

		while (i < RULES && rule[i].number != field->number)
			i++;
		if (i == RULES) {
			reading->reader->unknown_fields++;
			continue;
		}
		if ((field->type == XP_PROTO_VARINT && rule[i].type != BYTES && rule[i].type != FIXED) ||
		    (field->type == XP_PROTO_BYTES && rule[i].type != NUMBER && rule[i].type != FIXED) ||
		    (field->type == XP_PROTO_FIXED64 && rule[i].type == FIXED))
			return 1;
		return xp_violate(reading->violation, reading->reader->offset,
				  "field %" PRIu32 " has type %" PRIu32 ", not that of the schema", field->number,
				  field->type);
	}
	if (more < 0)
		return xp_violate(reading->violation, reading->reader->offset, "a field is malformed or cut off");
	return 0;
}

int xp_perfetto_numbers(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor,
			enum xp_perfetto_message message, uint64_t numbers[16], uint32_t *has)
{
	struct xp_proto_field field;
	int more;

	memset(numbers, 0, 16 * sizeof(*numbers));
	*has = 0;
	while ((more = xp_perfetto_field(reading, &cursor, message, &field)) > 0) {
		if (field.number > 15)
			continue;
		*has |= 1u << field.number;
		if (field.type == XP_PROTO_VARINT)
			numbers[field.number] = field.value;
	}
	return more;
}

int xp_perfetto_room(const struct xp_perfetto_reading *reading, const struct xp_u64_map *map)
{
	return map->count < XP_PERFETTO_ELEMENTS_MAX ? 0
						     : xp_perfetto_violate(reading, "more elements than", map->count);
}

/* ---- interned data ---- */

static uint64_t key_of(const struct xp_perfetto_reading *reading, uint32_t kind, uint64_t id)
{
	uint64_t small = kind < XP_PERFETTO_BUILD_IDS ? kind : kind - XP_PERFETTO_BUILD_IDS + 8;

	return (uint64_t)reading->sequence->state << (ID_BITS + KIND_BITS) | small << ID_BITS | id;
}

/* Enters an id. text: it must keep that. */
static int intern(const struct xp_perfetto_reading *reading, uint32_t kind, uint64_t id, const char *text)
{
	struct xp_u64_map *interned = &reading->reader->interned;
	const char *known;

	if (!reading->sequence->state)
		return xp_perfetto_violate(reading, "interned data before the state is cleared, in sequence",
					   reading->record->sequence);
	if (!id || id >> ID_BITS)
		return xp_perfetto_violate(reading, "this reader cannot intern id", id);
	known = xp_u64_map_get(interned, key_of(reading, kind, id));
	if (known && known != text)
		return xp_perfetto_violate(reading, "another text for id", id);
	return xp_perfetto_room(reading, interned) ?: xp_u64_map_put(interned, key_of(reading, kind, id), (void *)text);
}

int xp_perfetto_find(const struct xp_perfetto_reading *reading, uint32_t kind, uint64_t id, const char *what,
		     const char **text)
{
	const char *found = NULL;

	if (reading->sequence->state && !(id >> ID_BITS))
		found = xp_u64_map_get(&reading->reader->interned, key_of(reading, kind, id));
	if (text)
		*text = found;
	return found ? 0 : xp_perfetto_violate(reading, what, id);
}

static int intern_text(const struct xp_perfetto_reading *reading, uint32_t kind, struct xp_proto_cursor cursor)
{
	struct xp_proto_field field, text = { 0 };
	const char *kept = "";
	uint64_t id = 0;
	char *copy;
	int more;

	while ((more = xp_perfetto_field(reading, &cursor, XP_PERFETTO_INTERNED_TEXT, &field)) > 0) {
		if (field.number == 1)
			id = field.value;
		else
			text = field;
	}
	if (more)
		return more;
	/* Build ids are bytes. */
	if (kind != XP_PERFETTO_BUILD_IDS) {
		if (text.value && memchr(text.bytes.at, 0, text.value))
			return xp_perfetto_violate(reading, "a zero byte in the text of id", id);
		copy = strndup(text.value ? (const char *)text.bytes.at : "", text.value);
		kept = copy ? xp_text_pool_keep(&reading->reader->texts, copy) : NULL;
		free(copy);
		if (!kept)
			return -ENOMEM;
	}
	return intern(reading, kind, id, kept);
}

int xp_perfetto_reference(const struct xp_perfetto_reading *reading, uint32_t kind, uint64_t id, const char *what)
{
	return id ? xp_perfetto_find(reading, kind, id, what, NULL) : 0;
}

static int intern_frame(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	uint64_t n[16];
	uint32_t has;
	int err = xp_perfetto_numbers(reading, cursor, XP_PERFETTO_FRAME, n, &has) ?: xp_perfetto_reference(reading, XP_PERFETTO_FUNCTIONS, n[2], "no function")
			  ?: xp_perfetto_reference(reading, XP_PERFETTO_MAPPINGS, n[3], "no mapping")
			  ?: xp_perfetto_reference(reading, XP_PERFETTO_SOURCES, n[5], "no source path");

	if (!err && n[3] && !(has & 1u << 4))
		return xp_perfetto_violate(reading, "no rel_pc, but a mapping, in frame", n[1]);
	return err ? err : intern(reading, XP_PERFETTO_FRAMES, n[1], "");
}

/* Mappings refer to paths, callstacks to frames. */
static int intern_list(const struct xp_perfetto_reading *reading, uint32_t kind, struct xp_proto_cursor cursor)
{
	enum xp_perfetto_message message = kind == XP_PERFETTO_MAPPINGS ? XP_PERFETTO_MAPPING : XP_PERFETTO_CALLSTACK;
	uint32_t of = kind == XP_PERFETTO_MAPPINGS ? XP_PERFETTO_PATHS : XP_PERFETTO_FRAMES;
	const char *what = kind == XP_PERFETTO_MAPPINGS ? "no path" : "no frame";
	struct xp_proto_field field;
	uint64_t id = 0;
	int more, err = 0;

	while (!err && (more = xp_perfetto_field(reading, &cursor, message, &field)) > 0) {
		if (field.number == 1)
			id = field.value;
		else if (field.number == 2 && kind == XP_PERFETTO_MAPPINGS)
			err = xp_perfetto_reference(reading, XP_PERFETTO_BUILD_IDS, field.value, "no build id");
		else if (field.type == XP_PROTO_VARINT)
			err = xp_perfetto_find(reading, of, field.value, what, NULL);
		else
			while (!err && field.bytes.at < field.bytes.end) {
				if (!xp_proto_varint(&field.bytes, &field.value))
					return xp_perfetto_violate(reading, "packed numbers are cut off in id", id);
				err = xp_perfetto_find(reading, of, field.value, what, NULL);
			}
	}
	return err ?: more ?: intern(reading, kind, id, "");
}

static int intern_field(const struct xp_perfetto_reading *reading, const struct xp_proto_field *field)
{
	if (field->number == XP_PERFETTO_FRAMES)
		return intern_frame(reading, field->bytes);
	if (field->number == XP_PERFETTO_MAPPINGS || field->number == XP_PERFETTO_CALLSTACKS)
		return intern_list(reading, field->number, field->bytes);
	return intern_text(reading, field->number, field->bytes);
}

int xp_perfetto_intern(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	/* What others refer to comes first: fields may stand in any order. */
	static const uint32_t order[] = { XP_PERFETTO_EVENT_NAMES, XP_PERFETTO_ARGUMENT_NAMES, XP_PERFETTO_FUNCTIONS,
					  XP_PERFETTO_BUILD_IDS,   XP_PERFETTO_PATHS,	       XP_PERFETTO_SOURCES,
					  XP_PERFETTO_MAPPINGS,	   XP_PERFETTO_FRAMES,	       XP_PERFETTO_CALLSTACKS };
	struct xp_proto_cursor at = cursor;
	struct xp_proto_field field;
	uint32_t kinds = 0;
	int more, err = 0;

	while ((more = xp_perfetto_field(reading, &at, XP_PERFETTO_INTERNED_DATA, &field)) > 0)
		kinds |= 1u << field.number;
	for (size_t i = 0; !err && !more && i < XP_ARRAY_SIZE(order); i++) {
		if (!(kinds & 1u << order[i]))
			continue;
		at = cursor;
		while (!err && xp_proto_next(&at, &field) > 0)
			if (field.number == order[i])
				err = intern_field(reading, &field);
	}
	return err ? err : more;
}
