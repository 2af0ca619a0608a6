// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_record.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "format/perfdata.h"

#define MISC_MMAP_BUILD_ID (1 << 14)

/* Reads the fields of a record one after another. An incomplete field reads as 0 and sets `bad`. */
struct cursor {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static const uint8_t *take(struct cursor *cursor, uint64_t size)
{
	const uint8_t *at = cursor->at;

	if (size > cursor->left) {
		cursor->bad = true;
		return NULL;
	}
	cursor->at += size;
	cursor->left -= size;
	return at;
}

static uint64_t take64(struct cursor *cursor)
{
	const uint8_t *at = take(cursor, 8);

	return at ? xp_bytes_get(at, 8) : 0;
}

static uint32_t take32(struct cursor *cursor)
{
	const uint8_t *at = take(cursor, 4);

	return at ? xp_bytes_get(at, 4) : 0;
}

/* Reads a string that extends to the end of the record. */
static const char *take_text(struct cursor *cursor)
{
	const char *text = (const char *)cursor->at;

	if (!memchr(cursor->at, 0, cursor->left))
		cursor->bad = true;
	take(cursor, cursor->left);
	return text;
}

static void take_tid(struct cursor *cursor, struct xp_perfdata_record *record)
{
	record->pid = take32(cursor);
	record->tid = take32(cursor);
}

static void take_cpu(struct cursor *cursor, struct xp_perfdata_record *record)
{
	record->cpu = take32(cursor);
	take32(cursor);
}

/*
 * Reads the trailer (sample_id_all) at the end of a record, and removes it from the cursor. The last field of the
 * trailer can be the ID of the event: either all events of a file have this field, or none.
 */
static bool take_trailer(struct xp_perfdata_record *record, struct xp_perfdata_events *events, struct cursor *cursor)
{
	static const uint64_t fields = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;
	struct cursor trailer = *cursor;
	uint64_t type, id;
	size_t bytes;

	if (!events->current.attr.sample_id_all)
		return true;
	if (events->by_id && events->current.attr.sample_type & PERF_SAMPLE_IDENTIFIER && cursor->left >= sizeof(id)) {
		memcpy(&id, cursor->at + cursor->left - sizeof(id), sizeof(id));
		if (!xp_perfdata_events_find(events, id))
			return false;
	}
	type = events->current.attr.sample_type;
	bytes = 8 * __builtin_popcountll(type & fields);
	if (bytes > cursor->left)
		return false;
	take(&trailer, cursor->left - bytes);
	cursor->left -= bytes;
	record->has = type & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU);
	if (type & PERF_SAMPLE_TID)
		take_tid(&trailer, record);
	if (type & PERF_SAMPLE_TIME)
		record->time_ns = take64(&trailer);
	if (type & PERF_SAMPLE_CPU)
		take_cpu(&trailer, record);
	return true;
}

static void take_sample(struct xp_perfdata_record *record, struct xp_perfdata_events *events, struct cursor *cursor)
{
	static const uint64_t known = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				      PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW;
	uint64_t type;

	/* Either all events of a file have this field, or none. */
	if (events->current.attr.sample_type & PERF_SAMPLE_IDENTIFIER) {
		uint64_t id = take64(cursor);

		if (events->by_id && !xp_perfdata_events_find(events, id))
			cursor->bad = true;
	}
	type = events->current.attr.sample_type;
	record->has = type;
	cursor->bad |= (type & ~known) != 0;
	if (type & PERF_SAMPLE_IP)
		record->sample.ip = take64(cursor);
	if (type & PERF_SAMPLE_TID)
		take_tid(cursor, record);
	if (type & PERF_SAMPLE_TIME)
		record->time_ns = take64(cursor);
	if (type & PERF_SAMPLE_CPU)
		take_cpu(cursor, record);
	if (type & PERF_SAMPLE_PERIOD)
		record->sample.period = take64(cursor);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		record->sample.chain_count = take64(cursor);
		record->sample.chain = cursor->at;
		if (record->sample.chain_count > cursor->left / 8)
			cursor->bad = true;
		else
			take(cursor, 8 * record->sample.chain_count);
	}
	if (type & PERF_SAMPLE_RAW) {
		record->sample.raw_bytes = take32(cursor);
		record->sample.raw = take(cursor, record->sample.raw_bytes);
	}
	if (type & PERF_SAMPLE_RAW) /* raw data may be padded */
		take(cursor, cursor->left);
}

static void take_map(struct xp_perfdata_record *record, struct cursor *cursor)
{
	record->map.pid = take32(cursor);
	record->map.tid = take32(cursor);
	record->map.start = take64(cursor);
	record->map.bytes = take64(cursor);
	record->map.file_offset = take64(cursor);
	if (record->type == PERF_RECORD_MMAP2 && record->misc & MISC_MMAP_BUILD_ID) {
		const uint8_t *id = take(cursor, 4 + XP_PERFDATA_BUILD_ID_BYTES);

		if (id) {
			record->map.build_id_bytes = id[0];
			record->map.build_id = id + 4;
			cursor->bad |= id[0] > XP_PERFDATA_BUILD_ID_BYTES;
		}
	} else if (record->type == PERF_RECORD_MMAP2) {
		record->map.maj = take32(cursor);
		record->map.min = take32(cursor);
		record->map.inode = take64(cursor);
		record->map.generation = take64(cursor);
	}
	if (record->type == PERF_RECORD_MMAP2) {
		record->map.prot = take32(cursor);
		take32(cursor);
	}
	record->map.path = take_text(cursor);
}

static void take_task(struct xp_perfdata_record *record, struct cursor *cursor)
{
	record->task.pid = take32(cursor);
	record->task.ppid = take32(cursor);
	record->task.tid = take32(cursor);
	record->task.ptid = take32(cursor);
	record->task.time_ns = take64(cursor);
}

static void take_symbol(struct xp_perfdata_record *record, struct cursor *cursor)
{
	uint32_t both;

	record->symbol.start = take64(cursor);
	record->symbol.bytes = take32(cursor);
	both = take32(cursor);
	record->symbol.type = (uint16_t)both;
	record->symbol.flags = (uint16_t)(both >> 16);
	record->symbol.name = take_text(cursor);
}

static void take_bpf(struct xp_perfdata_record *record, struct cursor *cursor)
{
	record->bpf.type = (uint16_t)take32(cursor);
	record->bpf.id = take32(cursor);
	record->bpf.tag = take(cursor, XP_PERFDATA_BPF_TAG_BYTES);
}

/* Linux 5.9 added the fields after `zero`. */
static void take_conversion(struct xp_perfdata_record *record, struct cursor *cursor)
{
	const uint8_t *flags;

	record->conversion.shift = take64(cursor);
	record->conversion.mult = take64(cursor);
	record->conversion.zero = take64(cursor);
	record->conversion.has_zero = true;
	if (!cursor->left)
		return;
	take(cursor, 16);
	flags = take(cursor, 8);
	record->conversion.has_zero = flags && flags[0];
}

/* Reads the fields of a record without a trailer. */
static void take_body(struct xp_perfdata_record *record, struct cursor *cursor)
{
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		take_map(record, cursor);
		break;
	case PERF_RECORD_COMM:
		record->comm.pid = take32(cursor);
		record->comm.tid = take32(cursor);
		record->comm.name = take_text(cursor);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		take_task(record, cursor);
		break;
	case PERF_RECORD_KSYMBOL:
		take_symbol(record, cursor);
		break;
	case PERF_RECORD_BPF_EVENT:
		take_bpf(record, cursor);
		break;
	case XP_PERFDATA_TIME_CONV:
		take_conversion(record, cursor);
		break;
	case PERF_RECORD_SWITCH:
	case XP_PERFDATA_FINISHED_ROUND:
		break;
	default:
		take(cursor, cursor->left);
	}
}

int xp_perfdata_record_parse(struct xp_perfdata_record *record, struct xp_perfdata_events *events, const uint8_t *bytes,
			     size_t size, struct xp_violation *violation)
{
	struct cursor cursor = { bytes, size, false };

	if (record->type == PERF_RECORD_SAMPLE) {
		take_sample(record, events, &cursor);
	} else {
		if (record->type < XP_PERFDATA_USER_RECORDS)
			cursor.bad = !take_trailer(record, events, &cursor);
		if (!cursor.bad)
			take_body(record, &cursor);
	}
	if (cursor.bad)
		return xp_violate(violation, record->offset, "A record of type %u and %zu bytes is malformed",
				  record->type, size + sizeof(struct perf_event_header));
	if (cursor.left)
		return xp_violate(violation, record->offset, "A record of type %u is %zu bytes longer than its fields",
				  record->type, cursor.left);
	return 0;
}

/* As jit_detect() in tools/perf/util/jitdump.c: any directory may precede the name, but the path must have a slash. */
bool xp_perfdata_is_jit(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t digits;

	if (!name || strncmp(name, "/jit-", 5))
		return false;
	name += 5;
	digits = strspn(name, "0123456789");
	return digits && !strcmp(name + digits, ".dump");
}
