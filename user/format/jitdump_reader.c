// SPDX-License-Identifier: BSD-2-Clause
#include "format/jitdump_reader.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"

#define LINE_BYTES 16
#define SAME_FILE "\xff"

bool xp_jitdump_probe(const uint8_t *bytes, uint64_t size)
{
	return size >= 4 && xp_bytes_get(bytes, 4) == XP_JITDUMP_MAGIC;
}

int xp_jitdump_read_header(const uint8_t *bytes, uint64_t size, struct xp_jitdump_header *header,
			   struct xp_violation *violation)
{
	if (size < XP_JITDUMP_HEADER_BYTES)
		return 0;
	if (!xp_jitdump_probe(bytes, size))
		return xp_violate(violation, 0, "This is not a jitdump");
	*header = (struct xp_jitdump_header){
		.version = xp_bytes_get(bytes + 4, 4),
		.bytes = xp_bytes_get(bytes + 8, 4),
		.elf_mach = xp_bytes_get(bytes + 12, 4),
		.pid = xp_bytes_get(bytes + 20, 4),
		.timestamp = xp_bytes_get(bytes + 24, 8),
		.flags = xp_bytes_get(bytes + 32, 8),
	};
	if (!header->version || header->version > XP_JITDUMP_TEXT_VERSION)
		return xp_violate(violation, 4, "The format's version is %u instead of 1 or 2", header->version);
	if (header->bytes < XP_JITDUMP_HEADER_BYTES)
		return xp_violate(violation, 8, "The header's size, %u bytes, is smaller than its fields",
				  header->bytes);
	if (header->flags & ~XP_JITDUMP_FLAG_ARCH_TIMESTAMP)
		return xp_violate(violation, 32, "The flags are 0x%" PRIx64 ", of which only bit 0 is defined",
				  header->flags);
	return 1;
}

/* Size of a record's fixed part, including the prefix. */
static uint32_t fixed_bytes(uint32_t kind)
{
	static const uint32_t bytes[] = {
		[XP_JITDUMP_LOAD] = 56,	 [XP_JITDUMP_MOVE] = 64,	   [XP_JITDUMP_DEBUG_INFO] = 32,
		[XP_JITDUMP_CLOSE] = 16, [XP_JITDUMP_UNWINDING_INFO] = 40,
	};

	return kind < sizeof(bytes) / sizeof(bytes[0]) ? bytes[kind] : XP_JITDUMP_PREFIX_BYTES;
}

const char *xp_jitdump_kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[XP_JITDUMP_LOAD] = "load",
		[XP_JITDUMP_MOVE] = "move",
		[XP_JITDUMP_DEBUG_INFO] = "debug",
		[XP_JITDUMP_CLOSE] = "close",
		[XP_JITDUMP_UNWINDING_INFO] = "unwind",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

int xp_jitdump_record_bytes(const uint8_t *record, uint64_t offset, uint32_t *bytes, struct xp_violation *violation)
{
	uint32_t kind = xp_bytes_get(record, 4);

	*bytes = xp_bytes_get(record + 4, 4);
	if (*bytes < fixed_bytes(kind))
		return xp_violate(violation, offset,
				  "The size of a record of kind %u (%s), %u bytes, is smaller than its fields", kind,
				  xp_jitdump_kind_name(kind), *bytes);
	return 0;
}

/* The unread part of a record: its fields after the prefix, then its variable part. */
struct cursor {
	const uint8_t *at;
	uint64_t left;
};

/* Takes a number. */
static uint64_t take(struct cursor *cursor, size_t bytes)
{
	uint64_t value = xp_bytes_get(cursor->at, bytes);

	cursor->at += bytes;
	cursor->left -= bytes;
	return value;
}

/* Reads a NUL-terminated string. Returns NULL if it is not terminated. */
static const char *take_text(struct cursor *cursor)
{
	const uint8_t *from = cursor->at, *zero = memchr(from, 0, cursor->left);

	if (!zero)
		return NULL;
	cursor->left -= zero + 1 - from;
	cursor->at = zero + 1;
	return (const char *)from;
}

static int check_padding(const struct cursor *cursor, const struct xp_jitdump_record *record,
			 struct xp_violation *violation)
{
	if (cursor->left <= XP_JITDUMP_PADDING_BYTES_MAX)
		return 0;
	return xp_violate(violation, record->offset, "A %s record has %" PRIu64 " bytes after its contents",
			  xp_jitdump_kind_name(record->kind), cursor->left);
}

static bool wraps(uint64_t start, uint64_t size)
{
	return size && start + (size - 1) < start;
}

static int read_load_head(struct cursor *cursor, struct xp_jitdump_record *record, struct xp_violation *violation)
{
	record->load.pid = take(cursor, 4);
	record->load.tid = take(cursor, 4);
	record->load.vma = take(cursor, 8);
	record->load.code_addr = take(cursor, 8);
	record->load.code_size = take(cursor, 8);
	record->load.code_index = take(cursor, 8);
	record->load.name = take_text(cursor);
	if (!record->load.name)
		return xp_violate(violation, record->offset, "The name in a load record is not terminated");
	if (wraps(record->load.code_addr, record->load.code_size))
		return xp_violate(violation, record->offset,
				  "The code of a load record extends beyond the last address");
	return 0;
}

static int read_load(struct cursor *cursor, struct xp_jitdump_record *record, struct xp_violation *violation)
{
	int err = read_load_head(cursor, record, violation);

	if (err)
		return err;
	if (record->load.code_size > cursor->left)
		return xp_violate(violation, record->offset,
				  "A load record has %" PRIu64 " of the %" PRIu64 " bytes of its code", cursor->left,
				  record->load.code_size);
	/* Padding may precede the code: perf uses the last bytes as the code. */
	cursor->left -= record->load.code_size;
	record->load.code = cursor->at + cursor->left;
	return check_padding(cursor, record, violation);
}

static int read_move(struct cursor *cursor, struct xp_jitdump_record *record, struct xp_violation *violation)
{
	record->move.pid = take(cursor, 4);
	record->move.tid = take(cursor, 4);
	record->move.vma = take(cursor, 8);
	record->move.old_code_addr = take(cursor, 8);
	record->move.new_code_addr = take(cursor, 8);
	record->move.code_size = take(cursor, 8);
	record->move.code_index = take(cursor, 8);
	if (wraps(record->move.new_code_addr, record->move.code_size))
		return xp_violate(violation, record->offset,
				  "The code of a move record extends beyond the last address");
	return check_padding(cursor, record, violation);
}

static int read_debug(struct cursor *cursor, struct xp_jitdump_record *record, struct xp_violation *violation)
{
	record->debug.code_addr = take(cursor, 8);
	record->debug.line_count = take(cursor, 8);
	record->debug.lines = cursor->at;
	for (uint64_t i = 0; i < record->debug.line_count; i++) {
		if (cursor->left < LINE_BYTES)
			return xp_violate(violation, record->offset,
					  "A debug record ends inside line %" PRIu64 " of its %" PRIu64, i + 1,
					  record->debug.line_count);
		cursor->at += LINE_BYTES;
		cursor->left -= LINE_BYTES;
		if (!take_text(cursor))
			return xp_violate(violation, record->offset, "A file name in a debug record is not terminated");
	}
	record->debug.surplus_bytes = cursor->left;
	return 0;
}

/*
 * .eh_frame starts with a common information entry: its length, which is not 0, then an ID of 0. The header starts with
 * its version, 1, and three encodings, which are 1b 03 3b in nearly all files.
 */
static bool begins_with_frame(const uint8_t *data, uint64_t bytes)
{
	static const uint8_t header[] = { 1, 0x1b, 3, 0x3b }, id[4] = { 0 };

	return bytes >= 8 && memcmp(data, header, sizeof(header)) && !memcmp(data + 4, id, sizeof(id));
}

static int read_unwinding(struct cursor *cursor, struct xp_jitdump_record *record, struct xp_violation *violation)
{
	uint64_t bytes = take(cursor, 8), header_bytes = take(cursor, 8), frame_bytes;
	const uint8_t *data;

	record->unwinding.mapped_bytes = take(cursor, 8);
	data = cursor->at;
	if (bytes > cursor->left)
		return xp_violate(violation, record->offset,
				  "An unwind record has %" PRIu64 " of the %" PRIu64 " bytes of its data", cursor->left,
				  bytes);
	if (header_bytes > bytes)
		return xp_violate(violation, record->offset,
				  "The header in an unwind record has %" PRIu64 " bytes, and all its data %" PRIu64,
				  header_bytes, bytes);
	frame_bytes = bytes - header_bytes;
	cursor->left -= bytes;
	record->unwinding.eh_frame_bytes = frame_bytes;
	record->unwinding.eh_frame_hdr_bytes = header_bytes;
	record->unwinding.order = !frame_bytes || !header_bytes		 ? XP_JITDUMP_ONE_PART
				  : begins_with_frame(data, frame_bytes) ? XP_JITDUMP_FRAME_FIRST
									 : XP_JITDUMP_HEADER_FIRST;
	record->unwinding.eh_frame = data;
	record->unwinding.eh_frame_hdr = data;
	if (record->unwinding.order == XP_JITDUMP_HEADER_FIRST)
		record->unwinding.eh_frame += header_bytes;
	else
		record->unwinding.eh_frame_hdr += frame_bytes;
	return check_padding(cursor, record, violation);
}

static struct cursor begin_record(const uint8_t *bytes, uint64_t offset, struct xp_jitdump_record *record)
{
	struct cursor cursor = { .at = bytes, .left = XP_JITDUMP_PREFIX_BYTES };

	memset(record, 0, sizeof(*record));
	record->offset = offset;
	record->kind = take(&cursor, 4);
	record->bytes = take(&cursor, 4);
	record->timestamp = take(&cursor, 8);
	cursor.left = record->bytes - XP_JITDUMP_PREFIX_BYTES;
	return cursor;
}

int xp_jitdump_read_load_head(const uint8_t *bytes, uint64_t size, uint64_t offset, struct xp_jitdump_record *record,
			      struct xp_violation *violation)
{
	struct cursor cursor = begin_record(bytes, offset, record);

	cursor.left = size - XP_JITDUMP_PREFIX_BYTES;
	return read_load_head(&cursor, record, violation);
}

int xp_jitdump_read_record(const uint8_t *bytes, uint64_t offset, struct xp_jitdump_record *record,
			   struct xp_violation *violation)
{
	struct cursor cursor = begin_record(bytes, offset, record);

	switch (record->kind) {
	case XP_JITDUMP_LOAD:
		return read_load(&cursor, record, violation);
	case XP_JITDUMP_MOVE:
		return read_move(&cursor, record, violation);
	case XP_JITDUMP_DEBUG_INFO:
		return read_debug(&cursor, record, violation);
	case XP_JITDUMP_CLOSE:
		return check_padding(&cursor, record, violation);
	case XP_JITDUMP_UNWINDING_INFO:
		return read_unwinding(&cursor, record, violation);
	default:
		return 0;
	}
}

void xp_jitdump_lines_start(struct xp_jitdump_lines *lines, const struct xp_jitdump_record *record)
{
	*lines = (struct xp_jitdump_lines){
		.at = record->debug.lines,
		.left = record->debug.line_count,
	};
}

bool xp_jitdump_lines_next(struct xp_jitdump_lines *lines, struct xp_jitdump_line *line)
{
	const char *file = (const char *)lines->at + LINE_BYTES;

	if (!lines->left)
		return false;
	lines->left--;
	line->address = xp_bytes_get(lines->at, 8);
	line->line = xp_bytes_get(lines->at + 8, 4);
	line->discriminator = xp_bytes_get(lines->at + 12, 4);
	lines->at += LINE_BYTES + strlen(file) + 1;
	if (!lines->file || strcmp(file, SAME_FILE))
		lines->file = file;
	line->file = lines->file;
	return true;
}

int xp_jitdump_reader_init(struct xp_jitdump_reader *reader, const uint8_t *bytes, uint64_t size,
			   struct xp_violation *violation)
{
	int found;

	memset(reader, 0, sizeof(*reader));
	reader->bytes = bytes;
	reader->size = size;
	found = xp_jitdump_read_header(bytes, size, &reader->header, violation);
	if (found < 0)
		return found;
	if (!found || reader->header.bytes > size)
		return xp_violate(violation, 0, "The file ends inside the header");
	reader->pos = reader->header.bytes;
	return 0;
}

int xp_jitdump_reader_next(struct xp_jitdump_reader *reader, struct xp_jitdump_record *record,
			   struct xp_violation *violation)
{
	const uint8_t *at = reader->bytes + reader->pos;
	uint64_t left = reader->size - reader->pos;
	uint32_t bytes;
	int err;

	if (!left)
		return 0;
	if (left < XP_JITDUMP_PREFIX_BYTES)
		return xp_violate(violation, reader->pos,
				  "The file ends inside a record, %" PRIu64 " bytes after its start", left);
	err = xp_jitdump_record_bytes(at, reader->pos, &bytes, violation);
	if (err)
		return err;
	if (bytes > left)
		return xp_violate(violation, reader->pos,
				  "The file ends inside a %s record of %u bytes, %" PRIu64 " after its start",
				  xp_jitdump_kind_name(xp_bytes_get(at, 4)), bytes, left);
	err = xp_jitdump_read_record(at, reader->pos, record, violation);
	if (err)
		return err;
	reader->pos += bytes;
	return 1;
}
