// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hand-written files from gperftools' "CPU Profile Data File Structure", read by the reader and checked by the rules.
 */
#include "format/gperf_reader.h"
#include "check/gperf_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* A file that is built slot by slot. */
static struct {
	uint8_t bytes[1 << 20];
	size_t size;
} file;

static void begin(void)
{
	file.size = 0;
}

static void slot(uint64_t value)
{
	memcpy(file.bytes + file.size, &value, sizeof(value));
	file.size += sizeof(value);
}

static void add_slots(size_t count, const uint64_t *values)
{
	for (size_t i = 0; i < count; i++)
		slot(values[i]);
}

#define slots(...) add_slots(sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

static void add_text(const char *text)
{
	memcpy(file.bytes + file.size, text, strlen(text));
	file.size += strlen(text);
}

/* The bytes end at the end of their allocation, so that a sanitizer detects reads beyond them. */
static uint8_t *copy(void)
{
	uint8_t *bytes = malloc(file.size ? file.size : 1);

	assert_non_null(bytes);
	memcpy(bytes, file.bytes, file.size);
	return bytes;
}

/* Reads everything. Returns the violation's offset, or 0. */
static uint64_t read_all(struct xp_violation *violation)
{
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	struct xp_gperf_line line;
	uint8_t *bytes = copy();
	int more = xp_gperf_reader_init(&reader, bytes, file.size, violation);

	if (!more)
		while ((more = xp_gperf_reader_next(&reader, &sample, violation)) == 1)
			;
	if (!more)
		while ((more = xp_gperf_reader_line(&reader, &line, violation)) == 1)
			;
	free(bytes);
	assert_true(!more || more == -EBADMSG);
	return more ? violation->offset : 0;
}

static void assert_violation(uint64_t offset, const char *words)
{
	struct xp_violation violation = { .text = "none" };
	uint64_t at = read_all(&violation);

	if (!strstr(violation.text, words) || at != offset)
		fail_msg("0x%llx: %s", (unsigned long long)at, violation.text);
}

static void assert_rule(uint64_t offset, const char *words)
{
	struct xp_violation violation = { .text = "none" };
	uint8_t *bytes;
	int found;

	if (read_all(&violation))
		fail_msg("%s", violation.text);
	bytes = copy();
	found = xp_gperf_rules_check(bytes, file.size, &violation);
	free(bytes);
	if (!found && !words)
		return;
	if (found != 1 || !words || !strstr(violation.text, words) || violation.offset != offset)
		fail_msg("%d: 0x%llx: %s", found, (unsigned long long)violation.offset, violation.text);
}

TEST(test_example)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	struct xp_gperf_line line;
	uint8_t *bytes;

	begin();
	slots(0, 3, 0, 10000, 0, 5, 3, 0xa0000, 0xc0000, 0xe0000, 0xffffffff, 1, 0x12345678, 0, 1, 0);
	add_text("  build=/path/to/binary  \n\nhello\n"
		 "40000000-40015000 r-xp 00000020 03:1f 12845071   /lib/ld 2.so\n"
		 "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0           \n"
		 "1-2 rw-s 0 0:0 0");
	bytes = copy();
	assert_true(xp_gperf_probe(bytes, file.size));
	assert_int_equal(xp_gperf_reader_init(&reader, bytes, file.size, &violation), 0);
	assert_int_equal(reader.period_us, 10000);
	assert_int_equal(reader.header_words, 3);

	assert_int_equal(xp_gperf_reader_next(&reader, &sample, &violation), 1);
	assert_int_equal(sample.offset, 40);
	assert_int_equal(sample.count, 5);
	assert_int_equal(sample.pc_count, 3);
	assert_int_equal(xp_gperf_reader_pc(&sample, 0), 0xa0000);
	assert_int_equal(xp_gperf_reader_pc(&sample, 2), 0xe0000);
	assert_int_equal(xp_gperf_reader_next(&reader, &sample, &violation), 1);
	assert_int_equal(sample.count, 0xffffffff);
	assert_int_equal(xp_gperf_reader_pc(&sample, 0), 0x12345678);
	assert_int_equal(xp_gperf_reader_next(&reader, &sample, &violation), 0);
	assert_int_equal(xp_gperf_reader_next(&reader, &sample, &violation), 0);

	assert_int_equal(xp_gperf_reader_line(&reader, &line, &violation), 1);
	assert_int_equal(line.start, 0x40000000);
	assert_int_equal(line.end, 0x40015000);
	assert_string_equal(line.perms, "r-xp");
	assert_int_equal(line.map_offset, 0x20);
	assert_int_equal(line.path_bytes, strlen("/lib/ld 2.so"));
	assert_memory_equal(line.path, "/lib/ld 2.so", line.path_bytes);
	assert_int_equal(xp_gperf_reader_line(&reader, &line, &violation), 1);
	assert_int_equal(line.end, 0xffffffffff601000);
	assert_int_equal(line.path_bytes, 0);
	assert_int_equal(xp_gperf_reader_line(&reader, &line, &violation), 1);
	assert_string_equal(line.perms, "rw-s");
	assert_int_equal(line.path_bytes, 0);
	assert_int_equal(xp_gperf_reader_line(&reader, &line, &violation), 0);
	free(bytes);
}

TEST(test_probe)
{
	static const uint8_t zeros[64], text[] = "a text";

	assert_false(xp_gperf_probe(zeros, sizeof(zeros)));
	assert_false(xp_gperf_probe(zeros, 0));
	assert_false(xp_gperf_probe(text, sizeof(text)));
	begin();
	slots(0, 2);
	assert_false(xp_gperf_probe(file.bytes, file.size));
	begin();
	slots(0, 0x10000);
	assert_false(xp_gperf_probe(file.bytes, file.size));
	begin();
	slots(0, 4);
	assert_true(xp_gperf_probe(file.bytes, file.size));
	assert_false(xp_gperf_probe(file.bytes, file.size - 1));
}

TEST(test_header)
{
	begin();
	slots(0, 3, 0, 10000);
	assert_violation(0, "ends inside the header, which has 5 slots");
	begin();
	slots(0, 3, 7, 10000, 0, 0, 1, 0);
	assert_violation(16, "version is 7");
	begin();
	slots(0, 5, 0, 10000, 0, 77, 78, 0, 1, 0); /* a longer header is allowed */
	assert_violation(0, "none");
	begin();
	slots(0, 0xffff, 0, 10000, 0, 0, 1, 0);
	assert_violation(0, "ends inside the header");
}

TEST(test_records)
{
	begin();
	slots(0, 3, 0, 1, 0);
	assert_violation(40, "ends without the trailer");
	slots(1, 1, 5);
	assert_violation(64, "ends without the trailer");
	slots(2);
	assert_violation(64, "ends inside a record");
	slots(3, 5, 6);
	assert_violation(64, "ends inside a record, which has 3 PCs");
	begin();
	slots(0, 3, 0, 1, 0, 1, UINT64_MAX, 5, 0, 1, 0);
	assert_violation(40, "has 18446744073709551615 PCs");
	begin();
	slots(0, 3, 0, 1, 0, 1, 1ull << 61, 5, 0, 1, 0);
	assert_violation(40, "ends inside a record");
	begin();
	slots(0, 3, 0, 1, 0, 1, 0, 5, 0, 1, 0);
	assert_violation(48, "no PCs");
	begin();
	slots(0, 3, 0, 1, 0, 0, 1, 7, 0, 1, 0);
	assert_violation(40, "count of 0");
	begin();
	slots(0, 3, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0);
	assert_violation(40, "count of 0");
}

static void with_line(const char *line)
{
	begin();
	slots(0, 3, 0, 1, 0, 0, 1, 0);
	add_text("build=x\n");
	add_text(line);
}

TEST(test_lines)
{
	with_line("2-2 r-xp 0 0:0 0 x\n");
	assert_violation(72, "ends at 0x2");
	with_line("3-2 r-xp 0 0:0 0 x\n");
	assert_violation(72, "ends at 0x2");
	with_line("1-2\n-\ndead\n1-2 r-x\n1-2 r-xp g 0:0 0 x\n1-2 r-xp 0 0-0 0 x\n1-2 r-xp 0 0:0 a x\n"); /* skipped */
	assert_violation(0, "none");
	with_line("x\n");
	file.bytes[file.size++] = 0;
	assert_violation(74, "zero byte");
}

/* No writer makes this, but a hole in a file reads like this. */
TEST(test_too_large)
{
	begin();
	slots(0, 3, 0, 1, 0, 1, XP_GPERF_PCS_MAX);
	for (unsigned int i = 0; i < XP_GPERF_PCS_MAX; i++)
		slot(0x1001);
	slots(0, 1, 0);
	assert_violation(0, "none");
	begin();
	slots(0, 3, 0, 1, 0, 1, XP_GPERF_PCS_MAX + 1);
	for (unsigned int i = 0; i < XP_GPERF_PCS_MAX + 1; i++)
		slot(0x1001);
	slots(0, 1, 0);
	assert_violation(48, "has 65537 PCs");
	begin();
	slots(0, 3, 0, 1, 0, 0, 1, 0);
	memset(file.bytes + file.size, 'x', XP_GPERF_LINE_BYTES_MAX);
	file.size += XP_GPERF_LINE_BYTES_MAX;
	assert_violation(0, "none");
	add_text("\n");
	assert_violation(64, "more than 65536 bytes");
}

/* Makes a complete file around records. Returns the offset of the first record. */
static void ruled(uint64_t period_us, size_t count, const uint64_t *records, const char *text)
{
	begin();
	slots(0, 3, 0, period_us, 0);
	add_slots(count, records);
	slots(0, 1, 0);
	add_text(text);
}

#define MAPPED "00001000-00002000 r-xp 00000000 00:00 0 /x\n"
#define rule(offset, words, period, text, ...)                                                                         \
	do {                                                                                                           \
		ruled(period, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ }, text);             \
		assert_rule(offset, words);                                                                            \
	} while (0)

TEST(test_rules)
{
	rule(0, NULL, 1, MAPPED, 1, 2, 0x1000, 0x2000);
	rule(24, "go tool pprof", 0, MAPPED, 1, 1, 0x1000);
	rule(24, "google-pprof", (1ull << 32) + 1, MAPPED, 1, 1, 0x1000);
	rule(64, "google-pprof: It takes a record that begins with PC 0", 1, MAPPED, 1, 1, 0x1000, 1, 1, 0);
	rule(56, "google-pprof: It drops addresses", 1, MAPPED, 1, 1, 1ull << 63);
	rule(56, "go tool pprof: 0x2000 is in no", 1, MAPPED, 1, 1, 0x2000);
	rule(64, "go tool pprof: 0x1000 is in no", 1, MAPPED, 1, 2, 0x1000, 0x1000);
	rule(56, "in no executable", 1, "00001000-00002000 rw-p 00000000 00:00 0 /x\n", 1, 1, 0x1000);
	rule(56, "in no executable", 1, "", 1, 1, 0x1000);
	rule(0, NULL, 1, MAPPED, 1, 2, 0x1000, 1); /* 0 stays 0 */
}

TEST(test_more_rules)
{
	begin();
	slots(0, 4, 0, 1, 0, 0, 0, 1, 0);
	assert_rule(8, "headers of 3 words only, not of 4");
	begin();
	slots(0, 3, 0, 1, 9, 0, 1, 0);
	assert_rule(32, "padding");
	begin();
	slots(0, 3, 0, 1, 0, INT64_MAX, 1, 0x1000, 1, 1, 0x1000, 0, 1, 0);
	add_text(MAPPED);
	assert_rule(64, "63 bits");
}

TEST(test_line_rules)
{
	static const char blank[] = MAPPED "00002000-00003000 r-xp 00000000 00:00 0 /x y\n";
	static const char shared[] = "00001000-00002000 r-xs 00000000 00:00 0 /x\n";
	static const char joined[] = MAPPED "00003000-00004000 rw-p 00000000 00:00 0 \n"
					    "00002000-00003000 r-xp 00000000 00:00 0 \n";
	static const char apart[] = MAPPED "00003000-00004000 rwxp 00000000 00:00 0 \n";
	static const char not_executable[] = MAPPED "00002000-00003000 rw-s 00000000 00:00 0 /x y\n";

	rule(88 + sizeof(MAPPED) - 1, "first blank", 1, blank, 1, 1, 0x1000);
	rule(88, "shared", 1, shared, 1, 1, 0x1000);
	rule(88 + 2 * sizeof(MAPPED) - 4, "joins", 1, joined, 1, 1, 0x1000);
	rule(0, NULL, 1, apart, 1, 1, 0x1000);
	rule(0, NULL, 1, not_executable, 1, 1, 0x1000);
}

/* Ranges in any order, overlapping and nested. */
TEST(test_coverage)
{
	static const char text[] = "00005000-00006000 r-xp 00000000 00:00 0 a\n"
				   "00001000-00004000 r-xp 00000000 00:00 0 b\n"
				   "00002000-00003000 r-xp 00000000 00:00 0 c\n"
				   "00003800-00004800 r-xp 00000000 00:00 0 d\n";

	rule(0, NULL, 1, text, 1, 1, 0x1000, 1, 1, 0x3fff, 1, 1, 0x47ff, 1, 1, 0x5fff, 1, 2, 0x2000, 0x6000);
	rule(56, "0x4800", 1, text, 1, 1, 0x4800);
	rule(56, "0x6000", 1, text, 1, 1, 0x6000);
	rule(56, "0xfff", 1, text, 1, 1, 0xfff);
}
