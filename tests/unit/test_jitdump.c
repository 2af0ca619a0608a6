// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written golden files from "JITDUMP specification version 2". */
#include "format/jitdump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"

#include "base/file_view.h"
#include "check/formats.h"

/* Numbers with only the lowest 16 bits set. */
#define W(low) (low) & 0xff, (low) >> 8 & 0xff, 0, 0
#define Q(low) W(low), 0, 0, 0, 0

#define HEADER(version, flags)                                                                                         \
	'D', 'T', 'i', 'J', W(version), W(40), W(62), W(0), W(4711), 8, 7, 6, 5, 4, 3, 2, 1, Q(flags)

static const struct xp_jitdump_options options = {
	.pid = 4711,
	.timestamp = 0x0102030405060708,
	.arch_timestamp = true,
};

static const uint8_t code[] = { 0x90, 0xc3, 0x00, 0xcc };
static const struct xp_jitdump_load load = {
	.pid = 4711, .tid = 4712, .code_addr = 0x7000, .code_size = 4, .code_index = 3, .name = "hot", .code = code
};

static int fd;

static struct xp_jitdump *begin(const struct xp_jitdump_options *with)
{
	struct xp_jitdump *dump;

	fd = memfd_create("jitdump", 0);
	assert_true(fd >= 0);
	assert_int_equal(xp_jitdump_new(&dump, fd, with), 0);
	return dump;
}

/* Checks that the file has these bytes. */
static void end(struct xp_jitdump *dump, const void *expected, size_t size)
{
	uint8_t *file;

	assert_int_equal(xp_jitdump_bytes(dump), size);
	assert_int_equal(xp_jitdump_flush(dump), 0);
	assert_int_equal(xp_jitdump_bytes(dump), size);
	xp_jitdump_free(dump);
	assert_int_equal(lseek(fd, 0, SEEK_END), size);
	file = malloc(size);
	assert_non_null(file);
	assert_int_equal(pread(fd, file, size, 0), size);
	assert_memory_equal(file, expected, size);
	free(file);
	close(fd);
}

/* The specification's magic reads "JiTD" as a number, "DTiJ" as bytes of a little-endian file. */
TEST(test_header)
{
	static const uint8_t tsc[] = { HEADER(1, 1) }, monotonic[] = { HEADER(1, 0) };
	struct xp_jitdump_options with = options;

	assert_int_equal(sizeof(tsc), 40);
	end(begin(&with), tsc, sizeof(tsc));
	with.arch_timestamp = false;
	end(begin(&with), monotonic, sizeof(monotonic));
}

TEST(test_load)
{
	static const uint8_t expected[] = {
		HEADER(1, 1), W(0),  W(64),	Q(0x1234), W(4711), W(4712), Q(0x7000), Q(0x7000), Q(4), Q(3),
		'h',	      'o',   't',	0,	   0x90,    0xc3,    0x00,	0xcc, /* an empty function */
		W(0),	      W(57), Q(0x1235), W(1),	   W(2),    Q(8),    Q(8),	Q(0),	   Q(4), 0,
	};
	const struct xp_jitdump_load empty = { .pid = 1, .tid = 2, .code_addr = 8, .code_index = 4, .name = "" };
	struct xp_jitdump *dump = begin(&options);

	assert_int_equal(xp_jitdump_load(dump, 0x1234, &load), 0);
	assert_int_equal(xp_jitdump_load(dump, 0x1235, &empty), 0);
	end(dump, expected, sizeof(expected));
}

TEST(test_move)
{
	static const uint8_t expected[] = {
		HEADER(1, 1), W(1), W(64), Q(0x1234), W(4711), W(4712), Q(0x9000), Q(0x7000), Q(0x9000), Q(4), Q(3),
	};
	const struct xp_jitdump_move move = { .pid = 4711,
					      .tid = 4712,
					      .old_code_addr = 0x7000,
					      .new_code_addr = 0x9000,
					      .code_size = 4,
					      .code_index = 3 };
	struct xp_jitdump *dump = begin(&options);

	assert_int_equal(xp_jitdump_move(dump, 0x1234, &move), 0);
	end(dump, expected, sizeof(expected));
}

TEST(test_debug_info)
{
	static const uint8_t expected[] = {
		HEADER(1, 1), W(2), W(72), Q(0x1234), Q(0x7000), Q(2), Q(0x7000), W(10), W(0), 'a',
		'.',	      'c',  0,	   Q(0x7002), W(300),	 W(7), 'b',	  '.',	 'h',  0,
	};
	static const struct xp_jitdump_line lines[] = { { 0x7000, 10, 0, "a.c" }, { 0x7002, 300, 7, "b.h" } };
	struct xp_jitdump *dump = begin(&options);

	assert_int_equal(xp_jitdump_debug_info(dump, 0x1234, 0x7000, lines, 2), 0);
	assert_int_equal(xp_jitdump_debug_info(dump, 0x1234, 0x7000, lines, 0), -EINVAL);
	end(dump, expected, sizeof(expected));
}

TEST(test_close)
{
	static const uint8_t expected[] = { HEADER(1, 1), W(3), W(16), Q(0x1234) };
	struct xp_jitdump *dump = begin(&options);

	assert_int_equal(xp_jitdump_close(dump, 0x1234), 0);
	assert_int_equal(xp_jitdump_load(dump, 0x1235, &load), -EINVAL); /* no record may follow, and none does */
	end(dump, expected, sizeof(expected));
}

/* Sizes that do not fit into the record's 32 bits; the bytes are not read. */
TEST(test_too_long)
{
	static const uint8_t expected[] = { HEADER(1, 1) };
	struct xp_jitdump *dump = begin(&options);
	struct xp_jitdump_load long_load = load;

	long_load.code_size = UINT32_MAX - 56 - 4 + 1;
	assert_int_equal(xp_jitdump_load(dump, 1, &long_load), -EINVAL);
	long_load.code_size = UINT64_MAX;
	assert_int_equal(xp_jitdump_load(dump, 1, &long_load), -EINVAL);
	end(dump, expected, sizeof(expected));
}

/* Records that do and do not fit into the writer's buffer: their bytes, and the start of each. */
TEST(test_long)
{
	enum { COUNT = 40 };
	const size_t sizes[] = { 1, 65536 - 57 - 40, 65536 - 57, 65536, 3, 300000, 30000 };
	uint8_t *expected = calloc(COUNT, 300100), *bytes = malloc(300000);
	struct xp_jitdump *dump = begin(&options);
	size_t used = 40;

	assert_true(expected && bytes);
	memcpy(expected, (const uint8_t[]){ HEADER(1, 1) }, 40);
	for (unsigned int i = 0; i < COUNT; i++) {
		uint32_t size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))], all = 57 + size;
		struct xp_jitdump_load one = { .code_addr = i, .code_size = size, .name = "", .code = bytes };

		memset(bytes, i + 1, size);
		memcpy(expected + used + 4, &all, 4);
		memcpy(expected + used + 24, &one.code_addr, 8);
		memcpy(expected + used + 32, &one.code_addr, 8);
		memcpy(expected + used + 40, &one.code_size, 8);
		memcpy(expected + used + 57, bytes, size);
		used += all;
		assert_int_equal(xp_jitdump_load(dump, 0, &one), 0);
	}
	end(dump, expected, used);
	free(expected);
	free(bytes);
}

/* The process's file size limit acts as a full disk: the write that crosses the limit is short. */
TEST(test_full_disk)
{
	char directory[] = "/tmp/xprof-unit.XXXXXX", path[sizeof(directory) + 16];
	static uint8_t zeros[70000];
	const size_t sizes[] = { 100, sizeof(zeros), 5000 };
	struct rlimit before, limit;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ 1000000, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/limited", directory);
	for (unsigned int size = 0; size < 3; size++) {
		struct xp_jitdump_load one = { .code_size = sizes[size], .name = "", .code = zeros };
		struct xp_report report = { 0 };
		struct xp_file_view view;
		struct xp_jitdump *dump;
		int err = 0;

		fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(xp_jitdump_new(&dump, fd, &options), 0);
		for (unsigned int i = 0; i < 100000 && !err; i++) {
			one.code_index = i;
			err = xp_jitdump_load(dump, i, &one);
		}
		assert_int_equal(err, -EFBIG);
		assert_int_equal(xp_jitdump_load(dump, 1, &one), -EFBIG);
		assert_int_equal(xp_jitdump_flush(dump), -EFBIG);
		xp_jitdump_free(dump);
		close(fd);
		assert_int_equal(xp_file_view_open(&view, AT_FDCWD, path), 0);
		assert_true(view.size > 800000);
		assert_int_equal(xp_format_jitdump.check(view.bytes, view.size, &report), 0);
		assert_int_equal(report.finding_count, 0);
		xp_file_view_close(&view);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	unlink(path);
	rmdir(directory);
}
