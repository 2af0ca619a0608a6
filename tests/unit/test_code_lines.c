// SPDX-License-Identifier: BSD-2-Clause
#include "model/code_lines.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/util.h"

#define HEADER_BYTES 32 /* of a debug record */
#define LINE_BYTES 18	/* with a file name of one character */

/* Makes a debug record; file names are letters. */
static void make_record(uint8_t *to, const struct xp_code_line *lines, size_t count)
{
	const uint32_t prefix[] = { XP_JITDUMP_DEBUG_INFO, (uint32_t)(HEADER_BYTES + count * LINE_BYTES) };
	const uint64_t fields[] = { 1, 0x1000, count };

	memcpy(to, prefix, sizeof(prefix));
	memcpy(to + sizeof(prefix), fields, sizeof(fields));
	for (size_t i = 0; i < count; i++) {
		uint8_t *line = to + HEADER_BYTES + i * LINE_BYTES;

		memset(line, 0, LINE_BYTES);
		memcpy(line, &lines[i].address, 8);
		memcpy(line + 8, &lines[i].line, 4);
		line[16] = (uint8_t)*lines[i].file;
	}
}

static void expect(struct xp_code_lines *lines, const uint8_t *record, uint64_t address, uint32_t line,
		   const char *file)
{
	const struct xp_code_line *found;

	assert_int_equal(xp_code_lines_find(lines, record, address, &found), 0);
	if (!file) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_int_equal(found->line, line);
	assert_string_equal(found->file, file);
}

static const struct xp_code_line unordered[] = {
	{ .address = 0x1020, .line = 3, .file = "b" }, { .address = 0x1000, .line = 1, .file = "a" },
	{ .address = 0x1010, .line = 7, .file = "a" }, { .address = 0x1010, .line = 2, .file = "c" },
	{ .address = 0x1030, .line = 0, .file = "a" },
};

TEST(test_last_at_or_below)
{
	uint8_t first[HEADER_BYTES + XP_ARRAY_SIZE(unordered) * LINE_BYTES], second[sizeof(first)];
	struct xp_code_lines lines = { 0 };

	make_record(first, unordered, XP_ARRAY_SIZE(unordered));
	make_record(second, unordered, 1);
	expect(&lines, first, 0xfff, 0, NULL);
	expect(&lines, first, 0x1000, 1, "a");
	expect(&lines, first, 0x100f, 1, "a");
	expect(&lines, first, 0x1010, 2, "c");
	expect(&lines, second, 0x1010, 0, NULL);
	expect(&lines, second, 0x1020, 3, "b");
	expect(&lines, first, 0x1020, 3, "b");
	expect(&lines, first, UINT64_MAX, 0, "a");
	xp_code_lines_free(&lines);
}

/* For any number of lookups, data is read only once. */
TEST(test_a_record_is_read_once)
{
	uint8_t record[HEADER_BYTES + XP_ARRAY_SIZE(unordered) * LINE_BYTES];
	struct xp_code_lines lines = { 0 };

	make_record(record, unordered, XP_ARRAY_SIZE(unordered));
	expect(&lines, record, 0x1000, 1, "a");
	for (size_t i = 0; i < XP_ARRAY_SIZE(unordered); i++)
		memset(record + HEADER_BYTES + i * LINE_BYTES, 0xff, 16);
	expect(&lines, record, 0x1000, 1, "a");
	expect(&lines, record, 0x1011, 2, "c");
	expect(&lines, record, 0x102f, 3, "b");
	xp_code_lines_free(&lines);
}

TEST(test_malformed_records_have_no_lines)
{
	uint8_t record[HEADER_BYTES + XP_ARRAY_SIZE(unordered) * LINE_BYTES];
	struct xp_code_lines lines = { 0 };

	make_record(record, unordered, XP_ARRAY_SIZE(unordered));
	record[24] = XP_ARRAY_SIZE(unordered) - 1; /* lines: the surplus is one line */
	expect(&lines, record, 0x1010, 0, NULL);
	xp_code_lines_free(&lines);
	record[24] = 0xff;
	expect(&lines, record, 0x1010, 0, NULL);
	xp_code_lines_free(&lines);
}
