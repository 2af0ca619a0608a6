// SPDX-License-Identifier: BSD-2-Clause
/* The data written for samples. Its effect on the readers is tested in tests/format/test_gperf.py. */
#include "format/gperf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"

static uint64_t slots[8192]; /* of the last file, after the header */
static char text[64 << 10];  /* its list of mapped objects */

#define RECORD(number, ...)                                                                                            \
	(struct xp_gperf_record)                                                                                       \
	{                                                                                                              \
		.count = (number), .pcs = (const uint64_t[]){ __VA_ARGS__ },                                           \
		.pc_count = sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8                                              \
	}

static const struct xp_gperf_object program[] = {
	{ .start = 0x555555555000, .end = 0x555555560000, .offset = 0x1000, .path = "/bin/program" }
};

static void get_record(void *arg, size_t index, struct xp_gperf_record *record)
{
	*record = ((const struct xp_gperf_record *)arg)[index];
}

static int write_records(int fd, uint64_t period_us, const struct xp_gperf_record *records, size_t record_count,
			 const struct xp_gperf_object *objects, size_t object_count)
{
	const struct xp_gperf_records source = { get_record, (void *)(uintptr_t)records, record_count };

	return xp_gperf_write(fd, period_us, &source, objects, object_count);
}

static int try_write(const struct xp_gperf_record *records, size_t record_count, const struct xp_gperf_object *objects,
		     size_t object_count)
{
	int fd = memfd_create("profile", 0);
	size_t at = 0;
	ssize_t size;
	int err;

	assert_true(fd >= 0);
	err = write_records(fd, 1000, records, record_count, objects, object_count);
	if (!err) {
		static const uint64_t header[] = { 0, 3, 0, 1000, 0 };

		assert_int_equal(pread(fd, slots, sizeof(header), 0), sizeof(header));
		assert_memory_equal(slots, header, sizeof(header));
	}
	memset(slots, 0, sizeof(slots));
	memset(text, 0, sizeof(text));
	size = pread(fd, slots, sizeof(slots), 40);
	assert_true(size >= 0 && (err || (size >= 24 && (size_t)size < sizeof(slots))));
	while (slots[at])
		at += 2 + slots[at + 1];
	if (!err)
		assert_true(pread(fd, text, sizeof(text) - 1, 40 + (at + 3) * 8) >= 0);
	close(fd);
	return err;
}

#define WRITE(records, objects)                                                                                        \
	assert_int_equal(try_write(records, XP_ARRAY_SIZE(records), objects, XP_ARRAY_SIZE(objects)), 0)

#define assert_slots(...)                                                                                              \
	assert_memory_equal(slots, ((const uint64_t[]){ __VA_ARGS__, 0, 1, 0 }),                                       \
			    sizeof((const uint64_t[]){ __VA_ARGS__, 0, 1, 0 }))

/* Records */

TEST(test_plain)
{
	const struct xp_gperf_record records[] = { RECORD(7, 0x555555555000, 0x555555560000),
						   RECORD(1, 0x55555555ffff, 0x555555555001, 0x555555555100) };

	WRITE(records, program);
	assert_slots(7, 2, 0x555555555000, 0x555555560000, 1, 3, 0x55555555ffff, 0x555555555001, 0x555555555100);
	assert_string_equal(text, "555555555000-555555560000 r-xp 00001000 00:00 0           /bin/program\n");
}

/* For callers the byte before the address decides, for the sampled PC its own byte. */
TEST(test_unknown)
{
	const struct xp_gperf_record records[] = {
		RECORD(1, 0x555555560000, 0x555555555000, 0x1),
		RECORD(1, 0x41414141414141, 0xffff888000000000, 0x7fff00000000),
	};

	WRITE(records, program);
	assert_slots(1, 3, 0xd55555560000, 0xd55555555000, 0x800000000001, 1, 3, 0xc14141414141, 0x888000000000,
		     0xffff00000000);
	assert_non_null(strstr(text, "\n800000000000-1000000000000 r-xp 00000000 00:00 0           [unknown]\n"));
}

TEST(test_single_chain)
{
	const struct xp_gperf_record five[] = { RECORD(5, 0x555555555010, 0x555555555020, 0x555555555030) };
	const struct xp_gperf_record one[] = { RECORD(1, 0x555555555010, 0x555555555020) };
	const struct xp_gperf_record leaf[] = { RECORD(5, 0x555555555010) };

	WRITE(five, program);
	assert_slots(3, 3, 0x555555555010, 0x555555555020, 0x555555555030, 2, 3, 0x555555555010, 0x55555555501f,
		     0x555555555030);
	WRITE(one, program);
	assert_slots(1, 2, 0x555555555010, 0x555555555020);
	WRITE(leaf, program);
	assert_slots(5, 1, 0x555555555010);
}

TEST(test_shared_caller)
{
	const struct xp_gperf_record all[] = { RECORD(1, 0x555555555010, 0x555555555020),
					       RECORD(1, 0x555555555011, 0x555555555020),
					       RECORD(1, 0x555555555012, 0x555555555020) };
	const struct xp_gperf_record some[] = { all[0], all[1], RECORD(1, 0x555555555012, 0x555555555024) };
	const struct xp_gperf_record alone[] = { all[0], all[1], RECORD(1, 0x555555555012) };

	WRITE(all, program);
	assert_slots(1, 2, 0x555555555010, 0x555555555020, 1, 2, 0x555555555011, 0x55555555501f, 1, 2, 0x555555555012,
		     0x555555555020);
	WRITE(some, program);
	assert_slots(1, 2, 0x555555555010, 0x555555555020, 1, 2, 0x555555555011, 0x555555555020, 1, 2, 0x555555555012,
		     0x555555555024);
	WRITE(alone, program);
	assert_slots(1, 2, 0x555555555010, 0x555555555020, 1, 2, 0x555555555011, 0x555555555020, 1, 1, 0x555555555012);
}

/* Among 64 records, Go tolerates two others; with three it deletes nothing. */
static void count_varied(size_t others, size_t expected)
{
	struct xp_gperf_record records[64];
	uint64_t pcs[64][2];
	size_t varied = 0;

	for (size_t i = 0; i < 64; i++) {
		pcs[i][0] = 0x555555555100 + i;
		pcs[i][1] = i % 21 == 1 && i / 21 < others ? 0x555555555030 : 0x555555555020;
		records[i] = (struct xp_gperf_record){ 1, pcs[i], 2 };
	}
	WRITE(records, program);
	for (size_t i = 0; i < 64; i++) {
		uint64_t second = slots[4 * i + 3];

		assert_true(second == pcs[i][1] || (second == 0x55555555501f && pcs[i][1] == 0x555555555020));
		varied += second != pcs[i][1];
	}
	assert_int_equal(varied, expected);
}

TEST(test_similar_callers)
{
	count_varied(0, 32);
	count_varied(2, 31);
	count_varied(3, 0);
}

/* A PC whose byte before belongs to another object is moved the other way. */
TEST(test_variant_at_a_start)
{
	const struct xp_gperf_record records[] = { RECORD(2, 0x555555555010, 0x555555555001) };
	const struct xp_gperf_record unknown[] = { RECORD(2, 0x555555555010, 1) };

	WRITE(records, program);
	assert_slots(1, 2, 0x555555555010, 0x555555555001, 1, 2, 0x555555555010, 0x555555555002);
	WRITE(unknown, program);
	assert_slots(1, 2, 0x555555555010, 0x800000000001, 1, 2, 0x555555555010, 0x800000000002);
}

TEST(test_recursion)
{
	const struct xp_gperf_record records[] = { RECORD(2, 0x555555555010, 0x555555555010, 0x555555555040),
						   RECORD(1, 0x555555555020, 0x555555555040) };
	const struct xp_gperf_record shared[] = { RECORD(2, 0x555555555018, 0x555555555010),
						  RECORD(1, 0x555555555010, 0x555555555010) };

	WRITE(records, program);
	assert_slots(2, 3, 0x555555555010, 0x55555555500f, 0x555555555040, 1, 2, 0x555555555020, 0x555555555040);
	WRITE(shared, program);
	assert_slots(2, 2, 0x555555555018, 0x555555555010, 1, 2, 0x555555555010, 0x55555555500f);
}

/* Mappings */

static const struct xp_gperf_object *with(struct xp_gperf_object *object, const char *path)
{
	*object = program[0];
	object->path = path;
	return object;
}

static void assert_maps(const struct xp_gperf_object *objects, size_t count, const char *expected)
{
	const struct xp_gperf_record records[] = { RECORD(2, objects->end - 1) };

	assert_int_equal(try_write(records, 1, objects, count), 0);
	assert_string_equal(text, expected);
}

#define RANGE "555555555000-555555560000 r-xp 00001000 00:00 0           "

TEST(test_paths)
{
	struct xp_gperf_object object;

	assert_maps(with(&object, "/lib/a.so.1"), 1, RANGE "/lib/a.so.1\n");
	assert_maps(with(&object, "/bin/a b"), 1, RANGE "[a_b]\n");
	assert_maps(with(&object, "/bin/a (deleted)"), 1, RANGE "[a_(deleted)]\n");
	assert_maps(with(&object, ""), 1, RANGE "[]\n");
}

/* The line begins where the first executable segment would begin. */
TEST(test_segments)
{
	struct xp_gperf_object object;

	with(&object, "/lib/a.so");
	object.is_elf = true;
	object.bias = 0x555555553000; /* lld: the segment begins within a page */
	object.exec_vaddr = 0x2850;
	object.exec_offset = 0x1850;
	assert_maps(&object, 1, "555555555850-555555560000 r-xp 00001850 00:00 0           /lib/a.so\n");
	object.bias = 0x555555550000; /* the mapping covers a later part */
	object.offset = 0x4000;
	assert_maps(&object, 1, "555555552850-555555560000 r-xp 00001850 00:00 0           /lib/a.so\n");
	object.exec_vaddr = 0x555555; /* an invalid value is ignored */
	object.bias = 0x555555553000;
	assert_maps(&object, 1, "555555555000-555555560000 r-xp 00004000 00:00 0           /lib/a.so\n");
}

/* Addresses before lld's segment belong to no object. */
TEST(test_before_segment)
{
	const struct xp_gperf_record records[] = { RECORD(1, 0x555555555800), RECORD(1, 0x555555555850) };
	struct xp_gperf_object objects[1];

	with(objects, "/lib/a.so");
	objects->is_elf = true;
	objects->bias = 0x555555553000;
	objects->exec_vaddr = 0x2850;
	objects->exec_offset = 0x1850;
	WRITE(records, objects);
	assert_slots(1, 1, 0xd55555555800, 1, 1, 0x555555555850);
}

TEST(test_decoy)
{
	struct xp_gperf_object objects[] = {
		{ .start = 0x401000, .end = 0x402000, .offset = 0x1000, .path = "/bin/a" },
		{ .start = 0x7f0000000000, .end = 0x7f0000001000, .offset = 0x1000, .path = "/lib/a.so" },
	};

	assert_maps(objects, 2,
		    "00001000-00002000 r-xp 00000000 00:00 0           /bin/a\n"
		    "00401000-00402000 r-xp 00001000 00:00 0           /bin/a\n"
		    "7f0000000000-7f0000001000 r-xp 00001000 00:00 0           /lib/a.so\n");
	objects[0].path = "/sym/a.so";
	assert_maps(objects, 1,
		    "00001000-00002000 r-xp 00000000 00:00 0           /sym/a.so\n"
		    "00401000-00402000 r-xp 00001000 00:00 0           /sym/a.so\n");
	objects[1].path = "/bin/b"; /* another object is the program */
	assert_maps(objects, 2,
		    "00401000-00402000 r-xp 00001000 00:00 0           /sym/a.so\n"
		    "7f0000000000-7f0000001000 r-xp 00001000 00:00 0           /bin/b\n");
	objects[0] = (struct xp_gperf_object){ .start = 0x400000, .end = 0x402000, .path = "/bin/a" };
	assert_maps(objects, 1, "00400000-00402000 r-xp 00000000 00:00 0           /bin/a\n");
}

TEST(test_refused)
{
	const struct xp_gperf_record good = RECORD(1, 1), none = { 1, NULL, 0 }, null = RECORD(1, 0),
				     zero = RECORD(0, 1);
	struct xp_gperf_object objects[] = { { .start = 0x2000, .end = 0x3000, .path = "a" },
					     { .start = 0x2fff, .end = 0x4000, .path = "b" } };

	assert_int_equal(try_write(&good, 1, objects, 2), -EINVAL); /* overlap */
	objects[1].start = 0x1000;
	objects[1].end = 0x2000;
	assert_int_equal(try_write(&good, 1, objects, 2), -EINVAL); /* unsorted */
	objects[0].end = 0x2000;
	assert_int_equal(try_write(&good, 1, objects, 1), -EINVAL); /* empty */
	assert_int_equal(try_write(&none, 1, NULL, 0), -EINVAL);
	assert_int_equal(try_write(&null, 1, NULL, 0), -EINVAL);
	assert_int_equal(try_write(&zero, 1, NULL, 0), -EINVAL);
	assert_int_equal(write_records(-1, 0, NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(write_records(-1, 1, NULL, 0, NULL, 0), -EBADF);
}

TEST(test_full_disk)
{
	const struct xp_gperf_record record = RECORD(1, 0x555555555010);
	int fd = open("/dev/full", O_WRONLY);

	assert_int_equal(write_records(fd, 1, &record, 1, program, 1), -ENOSPC);
	close(fd);
	assert_true(xp_gperf_path_fits("/usr/lib/\xc3\xa9.so"));
	assert_false(xp_gperf_path_fits("a\x7f"));
}
