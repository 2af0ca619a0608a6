// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written files from "JITDUMP specification version 2", and the results of the reader and the rules. */
#include "format/jitdump_reader.h"
#include "check/jitdump_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* A file that is built number by number. */
static struct {
	uint8_t bytes[1 << 16];
	size_t size;
	size_t record; /* start of the last record */
} file;

static void number(uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		file.bytes[file.size++] = value >> 8 * i;
}

static void n32(uint32_t value)
{
	number(value, 4);
}

static void add_numbers(size_t count, const uint64_t *values)
{
	for (size_t i = 0; i < count; i++)
		number(values[i], 8);
}

#define n64(...) add_numbers(sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

static void text(const char *value, size_t bytes)
{
	memcpy(file.bytes + file.size, value, bytes);
	file.size += bytes;
}

/* Sets the size of the last record to what was put since its start. */
static void end(void)
{
	size_t size = file.size;

	file.size = file.record + 4;
	n32(size - file.record);
	file.size = size;
}

static void begin(uint32_t version)
{
	file.size = 0;
	n32(0x4a695444);
	n32(version);
	n32(40);
	n32(62);
	n32(0);
	n32(4711);
	n64(0x0102030405060708, 1);
}

static void record(uint32_t kind)
{
	file.record = file.size;
	n32(kind);
	n32(0);
	n64(0x1122334455667788);
}

static void load(uint64_t index)
{
	record(0);
	n32(4711);
	n32(4712);
	n64(0x6000, 0x7000, 4, index);
	text("hot\0\x90\xc3\0\xcc", 8);
	end();
}

static void move(uint64_t index)
{
	record(1);
	n32(4711);
	n32(4712);
	n64(0x8000, 0x7000, 0x9000, 4, index);
	end();
}

static void debug(uint64_t address)
{
	record(2);
	n64(address, 3, 0x7000);
	n32(10);
	n32(0);
	text("a.c", 4);
	n64(0x7002);
	n32(300);
	n32(7);
	text("\xff", 2);
	n64(0x7003);
	n32(1);
	n32(0);
	text("b.h", 4);
	end();
}

static const char frame[] = "\x14\0\0\0\0\0\0\0\1zR\0\1x\20\1\33\14\7\10\220\1\0\0";
static const char header[] = "\1\33\3\x3b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

static void unwinding(bool frame_first)
{
	record(4);
	n64(sizeof(frame) + sizeof(header), sizeof(header), 44);
	if (!frame_first)
		text(header, sizeof(header));
	text(frame, sizeof(frame));
	if (frame_first)
		text(header, sizeof(header));
	end();
}

static void closing(void)
{
	record(3);
	end();
}

/* The bytes end at the end of their allocation, so that a sanitizer detects reads beyond them. */
static uint8_t *copy(size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);

	assert_non_null(bytes);
	memcpy(bytes, file.bytes, size);
	return bytes;
}

/* Reads everything. Returns 0 or -EBADMSG. */
static int read_all(size_t size, struct xp_violation *violation)
{
	struct xp_jitdump_reader reader;
	struct xp_jitdump_record one;
	struct xp_jitdump_lines lines;
	struct xp_jitdump_line line;
	uint8_t *bytes = copy(size);
	int more = xp_jitdump_reader_init(&reader, bytes, size, violation);

	while (!more) {
		more = xp_jitdump_reader_next(&reader, &one, violation);
		if (more <= 0)
			break;
		if (one.kind == XP_JITDUMP_DEBUG_INFO) {
			xp_jitdump_lines_start(&lines, &one);
			while (xp_jitdump_lines_next(&lines, &line))
				assert_non_null(line.file);
		}
		more = 0;
	}
	free(bytes);
	assert_true(!more || more == -EBADMSG);
	return more;
}

static void assert_violation(size_t offset, const char *words)
{
	struct xp_violation violation = { .text = "none" };
	int err = read_all(file.size, &violation);

	if (!err || !strstr(violation.text, words) || violation.offset != offset)
		fail_msg("%d: 0x%llx: %s", err, (unsigned long long)violation.offset, violation.text);
}

/* The format allows this. words: perf's objection, or NULL. */
static void assert_rule(size_t offset, const char *words)
{
	struct xp_violation violation = { .text = "none" };
	uint8_t *bytes = copy(file.size);
	int found;

	if (read_all(file.size, &violation))
		fail_msg("%s", violation.text);
	found = xp_jitdump_rules_check(bytes, file.size, &violation);
	free(bytes);
	if (!found && !words)
		return;
	if (found != 1 || !words || !strstr(violation.text, words) || violation.offset != offset)
		fail_msg("%d: 0x%llx: %s", found, (unsigned long long)violation.offset, violation.text);
}

static void check_line(struct xp_jitdump_lines *lines, uint64_t address, uint32_t number_of, uint32_t discriminator,
		       const char *name)
{
	struct xp_jitdump_line line;

	assert_true(xp_jitdump_lines_next(lines, &line));
	assert_int_equal(line.address, address);
	assert_int_equal(line.line, number_of);
	assert_int_equal(line.discriminator, discriminator);
	assert_string_equal(line.file, name);
}

static void next(struct xp_jitdump_reader *reader, struct xp_jitdump_record *one, uint32_t kind)
{
	struct xp_violation violation;

	assert_int_equal(xp_jitdump_reader_next(reader, one, &violation), 1);
	assert_int_equal(one->kind, kind);
}

static void check_unwinding(struct xp_jitdump_reader *reader, enum xp_jitdump_order order)
{
	struct xp_jitdump_record one;

	next(reader, &one, XP_JITDUMP_UNWINDING_INFO);
	assert_int_equal(one.unwinding.order, order);
	assert_int_equal(one.unwinding.mapped_bytes, 44);
	assert_int_equal(one.unwinding.eh_frame_bytes, sizeof(frame));
	assert_int_equal(one.unwinding.eh_frame_hdr_bytes, sizeof(header));
	assert_memory_equal(one.unwinding.eh_frame, frame, sizeof(frame));
	assert_memory_equal(one.unwinding.eh_frame_hdr, header, sizeof(header));
}

/* Every field of every kind. */
static void check_fields(uint32_t version)
{
	struct xp_violation violation;
	struct xp_jitdump_reader reader;
	struct xp_jitdump_record one;
	struct xp_jitdump_lines lines;
	struct xp_jitdump_line line;

	begin(version);
	debug(0x7000);
	unwinding(true);
	unwinding(false);
	load(3);
	move(3);
	record(99);
	text("whatever", 8);
	end();
	closing();
	assert_true(xp_jitdump_probe(file.bytes, file.size));
	assert_int_equal(xp_jitdump_reader_init(&reader, file.bytes, file.size, &violation), 0);
	assert_true(reader.header.version == version);
	assert_true(reader.header.bytes == 40 && reader.header.elf_mach == 62 && reader.header.pid == 4711);
	assert_true(reader.header.timestamp == 0x0102030405060708 && reader.header.flags == 1);
	next(&reader, &one, XP_JITDUMP_DEBUG_INFO);
	assert_true(one.offset == 40 && one.timestamp == 0x1122334455667788);
	assert_true(one.debug.code_addr == 0x7000 && one.debug.line_count == 3 && !one.debug.surplus_bytes);
	xp_jitdump_lines_start(&lines, &one);
	check_line(&lines, 0x7000, 10, 0, "a.c");
	check_line(&lines, 0x7002, 300, 7, "a.c");
	check_line(&lines, 0x7003, 1, 0, "b.h");
	assert_false(xp_jitdump_lines_next(&lines, &line));
	check_unwinding(&reader, XP_JITDUMP_FRAME_FIRST);
	check_unwinding(&reader, XP_JITDUMP_HEADER_FIRST);
	next(&reader, &one, XP_JITDUMP_LOAD);
	assert_true(one.load.pid == 4711 && one.load.tid == 4712 && one.load.vma == 0x6000);
	assert_true(one.load.code_addr == 0x7000 && one.load.code_size == 4 && one.load.code_index == 3);
	assert_string_equal(one.load.name, "hot");
	assert_memory_equal(one.load.code, "\x90\xc3\0\xcc", 4);
	next(&reader, &one, XP_JITDUMP_MOVE);
	assert_true(one.move.pid == 4711 && one.move.tid == 4712 && one.move.vma == 0x8000);
	assert_true(one.move.old_code_addr == 0x7000 && one.move.new_code_addr == 0x9000);
	assert_true(one.move.code_size == 4 && one.move.code_index == 3);
	next(&reader, &one, 99);
	assert_int_equal(one.bytes, 24);
	next(&reader, &one, XP_JITDUMP_CLOSE);
	assert_int_equal(xp_jitdump_reader_next(&reader, &one, &violation), 0);
}

TEST(test_fields)
{
	for (uint32_t version = 1; version <= 2; version++)
		check_fields(version);
}

static void change32(size_t offset, uint32_t value)
{
	size_t size = file.size;

	file.size = offset;
	n32(value);
	file.size = size;
}

TEST(test_header)
{
	begin(1);
	assert_rule(0, NULL);
	file.size = 39;
	assert_violation(0, "ends inside the header");
	begin(0);
	assert_violation(4, "version is 0");
	begin(3);
	assert_violation(4, "version is 3");
	begin(1);
	change32(8, 39);
	assert_violation(8, "39 bytes");
	change32(8, 48);
	assert_violation(0, "ends inside the header");
	n64(0);
	load(1);
	assert_rule(8, "perf continues after 40");
	begin(1);
	change32(32, 3);
	assert_violation(32, "flags are 0x3");
	begin(1);
	change32(0, 0x4a695445);
	assert_false(xp_jitdump_probe(file.bytes, file.size));
	assert_violation(0, "not a jitdump");
}

/* Records of every kind are read to their end, and not beyond. */
TEST(test_cut_off)
{
	void (*const makers[])(uint64_t) = { load, move, debug };

	for (unsigned int i = 0; i < 5; i++) {
		struct xp_violation violation;

		begin(1);
		if (i < 3)
			makers[i](0x7000);
		else if (i == 3)
			unwinding(true);
		else
			closing();
		assert_int_equal(read_all(file.size, &violation), 0);
		for (size_t size = 41; size < file.size; size++) {
			assert_int_equal(read_all(size, &violation), -EBADMSG);
			assert_int_equal(violation.offset, 40);
			assert_non_null(strstr(violation.text, "file ends inside a"));
		}
		/* the same with the record's own size; up to 7 bytes at its end are padding */
		for (size_t size = 1; size < file.size - 40; size++) {
			change32(44, size);
			assert_int_equal(read_all(40 + size, &violation), -EBADMSG);
		}
		change32(44, file.size - 40 + 7);
		memset(file.bytes + file.size, 0, 8);
		if (i == 0)
			continue; /* a load has its padding before the code */
		assert_int_equal(read_all(file.size + 7, &violation), 0);
		change32(44, file.size - 40 + 8);
		assert_int_equal(read_all(file.size + 8, &violation), i == 2 ? 0 : -EBADMSG);
	}
}

TEST(test_load)
{
	begin(1);
	load(1);
	change32(40 + 16 + 24, 5); /* code_size */
	assert_violation(40, "4 of the 5 bytes of its code");
	change32(40 + 16 + 24 + 4, 0x80000000);
	assert_violation(40, "bytes of its code");
	begin(1);
	load(1);
	memset(file.bytes + file.size - 8, 'x', 8);
	assert_violation(40, "is not terminated");
	begin(1);
	record(0);
	n64(0, 0, -4ull, 5, 1);
	text("\0hello", 6);
	end();
	assert_violation(40, "beyond the last address");
	change32(40 + 16 + 24, 4); /* up to the last address and one byte of padding */
	assert_rule(0, NULL);
	begin(1);
	record(0);
	n64(0, 0, 0, 0, 1);
	text("\0\0\0\0\0\0\0\0\0", 9);
	end();
	assert_violation(40, "8 bytes after");
}

TEST(test_debug)
{
	begin(1);
	debug(0x7000);
	change32(40 + 16 + 8, 4); /* line_count */
	assert_violation(40, "line 4 of its 4");
	change32(40 + 16 + 12, 0x40000000);
	assert_violation(40, "line 4 of its");
	begin(1);
	record(2);
	n64(0x7000, 1, 0x7000, 1);
	text("abc", 3);
	end();
	assert_violation(40, "file name");
	begin(1);
	debug(0x7001);
	load(1);
	assert_rule(40, "followed by the load of 0x7000");
	begin(1);
	debug(0x7000);
	assert_rule(40, "not followed by a load");
	debug(0x7000);
	load(1);
	assert_rule(40, "another one instead of a load");
	begin(1);
	debug(0x7000);
	load(1);
	assert_rule(0, NULL);
}

/* As V8 of Node.js 20: names with zero bytes. */
TEST(test_zeros_in_names)
{
	begin(1);
	record(2);
	n64(0x7000, 1, 0x7000, 1);
	text("Ft\0\0\0\0\0\0hot.js", 15);
	end();
	load(1);
	assert_rule(40, "12 bytes after its lines");
}

TEST(test_unwinding)
{
	begin(1);
	unwinding(true);
	load(1);
	assert_rule(0, NULL);
	change32(40 + 16, 46); /* unwind_data_size */
	assert_violation(40, "45 of the 46 bytes");
	change32(40 + 16, 19); /* less than the header's */
	assert_violation(40, "header in an unwind record has 20 bytes");
	begin(1);
	unwinding(false);
	load(1);
	assert_rule(40, "begins with its header");
	begin(1);
	record(4);
	n64(sizeof(frame), 0, 0);
	text(frame, sizeof(frame));
	end();
	load(1);
	assert_rule(40, "no header");
	begin(1);
	record(4);
	n64(sizeof(header), sizeof(header), 0);
	text(header, sizeof(header));
	end();
	load(1);
	assert_rule(0, NULL);
}

TEST(test_indices)
{
	size_t second;

	begin(1);
	load(1);
	load(2);
	move(1);
	assert_rule(0, NULL);
	second = file.size;
	load(1);
	assert_rule(second, "has loaded code 1 before");
	change32(second + 16, 4713); /* another process */
	assert_rule(0, NULL);
	second = file.size;
	move(3);
	assert_rule(second, "never loaded");
	begin(2);
	load(1);
	assert_rule(4, "perf rejects versions above 1");
}
