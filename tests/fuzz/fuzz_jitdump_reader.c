// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of jitdumps. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "format/jitdump_reader.h"

static void check_inside(const struct xp_jitdump_record *record, const uint8_t *data, const void *part, uint64_t bytes)
{
	const uint8_t *from = part;

	CHECK(from >= data + record->offset + XP_JITDUMP_PREFIX_BYTES);
	CHECK(bytes <= (uint64_t)(data + record->offset + record->bytes - from));
}

static void check_lines(const struct xp_jitdump_record *record, const uint8_t *data)
{
	struct xp_jitdump_lines lines;
	struct xp_jitdump_line line;
	uint64_t count = 0;

	xp_jitdump_lines_start(&lines, record);
	for (; xp_jitdump_lines_next(&lines, &line); count++)
		check_inside(record, data, line.file, strlen(line.file) + 1);
	CHECK(count == record->debug.line_count);
}

/* Checks that the fields are inside the record. */
static void check_record(const struct xp_jitdump_record *record, const uint8_t *data)
{
	switch (record->kind) {
	case XP_JITDUMP_LOAD:
		check_inside(record, data, record->load.name, strlen(record->load.name) + 1);
		check_inside(record, data, record->load.code, record->load.code_size);
		break;
	case XP_JITDUMP_DEBUG_INFO:
		check_lines(record, data);
		break;
	case XP_JITDUMP_UNWINDING_INFO:
		check_inside(record, data, record->unwinding.eh_frame, record->unwinding.eh_frame_bytes);
		check_inside(record, data, record->unwinding.eh_frame_hdr, record->unwinding.eh_frame_hdr_bytes);
		break;
	default:
		break;
	}
}

/* Returns the reader's last result. */
static int read_all(const uint8_t *data, size_t size, struct xp_violation *violation)
{
	struct xp_jitdump_reader reader;
	struct xp_jitdump_record record;
	uint64_t at = 0;
	int more = xp_jitdump_reader_init(&reader, data, size, violation);

	if (more)
		return more;
	while ((more = xp_jitdump_reader_next(&reader, &record, violation)) == 1) {
		CHECK(record.offset > at && record.bytes <= size - record.offset);
		check_record(&record, data);
		at = record.offset;
	}
	return more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_violation violation = { .text = "" };
	int err = read_all(data, size, &violation);

	CHECK(!err || err == -EBADMSG);
	CHECK(!err == !violation.text[0] && violation.offset <= size);
	return 0;
}
