// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written golden files from gperftools' "CPU Profile Data File Structure". */
#include "format/gperf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

/* Returns a 16-bit number as a slot. */
#define S(low) (low) & 0xff, (low) >> 8 & 0xff, 0, 0, 0, 0, 0, 0

static int fd;

static void begin(struct xp_gperf **gperf, uint64_t period_us)
{
	fd = memfd_create("gperf", 0);
	assert_true(fd >= 0);
	assert_int_equal(xp_gperf_new(gperf, fd, period_us), 0);
}

/* Checks that the file has these bytes. */
static void end(struct xp_gperf *gperf, const void *expected, size_t size)
{
	uint8_t *file;

	assert_int_equal(xp_gperf_finish(gperf), 0);
	xp_gperf_free(gperf);
	assert_int_equal(lseek(fd, 0, SEEK_END), size);
	file = malloc(size);
	assert_non_null(file);
	assert_int_equal(pread(fd, file, size, 0), size);
	assert_memory_equal(file, expected, size);
	free(file);
	close(fd);
}

/* The header of the specification's example, and the trailer. */
TEST(test_empty)
{
	static const uint8_t expected[] = { S(0), S(3), S(0), S(0x2710), S(0), S(0), S(1), S(0) };
	struct xp_gperf *gperf;

	begin(&gperf, 10000);
	end(gperf, expected, sizeof(expected));
}

/* The record of the specification's example, one of long addresses, and a mapping line. */
TEST(test_whole)
{
	static const uint8_t binary[] = {
		S(0), S(3), S(0), S(0x2710), S(0), /* header */
		S(5), S(3), 0,	  0,	     0x0a, 0, 0, 0, 0,	  0,	0,    0,    0x0c, 0,	0,    0, 0, 0,
		0,    0,			      /* record */
		0x0e, 0,    0,	  0,	     0,	   0, /* its last PC */
		0,    1,    0,	  0,	     0,	   0, 0, 0, S(1), 0x21, 0x43, 0x65, 0x87, 0xa9, 0x7f, 0, 0, /* 256
													       samples
													     */
		S(0), S(1), S(0), /* trailer */
	};
	static const char text[] = "40000000-40015000 r-xp 00000000 00:00 0           /lib/ld-2.3.2.so\n"
				   "7fff00000000-7fff00001000 r-xp 123456789 00:00 0           [anon]\n"
				   "00400000-00401000 r-xp 00001000 00:00 0           x\n";
	static const uint64_t example[] = { 0xa0000, 0xc0000, 0xe0000 };
	static const uint64_t high[] = { 0x7fa987654321 };
	struct xp_gperf_map maps[] = {
		{ .start = 0x40000000, .end = 0x40015000, .path = "/lib/ld-2.3.2.so" },
		{ .start = 0x7fff00000000, .end = 0x7fff00001000, .offset = 0x123456789, .path = "[anon]" },
		{ .start = 0x400000, .end = 0x401000, .offset = 0x1000, .path = "x" },
	};
	uint8_t expected[sizeof(binary) + sizeof(text) - 1];
	struct xp_gperf *gperf;

	memcpy(expected, binary, sizeof(binary));
	memcpy(expected + sizeof(binary), text, sizeof(text) - 1);
	begin(&gperf, 10000);
	assert_int_equal(xp_gperf_record(gperf, 5, example, 3), 0);
	assert_int_equal(xp_gperf_record(gperf, 256, high, 1), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(xp_gperf_map(gperf, &maps[i]), 0);
	end(gperf, expected, sizeof(expected));
}

/* More than the writer buffers. */
TEST(test_long)
{
	enum { RECORDS = 100, SLOTS = 2 + XP_GPERF_CHAIN_MAX };
	size_t size = (5 + RECORDS * SLOTS + 3) * 8;
	uint64_t *expected = calloc(1, size), *at = expected + 5;
	uint64_t pcs[XP_GPERF_CHAIN_MAX];
	struct xp_gperf *gperf;

	assert_non_null(expected);
	begin(&gperf, XP_GPERF_PERIOD_US_MAX);
	expected[1] = 3;
	expected[3] = 0xffffffff;
	for (uint64_t i = 0; i < RECORDS; i++) {
		*at++ = i + 1;
		*at++ = XP_GPERF_CHAIN_MAX;
		for (uint64_t j = 0; j < XP_GPERF_CHAIN_MAX; j++)
			*at++ = pcs[j] = (i << 32) + j + 1;
		assert_int_equal(xp_gperf_record(gperf, i + 1, pcs, XP_GPERF_CHAIN_MAX), 0);
	}
	at[1] = 1;
	end(gperf, expected, size);
	free(expected);
}

/* An error is permanent, because later data would be at the wrong position. */
static void refuse_record(uint64_t count, const uint64_t *pcs, size_t pc_count)
{
	static const uint64_t good[] = { 1 };
	struct xp_gperf *gperf;

	begin(&gperf, 1);
	assert_int_equal(xp_gperf_record(gperf, count, pcs, pc_count), -EINVAL);
	assert_int_equal(xp_gperf_record(gperf, 1, good, 1), -EINVAL);
	assert_int_equal(xp_gperf_finish(gperf), -EINVAL);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	xp_gperf_free(gperf);
	close(fd);
}

/* A profile of some MB needs only tens of writes. */
TEST(test_buffer)
{
	const uint64_t pcs[] = { 1, 2 };
	struct xp_gperf *gperf;

	begin(&gperf, 1);
	for (int i = 0; i < 1000; i++) /* 32 000 bytes */
		assert_int_equal(xp_gperf_record(gperf, 1, pcs, 2), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	assert_int_equal(xp_gperf_finish(gperf), 0);
	assert_true(lseek(fd, 0, SEEK_END) > 32000);
	xp_gperf_free(gperf);
	close(fd);
}

TEST(test_refused_records)
{
	static uint64_t pcs[XP_GPERF_CHAIN_MAX + 1];
	struct xp_gperf *gperf;

	assert_int_equal(xp_gperf_new(&gperf, -1, 0), -EINVAL);
	assert_null(gperf);
	assert_int_equal(xp_gperf_new(&gperf, -1, XP_GPERF_PERIOD_US_MAX + 1), -EINVAL);
	refuse_record(1, pcs, 2); /* begins with 0 */
	pcs[0] = 1;
	refuse_record(0, pcs, 1);
	refuse_record(1, pcs, 0);
	refuse_record(1, pcs, XP_GPERF_CHAIN_MAX + 1);
}

static void refuse_map(uint64_t start, uint64_t limit, const char *path)
{
	const struct xp_gperf_map map = { .start = start, .end = limit, .path = path };
	struct xp_gperf *gperf;

	begin(&gperf, 1);
	assert_int_equal(xp_gperf_map(gperf, &map), -EINVAL);
	assert_int_equal(xp_gperf_finish(gperf), -EINVAL);
	xp_gperf_free(gperf);
	close(fd);
}

TEST(test_refused_maps)
{
	static const uint64_t pcs[] = { 1 };
	const struct xp_gperf_map map = { .start = 1, .end = 2, .path = "x" };
	struct xp_gperf *gperf;

	refuse_map(2, 2, "x");
	refuse_map(3, 2, "x");
	refuse_map(1, 2, "");
	refuse_map(1, 2, "a b");
	refuse_map(1, 2, "a\nb");
	refuse_map(1, 2, "a\x7f");
	assert_true(xp_gperf_path_fits("/usr/lib/\xc3\xa9.so"));
	begin(&gperf, 1); /* a record after a mapping */
	assert_int_equal(xp_gperf_map(gperf, &map), 0);
	assert_int_equal(xp_gperf_record(gperf, 1, pcs, 1), -EINVAL);
	xp_gperf_free(gperf);
	close(fd);
}

TEST(test_full_disk)
{
	static uint64_t pcs[XP_GPERF_CHAIN_MAX] = { 1 };
	struct xp_gperf *gperf;
	int err = 0;

	fd = open("/dev/full", O_WRONLY);
	assert_int_equal(xp_gperf_new(&gperf, fd, 1), 0);
	for (int i = 0; i < 100 && !err; i++)
		err = xp_gperf_record(gperf, 1, pcs, XP_GPERF_CHAIN_MAX);
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(xp_gperf_record(gperf, 1, pcs, 1), -ENOSPC);
	assert_int_equal(xp_gperf_finish(gperf), -ENOSPC);
	xp_gperf_free(gperf);
	assert_int_equal(xp_gperf_new(&gperf, fd, 1), 0);
	assert_int_equal(xp_gperf_finish(gperf), -ENOSPC);
	xp_gperf_free(gperf);
	close(fd);
}
