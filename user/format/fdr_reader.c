// SPDX-License-Identifier: BSD-2-Clause
#include "format/fdr_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"

#define TYPE_FDR 1
/*
 * Limit for records of function 0, which does not exist. Zeros read as such records. A buffer of version 1 may contain
 * some where it was not filled, but a hole in the file could contain gigabytes of zeros.
 */
#define NOBODYS_MAX (4u << 20)
#define TYPED_REMARK " (XRay's runtime makes it too short in a log with typed events)"

static const char *const function_names[] = { "enter", "exit", "tail-exit", "enter-args" };
static const char *const metadata_names[] = { "NewBuffer",   "EndOfBuffer",  "NewCPUId",      "TSCWrap",    "WallClock",
					      "CustomEvent", "CallArgument", "BufferExtents", "TypedEvent", "Pid" };

const char *xp_fdr_record_name(const struct xp_fdr_record *record)
{
	return record->is_function ? function_names[record->kind] : metadata_names[record->kind];
}

static uint64_t get(const uint8_t *from, size_t bytes)
{
	return xp_bytes_get(from, bytes);
}

bool xp_fdr_probe(const uint8_t *bytes, uint64_t size)
{
	return size >= 4 && (get(bytes, 2) == 1 || get(bytes, 2) == 5) && get(bytes + 2, 2) == TYPE_FDR;
}

/* Version 1: the file is a sequence of buffers of one size. */
static int check_buffer_bytes(const struct xp_fdr_reader *reader, struct xp_violation *violation)
{
	uint64_t data_bytes = reader->size - XP_FDR_HEADER_BYTES;
	uint64_t buffer_bytes = reader->header.buffer_bytes;

	if (!data_bytes)
		return 0;
	if (!buffer_bytes)
		return xp_violate(violation, 16, "The header has no buffer size, which version 1 requires");
	if (buffer_bytes < XP_FDR_METADATA_BYTES)
		return xp_violate(violation, 16,
				  "The buffer size in the header, %" PRIu64 " bytes, is smaller than a record",
				  buffer_bytes);
	if (data_bytes % buffer_bytes)
		return xp_violate(violation, 16,
				  "The %" PRIu64
				  " bytes after the header are not a multiple of the buffer size, %" PRIu64,
				  data_bytes, buffer_bytes);
	return 0;
}

int xp_fdr_reader_init(struct xp_fdr_reader *reader, const uint8_t *bytes, uint64_t size,
		       struct xp_violation *violation)
{
	memset(reader, 0, sizeof(*reader));
	if (!xp_fdr_probe(bytes, size))
		return xp_violate(violation, 0, "This is not an XRay FDR log of version 1 or 5");
	if (size < XP_FDR_HEADER_BYTES)
		return xp_violate(violation, 0, "The file ends inside the header, which takes %d bytes",
				  XP_FDR_HEADER_BYTES);
	reader->bytes = bytes;
	reader->size = size;
	reader->pos = XP_FDR_HEADER_BYTES;
	reader->header.version = get(bytes, 2);
	reader->header.constant_tsc = get(bytes + 4, 4) & 1;
	reader->header.nonstop_tsc = get(bytes + 4, 4) >> 1 & 1;
	reader->header.cycle_hz = get(bytes + 8, 8);
	reader->header.buffer_bytes = get(bytes + 16, 8);
	return reader->header.version == 1 ? check_buffer_bytes(reader, violation) : 0;
}

/* Reports a record of the wrong kind. */
static int unexpected(const struct xp_fdr_record *record, const char *expected, struct xp_violation *violation)
{
	return xp_violate(violation, record->offset, "%s expected, not a record %s", expected,
			  xp_fdr_record_name(record));
}

static bool is_kind(const struct xp_fdr_record *record, enum xp_fdr_metadata_kind kind)
{
	return !record->is_function && record->kind == kind;
}

/* Checks the order of the records: see the specification's "Format Grammar and Invariants". */
static int advance(struct xp_fdr_reader *reader, const struct xp_fdr_record *record, struct xp_violation *violation)
{
	switch (reader->state) {
	case XP_FDR_AT_BUFFER:
		if (reader->header.version > 1) {
			if (!is_kind(record, XP_FDR_BUFFER_EXTENTS))
				return unexpected(record, "BufferExtents", violation);
			reader->state = XP_FDR_AT_NEW_BUFFER;
			return 0;
		}
		/* fallthrough */
	case XP_FDR_AT_NEW_BUFFER:
		if (!is_kind(record, XP_FDR_NEW_BUFFER))
			return unexpected(record, "NewBuffer", violation);
		reader->state = XP_FDR_AT_WALL_CLOCK;
		return 0;
	case XP_FDR_AT_WALL_CLOCK:
		if (!is_kind(record, XP_FDR_WALL_CLOCK))
			return unexpected(record, "WallClock", violation);
		reader->state = XP_FDR_AT_FIRST_CPU;
		return 0;
	case XP_FDR_AT_FIRST_CPU:
		if (is_kind(record, XP_FDR_PID) && !reader->pid)
			return 0;
		if (!is_kind(record, XP_FDR_NEW_CPU_ID))
			return unexpected(record, "NewCPUId", violation);
		reader->state = XP_FDR_IN_BODY;
		return 0;
	case XP_FDR_IN_BODY:
		break;
	}
	if (record->is_function)
		return 0;
	switch ((enum xp_fdr_metadata_kind)record->kind) {
	case XP_FDR_END_OF_BUFFER:
		reader->state = XP_FDR_AT_BUFFER;
		return 0;
	case XP_FDR_CALL_ARGUMENT:
		if (!reader->takes_arguments)
			return xp_violate(violation, record->offset,
					  "CallArgument does not follow an entry with arguments");
		return 0;
	case XP_FDR_NEW_CPU_ID:
	case XP_FDR_TSC_WRAP:
	case XP_FDR_CUSTOM_EVENT:
	case XP_FDR_TYPED_EVENT:
		return 0;
	default:
		return unexpected(record, "A record of a buffer's body", violation);
	}
}

static int add_to_tsc(struct xp_fdr_reader *reader, uint64_t offset, uint64_t delta, struct xp_violation *violation)
{
	if (__builtin_add_overflow(reader->tsc, delta, &reader->tsc))
		return xp_violate(violation, offset, "The delta exceeds the largest TSC");
	return 0;
}

static int read_function(struct xp_fdr_reader *reader, const uint8_t *p, struct xp_fdr_record *record,
			 struct xp_violation *violation)
{
	uint32_t word = get(p, 4);
	unsigned int kind = word >> 1 & 7;
	int err;

	if (kind > XP_FDR_ENTER_ARGS)
		return xp_violate(violation, reader->pos, "Function record of unknown kind %u", kind);
	record->is_function = true;
	record->kind = kind;
	record->function.fn_id = word >> 4;
	record->function.delta = get(p + 4, 4);
	err = advance(reader, record, violation);
	if (err)
		return err;
	if (!record->function.fn_id && ++reader->nobodys > NOBODYS_MAX)
		return xp_violate(violation, reader->pos, "More than %u records of function 0, although ids begin at 1",
				  NOBODYS_MAX);
	reader->takes_arguments = kind == XP_FDR_ENTER_ARGS;
	reader->pos += XP_FDR_FUNCTION_BYTES;
	return add_to_tsc(reader, record->offset, record->function.delta, violation);
}

/* Determines where the records of the buffer that starts here end. */
static int begin_buffer(struct xp_fdr_reader *reader, const struct xp_fdr_record *record,
			struct xp_violation *violation)
{
	uint64_t left = reader->size - reader->pos;

	reader->has_cpu = false;
	reader->pid = 0;
	reader->tid = 0;
	reader->buffer = reader->pos;
	if (reader->header.version == 1) {
		reader->end = reader->pos + XP_MIN(left, reader->header.buffer_bytes);
		return 0;
	}
	if (left - XP_FDR_METADATA_BYTES < record->extents)
		return xp_violate(violation, record->offset,
				  "BufferExtents says %" PRIu64 " bytes, but only %" PRIu64 " follow in the file",
				  record->extents, left - XP_FDR_METADATA_BYTES);
	reader->end = reader->pos + XP_FDR_METADATA_BYTES + record->extents;
	return 0;
}

/* Reads the payload after an event's record, and the event's TSC. */
static int read_event(struct xp_fdr_reader *reader, const uint8_t *p, struct xp_fdr_record *record,
		      struct xp_violation *violation)
{
	int32_t bytes = (int32_t)get(p + 1, 4);
	uint64_t room = reader->end - reader->pos - XP_FDR_METADATA_BYTES;
	int32_t delta;

	if (bytes < 0)
		return xp_violate(violation, record->offset, "The event's size, %d, is negative", bytes);
	if ((uint64_t)bytes > room)
		return xp_violate(violation, record->offset,
				  "The event's %d bytes do not fit into its buffer, which has %" PRIu64 " bytes left%s",
				  bytes, room, reader->header.version == 5 ? TYPED_REMARK : "");
	record->event.bytes = bytes;
	record->event.data = p + XP_FDR_METADATA_BYTES;
	reader->pos += bytes;
	if (reader->header.version == 1) {
		record->tsc = get(p + 5, 8);
		return 0;
	}
	delta = (int32_t)get(p + 5, 4);
	if (delta < 0)
		return xp_violate(violation, record->offset, "The event's delta, %d, is negative", delta);
	if (record->kind == XP_FDR_TYPED_EVENT)
		record->event.type = get(p + 9, 2);
	if (add_to_tsc(reader, record->offset, delta, violation))
		return -EBADMSG;
	record->tsc = reader->tsc;
	return 0;
}

static int read_wall_clock(const uint8_t *p, struct xp_fdr_record *record, struct xp_violation *violation)
{
	record->wall.seconds = get(p + 1, 8);
	record->wall.microseconds = get(p + 9, 4);
	if (record->wall.microseconds >= 1000000)
		return xp_violate(violation, record->offset, "WallClock has %u microseconds, a second or more",
				  record->wall.microseconds);
	return 0;
}

/* Skips the bytes after EndOfBuffer. */
static int end_buffer(struct xp_fdr_reader *reader, struct xp_fdr_record *record)
{
	uint64_t end = reader->pos + XP_FDR_METADATA_BYTES;

	record->rest.data = reader->bytes + end;
	record->rest.bytes = reader->end - end;
	reader->pos = reader->end - XP_FDR_METADATA_BYTES; /* the caller adds the size of the record */
	return 0;
}

/* Reads the fields of the complete metadata record at p. Advances reader->pos only over a payload. */
static int read_fields(struct xp_fdr_reader *reader, const uint8_t *p, struct xp_fdr_record *record,
		       struct xp_violation *violation)
{
	switch ((enum xp_fdr_metadata_kind)record->kind) {
	case XP_FDR_NEW_BUFFER:
		reader->tid = (int32_t)get(p + 1, 4);
		return 0;
	case XP_FDR_END_OF_BUFFER:
		return end_buffer(reader, record);
	case XP_FDR_NEW_CPU_ID:
		reader->cpu = get(p + 1, 2);
		reader->tsc = get(p + 3, 8);
		reader->has_cpu = true;
		return 0;
	case XP_FDR_TSC_WRAP:
		reader->tsc = get(p + 1, 8);
		return 0;
	case XP_FDR_WALL_CLOCK:
		return read_wall_clock(p, record, violation);
	case XP_FDR_CUSTOM_EVENT:
	case XP_FDR_TYPED_EVENT:
		return read_event(reader, p, record, violation);
	case XP_FDR_CALL_ARGUMENT:
		record->argument = get(p + 1, 8);
		return 0;
	case XP_FDR_BUFFER_EXTENTS:
		return 0;
	case XP_FDR_PID:
		reader->pid = (int32_t)get(p + 1, 4);
		return 0;
	}
	return 0;
}

static int read_metadata(struct xp_fdr_reader *reader, const uint8_t *p, struct xp_fdr_record *record,
			 struct xp_violation *violation)
{
	unsigned int kind = p[0] >> 1;
	unsigned int version = reader->header.version;
	int err;

	if (kind >= XP_ARRAY_SIZE(metadata_names))
		return xp_violate(violation, reader->pos, "Metadata record of unknown kind %u", kind);
	record->kind = kind;
	if (version == 1 ? kind > XP_FDR_CALL_ARGUMENT : kind == XP_FDR_END_OF_BUFFER)
		return xp_violate(violation, reader->pos, "%s does not exist in version %u", xp_fdr_record_name(record),
				  version);
	if (kind == XP_FDR_BUFFER_EXTENTS)
		record->extents = get(p + 1, 8);
	if (reader->state == XP_FDR_AT_BUFFER && kind == (version > 1 ? XP_FDR_BUFFER_EXTENTS : XP_FDR_NEW_BUFFER)) {
		err = begin_buffer(reader, record, violation);
		if (err)
			return err;
	}
	err = advance(reader, record, violation);
	if (!err)
		err = read_fields(reader, p, record, violation);
	if (err)
		return err;
	reader->takes_arguments &= kind == XP_FDR_CALL_ARGUMENT;
	reader->pos += XP_FDR_METADATA_BYTES;
	return 0;
}

/* Ends a block of version 5. Buffers of version 1 end with EndOfBuffer instead. */
static int end_block(struct xp_fdr_reader *reader, struct xp_violation *violation)
{
	const uint8_t *p = reader->bytes + reader->pos;

	if (reader->header.version == 1)
		return xp_violate(violation, reader->pos, "The buffer that begins at 0x%" PRIx64 " has no EndOfBuffer",
				  reader->buffer);
	if (reader->state != XP_FDR_IN_BODY)
		return xp_violate(violation, reader->pos,
				  "The block of the BufferExtents at 0x%" PRIx64 " ends before its first NewCPUId",
				  reader->buffer);
	reader->state = XP_FDR_AT_BUFFER;
	if (reader->pos < reader->size && p[0] != (XP_FDR_BUFFER_EXTENTS << 1 | 1))
		return xp_violate(violation, reader->pos,
				  "The block of the BufferExtents at 0x%" PRIx64
				  " ends here, but no other block follows" TYPED_REMARK,
				  reader->buffer);
	return 0;
}

/* Reports an incomplete record: only `left` bytes remain in the file or the buffer. */
static int cut_off(const struct xp_fdr_reader *reader, const char *what, uint64_t left, struct xp_violation *violation)
{
	if (reader->state == XP_FDR_AT_BUFFER || reader->end == reader->size)
		return xp_violate(violation, reader->pos,
				  "The file ends inside a %s record, %" PRIu64 " bytes after its start", what, left);
	if (reader->header.version == 1)
		return xp_violate(violation, reader->pos,
				  "A %s record crosses the end of the buffer that begins at 0x%" PRIx64, what,
				  reader->buffer);
	return xp_violate(violation, reader->pos,
			  "A %s record extends beyond the block of the BufferExtents at 0x%" PRIx64 TYPED_REMARK, what,
			  reader->buffer);
}

int xp_fdr_reader_next(struct xp_fdr_reader *reader, struct xp_fdr_record *record, struct xp_violation *violation)
{
	uint64_t left;
	bool function;
	int err;

	if (reader->state != XP_FDR_AT_BUFFER && reader->pos == reader->end) {
		err = end_block(reader, violation);
		if (err)
			return err;
	}
	if (reader->state == XP_FDR_AT_BUFFER) {
		if (reader->pos == reader->size)
			return 0;
		left = reader->size - reader->pos;
	} else {
		left = reader->end - reader->pos;
	}
	memset(record, 0, sizeof(*record));
	record->offset = reader->pos;
	function = !(reader->bytes[reader->pos] & 1);
	if (left < (function ? XP_FDR_FUNCTION_BYTES : XP_FDR_METADATA_BYTES))
		return cut_off(reader, function ? "function" : "metadata", left, violation);
	err = (function ? read_function : read_metadata)(reader, reader->bytes + reader->pos, record, violation);
	if (err)
		return err;
	record->has_cpu = reader->has_cpu;
	record->pid = reader->pid;
	record->tid = reader->tid;
	record->cpu = reader->cpu;
	if (record->is_function || (record->kind != XP_FDR_CUSTOM_EVENT && record->kind != XP_FDR_TYPED_EVENT))
		record->tsc = reader->tsc;
	return 1;
}
