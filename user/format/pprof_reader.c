// SPDX-License-Identifier: BSD-2-Clause
#include "format/pprof_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/pprof_inflate.h"
#include "format/proto_cursor.h"

/* Where the elements with an id are. */
struct xp_pprof_index {
	struct xp_u64_map mappings, functions, locations;
	size_t text_room, type_room, mapping_room, function_room, location_room, line_room, sample_room,
	    comment_text_room;
};

struct reading {
	struct xp_pprof_profile *profile;
	struct xp_violation *violation;
};

static uint64_t offset_of(const struct reading *reading, const uint8_t *at)
{
	return (uint64_t)(at - reading->profile->bytes);
}

/* ---- fields ---- */

/* The type of each field of a message, from field 1 on. */
#define N 'n' /* number */
#define B 'b' /* bytes: a text or a message */
#define P 'p' /* numbers, packed or one by one */
static const char profile_fields[] = { B, B, B, B, B, B, N, N, N, N, B, N, P, N, N, 0 };
static const char value_type_fields[] = { N, N, 0 };
static const char sample_fields[] = { P, P, B, 0 };
static const char label_fields[] = { N, N, N, N, 0 };
static const char mapping_fields[] = { N, N, N, N, N, N, N, N, N, N, 0 };
static const char location_fields[] = { N, N, N, B, N, 0 };
static const char line_fields[] = { N, N, N, 0 };
static const char function_fields[] = { N, N, N, N, N, 0 };

static bool is_right(const char *types, const struct xp_proto_field *field)
{
	char type = field->number <= strlen(types) ? types[field->number - 1] : 0;

	return (field->type == XP_PROTO_VARINT && (type == N || type == P)) ||
	       (field->type == XP_PROTO_BYTES && (type == B || type == P));
}

/* Returns 1 and a field that the message may have, 0 at the end, or -EBADMSG. */
static int next_field(const struct reading *reading, struct xp_proto_cursor *cursor, const char *types,
		      struct xp_proto_field *field)
{
	uint64_t offset = offset_of(reading, cursor->at);
	int more = xp_proto_next(cursor, field);

	if (more < 0)
		return xp_violate(reading->violation, offset, "a field is malformed or cut off");
	if (more && !is_right(types, field))
		return xp_violate(reading->violation, offset,
				  "field %" PRIu32 " of type %" PRIu32 " is not in the schema", field->number,
				  field->type);
	return more;
}

static int check_text(const struct reading *reading, uint64_t index, uint64_t offset, uint32_t *text)
{
	if (index >= reading->profile->text_count)
		return xp_violate(reading->violation, offset, "text %" PRIu64 " of a table of %zu", index,
				  reading->profile->text_count);
	*text = (uint32_t)index;
	return 0;
}

/* Reads a message that has numbers only. */
static int read_numbers(const struct reading *reading, struct xp_proto_cursor cursor, const char *types,
			uint64_t numbers[16])
{
	struct xp_proto_field field = { 0 };
	int more;

	memset(numbers, 0, 16 * sizeof(*numbers));
	while ((more = next_field(reading, &cursor, types, &field)) > 0)
		if (field.type == XP_PROTO_VARINT)
			numbers[field.number] = field.value;
	return more;
}

/* Appends an element. Returns 0, -ENOMEM, or -EBADMSG if there are too many. */
#define ADD(reading, name, offset, new)                                                                                \
	({                                                                                                             \
		struct xp_pprof_profile *to_ = (reading)->profile;                                                     \
		int err_ = to_->name##_count < XP_PPROF_ELEMENTS_MAX                                                   \
			       ? XP_ARRAY_RESERVE(to_->name##s, to_->index->name##_room, to_->name##_count + 1)        \
			       : xp_violate((reading)->violation, offset, "too many elements");                        \
		if (!err_)                                                                                             \
			to_->name##s[to_->name##_count++] = (new);                                                     \
		err_;                                                                                                  \
	})

/* Enters an id, which no other element of the kind may have. */
static int add_id(const struct reading *reading, struct xp_u64_map *ids, uint64_t id, size_t index, uint64_t offset)
{
	if (!id)
		return xp_violate(reading->violation, offset, "an element without an id");
	if (xp_u64_map_find(ids, id))
		return xp_violate(reading->violation, offset, "id %" PRIu64 " is used twice", id);
	return xp_u64_map_add(ids, id, (uint32_t)index) ? 0 : -ENOMEM;
}

static int find_id(const struct reading *reading, const struct xp_u64_map *ids, uint64_t id, uint64_t offset,
		   const char *what, uint32_t *index)
{
	const uint32_t *found = xp_u64_map_find(ids, id);

	if (!found)
		return xp_violate(reading->violation, offset, "%s %" PRIu64 " does not exist", what, id);
	*index = *found;
	return 0;
}

/* ---- first pass: texts, and elements that others refer to ---- */

static bool is_utf8(const uint8_t *at, const uint8_t *end)
{
	size_t bytes = 1;

	for (uint32_t code; at < end && bytes; at += bytes)
		bytes = xp_utf8_next(at, (size_t)(end - at), &code);
	return bytes;
}

static int add_text(const struct reading *reading, const struct xp_proto_field *field)
{
	struct xp_pprof_profile *profile = reading->profile;
	const struct xp_pprof_text text = { (const char *)field->bytes.at, (uint32_t)field->value };
	uint64_t offset = offset_of(reading, field->bytes.at);

	if (!profile->text_count && field->value)
		return xp_violate(reading->violation, offset, "the first text is not empty");
	if (!is_utf8(field->bytes.at, field->bytes.end))
		return xp_violate(reading->violation, offset, "a text is not UTF-8");
	if (memchr(field->bytes.at, 0, field->value))
		return xp_violate(reading->violation, offset, "a text has a zero byte");
	return ADD(reading, text, offset, text);
}

static int add_with_id(const struct reading *reading, const struct xp_proto_field *field)
{
	struct xp_pprof_profile *profile = reading->profile;
	uint64_t offset = offset_of(reading, field->bytes.at), n[16];
	int err = read_numbers(reading, field->bytes,
			       field->number == 3   ? mapping_fields
			       : field->number == 4 ? location_fields
						    : function_fields,
			       n);

	if (err)
		return err;
	if (field->number == 3)
		return add_id(reading, &profile->index->mappings, n[1], profile->mapping_count, offset)
			   ?: ADD(reading, mapping, offset, ((struct xp_pprof_read_mapping){ .id = n[1] }));
	if (field->number == 4)
		return add_id(reading, &profile->index->locations, n[1], profile->location_count, offset)
			   ?: ADD(reading, location, offset, ((struct xp_pprof_read_location){ .id = n[1] }));
	return add_id(reading, &profile->index->functions, n[1], profile->function_count, offset)
		   ?: ADD(reading, function, offset, ((struct xp_pprof_read_function){ .id = n[1] }));
}

static int first_pass(const struct reading *reading)
{
	struct xp_pprof_profile *profile = reading->profile;
	struct xp_proto_cursor cursor = { profile->bytes, profile->bytes + profile->size };
	struct xp_proto_field field;
	int more, err = 0;

	while (!err && (more = next_field(reading, &cursor, profile_fields, &field)) > 0) {
		if (field.number == 6)
			err = add_text(reading, &field);
		else if (field.number >= 3 && field.number <= 5)
			err = add_with_id(reading, &field);
	}
	if (err || more)
		return err ? err : more;
	return profile->text_count ? 0 : xp_violate(reading->violation, 0, "there is no table of texts");
}

/* ---- second pass: everything else, whose references must exist ---- */

/* Elements with ids come in the same order as in the first pass. */
struct places {
	size_t mapping, location, function;
};

static int read_type(const struct reading *reading, const struct xp_proto_field *field, struct xp_pprof_type *type)
{
	uint64_t offset = offset_of(reading, field->bytes.at), n[16];

	return read_numbers(reading, field->bytes, value_type_fields, n)
		       ?: check_text(reading, n[1], offset, &type->type_text)
		       ?: check_text(reading, n[2], offset, &type->unit_text);
}

static int read_mapping(const struct reading *reading, const struct xp_proto_field *field,
			struct xp_pprof_read_mapping *mapping)
{
	uint64_t offset = offset_of(reading, field->bytes.at), n[16];
	int err = read_numbers(reading, field->bytes, mapping_fields, n)
			  ?: check_text(reading, n[5], offset, &mapping->filename_text)
			  ?: check_text(reading, n[6], offset, &mapping->build_id_text);

	mapping->start = n[2];
	mapping->limit = n[3];
	mapping->offset = n[4];
	mapping->has_functions = n[7];
	mapping->has_filenames = n[8];
	mapping->has_line_numbers = n[9];
	mapping->has_inline_frames = n[10];
	return err;
}

static int read_function(const struct reading *reading, const struct xp_proto_field *field,
			 struct xp_pprof_read_function *function)
{
	uint64_t offset = offset_of(reading, field->bytes.at), n[16];
	int err = read_numbers(reading, field->bytes, function_fields, n)
			  ?: check_text(reading, n[2], offset, &function->name_text)
			  ?: check_text(reading, n[3], offset, &function->system_name_text)
			  ?: check_text(reading, n[4], offset, &function->filename_text);

	function->start_line = (int64_t)n[5];
	return err;
}

static int add_line(const struct reading *reading, const struct xp_proto_field *field)
{
	uint64_t offset = offset_of(reading, field->bytes.at), n[16];
	struct xp_pprof_read_line line = { 0 };
	int err =
	    read_numbers(reading, field->bytes, line_fields, n)
		?: find_id(reading, &reading->profile->index->functions, n[1], offset, "function", &line.function);

	line.line = (int64_t)n[2];
	return err ? err : ADD(reading, line, offset, line);
}

static int read_location(const struct reading *reading, const struct xp_proto_field *field,
			 struct xp_pprof_read_location *location)
{
	uint64_t offset = offset_of(reading, field->bytes.at), mapping = 0;
	struct xp_proto_cursor cursor = field->bytes;
	struct xp_proto_field part;
	int more, err = 0;

	location->mapping = XP_PPROF_NO_MAPPING;
	location->first_line = (uint32_t)reading->profile->line_count;
	while (!err && (more = next_field(reading, &cursor, location_fields, &part)) > 0) {
		if (part.number == 2)
			mapping = part.value;
		else if (part.number == 3)
			location->address = part.value;
		else if (part.number == 4)
			err = add_line(reading, &part);
	}
	location->line_count = (uint32_t)reading->profile->line_count - location->first_line;
	if (!err && !more && mapping)
		err = find_id(reading, &reading->profile->index->mappings, mapping, offset, "mapping",
			      &location->mapping);
	return err ? err : more;
}

/* Counts the numbers of a field of the sample at this offset. locations: they are ids of these. */
static int count_numbers(const struct reading *reading, struct xp_proto_field field, bool locations, uint64_t offset,
			 uint64_t *count)
{
	const struct xp_u64_map *ids = &reading->profile->index->locations;
	bool is_packed = field.type == XP_PROTO_BYTES;
	uint32_t index;
	int err = 0;

	while (!err && (!is_packed || field.bytes.at < field.bytes.end)) {
		if (is_packed && !xp_proto_varint(&field.bytes, &field.value))
			return xp_violate(reading->violation, offset, "packed numbers are cut off");
		++*count;
		if (locations)
			err = find_id(reading, ids, field.value, offset, "location", &index);
		if (!is_packed)
			break;
	}
	return err;
}

static int check_label(const struct reading *reading, struct xp_proto_cursor cursor)
{
	uint64_t offset = offset_of(reading, cursor.at), n[16];
	uint32_t text;
	int err = read_numbers(reading, cursor, label_fields, n) ?: check_text(reading, n[1], offset, &text)
			  ?: check_text(reading, n[2], offset, &text) ?: check_text(reading, n[4], offset, &text);

	if (!err && !n[1])
		return xp_violate(reading->violation, offset, "a label without a key");
	if (!err && n[2] && n[3])
		return xp_violate(reading->violation, offset, "a label with both a text and a number");
	return err;
}

static int add_sample(const struct reading *reading, const struct xp_proto_field *field)
{
	struct xp_pprof_profile *profile = reading->profile;
	struct xp_proto_cursor cursor = field->bytes;
	uint64_t offset = offset_of(reading, cursor.at), locations = 0, values = 0;
	const struct xp_pprof_read_sample sample = { offset, cursor.at, (uint32_t)field->value };
	struct xp_proto_field part;
	int more, err = 0;

	while (!err && (more = next_field(reading, &cursor, sample_fields, &part)) > 0) {
		if (part.number == 3)
			err = check_label(reading, part.bytes);
		else
			err = count_numbers(reading, part, part.number == 1, offset,
					    part.number == 1 ? &locations : &values);
	}
	if (err || more)
		return err ? err : more;
	if (values != profile->type_count)
		return xp_violate(reading->violation, offset, "a sample with %" PRIu64 " values; there are %zu types",
				  values, profile->type_count);
	return ADD(reading, sample, offset, sample);
}

static int add_comments(const struct reading *reading, const struct xp_proto_field *field)
{
	struct xp_proto_cursor cursor = field->bytes;
	uint64_t value = field->value;
	uint32_t text = 0;
	int err = 0;

	if (field->type == XP_PROTO_VARINT)
		return check_text(reading, value, 0, &text) ?: ADD(reading, comment_text, 0, text);
	while (!err && cursor.at < cursor.end) {
		uint64_t offset = offset_of(reading, cursor.at);

		if (!xp_proto_varint(&cursor, &value))
			return xp_violate(reading->violation, offset, "packed numbers are cut off");
		err = check_text(reading, value, offset, &text) ?: ADD(reading, comment_text, offset, text);
	}
	return err;
}

static int read_field(const struct reading *reading, const struct xp_proto_field *field, struct places *places)
{
	struct xp_pprof_profile *profile = reading->profile;
	uint64_t offset = field->type == XP_PROTO_BYTES ? offset_of(reading, field->bytes.at) : 0;
	struct xp_pprof_type type;

	switch (field->number) {
	case 1:
		return read_type(reading, field, &type) ?: ADD(reading, type, offset, type);
	case 3:
		return read_mapping(reading, field, &profile->mappings[places->mapping++]);
	case 4:
		return read_location(reading, field, &profile->locations[places->location++]);
	case 5:
		return read_function(reading, field, &profile->functions[places->function++]);
	case 7:
		return check_text(reading, field->value, offset, &profile->drop_text);
	case 8:
		return check_text(reading, field->value, offset, &profile->keep_text);
	case 9:
		profile->time_ns = (int64_t)field->value;
		return 0;
	case 10:
		profile->duration_ns = (int64_t)field->value;
		return 0;
	case 11:
		return read_type(reading, field, &profile->period_type);
	case 12:
		profile->period = (int64_t)field->value;
		return 0;
	case 13:
		return add_comments(reading, field);
	case 14:
		return check_text(reading, field->value, offset, &profile->default_type_text);
	case 15:
		return check_text(reading, field->value, offset, &profile->doc_text);
	default:
		return 0;
	}
}

/* Samples need the number of types, which may follow them. */
static int second_pass(const struct reading *reading, bool samples)
{
	struct xp_pprof_profile *profile = reading->profile;
	struct xp_proto_cursor cursor = { profile->bytes, profile->bytes + profile->size };
	struct places places = { 0 };
	struct xp_proto_field field;
	int more, err = 0;

	while (!err && (more = next_field(reading, &cursor, profile_fields, &field)) > 0) {
		if (samples && field.number == 2)
			err = add_sample(reading, &field);
		else if (!samples && field.number != 2)
			err = read_field(reading, &field, &places);
	}
	if (err || more)
		return err ? err : more;
	return profile->type_count ? 0 : xp_violate(reading->violation, 0, "there is no sample type");
}

/* ---- the whole file ---- */

bool xp_pprof_probe(const uint8_t *bytes, uint64_t size)
{
	uint8_t begin[4096];
	size_t count = xp_pprof_inflate_begin(bytes, size, begin, sizeof(begin));
	struct xp_proto_cursor cursor = { begin, begin + count };
	struct xp_proto_field field;
	unsigned int fields = 0;

	/* Other gzip files do not have three fields of the right types. */
	while (fields < 3 && xp_proto_next(&cursor, &field) > 0) {
		if (!is_right(profile_fields, &field))
			return false;
		fields++;
	}
	return fields >= 3 || (fields && (count == sizeof(begin) || cursor.at == cursor.end));
}

int xp_pprof_read(struct xp_pprof_profile *profile, const uint8_t *bytes, uint64_t size, struct xp_violation *violation)
{
	const struct reading reading = { .profile = profile, .violation = violation };
	int err;

	memset(profile, 0, sizeof(*profile));
	profile->index = calloc(1, sizeof(*profile->index));
	if (!profile->index)
		return -ENOMEM;
	err = xp_pprof_inflate(bytes, size, XP_PPROF_BYTES_MAX, &profile->bytes, &profile->size, violation);
	if (!err)
		err = first_pass(&reading);
	if (!err)
		err = second_pass(&reading, false);
	return err ? err : second_pass(&reading, true);
}

void xp_pprof_profile_free(struct xp_pprof_profile *profile)
{
	void *const arrays[] = { profile->texts,     profile->types,	     profile->mappings,
				 profile->functions, profile->locations,     profile->lines,
				 profile->samples,   profile->comment_texts, profile->bytes };

	for (size_t i = 0; i < XP_ARRAY_SIZE(arrays); i++)
		free(arrays[i]);
	if (profile->index) {
		xp_u64_map_free(&profile->index->mappings);
		xp_u64_map_free(&profile->index->functions);
		xp_u64_map_free(&profile->index->locations);
	}
	free(profile->index);
	memset(profile, 0, sizeof(*profile));
}

/* ---- parts of a sample, which are right ---- */

void xp_pprof_parts_start(struct xp_pprof_parts *parts, const struct xp_pprof_profile *profile, size_t sample)
{
	const struct xp_pprof_read_sample *from = &profile->samples[sample];

	*parts = (struct xp_pprof_parts){ .profile = profile, .at = from->bytes, .end = from->bytes + from->size };
}

/* The next number of the field. */
static bool next_number(struct xp_pprof_parts *parts, uint32_t number, uint64_t *value)
{
	struct xp_proto_cursor cursor = { parts->at, parts->packed_end ? parts->packed_end : parts->end };
	struct xp_proto_field field;

	while (parts->packed_end && cursor.at == parts->packed_end) {
		parts->packed_end = NULL;
		cursor.end = parts->end;
	}
	if (!parts->packed_end) {
		for (;;) {
			if (xp_proto_next(&cursor, &field) <= 0)
				return false;
			if (field.number != number)
				continue;
			if (field.type == XP_PROTO_VARINT) {
				parts->at = cursor.at;
				*value = field.value;
				return true;
			}
			if (field.value)
				break;
		}
		parts->packed_end = field.bytes.end;
		cursor = field.bytes;
	}
	xp_proto_varint(&cursor, value);
	parts->at = cursor.at;
	return true;
}

bool xp_pprof_locations_next(struct xp_pprof_parts *parts, uint32_t *location)
{
	uint64_t id;

	if (!next_number(parts, 1, &id))
		return false;
	*location = *xp_u64_map_find(&parts->profile->index->locations, id);
	return true;
}

bool xp_pprof_values_next(struct xp_pprof_parts *parts, int64_t *value)
{
	uint64_t number;

	if (!next_number(parts, 2, &number))
		return false;
	*value = (int64_t)number;
	return true;
}

bool xp_pprof_labels_next(struct xp_pprof_parts *parts, struct xp_pprof_read_label *label)
{
	const struct reading reading = { .profile = (struct xp_pprof_profile *)parts->profile };
	struct xp_proto_cursor cursor = { parts->at, parts->end };
	struct xp_proto_field field;
	uint64_t n[16];

	do {
		if (xp_proto_next(&cursor, &field) <= 0)
			return false;
	} while (field.number != 3);
	parts->at = cursor.at;
	read_numbers(&reading, field.bytes, label_fields, n);
	*label = (struct xp_pprof_read_label){ (uint32_t)n[1], (uint32_t)n[2], (int64_t)n[3], (uint32_t)n[4] };
	return true;
}
