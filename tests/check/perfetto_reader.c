// SPDX-License-Identifier: BSD-2-Clause
#include "check/perfetto_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/array.h"
#include "base/util.h"
#include "check/perfetto_reading.h"

#define CLOCK_BOOTTIME_ID 6
#define BUNDLE_BYTES_FIRST (64u << 10) /* room for a decompressed bundle; it grows */
#define CLOCKS_OF_SEQUENCE 64
#define CLOCKS_OF_ALL 128 /* custom ones from here on */
#define STATE_CLEARED 1
#define STATE_NEEDED 2
#define EVENT_TYPES 5
#define FLOW_BEGINS 47 /* flow_ids, terminating_flow_ids */
#define FLOW_ENDS 48
enum { HAS_BEGUN = 1, HAS_ENDED = 2 };

/* ---- clocks, sequences and tracks ---- */

static int read_clock(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	uint64_t n[16];
	uint32_t has;
	int err = xp_perfetto_numbers(reading, cursor, XP_PERFETTO_CLOCK, n, &has);

	if (err)
		return err;
	if (!(has & 1u << 1) || !(has & 1u << 2))
		return xp_perfetto_violate(reading, "a clock without id or time: id", n[1]);
	if (n[1] >= CLOCKS_OF_SEQUENCE && n[1] < CLOCKS_OF_ALL && n[3]) {
		reading->sequence->incremental_clock = n[1];
		reading->sequence->incremental_time = n[2];
		return 0;
	}
	if (n[1] >= CLOCKS_OF_SEQUENCE && n[1] < CLOCKS_OF_ALL)
		n[1] |= (uint64_t)reading->record->sequence << 32;
	return xp_perfetto_room(reading, &reading->reader->clocks)
		   ?: xp_u64_map_add(&reading->reader->clocks, n[1], 0) ? 0
									: -ENOMEM;
}

static int read_snapshot(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	struct xp_proto_field field;
	int more, err = 0;

	while (!err && (more = xp_perfetto_field(reading, &cursor, XP_PERFETTO_SNAPSHOT, &field)) > 0)
		if (field.number == 1)
			err = read_clock(reading, field.bytes);
	return err ? err : more;
}

static int read_defaults(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	struct xp_proto_field field;
	uint64_t n[16];
	uint32_t has;
	int more, err = 0;

	reading->sequence->track = reading->sequence->clock = 0;
	while (!err && (more = xp_perfetto_field(reading, &cursor, XP_PERFETTO_DEFAULTS, &field)) > 0) {
		if (field.number == 58)
			reading->sequence->clock = field.value;
		else if (field.number == 11) {
			err = xp_perfetto_numbers(reading, field.bytes, XP_PERFETTO_EVENT_DEFAULTS, n, &has);
			reading->sequence->track = n[11];
		}
	}
	return err ? err : more;
}

static int read_time(const struct xp_perfetto_reading *reading, uint64_t clock, uint64_t time)
{
	struct xp_perfetto_sequence_state *sequence = reading->sequence;
	uint64_t key = clock;

	reading->record->has_time = true;
	reading->record->time = time;
	if (clock && clock == sequence->incremental_clock) {
		if (__builtin_add_overflow(sequence->incremental_time, time, &reading->record->time))
			return xp_perfetto_violate(reading, "an incremental time overflows in sequence",
						   reading->record->sequence);
		sequence->incremental_time = reading->record->time;
		return 0;
	}
	if (clock >= CLOCKS_OF_SEQUENCE && clock < CLOCKS_OF_ALL)
		key |= (uint64_t)reading->record->sequence << 32;
	if (clock && clock != CLOCK_BOOTTIME_ID && !xp_u64_map_find(&reading->reader->clocks, key))
		return xp_perfetto_violate(reading, "a time of a clock that no snapshot has:", clock);
	return 0;
}

/* The value of a track is the number of its open slices. */
static int read_track(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	uint64_t n[16];
	uint32_t has;
	int err = xp_perfetto_numbers(reading, cursor, XP_PERFETTO_TRACK_DESCRIPTOR, n, &has);

	if (err)
		return err;
	reading->record->kind = XP_PERFETTO_TRACK;
	reading->record->track = n[1];
	if (n[5] && !xp_u64_map_find(&reading->reader->tracks, n[5]))
		return xp_perfetto_violate(reading, "a parent that is not described: track", n[5]);
	return xp_perfetto_room(reading, &reading->reader->tracks)
		   ?: xp_u64_map_add(&reading->reader->tracks, n[1], 0) ? 0
									: -ENOMEM;
}

/* ---- events and samples ---- */

static int read_argument(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	uint64_t n[16];
	uint32_t has;

	return xp_perfetto_numbers(reading, cursor, XP_PERFETTO_ANNOTATION, n, &has)
		   ?: xp_perfetto_reference(reading, XP_PERFETTO_ARGUMENT_NAMES, n[1], "no name of an argument:");
}

/* Counts the open slices of the track. */
static int nest(const struct xp_perfetto_reading *reading, uint64_t type)
{
	struct xp_perfetto_record *record = reading->record;
	uint32_t *depth = xp_u64_map_find(&reading->reader->tracks, record->track);

	if (!depth && record->track)
		return xp_perfetto_violate(reading, "a track that is not described:", record->track);
	if (!depth && !(depth = xp_u64_map_add(&reading->reader->tracks, 0, 0)))
		return -ENOMEM;
	if (type == 2 && !*depth)
		return xp_perfetto_violate(reading, "the end of a slice that has no beginning, on track",
					   record->track);
	if (type == 1 && *depth == UINT32_MAX)
		return xp_perfetto_violate(reading, "too many open slices on track", record->track);
	*depth += type == 1 ? 1 : type == 2 ? (uint32_t)-1 : 0;
	reading->reader->open_slices += type == 1 ? 1 : type == 2 ? (uint64_t)-1 : 0;
	return 0;
}

/* Sequences follow each other, so an end may precede its beginning in the file. */
static int read_flow(const struct xp_perfetto_reading *reading, const struct xp_proto_field *field)
{
	struct xp_perfetto_reader *reader = reading->reader;
	uint32_t which = field->number == FLOW_BEGINS ? HAS_BEGUN : HAS_ENDED, *known;
	uint64_t id = 0;

	for (int i = 7; i >= 0; i--)
		id = id << 8 | field->bytes.at[i];
	if (xp_perfetto_room(reading, &reader->flow_ids))
		return -EBADMSG;
	known = xp_u64_map_add(&reader->flow_ids, id, 0);
	if (!known)
		return -ENOMEM;
	if (*known & which)
		return xp_perfetto_violate(reading,
					   which == HAS_BEGUN ? "a flow begins twice:" : "a flow ends twice:", id);
	reader->flows += which == HAS_BEGUN;
	reader->stray_flows += *known ? (which == HAS_BEGUN ? (uint64_t)-1 : 0) : which == HAS_ENDED;
	*known |= which;
	return 0;
}

static int read_event(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	static const enum xp_perfetto_record_kind kinds[EVENT_TYPES + 1] = {
		[1] = XP_PERFETTO_SLICE_BEGIN, [2] = XP_PERFETTO_SLICE_END, [3] = XP_PERFETTO_INSTANT_EVENT
	};
	struct xp_perfetto_record *record = reading->record;
	struct xp_proto_field field;
	uint64_t type = 0;
	int more, err = 0;

	record->track = reading->sequence->track;
	while (!err && (more = xp_perfetto_field(reading, &cursor, XP_PERFETTO_TRACK_EVENT, &field)) > 0) {
		if (field.number == 4)
			err = read_argument(reading, field.bytes);
		else if (field.number == 9)
			type = field.value;
		else if (field.number == 10)
			err = xp_perfetto_find(reading, XP_PERFETTO_EVENT_NAMES, field.value,
					       "no name of an event:", &record->name);
		else if (field.number == 11)
			record->track = field.value;
		else if (field.number == FLOW_BEGINS || field.number == FLOW_ENDS)
			err = read_flow(reading, &field);
	}
	if (err || more)
		return err ? err : more;
	if (type > EVENT_TYPES)
		return xp_perfetto_violate(reading, "an event of the unknown type", type);
	record->kind = kinds[type];
	return nest(reading, type);
}

static int read_sample(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor)
{
	struct xp_perfetto_record *record = reading->record;
	struct xp_proto_field field;
	uint64_t n[16];
	uint32_t has;
	int more, err = 0;

	record->kind = XP_PERFETTO_STACK_SAMPLE;
	while (!err && (more = xp_perfetto_field(reading, &cursor, XP_PERFETTO_SAMPLE, &field)) > 0) {
		if (field.number == 1) {
			err = xp_perfetto_numbers(reading, field.bytes, XP_PERFETTO_TASK, n, &has);
			record->pid = n[2];
			record->tid = n[3];
		} else if (field.number == 3) {
			err = xp_perfetto_numbers(reading, field.bytes, XP_PERFETTO_EXECUTION, n, &has);
			record->cpu = n[2];
		} else if (field.number == 6) {
			record->callstack = field.value;
			err = xp_perfetto_find(reading, XP_PERFETTO_CALLSTACKS, field.value, "no callstack", NULL);
		} else {
			record->weight = field.value;
		}
	}
	if (!err && !more && !record->has_time)
		return xp_perfetto_violate(reading, "a sample without a time, in sequence", record->sequence);
	return err ? err : more;
}

/* ---- packets ---- */

/* The parts of a packet. */
struct parts {
	struct xp_proto_cursor snapshot, event, interned, system, bundle, defaults, track, sample;
	uint64_t time, clock, sequence, flags;
	bool has_time, has_clock, has_bundle;
};

static int read_parts(const struct xp_perfetto_reading *reading, struct xp_proto_cursor cursor, struct parts *parts)
{
	struct xp_proto_field field;
	int more;

	*parts = (struct parts){ 0 };
	while ((more = xp_perfetto_field(reading, &cursor, XP_PERFETTO_PACKET, &field)) > 0) {
		struct xp_proto_cursor *const bytes[] = {
			[6] = &parts->snapshot, [11] = &parts->event,	[12] = &parts->interned,
			[45] = &parts->system,	[50] = &parts->bundle,	[59] = &parts->defaults,
			[60] = &parts->track,	[135] = &parts->sample,
		};
		uint64_t *const numbers[] = {
			[8] = &parts->time, [10] = &parts->sequence, [13] = &parts->flags, [58] = &parts->clock
		};

		if (field.type == XP_PROTO_BYTES)
			*bytes[field.number] = field.bytes;
		else
			*numbers[field.number] = field.value;
		parts->has_time |= field.number == 8;
		parts->has_clock |= field.number == 58;
		parts->has_bundle |= field.number == 50;
	}
	return more;
}

static int find_sequence(struct xp_perfetto_reading *reading, const struct parts *parts)
{
	struct xp_perfetto_reader *reader = reading->reader;
	uint32_t *index = xp_u64_map_find(&reader->by_sequence, parts->sequence);

	if (parts->sequence > UINT32_MAX)
		return xp_perfetto_violate(reading, "a sequence beyond 32 bits:", parts->sequence);
	if (!index) {
		if (xp_perfetto_room(reading, &reader->by_sequence))
			return -EBADMSG;
		if (XP_ARRAY_RESERVE(reader->sequences, reader->sequence_room, reader->sequence_count + 1))
			return -ENOMEM;
		index = xp_u64_map_add(&reader->by_sequence, parts->sequence, (uint32_t)reader->sequence_count);
		if (!index)
			return -ENOMEM;
		reader->sequences[reader->sequence_count++] = (struct xp_perfetto_sequence_state){ 0 };
	}
	reading->sequence = &reader->sequences[*index];
	reading->record->sequence = (uint32_t)parts->sequence;
	if (parts->flags & STATE_CLEARED) {
		if (reader->states + 1 == XP_PERFETTO_STATES_MAX)
			return xp_perfetto_violate(reading, "too many sequences:", reader->states);
		*reading->sequence = (struct xp_perfetto_sequence_state){ .state = ++reader->states };
	}
	if (parts->flags & STATE_NEEDED && !reading->sequence->state)
		return xp_perfetto_violate(reading, "the state that a packet needs was not cleared before, in sequence",
					   parts->sequence);
	return 0;
}

static int read_packet(struct xp_perfetto_reading *reading, const struct parts *parts)
{
	uint64_t n[16];
	uint32_t has;
	int err = find_sequence(reading, parts);

	if (err)
		return err;
	if (parts->snapshot.at || parts->system.at || parts->defaults.at || parts->interned.at)
		reading->record->kind = XP_PERFETTO_STATE;
	if (parts->snapshot.at)
		err = read_snapshot(reading, parts->snapshot);
	if (!err && parts->system.at)
		err = xp_perfetto_numbers(reading, parts->system, XP_PERFETTO_SYSTEM, n, &has);
	if (!err && parts->defaults.at)
		err = read_defaults(reading, parts->defaults);
	if (!err && parts->interned.at)
		err = xp_perfetto_intern(reading, parts->interned);
	if (!err && parts->has_time)
		err = read_time(reading, parts->has_clock ? parts->clock : reading->sequence->clock, parts->time);
	if (!err && parts->track.at)
		err = read_track(reading, parts->track);
	if (!err && parts->event.at)
		err = read_event(reading, parts->event);
	if (!err && parts->sample.at)
		err = read_sample(reading, parts->sample);
	return err;
}

static int open_bundle(struct xp_perfetto_reading *reading, struct xp_proto_cursor from)
{
	struct xp_perfetto_reader *reader = reading->reader;
	uLong given = (uLong)(from.end - from.at), used;
	uLongf size;
	size_t wanted = BUNDLE_BYTES_FIRST;
	int status;

	reader->bundle_bytes = XP_MAX(reader->bundle_bytes, (uint32_t)XP_MIN(given, (uLong)UINT32_MAX));
	do {
		if (XP_ARRAY_RESERVE(reader->inflated, reader->inflated_room, wanted))
			return -ENOMEM;
		used = given;
		size = XP_MIN(reader->inflated_room, (size_t)XP_PERFETTO_BUNDLE_BYTES_MAX);
		status = uncompress2(reader->inflated, &size, from.at, &used);
		wanted = 2 * reader->inflated_room;
	} while (status == Z_BUF_ERROR && reader->inflated_room < XP_PERFETTO_BUNDLE_BYTES_MAX);
	if (status == Z_MEM_ERROR)
		return -ENOMEM;
	if (status != Z_OK || used != given)
		return xp_perfetto_violate(reading,
					   "compressed packets cannot be decompressed, or are too large: bytes", given);
	reader->bundle = (struct xp_proto_cursor){ reader->inflated, reader->inflated + size };
	return 0;
}

/* Returns 1 and the next packet of the bundle, or else of the file. */
static int next_packet(struct xp_perfetto_reading *reading, struct xp_proto_cursor *packet)
{
	struct xp_perfetto_reader *reader = reading->reader;
	bool in_bundle = reader->bundle.at < reader->bundle.end;
	struct xp_proto_cursor *cursor = in_bundle ? &reader->bundle : &reader->file;
	struct xp_proto_field field;
	int more;

	if (!in_bundle)
		reader->offset = (uint64_t)(reader->file.at - reader->bytes);
	more = xp_proto_next(cursor, &field);
	if (more < 0)
		return xp_violate(reading->violation, reader->offset, "a packet is malformed or cut off");
	if (more && (field.number != 1 || field.type != XP_PROTO_BYTES))
		return xp_perfetto_violate(reading, "not a packet: field", field.number);
	if (more)
		*packet = field.bytes;
	return more;
}

int xp_perfetto_reader_next(struct xp_perfetto_reader *reader, struct xp_perfetto_record *record,
			    struct xp_violation *violation)
{
	struct xp_perfetto_reading reading = { .reader = reader, .violation = violation, .record = record };
	struct xp_proto_cursor packet;
	struct parts parts;
	bool was_in_bundle;
	int more, err;

	do {
		was_in_bundle = reader->bundle.at < reader->bundle.end;
		more = next_packet(&reading, &packet);
		if (more <= 0)
			return more;
		err = read_parts(&reading, packet, &parts);
		if (!err && parts.has_bundle && was_in_bundle)
			err = xp_perfetto_violate(&reading, "compressed packets in compressed packets: bytes",
						  (uint64_t)(parts.bundle.end - parts.bundle.at));
		if (!err && parts.has_bundle)
			err = open_bundle(&reading, parts.bundle);
		if (err)
			return err;
	} while (parts.has_bundle);
	*record = (struct xp_perfetto_record){ .offset = reader->offset };
	reader->packets++;
	err = read_packet(&reading, &parts);
	return err ? err : 1;
}

void xp_perfetto_reader_init(struct xp_perfetto_reader *reader, const uint8_t *bytes, uint64_t size)
{
	*reader = (struct xp_perfetto_reader){ .bytes = bytes, .size = size };
	reader->file = (struct xp_proto_cursor){ bytes, bytes + size };
	reader->texts.bytes_max = XP_PERFETTO_TEXT_BYTES_MAX;
}

void xp_perfetto_reader_free(struct xp_perfetto_reader *reader)
{
	free(reader->inflated);
	free(reader->sequences);
	xp_u64_map_free(&reader->by_sequence);
	xp_u64_map_free(&reader->interned);
	xp_u64_map_free(&reader->tracks);
	xp_u64_map_free(&reader->clocks);
	xp_u64_map_free(&reader->flow_ids);
	xp_text_pool_free(&reader->texts);
}

/* The first packet of a trace is one that begins it, whoever made it: a snapshot of clocks, or anything with a
 * sequence.
 */
bool xp_perfetto_probe(const uint8_t *bytes, uint64_t size)
{
	struct xp_proto_cursor cursor = { bytes, bytes + size };
	struct xp_proto_field packet, field;
	bool has_sequence = false;
	int more;

	if (!size || *bytes != 0x0a || xp_proto_next(&cursor, &packet) <= 0 || packet.value < 2)
		return false;
	while ((more = xp_proto_next(&packet.bytes, &field)) > 0)
		has_sequence |= (field.number == 10 && field.type == XP_PROTO_VARINT) ||
				(field.number == 6 && field.type == XP_PROTO_BYTES) ||
				(field.number == 36 && field.type == XP_PROTO_BYTES);
	return !more && has_sequence;
}
