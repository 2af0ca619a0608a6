// SPDX-License-Identifier: BSD-2-Clause
/*
 * The FDR writer, byte by byte. The expected bytes are written by hand from LLVM's "XRay Flight Data Recorder Trace
 * Format" and, for versions 2 to 5, from the layout of compiler-rt's xray_fdr_log_records.h.
 */
#include "format/fdr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "format/fdr_reader.h"

static uint8_t chunk[XP_FDR_CHUNK_MIN];
static struct xp_fdr_enc enc;

static int begin(void **state)
{
	(void)state;
	memset(chunk, 0xaa, sizeof(chunk));
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 3, 0x1122334455667788);
	return 0;
}

/* Hexadecimal digits to bytes; blanks are ignored. */
static size_t from_hex(uint8_t *to, size_t room, const char *hex)
{
	size_t used = 0;

	for (; *hex; hex++) {
		char digits[3] = { hex[0], hex[1], 0 };

		if (*hex == ' ')
			continue;
		assert_true(used < room);
		to[used++] = strtoul(digits, NULL, 16);
		hex++;
	}
	return used;
}

static void assert_bytes(const uint8_t *bytes, size_t size, const char *hex)
{
	static uint8_t expected[1 << 16];

	assert_int_equal(size, from_hex(expected, sizeof(expected), hex));
	assert_memory_equal(bytes, expected, size);
}

#define NEW_CPU_3 "05 0300 8877665544332211 0000000000 "

/* ---- the encoder ---- */

TEST_WITH(chunk_begins_with_cpu, begin, NULL)
{
	assert_bytes(chunk, enc.len, NEW_CPU_3);
	assert_int_equal(xp_fdr_chunk_tsc(chunk), 0x1122334455667788);
	assert_int_equal(xp_fdr_chunk_scan(chunk, enc.len, NULL), 0);
}

TEST_WITH(functions_of_every_kind, begin, NULL)
{
	uint64_t tsc = 0x1122334455667788;

	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc, 1, XP_FDR_ENTER), 0);
	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc + 1, 0x0fffffff, XP_FDR_EXIT), 0);
	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc + 0x104, 0x1234567, XP_FDR_TAIL_EXIT), 0);
	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc + 0x104, 0x1234567, XP_FDR_ENTER_ARGS), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "10000000 00000000"
			       "f2ffffff 01000000"
			       "74563412 03010000"
			       "76563412 00000000");
}

TEST_WITH(function_id_has_28_bits, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_function(&enc, 3, enc.base_tsc, 0x10000000, XP_FDR_ENTER), -EINVAL);
	assert_int_equal(xp_fdr_enc_function(&enc, 4, enc.base_tsc, 0x10000000, XP_FDR_ENTER), -EINVAL);
	assert_int_equal(enc.len, 16);
}

TEST_WITH(largest_delta_and_wrap, begin, NULL)
{
	uint64_t tsc = 0x1122334455667788;

	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc + 0xffffffff, 1, XP_FDR_ENTER), 0);
	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc + 0x1ffffffff, 1, XP_FDR_EXIT), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "10000000 ffffffff"
			       "07 8777665546332211 00000000000000"
			       "12000000 00000000");
}

TEST_WITH(time_that_goes_back_wraps, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_function(&enc, 3, 0x1122334455667787, 1, XP_FDR_ENTER), 0);
	assert_bytes(chunk, enc.len, NEW_CPU_3 "07 8777665544332211 00000000000000 10000000 00000000");
}

TEST_WITH(another_cpu, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_function(&enc, 0x102, 0x1122334455667789, 1, XP_FDR_ENTER), 0);
	assert_int_equal(xp_fdr_enc_function(&enc, 0x102, 0x112233445566778a, 1, XP_FDR_EXIT), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "05 0201 8977665544332211 0000000000"
			       "10000000 00000000"
			       "12000000 01000000");
}

TEST_WITH(arguments, begin, NULL)
{
	const uint64_t args[] = { 0x0102030405060708, UINT64_MAX };

	assert_int_equal(xp_fdr_enc_args(&enc, 3, 0x1122334455667790, 5, args, 2), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "56000000 08000000"
			       "0d 0807060504030201 00000000000000"
			       "0d ffffffffffffffff 00000000000000");
	assert_int_equal(xp_fdr_enc_args(&enc, 3, 0x1122334455667790, 5, NULL, 0), 0);
	assert_bytes(chunk + enc.len - 8, 8, "56000000 00000000");
}

TEST_WITH(custom_event, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_custom(&enc, 3, 0x1122334455667799, "xyz", 3), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "07 9977665544332211 00000000000000"
			       "0b 03000000 9977665544332211 000000"
			       "78797a");
	xp_fdr_chunk_to_v5(chunk, enc.len);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "07 9977665544332211 00000000000000"
			       "0b 03000000 00000000 00000000000000"
			       "78797a");
	assert_false(enc.has_typed);
}

TEST_WITH(event_on_another_cpu, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_custom(&enc, 4, 0x1122334455667799, "x", 1), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "05 0400 9977665544332211 0000000000"
			       "0b 01000000 9977665544332211 000000 78");
}

TEST_WITH(typed_event, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_typed(&enc, 3, 0x1122334455667799, 0x8001, "xy", 2), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "07 9977665544332211 00000000000000"
			       "11 02000000 00000000 0180 0000000000"
			       "7879");
	assert_true(enc.has_typed);
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 0, 0);
	assert_false(enc.has_typed);
}

TEST_WITH(event_without_payload, begin, NULL)
{
	assert_int_equal(xp_fdr_enc_custom(&enc, 3, 0x1122334455667788, NULL, 0), 0);
	assert_int_equal(xp_fdr_enc_typed(&enc, 3, 0x1122334455667788, 1, NULL, 0), 0);
	assert_bytes(chunk, enc.len,
		     NEW_CPU_3 "07 8877665544332211 00000000000000"
			       "0b 01000000 8877665544332211 000000 00"
			       "07 8877665544332211 00000000000000"
			       "11 01000000 00000000 0100 0000000000 00");
}

/* Each call adds its record completely, or changes nothing. */
TEST_WITH(full_chunk, begin, NULL)
{
	static const uint8_t payload[XP_FDR_EVENT_BYTES_MAX];
	const uint64_t args[6] = { 0 };
	uint64_t tsc = enc.base_tsc;
	struct xp_fdr_enc before;

	enc.cap = enc.len + 7;
	before = enc;
	assert_int_equal(xp_fdr_enc_function(&enc, 3, tsc, 1, XP_FDR_ENTER), -ENOSPC);
	enc.cap = before.cap = enc.len + 16 + 7;
	assert_int_equal(xp_fdr_enc_function(&enc, 4, tsc, 1, XP_FDR_ENTER), -ENOSPC);
	assert_int_equal(xp_fdr_enc_args(&enc, 3, tsc, 1, args, 6), -ENOSPC);
	assert_int_equal(xp_fdr_enc_custom(&enc, 3, tsc, payload, 1), -ENOSPC);
	assert_int_equal(xp_fdr_enc_typed(&enc, 3, tsc, 1, payload, 1), -ENOSPC);
	assert_memory_equal(&enc, &before, sizeof(enc));
	assert_int_equal(chunk[enc.len], 0xaa);
	enc.cap = enc.len + 32 + sizeof(payload);
	assert_int_equal(xp_fdr_enc_custom(&enc, 3, tsc, payload, sizeof(payload)), 0);
	assert_int_equal(enc.len, enc.cap);
	assert_int_equal(xp_fdr_enc_custom(&enc, 3, tsc, payload, sizeof(payload) + 1), -EINVAL);
}

TEST_WITH(rewind_takes_back, begin, NULL)
{
	struct xp_fdr_mark mark = xp_fdr_enc_mark(&enc);

	assert_int_equal(xp_fdr_enc_function(&enc, 9, 0x2222334455667788, 1, XP_FDR_ENTER), 0);
	xp_fdr_enc_rewind(&enc, mark);
	assert_int_equal(xp_fdr_enc_function(&enc, 3, 0x1122334455667789, 2, XP_FDR_ENTER), 0);
	assert_bytes(chunk, enc.len, NEW_CPU_3 "20000000 01000000");
}

/* ---- valid and invalid chunks ---- */

TEST_WITH(scan_counts, begin, NULL)
{
	struct xp_fdr_chunk_stats stats = { .functions = 100 };
	const uint64_t args[] = { 1, 2 };

	xp_fdr_enc_function(&enc, 3, enc.base_tsc, 1, XP_FDR_ENTER);
	xp_fdr_enc_args(&enc, 3, enc.base_tsc, 2, args, 2);
	xp_fdr_enc_custom(&enc, 3, enc.base_tsc, "abc", 3);
	xp_fdr_enc_typed(&enc, 3, enc.base_tsc, 9, "abcde", 5);
	xp_fdr_enc_function(&enc, 3, enc.base_tsc, 2, XP_FDR_EXIT);
	assert_int_equal(xp_fdr_chunk_scan(chunk, enc.len, &stats), 0);
	assert_int_equal(stats.functions, 103);
	assert_int_equal(stats.arguments, 2);
	assert_int_equal(stats.events, 2);
	assert_int_equal(stats.typed, 1);
}

TEST_WITH(scan_rejects, begin, NULL)
{
	static const char *const bad[] = {
		"",
		"05 0300 8877665544332211 00000000",				  /* short */
		"07 8877665544332211 00000000000000",				  /* does not begin with NewCPUId */
		NEW_CPU_3 "10000000 000000",					  /* half a function record */
		NEW_CPU_3 "18000000 00000000",					  /* kind 4 */
		NEW_CPU_3 "0d 0807060504030201 00000000000000",			  /* a stray argument */
		NEW_CPU_3 "10000000 00000000 0d 0807060504030201 00000000000000", /* of a plain entry */
		NEW_CPU_3 "16000000 00000000" NEW_CPU_3 "0d 0807060504030201 00000000000000", /* too late */
		NEW_CPU_3 "0b 00000000 8877665544332211 000000",			      /* no payload */
		NEW_CPU_3 "0b ffffffff 8877665544332211 000000",			      /* a negative one */
		NEW_CPU_3 "0b 02000000 8877665544332211 000000 00", /* longer than the chunk */
		NEW_CPU_3 "01 01000000 0000000000000000000000",	    /* NewBuffer */
		NEW_CPU_3 "03 000000000000000000000000000000",	    /* EndOfBuffer */
		NEW_CPU_3 "09 0000000000000000 00000000 000000",    /* WallClock */
		NEW_CPU_3 "0f 0000000000000000 00000000000000",	    /* BufferExtents */
		NEW_CPU_3 "13 01000000 0000000000000000000000",	    /* Pid */
		NEW_CPU_3 "15 000000000000000000000000000000",	    /* kind 10 */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct xp_fdr_chunk_stats stats = { 0 };
		size_t size = from_hex(chunk, sizeof(chunk), bad[i]);

		if (xp_fdr_chunk_scan(chunk, size, &stats) != -EBADMSG)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(stats.functions, 0);
	}
}

/* ---- whole files ---- */

static const struct xp_fdr_layout_options options_v1 = {
	.header = { .version = 1, .constant_tsc = true, .cycle_hz = 2000000000 },
	.pid = 0x12345,
	.start_tsc = 0x1000,
	.wall_ns = 1700000000123456789,
};

struct file {
	int fd;
	const uint8_t *bytes;
	size_t size;
};

static void file_open(struct file *file)
{
	file->fd = memfd_create("fdr", 0);
	assert_true(file->fd >= 0);
}

static void file_map(struct file *file)
{
	struct stat st;

	assert_int_equal(fstat(file->fd, &st), 0);
	file->size = st.st_size;
	file->bytes = mmap(NULL, file->size, PROT_READ, MAP_SHARED, file->fd, 0);
	assert_ptr_not_equal(file->bytes, MAP_FAILED);
}

static void file_close(struct file *file)
{
	munmap((void *)file->bytes, file->size);
	close(file->fd);
}

/* One call of one thread. */
static void write_small(struct file *file, uint16_t version)
{
	struct xp_fdr_layout_options options = options_v1;
	struct xp_fdr_thread thread = { .pid = 0x12345, .tid = 0x23456, .name = "ab", .first_tsc = 0x2000 };
	struct xp_fdr_layout *layout;

	options.header.version = version;
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 1, 0x2000);
	xp_fdr_enc_function(&enc, 1, 0x2000, 7, XP_FDR_ENTER);
	xp_fdr_enc_function(&enc, 1, 0x2010, 7, XP_FDR_EXIT);
	thread.chunk_bytes = thread.chunk_bytes_max = enc.len;
	file_open(file);
	assert_int_equal(xp_fdr_layout_new(&layout, file->fd, &options, &thread, 1), 0);
	assert_int_equal(xp_fdr_layout_chunk(layout, 0, chunk, enc.len), 0);
	assert_int_equal(xp_fdr_layout_finish(layout), 0);
	xp_fdr_layout_free(layout);
	file_map(file);
}

TEST_WITH(small_file_v1, begin, NULL)
{
	struct file file;

	write_small(&file, 1);
	assert_bytes(file.bytes, file.size,
		     "0100 0100 01000000 0094357700000000 9800000000000000 0000000000000000" /* 152 bytes a buffer */
		     "01 56340200 0000000000000000000000"	/* NewBuffer: two bytes, or four, of the tid */
		     "09 00f1536500000000 40e20100 000000"	/* WallClock 1700000000.123456 */
		     "05 0000 0010000000000000 0000000000"	/* the recording's start */
		     "0b 02000000 0010000000000000 000000 6162" /* the thread's name */
		     "07 0020000000000000 00000000000000"
		     "05 0100 0020000000000000 0000000000" /* the chunk */
		     "70000000 00000000"
		     "72000000 10000000"
		     "03 000000000000000000000000000000"
		     "0b 06000000 0010000000000000 000000 000000000000" /* the rest of the buffer */);
	file_close(&file);
}

TEST_WITH(small_file_v5, begin, NULL)
{
	struct file file;

	write_small(&file, 5);
	assert_bytes(file.bytes, file.size,
		     "0500 0100 01000000 0094357700000000 9200000000000000 0000000000000000"
		     "0f 8200000000000000 00000000000000" /* 130 bytes follow */
		     "01 56340200 0000000000000000000000"
		     "09 00f1536500000000 40e20100 000000"
		     "13 45230100 0000000000000000000000"
		     "05 0000 0010000000000000 0000000000"
		     "0b 02000000 00000000 00000000000000 6162"
		     "07 0020000000000000 00000000000000"
		     "05 0100 0020000000000000 0000000000"
		     "70000000 00000000"
		     "72000000 10000000");
	file_close(&file);
}

/* A log without a block would be unreadable. */
TEST_WITH(file_of_no_thread, begin, NULL)
{
	struct xp_fdr_layout_options options = options_v1;
	struct xp_fdr_layout *layout;
	struct file file;

	options.header.nonstop_tsc = true;
	options.header.constant_tsc = false;
	options.header.version = 5;
	file_open(&file);
	assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options, NULL, 0), 0);
	assert_int_equal(xp_fdr_layout_finish(layout), 0);
	xp_fdr_layout_free(layout);
	file_map(&file);
	assert_bytes(file.bytes, file.size,
		     "0500 0100 02000000 0094357700000000 7900000000000000 0000000000000000"
		     "0f 6900000000000000 00000000000000"
		     "01 45230100 0000000000000000000000"
		     "09 00f1536500000000 40e20100 000000"
		     "13 45230100 0000000000000000000000"
		     "05 0000 0010000000000000 0000000000"
		     "0b 09000000 00000000 00000000000000 6e6f206576656e7473"
		     "07 0010000000000000 00000000000000");
	file_close(&file);
}

/* A second buffer starts with NewBuffer, WallClock and the chunk. Its wall clock is the time of the chunk. */
TEST_WITH(second_buffer_v1, begin, NULL)
{
	struct xp_fdr_thread thread = { .tid = 9, .name = "n", .first_tsc = 0x1000 };
	struct xp_fdr_layout *layout;
	struct file file;
	uint64_t buffer;

	thread.chunk_bytes = 2 * 4000;
	thread.chunk_bytes_max = 4000;
	file_open(&file);
	assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options_v1, &thread, 1), 0);
	for (int i = 0; i < 2; i++) {
		/* 2 000 000 000 ticks are a second. */
		xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 0, 0x1000 + i * 3000000000ull);
		while (enc.len < 4000)
			xp_fdr_enc_function(&enc, 0, enc.base_tsc, 1, XP_FDR_ENTER);
		assert_int_equal(enc.len, 4000);
		assert_int_equal(xp_fdr_layout_chunk(layout, 0, chunk, enc.len), 0);
	}
	assert_int_equal(xp_fdr_layout_finish(layout), 0);
	xp_fdr_layout_free(layout);
	file_map(&file);
	memcpy(&buffer, file.bytes + 16, sizeof(buffer));
	assert_int_equal(buffer % 8, 0);
	assert_int_equal(file.size, 32 + 2 * buffer);
	assert_bytes(file.bytes + 32 + buffer, 48,
		     "01 09000000 0000000000000000000000"
		     "09 01f1536500000000 6083 0900 000000" /* 1700000001.623456 */
		     "05 0000 006ed0b200000000 0000000000");
	file_close(&file);
}

TEST_WITH(layout_refuses, begin, NULL)
{
	struct xp_fdr_layout_options options = options_v1;
	struct xp_fdr_thread thread = { .tid = 9, .name = "n", .chunk_bytes = 24, .chunk_bytes_max = 24 };
	struct xp_fdr_layout *layout;
	struct file file;

	file_open(&file);
	options.header.version = 2;
	assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options, &thread, 1), -EINVAL);
	assert_null(layout);
	options.header.version = 1;
	options.header.cycle_hz = 0;
	assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options, &thread, 1), -EINVAL);
	thread.chunk_bytes = UINT64_MAX;
	for (options.header.version = 1; options.header.version <= 5; options.header.version += 4) {
		options.header.cycle_hz = 1;
		assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options, &thread, 1), -EFBIG);
	}
	thread.chunk_bytes = 24;
	assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options_v1, &thread, 1), 0);
	assert_int_equal(xp_fdr_layout_finish(layout), -EINVAL); /* the announced chunk is missing */
	assert_int_equal(xp_fdr_layout_chunk(layout, 1, chunk, 16), -EINVAL);
	assert_int_equal(xp_fdr_layout_chunk(layout, 0, chunk, 15), -EBADMSG);
	xp_fdr_enc_function(&enc, 3, enc.base_tsc, 1, XP_FDR_ENTER);
	xp_fdr_enc_function(&enc, 3, enc.base_tsc, 1, XP_FDR_EXIT);
	assert_int_equal(xp_fdr_layout_chunk(layout, 0, chunk, 32), -EINVAL); /* longer than announced */
	assert_int_equal(xp_fdr_layout_chunk(layout, 0, chunk, 24), 0);
	assert_int_equal(xp_fdr_layout_chunk(layout, 0, chunk, 24), -EINVAL); /* more than announced */
	xp_fdr_layout_free(layout);
	close(file.fd);
}

TEST_WITH(long_and_missing_names, begin, NULL)
{
	struct xp_fdr_thread threads[2] = { { .tid = 1 }, { .tid = 2 } };
	struct xp_fdr_layout *layout;
	char name[XP_FDR_NAME_BYTES_MAX + 2];
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	uint32_t bytes[2];
	struct file file;
	size_t count = 0;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	threads[1].name = name;
	file_open(&file);
	assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options_v1, threads, 2), 0);
	assert_int_equal(xp_fdr_layout_finish(layout), 0);
	xp_fdr_layout_free(layout);
	file_map(&file);
	assert_int_equal(xp_fdr_reader_init(&reader, file.bytes, file.size, &violation), 0);
	while (xp_fdr_reader_next(&reader, &record, &violation) == 1)
		if (!record.is_function && record.kind == XP_FDR_CUSTOM_EVENT && count < 2)
			bytes[count++] = record.event.bytes;
	assert_int_equal(count, 2);
	assert_int_equal(bytes[0], 1);
	assert_int_equal(bytes[1], XP_FDR_NAME_BYTES_MAX);
	file_close(&file);
}

/* ---- packing: at most 16 buffers a thread, nothing lost, in order, for any chunks ---- */

#define THREADS 5
#define CHUNKS 400

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % limit;
}

/* Makes a chunk of about this many records, numbered by function ID. */
static void fill(int records, uint32_t *number)
{
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 0, 0x1000);
	for (int i = 0; i < records; i++) {
		xp_fdr_enc_function(&enc, 0, 0x1000, (*number)++, XP_FDR_ENTER);
		if (i % 50 == 49)
			xp_fdr_enc_custom(&enc, 0, 0x1000, "12345", random_below(5) + 1);
	}
}

static void check_packing(const struct file *file, const uint32_t *expected, uint16_t version)
{
	uint32_t buffers[THREADS] = { 0 }, next[THREADS] = { 0 };
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	int more;

	assert_int_equal(xp_fdr_reader_init(&reader, file->bytes, file->size, &violation), 0);
	while ((more = xp_fdr_reader_next(&reader, &record, &violation)) == 1) {
		if (record.is_function)
			assert_int_equal(record.function.fn_id, next[record.tid]++);
		else if (record.kind == XP_FDR_NEW_BUFFER)
			buffers[record.tid]++;
	}
	if (more)
		fail_msg("0x%llx: %s", (unsigned long long)violation.offset, violation.text);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(next[i], expected[i]);
		assert_in_range(buffers[i], 1, version == 1 ? 16 : 1);
	}
}

TEST_WITH(packing, begin, NULL)
{
	static uint8_t all[CHUNKS][XP_FDR_CHUNK_MIN];
	static size_t lengths[CHUNKS];
	static int owners[CHUNKS];

	for (int round = 0; round < 60; round++) {
		struct xp_fdr_layout_options options = options_v1;
		struct xp_fdr_thread threads[THREADS] = { 0 };
		uint32_t numbers[THREADS] = { 0 };
		uint32_t records_max = 1 + random_below(800);
		int chunks = random_below(CHUNKS), owners_limit = 1 + random_below(THREADS);
		struct xp_fdr_layout *layout;
		struct file file;

		for (int i = 0; i < THREADS; i++)
			threads[i].tid = i;
		for (int i = 0; i < chunks; i++) {
			struct xp_fdr_thread *thread = &threads[owners[i] = random_below(owners_limit)];

			fill(random_below(round % 2 ? records_max : 2) + 1, &numbers[owners[i]]);
			memcpy(all[i], chunk, lengths[i] = enc.len);
			thread->chunk_bytes += enc.len;
			if (thread->chunk_bytes_max < enc.len)
				thread->chunk_bytes_max = enc.len;
		}
		options.header.version = round % 3 ? 1 : 5;
		file_open(&file);
		assert_int_equal(xp_fdr_layout_new(&layout, file.fd, &options, threads, THREADS), 0);
		for (int i = 0; i < chunks; i++)
			assert_int_equal(xp_fdr_layout_chunk(layout, owners[i], all[i], lengths[i]), 0);
		assert_int_equal(xp_fdr_layout_finish(layout), 0);
		xp_fdr_layout_free(layout);
		file_map(&file);
		check_packing(&file, numbers, options.header.version);
		file_close(&file);
	}
}

/* ---- a full disk ---- */

static int give_up(void *arg)
{
	++*(int *)arg;
	return -EIO;
}

TEST_WITH(full_disk_asks, begin, NULL)
{
	struct xp_fdr_layout_options options = options_v1;
	struct xp_fdr_layout *layout;
	int asked = 0;
	int fd = open("/dev/full", O_RDWR); /* ENOSPC to every write */

	assert_true(fd >= 0);
	options.retry = give_up;
	options.retry_arg = &asked;
	assert_int_equal(xp_fdr_layout_new(&layout, fd, &options, NULL, 0), -ENOSPC);
	assert_int_equal(asked, 1);
	assert_null(layout);
	close(fd);
}
