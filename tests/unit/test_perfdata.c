// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written golden files from perf.data-file-format.txt, perf_event.h and perf's headers. */
#include "format/perfdata.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zstd.h>

#include "unit.h"

#include "format/perfdata_reader.h"
#include "check/perfdata_rules.h"

#define U16(n) (n) & 0xff, (n) >> 8 & 0xff
#define U32(n) U16((n)&0xffff), U16((uint32_t)(n) >> 16)
#define U64(n) U32((uint64_t)(n)&0xffffffff), U32((uint64_t)(n) >> 32)
#define ZERO16 U64(0), U64(0)
#define TEXT16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, 0

/* A clock of 1 GHz that is 100 ns ahead: ns = tsc + 100. */
#define SHIFT 31
#define MULT (1u << 31)
#define ZERO 100

static int fd;

static struct xp_perfdata_options options = {
	.event_type = PERF_TYPE_SOFTWARE,
	.event_config = PERF_COUNT_SW_CPU_CLOCK,
	.period = 1000000,
	.conversion = { SHIFT, MULT, ZERO },
	.late_ns = 1000000000,
};

static struct xp_perfdata *begin(void)
{
	struct xp_perfdata *perfdata;

	fd = memfd_create("perfdata", 0);
	assert_true(fd >= 0);
	assert_int_equal(xp_perfdata_new(&perfdata, fd, &options), 0);
	return perfdata;
}

static uint8_t *file_bytes(size_t *size)
{
	uint8_t *bytes;

	*size = lseek(fd, 0, SEEK_END);
	bytes = malloc(*size + 1);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, *size, 0), *size);
	return bytes;
}

static void assert_bytes(uint64_t offset, const void *expected, size_t size)
{
	uint8_t found[4096];

	assert_true(size <= sizeof(found));
	assert_int_equal(pread(fd, found, size, offset), size);
	assert_memory_equal(found, expected, size);
}

/* Ends the file with only the mandatory features. */
static void end(struct xp_perfdata *perfdata)
{
	const struct xp_perfdata_features features = { 0 };

	assert_int_equal(xp_perfdata_finish(perfdata, &features), 0);
	xp_perfdata_free(perfdata);
}

/* Returns the number of records of a type, as the reader finds them. */
static unsigned int count(uint32_t type)
{
	struct xp_violation violation = { .text = "" };
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	unsigned int found = 0;
	size_t size;
	uint8_t *bytes = file_bytes(&size);
	int more = xp_perfdata_reader_init(&reader, bytes, size, &violation);

	if (!more)
		while ((more = xp_perfdata_reader_next(&reader, &record, &violation)) == 1)
			found += record.type == type;
	xp_perfdata_reader_end(&reader);
	if (!more && xp_perfdata_rules_check(bytes, size, &violation))
		more = -1;
	free(bytes);
	if (more)
		fail_msg("0x%llx: %s", (unsigned long long)violation.offset, violation.text);
	return found;
}

static void convert(uint64_t hz)
{
	struct xp_perfdata_conversion conversion;
	const uint64_t tsc = 1ull << 52, ns = 12345678901234, later_s = 3600;
	int64_t off;

	assert_int_equal(xp_perfdata_conversion(&conversion, hz, tsc, ns), 0);
	assert_true(conversion.shift <= 32 && conversion.mult);
	assert_int_equal(xp_perfdata_ns(&conversion, tsc), ns);
	if (hz < 500000000 || hz > 10000000000)
		return;
	/* The error is half a unit of a multiplier of 28 bits or more. */
	off = xp_perfdata_ns(&conversion, tsc + later_s * hz) - ns - later_s * 1000000000;
	assert_in_range(off + 7000, 0, 14000);
	off = xp_perfdata_ns(&conversion, tsc - hz) - ns + 1000000000;
	assert_in_range(off + 2, 0, 4);
}

TEST(test_conversion)
{
	static const uint64_t frequencies[] = { 1,	    999999999,	1000000000, 1000000001,	     1996249000,
						2899999999, 4000000000, 9000000000, 999999999999999, (1ull << 62) - 1 };
	struct xp_perfdata_conversion conversion;

	for (size_t i = 0; i < XP_ARRAY_SIZE(frequencies); i++)
		convert(frequencies[i]);
	assert_int_equal(xp_perfdata_conversion(&conversion, 0, 1, 1), -ERANGE);
	assert_int_equal(xp_perfdata_conversion(&conversion, 1ull << 62, 1, 1), -ERANGE);
	assert_int_equal(xp_perfdata_conversion(&conversion, 1000000000, 1000, 1100), 0);
	assert_int_equal(conversion.shift, SHIFT);
	assert_int_equal(conversion.mult, MULT);
	assert_int_equal(conversion.zero, ZERO);
}

TEST(test_head)
{
	static const uint8_t expected[] = {
		'P',
		'E',
		'R',
		'F',
		'I',
		'L',
		'E',
		'2',
		U64(104),
		U64(128), /* of an event: 112 + 16 */
		U64(104),
		U64(128), /* events */
		U64(232),
		U64(56), /* records */
		U64(0),
		U64(0), /* event types */
		U64(1 << 23),
		U64(0),
		U64(0),
		U64(0), /* features: CLOCKID */
		/* attr: software, 112 bytes, cpu-clock, period, sample type, read format */
		U32(1),
		U32(112),
		U64(0),
		U64(1000000),
		U64(0x1a7),
		U64(0),
		/* mmap, comm, task, sample_id_all, exclude_guest, mmap2, comm_exec, use_clockid */
		U64(1ull << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 20 | 1 << 23 | 1 << 24 | 1 << 25),
		U32(0),
		U32(0),
		U64(0),
		U64(0),
		U64(0),
		U64(0),
		U32(0),
		U32(1), /* CLOCK_MONOTONIC */
		U64(0),
		U32(0),
		U16(0),
		U16(0), /* up to 112 bytes */
		U64(104),
		U64(0), /* ids */
		/* TIME_CONV */
		U32(79),
		U16(0),
		U16(56),
		U64(SHIFT),
		U64(MULT),
		U64(ZERO),
		U64(0),
		U64(0),
		1,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
	};
	static const uint8_t clockid[] = { U64(1) };

	end(begin());
	assert_bytes(0, expected, sizeof(expected));
	assert_bytes(sizeof(expected) + 256, clockid, sizeof(clockid));
	assert_int_equal(count(79), 1);
	close(fd);
}

/* A second event, with IDs in all records, and raw data in its samples. */
TEST(test_waits)
{
	static const uint8_t events[] = {
		U64(128), U64(104), U64(256), U64(376), /* two events, their IDs, then records */
	};
	static const uint8_t second[] = {
		U32(1),	      U32(112), U64(3), U64(1), /* software, context-switches */
		U64(0x105a7),				/* IDENTIFIER, RAW and the fields of the first event */
	};
	static const uint8_t ids[] = { U64(368), U64(8), U64(1), U64(2) };
	static const uint8_t expected[] = {
		/* SAMPLE */
		U32(9),
		U16(1),
		U16(8 + 8 + 48 + 4 * 8 + 72),
		/* id, ip, pid, tid, time, cpu, period, chain */
		U64(2),
		U64(0xffffffff81000000),
		U32(7),
		U32(8),
		U64(1100),
		U32(3),
		U32(0),
		U64(4 * 5500000000),
		U64(4),
		U64(-128),
		U64(0xffffffff81000000),
		U64(-512),
		U64(0x401000),
		/* raw */
		U32(68),
		'x',
		'p',
		'w',
		'1',
		U64(5000000000),
		U64(500000000),
		U32(16384),
		U32('L'),
		U32(5),
		U32(202),
		U32(9),
		U32(10),
		TEXT16('w', 'a', 'k', 'e', 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		U64(0x7f0012345678),
		/* COMM with the first event's id */
		U32(3),
		U16(0),
		U16(8 + 8 + 8 + 32),
		U32(7),
		U32(7),
		'a',
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		U32(7),
		U32(7),
		U64(1200),
		U64(0),
		U64(1),
	};
	static const uint64_t kernel = 0xffffffff81000000, user = 0x401000;
	static const struct xp_perfdata_sample sample = { .tsc = 1000,
							  .pid = 7,
							  .tid = 8,
							  .cpu = 3,
							  .kernel = &kernel,
							  .kernel_count = 1,
							  .user = &user,
							  .user_count = 1 };
	static const struct xp_wait_record wait = {
		5000000000, 500000000, 16384, XP_WAIT_LOCK, XP_WAIT_FIRST | XP_WAIT_HARDIRQ,
		202,	    9,	       10,    "waker",	    0x7f0012345678
	};
	struct xp_perfdata_features features = { .event = "cpu-clock" };
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	struct xp_violation violation;
	struct xp_wait_record read = { 0 };
	struct xp_perfdata *perfdata;
	uint8_t *bytes;
	size_t size;

	assert_true(xp_wait_record_period(&wait) == 4 * 5500000000);
	perfdata = begin();
	assert_int_equal(xp_perfdata_wait(perfdata, &sample, &wait), -EINVAL);
	end(perfdata);
	close(fd);
	options.waits = true;
	perfdata = begin();
	options.waits = false;
	assert_int_equal(xp_perfdata_wait(perfdata, &sample, &wait), 0);
	assert_int_equal(xp_perfdata_comm(perfdata, 1100, 7, 7, "a", false), 0);
	assert_int_equal(xp_perfdata_finish(perfdata, &features), 0);
	xp_perfdata_free(perfdata);
	assert_bytes(16, events, sizeof(events));
	assert_bytes(232, second, sizeof(second));
	assert_bytes(344, ids, sizeof(ids));
	assert_bytes(376 + 56, expected, sizeof(expected));

	bytes = file_bytes(&size);
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, size, &violation), 0);
	assert_int_equal(reader.events.count, 2);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.type, PERF_RECORD_SAMPLE);
	assert_true(record.has & PERF_SAMPLE_RAW && record.sample.period == 4 * 5500000000);
	assert_true(xp_wait_record_read(&read, record.sample.raw, record.sample.raw_bytes));
	assert_memory_equal(&read, &wait, sizeof(wait));
	/* A file of an older version has no lock. Unknown and impossible states are not waits. */
	assert_true(xp_wait_record_read(&read, record.sample.raw, XP_WAIT_RECORD_OLD_BYTES) && !read.lock);
	assert_false(xp_wait_record_read(&read, record.sample.raw, XP_WAIT_RECORD_OLD_BYTES - 1));
	memset(bytes + (record.sample.raw + 20 - bytes), 0, 4);
	assert_false(xp_wait_record_read(&read, record.sample.raw, record.sample.raw_bytes));
	memset(bytes + (record.sample.raw + 20 - bytes), 1, 4);
	assert_false(xp_wait_record_read(&read, record.sample.raw, record.sample.raw_bytes));
	xp_perfdata_reader_end(&reader);
	free(bytes);
	close(fd);
}

#define TRAILER(pid, tid, time) U32(pid), U32(tid), U64(time), U64(0)

TEST(test_records)
{
	static const uint8_t expected[] = {
		/* MMAP of the kernel */
		U32(1), U16(1), U16(40 + 24 + 24), U32(-1), U32(0), U64(0xffffffff81000000), U64(0x1200000),
		U64(0xffffffff81000000), '[', 'k', 'e', 'r', 'n', 'e', 'l', '.', 'k', 'a', 'l', 'l', 's', 'y', 'm', 's',
		']', '_', 't', 'e', 'x', 't', 0, 0, TRAILER(0, 0, 0),
		/* MMAP of a module */
		U32(1), U16(1), U16(40 + 8 + 24), U32(-1), U32(0), U64(0xffffffffc0000000), U64(0x3000), U64(0), '[',
		'x', 'f', 's', ']', 0, 0, 0, TRAILER(0, 0, 0),
		/* MMAP2 with a build id of 8 bytes */
		U32(10), U16(2 | 1 << 14), U16(72 + 8 + 24), U32(7), U32(8), U64(0x7f0000001000), U64(0x2000),
		U64(0x1000), 8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, U64(0), U32(0), U32(5), U32(2), '/', 'b', 'i', 'n',
		'/', 'a', 'b', 0, TRAILER(7, 8, 1100),
		/* MMAP2 without one */
		U32(10), U16(2), U16(72 + 16 + 24), U32(7), U32(7), U64(0x400000), U64(0x1000), U64(0), U32(8), U32(17),
		U64(42), U64(3), U32(5), U32(2), '/', 'b', 'i', 'n', '/', 'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 0,
		TRAILER(7, 7, 1101),
		/* COMM, EXEC */
		U32(3), U16(0), U16(16 + 8 + 24), U32(7), U32(8), 'w', 'o', 'r', 'k', 'e', 'r', 0, 0,
		TRAILER(7, 8, 1102), U32(3), U16(1 << 13), U16(16 + 16 + 24), U32(7), U32(7), 'a', 'b', 'c', 'd', 'e',
		'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 0, TRAILER(7, 7, 1103),
		/* FORK with and without mappings, EXIT */
		U32(7), U16(0), U16(32 + 24), U32(9), U32(7), U32(9), U32(7), U64(1104), TRAILER(9, 9, 1104), U32(7),
		U16(1 << 13), U16(32 + 24), U32(10), U32(9), U32(10), U32(9), U64(1050), TRAILER(10, 10, 1105), U32(4),
		U16(0), U16(32 + 24), U32(9), U32(7), U32(9), U32(7), U64(1106), TRAILER(9, 9, 1106),
		/* SAMPLE of the kernel, of user mode */
		U32(9), U16(1), U16(56 + 5 * 8), U64(0xffffffff81000010), U32(7), U32(8), U64(1107), U32(3), U32(0),
		U64(1000000), U64(5), U64(-128), U64(0xffffffff81000010), U64(0xffffffff81000020), U64(-512),
		U64(0x400010), U32(9), U16(2), U16(56 + 2 * 8), U64(0x400020), U32(7), U32(7), U64(1108), U32(0),
		U32(0), U64(1000000), U64(2), U64(-512), U64(0x400020),
		/* MMAP2 that marks a jitdump, of the number in its name */
		U32(10), U16(2), U16(72 + 16 + 24), U32(7), U32(7), U64(0), U64(4096), U64(0), U32(0), U32(0), U64(0),
		U64(0), U32(5), U32(2), '/', 'a', '/', 'j', 'i', 't', '-', '7', '.', 'd', 'u', 'm', 'p', 0, 0, 0,
		TRAILER(7, 7, 1109)
	};
	static const uint8_t build_id[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	static const uint64_t kernel[] = { 0xffffffff81000010, 0xffffffff81000020 }, user[] = { 0x400010, 0x400020 };
	struct xp_perfdata_map map = { .pid = 7,
				       .tid = 8,
				       .start = 0x7f0000001000,
				       .bytes = 0x2000,
				       .file_offset = 0x1000,
				       .dev = makedev(8, 17),
				       .inode = 42,
				       .generation = 3,
				       .build_id = build_id,
				       .build_id_bytes = sizeof(build_id),
				       .path = "/bin/ab" };
	const struct xp_perfdata_map other = { .pid = 7,
					       .tid = 7,
					       .start = 0x400000,
					       .bytes = 0x1000,
					       .dev = makedev(8, 17),
					       .inode = 42,
					       .generation = 3,
					       .path = "/bin/abc" };
	struct xp_perfdata_sample both = { 1007, 7, 8, 3, kernel, 2, user, 1 };
	struct xp_perfdata_sample alone = { .tsc = 1008, .pid = 7, .tid = 7, .user = user + 1, .user_count = 1 };
	struct xp_perfdata *perfdata = begin();

	assert_int_equal(xp_perfdata_kernel(perfdata, 0xffffffff81000000, 0x1200000), 0);
	assert_int_equal(xp_perfdata_module(perfdata, 0xffffffffc0000000, 0x3000, "[xfs]"), 0);
	assert_int_equal(xp_perfdata_map(perfdata, 1000, &map), 0);
	assert_int_equal(xp_perfdata_map(perfdata, 1001, &other), 0);
	assert_int_equal(xp_perfdata_comm(perfdata, 1002, 7, 8, "worker", false), 0);
	assert_int_equal(xp_perfdata_comm(perfdata, 1003, 7, 7, "abcdefghijklmnopq", true), 0);
	assert_int_equal(xp_perfdata_fork(perfdata, 1004, &(struct xp_perfdata_birth){ 9, 9, 7, 1004, true }), 0);
	assert_int_equal(xp_perfdata_fork(perfdata, 1005, &(struct xp_perfdata_birth){ 10, 10, 9, 950, false }), 0);
	assert_int_equal(xp_perfdata_exit(perfdata, 1006, 9, 9, 7), 0);
	assert_int_equal(xp_perfdata_sample(perfdata, &both), 0);
	assert_int_equal(xp_perfdata_sample(perfdata, &alone), 0);
	assert_int_equal(xp_perfdata_jit(perfdata, 1009, "/a/jit-7.dump"), 0);
	assert_int_equal(xp_perfdata_bytes(perfdata), 56 + sizeof(expected));
	end(perfdata);
	assert_bytes(232 + 56, expected, sizeof(expected));
	assert_int_equal(count(PERF_RECORD_SAMPLE), 2);
	close(fd);
}

TEST(test_code_of_the_kernel)
{
	static const uint8_t expected[] = {
		/* KSYMBOL */
		U32(17), U16(0), U16(24 + 16 + 24), U64(0xffffffffc0001000), U32(0x80), U16(1), U16(0), 'b', 'p', 'f',
		'_', 'p', 'r', 'o', 'g', '_', '1', '_', 's', 0, 0, 0, 0, TRAILER(0, 0, 0),
		/* the name of a program that was unloaded, in whole words */
		U32(17), U16(0), U16(24 + 8 + 24), U64(0xffffffffc0002000), U32(0x40), U16(1), U16(1), 'b', 'p', 'f',
		'_', 'p', '_', 'x', 0, TRAILER(0, 0, 1101),
		/* BPF_EVENT */
		U32(18), U16(0), U16(24 + 24), U16(2), U16(0), U32(77), 1, 2, 3, 4, 5, 6, 7, 8, TRAILER(0, 0, 1102)
	};
	const struct xp_perfdata_symbol here = { 0xffffffffc0001000, 0x80, 1, 0, "bpf_prog_1_s" };
	const struct xp_perfdata_symbol gone = { 0xffffffffc0002000, 0x40, 1, 1, "bpf_p_x" };
	static const uint8_t tag[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct xp_perfdata *perfdata = begin();

	assert_int_equal(xp_perfdata_symbol(perfdata, 0, &here), 0);
	assert_int_equal(xp_perfdata_symbol(perfdata, 1001, &gone), 0);
	assert_int_equal(xp_perfdata_bpf(perfdata, 1002, 2, 77, tag), 0);
	end(perfdata);
	assert_bytes(232 + 56, expected, sizeof(expected));
	assert_int_equal(count(17), 2);
	assert_int_equal(count(18), 1);
	close(fd);
}

TEST(test_switches)
{
	static const uint8_t expected[] = { /* SWITCH in, out, and preempted; the trailer has the CPU */
					    U32(14),   U16(0),	     U16(32), U32(7),	 U32(8),
					    U64(1101), U32(3),	     U32(0), /* in */
					    U32(14),   U16(1 << 13), U16(32), U32(7),	 U32(8),
					    U64(1102), U32(3),	     U32(0),  U32(14),	 U16(1 << 13 | 1 << 14),
					    U16(32),   U32(9),	     U32(9),  U64(1103), U32(0),
					    U32(0)
	};
	const struct xp_perfdata_switch in = { 1001, 7, 8, 3, false, false }, out = { 1002, 7, 8, 3, true, false };
	const struct xp_perfdata_switch preempted = { 1003, 9, 9, 0, true, true };
	struct perf_event_attr attr = { 0 };
	struct xp_perfdata *perfdata_with_id;

	options.switches = true;
	options.waits = true; /* the trailer has the ID of the event, too */
	perfdata_with_id = begin();
	assert_int_equal(xp_perfdata_switch(perfdata_with_id, &in), 0);
	end(perfdata_with_id);
	assert_int_equal(count(PERF_RECORD_SWITCH), 1);
	close(fd);
	options.waits = false;
	for (options.compression_level = 0; options.compression_level < 2; options.compression_level++) {
		struct xp_perfdata *perfdata = begin();

		assert_int_equal(xp_perfdata_switch(perfdata, &in), 0);
		assert_int_equal(xp_perfdata_switch(perfdata, &out), 0);
		assert_int_equal(xp_perfdata_switch(perfdata, &preempted), 0);
		end(perfdata);
		if (!options.compression_level)
			assert_bytes(232 + 56, expected, sizeof(expected));
		assert_int_equal(count(PERF_RECORD_SWITCH), 3);
		assert_int_equal(pread(fd, &attr, PERF_ATTR_SIZE_VER5, 104), PERF_ATTR_SIZE_VER5);
		assert_true(attr.context_switch);
		close(fd);
	}
	options.compression_level = 0;
	options.switches = false;
	end(begin());
	assert_int_equal(pread(fd, &attr, PERF_ATTR_SIZE_VER5, 104), PERF_ATTR_SIZE_VER5);
	assert_false(attr.context_switch);
	close(fd);
}

/* The sections in the order of their numbers; each string has a length of 4 bytes, and is padded to 64. */
TEST(test_features)
{
	static const uint8_t build_id[20] = { 0xab };
	static const struct xp_perfdata_build_id ids[] = { { build_id, 20, true, "[kernel.kallsyms]" },
							   { build_id, 8, false, "/bin/ab" } };
	static const uint8_t table[] = { U64(688),  U64(200),  U64(888),  U64(68),   U64(956),	U64(68),   U64(1024),
					 U64(68),   U64(1092), U64(68),	  U64(1160), U64(8),	U64(1168), U64(68),
					 U64(1236), U64(8),    U64(1244), U64(140),  U64(1384), U64(192),  U64(1576),
					 U64(16),   U64(1592), U64(8),	  U64(1600), U64(24) };
	static const uint8_t kernel[] = { U32(0), U16(1 | 1 << 15), U16(36 + 64), U32(-1), 0xab, 0, 0,
					  0,	  ZERO16,	    20,		  0,	   0,	 0, '[',
					  'k' };
	static const uint8_t file[] = { U32(0),
					U16(2 | 1 << 15),
					U16(36 + 64),
					U32(-1),
					0xab,
					0,
					0,
					0,
					ZERO16,
					8,
					0,
					0,
					0,
					'/',
					'b',
					'i',
					'n',
					'/',
					'a',
					'b',
					0,
					0 };
	static const uint8_t host[] = { U32(64), 'h', 0, 0 }, cpus[] = { U32(4), U32(3) }, memory[] = { U64(1000) };
	static const uint8_t argv[] = { U32(2), U32(64), 'a', ' ', 'b', 0 };
	static const uint8_t event[] = { U32(1), U32(112), U32(1), U32(112), U64(0), U64(1000000) };
	static const uint8_t event_name[] = { U32(0), U32(64), 'c', 'l', 'k', 0 };
	static const uint8_t span[] = { U64(1107), U64(1109) }, clock[] = { U32(1), U32(1), U64(1700), U64(1100) };
	static const uint8_t bits[] = { U64(0xfcull | 0xd << 8 | 0x10 << 8 | 1 << 21 | 1 << 23 | 1 << 29), U64(0),
					U64(0), U64(0) };
	char *const command[] = { "a b", "c", NULL };
	const struct xp_perfdata_features features = { "h",  "r",     "v",   "a",  "c",	 4,   3,
						       1000, command, "clk", 1700, 1100, ids, 2 };
	static const uint64_t address = 0x400020;
	struct xp_perfdata_sample sample = { .tsc = 1009, .user = &address, .user_count = 1 };
	struct xp_perfdata *perfdata = begin();

	assert_int_equal(xp_perfdata_sample(perfdata, &sample), 0);
	sample.tsc = 1007;
	assert_int_equal(xp_perfdata_sample(perfdata, &sample), 0);
	assert_int_equal(xp_perfdata_finish(perfdata, &features), 0);
	xp_perfdata_free(perfdata);
	assert_bytes(72, bits, sizeof(bits));
	/* Two samples of 72 bytes after TIME_CONV; space for 16 sections. */
	assert_bytes(232 + 56 + 2 * 72, table, sizeof(table));
	assert_bytes(688, kernel, sizeof(kernel));
	assert_bytes(788, file, sizeof(file));
	assert_bytes(888, host, sizeof(host));
	assert_bytes(1160, cpus, sizeof(cpus));
	assert_bytes(1236, memory, sizeof(memory));
	assert_bytes(1244, argv, sizeof(argv));
	assert_bytes(1384, event, sizeof(event));
	assert_bytes(1384 + 8 + 112, event_name, sizeof(event_name));
	assert_bytes(1576, span, sizeof(span));
	assert_bytes(1600, clock, sizeof(clock));
	assert_int_equal(lseek(fd, 0, SEEK_END), 1624);
	close(fd);
}

static int put_sample(struct xp_perfdata *perfdata, uint64_t tsc, size_t depth)
{
	static uint64_t chain[XP_PERFDATA_CHAIN_MAX + 1];
	const struct xp_perfdata_sample sample = { .tsc = tsc, .pid = 7, .user = chain, .user_count = depth };

	return xp_perfdata_sample(perfdata, &sample);
}

/* At any time, the written part is a complete file. */
TEST(test_cut_off)
{
	struct xp_perfdata *perfdata = begin();
	unsigned int before = 0;

	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	assert_int_equal(xp_perfdata_sync(perfdata), 0);
	assert_int_equal(count(XP_PERFDATA_TIME_CONV), 1);
	for (unsigned int i = 0; i < 50; i++) {
		unsigned int found;

		assert_int_equal(put_sample(perfdata, 1000 + i, XP_PERFDATA_CHAIN_MAX), 0);
		found = count(PERF_RECORD_SAMPLE);
		assert_in_range(found, before, i);
		before = found;
	}
	assert_true(before > 40);
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 50);
	close(fd);
}

/* perf can flush records: it keeps at most the records of two rounds. */
TEST(test_rounds)
{
	struct xp_perfdata *perfdata = begin();

	for (uint64_t i = 1; i <= 101; i++) {
		assert_int_equal(put_sample(perfdata, i * 100000000, 1), 0);
		/* Records as late as allowed, and later: the reader's rules find no wrong order in the file. */
		assert_int_equal(put_sample(perfdata, i * 100000000 - XP_MIN(i - 1, 10u) * 100000000, 1), 0);
		assert_int_equal(put_sample(perfdata, 1, 1), 0);
	}
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 303);
	assert_int_equal(count(XP_PERFDATA_FINISHED_ROUND), 9);
	close(fd);
}

/*
 * A sample that is late, but within the limit, keeps its time. A later sample gets the earliest time that perf sorts
 * correctly.
 */
TEST(test_late)
{
	static const uint8_t round[] = { U32(68), U16(0), U16(8) };
	static const uint8_t late[] = { U64(7), U64(2500000000 + ZERO) },
			     too_late[] = { U64(7), U64(2000000000 + ZERO) };
	const size_t first = 232 + 56, sample = 72;
	struct xp_perfdata *perfdata = begin();

	assert_int_equal(put_sample(perfdata, 1, 1), 0);
	assert_int_equal(put_sample(perfdata, 2000000000, 1), 0);
	assert_int_equal(put_sample(perfdata, 3100000000, 1), 0);
	assert_int_equal(put_sample(perfdata, 2500000000, 1), 0);
	assert_int_equal(put_sample(perfdata, 1, 1), 0);
	end(perfdata);
	assert_bytes(first + 2 * sample, round, sizeof(round));
	assert_bytes(first + 3 * sample + sizeof(round), round, sizeof(round));
	assert_bytes(first + 3 * sample + 2 * sizeof(round) + 16, late, sizeof(late));
	assert_bytes(first + 4 * sample + 2 * sizeof(round) + 16, too_late, sizeof(too_late));
	assert_int_equal(count(PERF_RECORD_SAMPLE), 5);
	close(fd);
}

/* ---- compressed samples ---- */

static struct xp_perfdata *begin_compressed(unsigned int level)
{
	struct xp_perfdata *perfdata;

	options.compression_level = level;
	perfdata = begin();
	options.compression_level = 0;
	return perfdata;
}

/* Requires zstd: expands all COMPRESSED records between two offsets of the file. */
static size_t expand(uint64_t from, uint64_t to, uint8_t *out, size_t room)
{
	ZSTD_DStream *zstd = ZSTD_createDStream();
	ZSTD_outBuffer expanded = { .dst = out, .size = room };
	size_t size;
	uint8_t *bytes = file_bytes(&size);
	struct perf_event_header header;

	for (; from < to; from += header.size) {
		ZSTD_inBuffer in = { .src = bytes + from + sizeof(header) };

		memcpy(&header, bytes + from, sizeof(header));
		in.size = header.size - sizeof(header);
		if (header.type != XP_PERFDATA_COMPRESSED)
			continue;
		assert_false(ZSTD_isError(ZSTD_decompressStream(zstd, &expanded, &in)));
		assert_int_equal(in.pos, in.size);
	}
	ZSTD_freeDStream(zstd);
	free(bytes);
	return expanded.pos;
}

/* The records are byte for byte those of an uncompressed file. Records other than samples are not compressed. */
TEST(test_compressed)
{
	static uint8_t expected[300000], found[300000];
	const size_t first = 232 + 56, sample = 64 + 8 * 7;
	struct xp_perfdata *perfdata = begin();
	uint64_t end_of_records;

	for (unsigned int i = 0; i < 2000; i++)
		assert_int_equal(put_sample(perfdata, 1000 + i, 7), 0);
	end(perfdata);
	assert_int_equal(pread(fd, expected, 2000 * sample, first), 2000 * sample);
	close(fd);

	perfdata = begin_compressed(3);
	for (unsigned int i = 0; i < 2000; i++) {
		assert_int_equal(put_sample(perfdata, 1000 + i, 7), 0);
		if (i % 100 == 0)
			assert_int_equal(xp_perfdata_comm(perfdata, 1000 + i, 7, 7, "name", false), 0);
	}
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 2000);
	assert_int_equal(count(PERF_RECORD_COMM), 20);
	assert_int_equal(pread(fd, &end_of_records, 8, 40 + 8), 8);
	end_of_records += 232;
	assert_in_range(end_of_records, 0, 30000);
	assert_int_equal(expand(first, end_of_records, found, sizeof(found)), 2000 * sample);
	assert_memory_equal(found, expected, 2000 * sample);
	close(fd);
}

/* With other recordings, there are thousands of such records. perf reads them in order with the samples. */
TEST(test_compressed_code_of_the_kernel)
{
	static uint8_t expected[300000], found[300000];
	const struct xp_perfdata_symbol symbol = { 0xffffffffc0001000, 0x80, 1, 0, "bpf_prog_1_s" };
	static const uint8_t tag[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const size_t first = 232 + 56, records = 1000 * (24 + 16 + 24 + 24 + 24) + 64 + 8 * 7;
	uint64_t bytes[2];

	for (unsigned int level = 0; level < 2; level++) {
		struct xp_perfdata *perfdata = begin_compressed(level);

		for (unsigned int i = 0; i < 1000; i++) {
			assert_int_equal(xp_perfdata_symbol(perfdata, i ? 1000 + i : 0, &symbol), 0);
			assert_int_equal(xp_perfdata_bpf(perfdata, i ? 1000 + i : 0, 1, i, tag), 0);
		}
		assert_int_equal(put_sample(perfdata, 3000, 7), 0);
		end(perfdata);
		assert_int_equal(count(PERF_RECORD_KSYMBOL), 1000);
		assert_int_equal(count(PERF_RECORD_BPF_EVENT), 1000);
		assert_int_equal(pread(fd, &bytes[level], 8, 40 + 8), 8);
		if (level)
			assert_int_equal(expand(first, 232 + bytes[level], found, sizeof(found)), records);
		else
			assert_int_equal(pread(fd, expected, records, first), records);
		close(fd);
	}
	assert_memory_equal(found, expected, records);
	assert_in_range(bytes[1], 0, bytes[0] / 5);
}

/* Compression starts at a certain size. Before, the file has no compression; at any time it is complete. */
TEST(test_compressed_late)
{
	const uint64_t sample = 56 + 8 + 7 * 8, plain = 100 * sample;
	struct xp_perfdata *perfdata;
	uint64_t features, size;

	options.plain_bytes = 56 + plain;
	perfdata = begin_compressed(1);
	for (unsigned int i = 0; i < 1000; i++) {
		assert_int_equal(xp_perfdata_is_compressed(perfdata), i > 100);
		assert_int_equal(put_sample(perfdata, 1000 + i, 7), 0);
		if (i % 20 != 19 && i != 100)
			continue;
		assert_int_equal(xp_perfdata_sync(perfdata), 0);
		assert_int_equal(count(PERF_RECORD_SAMPLE), i + 1);
		assert_int_equal(count(XP_PERFDATA_COMPRESSED) > 0, i >= 100);
		assert_int_equal(pread(fd, &features, 8, 72), 8);
		assert_int_equal(features, i < 100 ? 0 : 1ull << XP_PERFDATA_COMPRESSION);
	}
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 1000);
	assert_int_equal(pread(fd, &size, 8, 48), 8);
	assert_in_range(size, 56 + plain, 56 + plain + 900 * sample / 5);
	close(fd);
	perfdata = begin_compressed(1);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(put_sample(perfdata, 1000 + i, 7), 0);
	assert_false(xp_perfdata_is_compressed(perfdata));
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 100);
	assert_int_equal(count(XP_PERFDATA_COMPRESSED), 0);
	assert_int_equal(pread(fd, &features, 8, 72), 8);
	assert_false(features >> XP_PERFDATA_COMPRESSION & 1);
	close(fd);
	options.plain_bytes = 0;
}

static uint64_t next_noise(uint64_t noise)
{
	noise ^= noise << 13;
	noise ^= noise >> 7;
	return noise ^ noise << 17;
}

/* Incompressible data that needs more than one record. */
TEST(test_incompressible)
{
	static uint64_t chain[XP_PERFDATA_CHAIN_MAX];
	struct xp_perfdata *perfdata = begin_compressed(1);
	uint64_t noise = 88172645463325252;

	for (unsigned int i = 0; i < 20; i++) {
		struct xp_perfdata_sample sample = { .tsc = i, .user = chain, .user_count = XP_PERFDATA_CHAIN_MAX };

		for (unsigned int at = 0; at < XP_PERFDATA_CHAIN_MAX; at++)
			chain[at] = noise = next_noise(noise);
		sample.user_count -= i;
		assert_int_equal(xp_perfdata_sample(perfdata, &sample), 0);
	}
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 20);
	assert_true(count(XP_PERFDATA_COMPRESSED) > 11);
	close(fd);
}

/* At any time, the feature that perf needs to read compressed records follows the written records. */
TEST(test_compressed_cut_off)
{
	static const uint8_t feature[] = { U32(1), U32(1), U32(1) };
	struct xp_perfdata *perfdata = begin_compressed(1);

	for (unsigned int i = 0; i < 50; i++) {
		uint64_t data[2], features, section[2];

		for (unsigned int each = 0; each < i; each++)
			assert_int_equal(put_sample(perfdata, 1000 + i, 20), 0);
		if (i % 3)
			assert_int_equal(xp_perfdata_comm(perfdata, 1000 + i, 7, 7, "name", false), 0);
		assert_int_equal(xp_perfdata_sync(perfdata), 0);
		assert_int_equal(count(PERF_RECORD_SAMPLE), i * (i + 1) / 2);
		assert_int_equal(pread(fd, data, sizeof(data), 40), sizeof(data));
		assert_int_equal(pread(fd, &features, sizeof(features), 72), sizeof(features));
		assert_int_equal(features, 1 << 27);
		assert_int_equal(pread(fd, section, sizeof(section), data[0] + data[1]), sizeof(section));
		assert_int_equal(section[0], data[0] + data[1] + 16);
		assert_int_equal(section[1], 20);
		assert_bytes(section[0], feature, sizeof(feature));
	}
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 49 * 50 / 2);
	close(fd);
}

TEST(test_refused)
{
	static char path[XP_PERFDATA_PATH_MAX + 1] = "/", jit[XP_PERFDATA_PATH_MAX + 1];
	static const uint8_t build_id[21];
	struct xp_perfdata_options none = options;
	struct xp_perfdata_map map = { .path = path };
	struct xp_perfdata *perfdata;

	none.period = 0;
	assert_int_equal(xp_perfdata_new(&perfdata, -1, &none), -EINVAL);
	assert_null(perfdata);
	none = options;
	none.compression_level = 23;
	assert_int_equal(xp_perfdata_new(&perfdata, -1, &none), -EINVAL);
	assert_null(perfdata);
	perfdata = begin();
	assert_int_equal(put_sample(perfdata, 1, 0), -EINVAL);
	assert_int_equal(put_sample(perfdata, 1, XP_PERFDATA_CHAIN_MAX + 1), -EINVAL);
	memset(path + 1, 'a', sizeof(path) - 2);
	assert_int_equal(strlen(path), XP_PERFDATA_PATH_MAX);
	assert_int_equal(xp_perfdata_map(perfdata, 1, &map), -ENAMETOOLONG);
	assert_int_equal(xp_perfdata_module(perfdata, 1, 1, path), -ENAMETOOLONG);
	path[XP_PERFDATA_PATH_MAX - 1] = 0;
	assert_int_equal(xp_perfdata_map(perfdata, 1, &map), 0);
	map.build_id = build_id;
	map.build_id_bytes = sizeof(build_id);
	assert_int_equal(xp_perfdata_map(perfdata, 1, &map), -EINVAL);
	map.build_id_bytes = 0;
	map.path = "/a/jit-7.dump"; /* code of the runtime itself */
	map.pid = 7;
	assert_int_equal(xp_perfdata_map(perfdata, 1, &map), -EINVAL);
	assert_int_equal(xp_perfdata_jit(perfdata, 1, "jit-1.dump"), -EINVAL);
	assert_int_equal(xp_perfdata_jit(perfdata, 1, "/jit-.dump"), -EINVAL);
	assert_int_equal(xp_perfdata_jit(perfdata, 1, "/jit-1.dumps"), -EINVAL);
	assert_int_equal(xp_perfdata_jit(perfdata, 1, "/a/xjit-1.dump"), -EINVAL);
	snprintf(jit, sizeof(jit), "%.4085s/jit-1.dump", path);
	assert_int_equal(xp_perfdata_jit(perfdata, 1, jit), -ENAMETOOLONG);
	end(perfdata);
	assert_int_equal(count(PERF_RECORD_MMAP2), 1);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 0);
	close(fd);
}

static int fill(struct xp_perfdata *perfdata)
{
	int err = 0;

	for (unsigned int i = 0; i < 1000 && !err; i++)
		err = put_sample(perfdata, 1000 + i, XP_PERFDATA_CHAIN_MAX);
	return err;
}

/* The disk becomes full: the error is kept, and the file has the records written before. */
TEST(test_compressed_full_disk)
{
	const struct xp_perfdata_features features = { .hostname = "h" };
	static uint64_t chain[1000];
	const struct xp_perfdata_sample sample = { .tsc = 1, .user = chain, .user_count = XP_ARRAY_SIZE(chain) };
	struct rlimit before, limit;
	struct xp_perfdata *perfdata;
	uint64_t noise = 1;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 500000;
	perfdata = begin_compressed(1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int i = 0; i < 200; i++) {
		int err;

		for (size_t at = 0; at < XP_ARRAY_SIZE(chain); at++)
			chain[at] = noise = next_noise(noise);
		err = xp_perfdata_sample(perfdata, &sample);
		assert_true(!err || (err == -EFBIG && i > 60));
	}
	assert_int_equal(xp_perfdata_finish(perfdata, &features), -EFBIG);
	xp_perfdata_free(perfdata);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_in_range(count(PERF_RECORD_SAMPLE), 30, 62);
	close(fd);
}

TEST(test_full_disk)
{
	const struct xp_perfdata_features features = { .hostname = "h" };
	struct rlimit before, limit;
	struct xp_perfdata *perfdata;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 1000000;
	perfdata = begin();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(fill(perfdata), -EFBIG);
	assert_int_equal(put_sample(perfdata, 1, 1), -EFBIG);
	assert_int_equal(xp_perfdata_comm(perfdata, 1, 1, 1, "a", false), -EFBIG);
	assert_int_equal(xp_perfdata_finish(perfdata, &features), -EFBIG);
	xp_perfdata_free(perfdata);
	assert_in_range(count(PERF_RECORD_SAMPLE), 20, 30);
	close(fd);

	/* The features fill the space. */
	perfdata = begin();
	limit.rlim_cur = 600;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(put_sample(perfdata, 1000, 1), 0);
	assert_int_equal(xp_perfdata_finish(perfdata, &features), -EFBIG);
	xp_perfdata_free(perfdata);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(count(PERF_RECORD_SAMPLE), 1);
	close(fd);
}
