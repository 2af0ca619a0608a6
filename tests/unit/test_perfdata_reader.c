// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written files, and the results of the reader of perf.data and the rules. */
#include "format/perfdata_reader.h"
#include "check/perfdata_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "unit.h"

#define SAMPLE_TYPE (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN)
#define DATA 232 /* offset of the records after one event of 112 bytes */
#define DATA_SIZE_AT offsetof(struct xp_perfdata_header, data.size)

static struct {
	uint8_t bytes[1 << 16];
	size_t size;
} file;

static void put(const void *data, size_t size)
{
	memcpy(file.bytes + file.size, data, size);
	file.size += size;
}

static void add_words(size_t count, const uint64_t *words)
{
	put(words, count * sizeof(*words));
}

#define words(...) add_words(sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })
#define PAIR(low, high) ((uint64_t)(uint32_t)(low) | (uint64_t)(high) << 32)

/* The header of a record as one word. */
#define RECORD(type, misc, size) ((uint64_t)(type) | (uint64_t)(misc) << 32 | (uint64_t)(size) << 48)

static void poke64(size_t offset, uint64_t value)
{
	memcpy(file.bytes + offset, &value, sizeof(value));
}

/* One event, without ids. */
static void begin(uint64_t sample_type)
{
	struct xp_perfdata_header header = {
		.magic = XP_PERFDATA_MAGIC,
		.size = sizeof(header),
		.attr_size = 128,
		.attrs = { sizeof(header), 128 },
		.data = { DATA, 0 },
	};
	struct perf_event_attr attr = { .size = 112, .sample_type = sample_type, .sample_id_all = 1 };

	file.size = 0;
	put(&header, sizeof(header));
	put(&attr, 112);
	words(sizeof(header), 0);
}

/* The records end here. */
static void end_data(void)
{
	poke64(DATA_SIZE_AT, file.size - DATA);
}

/* The bytes end at the end of their allocation, so that a sanitizer detects reads beyond them. */
static uint8_t *copy(void)
{
	uint8_t *bytes = malloc(file.size ? file.size : 1);

	assert_non_null(bytes);
	memcpy(bytes, file.bytes, file.size);
	return bytes;
}

static int read_all(const uint8_t *bytes, struct xp_violation *violation)
{
	struct xp_perfdata_feature_section section;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	int more = xp_perfdata_reader_init(&reader, bytes, file.size, violation);

	if (!more)
		while ((more = xp_perfdata_reader_next(&reader, &record, violation)) == 1)
			;
	for (unsigned int from = 0; !more; from = section.feature + 1) {
		more = xp_perfdata_reader_feature(&reader, from, &section, violation);
		if (more <= 0)
			break;
		more = 0;
	}
	xp_perfdata_reader_end(&reader);
	return more;
}

static void assert_violation(uint64_t offset, const char *words)
{
	struct xp_violation violation = { .text = "none" };
	uint8_t *bytes = copy();
	int err = read_all(bytes, &violation);

	free(bytes);
	if (err != -EBADMSG || !strstr(violation.text, words) || violation.offset != offset)
		fail_msg("%d: 0x%llx: %s", err, (unsigned long long)violation.offset, violation.text);
}

/* words NULL: the file is valid. */
static void assert_rule(uint64_t offset, const char *words)
{
	struct xp_violation violation = { .text = "none" };
	uint8_t *bytes = copy();
	bool found;

	if (read_all(bytes, &violation))
		fail_msg("%s", violation.text);
	found = xp_perfdata_rules_check(bytes, file.size, &violation);
	free(bytes);
	if (found != !!words || (words && (!strstr(violation.text, words) || violation.offset != offset)))
		fail_msg("%d: 0x%llx: %s", found, (unsigned long long)violation.offset, violation.text);
}

#define TRAILER PAIR(7, 8), 1000

/* A user-mode sample with a chain of one address. */
static void put_sample(uint64_t time)
{
	words(RECORD(PERF_RECORD_SAMPLE, 2, 56), 0x1234, PAIR(7, 8), time, 2, PERF_CONTEXT_USER, 0x1234);
}

TEST(test_records)
{
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	struct xp_perfdata_event event;
	uint8_t *bytes;

	begin(SAMPLE_TYPE);
	words(RECORD(79, 0, 32), 32, 1000, 77);
	words(RECORD(PERF_RECORD_MMAP2, 2 | 1 << 14, 96), PAIR(7, 8), 0x400000, 0x1000, 0x2000, 4 | 0x0201ull << 32, 0,
	      0, PAIR(5, 2), 0x622f /* "/b" */, TRAILER);
	words(RECORD(PERF_RECORD_COMM, 0, 40), PAIR(7, 9), 0x6362, TRAILER);
	words(RECORD(PERF_RECORD_FORK, 0, 48), PAIR(9, 7), PAIR(10, 8), 950, TRAILER);
	words(RECORD(PERF_RECORD_KSYMBOL, 0, 48), 0xffffffffc0001000, PAIR(0x80, 1 | 1 << 16), 0x6261, TRAILER);
	words(RECORD(PERF_RECORD_BPF_EVENT, 0, 40), PAIR(2, 77), 0x0807060504030201, TRAILER);
	words(RECORD(12345, 0, 24), 1, 2); /* there is no trailer from type 64 on */
	words(RECORD(22, 0, 32), 1, TRAILER);
	put_sample(5000);
	end_data();
	bytes = copy();
	assert_true(xp_perfdata_probe(bytes, file.size));
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	assert_int_equal(reader.events.count, 1);
	xp_perfdata_events_get(&reader.events, 0, &event);
	assert_int_equal(event.attr.sample_type, SAMPLE_TYPE);

	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.offset, DATA);
	assert_int_equal(record.conversion.shift, 32);
	assert_int_equal(record.conversion.mult, 1000);
	assert_int_equal(record.conversion.zero, 77);
	assert_true(record.conversion.has_zero && !record.has);

	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.has, PERF_SAMPLE_TID | PERF_SAMPLE_TIME);
	assert_int_equal(record.pid, 7);
	assert_int_equal(record.tid, 8);
	assert_int_equal(record.time_ns, 1000);
	assert_int_equal(record.map.pid, 7);
	assert_int_equal(record.map.start, 0x400000);
	assert_int_equal(record.map.bytes, 0x1000);
	assert_int_equal(record.map.file_offset, 0x2000);
	assert_int_equal(record.map.build_id_bytes, 4);
	assert_memory_equal(record.map.build_id, "\1\2\0\0", 4);
	assert_int_equal(record.map.prot, 5);
	assert_string_equal(record.map.path, "/b");

	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.comm.tid, 9);
	assert_string_equal(record.comm.name, "bc");
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.task.pid, 9);
	assert_int_equal(record.task.ppid, 7);
	assert_int_equal(record.task.tid, 10);
	assert_int_equal(record.task.ptid, 8);
	assert_int_equal(record.task.time_ns, 950);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.symbol.start, 0xffffffffc0001000);
	assert_int_equal(record.symbol.bytes, 0x80);
	assert_int_equal(record.symbol.type, 1);
	assert_int_equal(record.symbol.flags, 1);
	assert_string_equal(record.symbol.name, "ab");
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.bpf.type, 2);
	assert_int_equal(record.bpf.id, 77);
	assert_memory_equal(record.bpf.tag, "\1\2\3\4\5\6\7\10", 8);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.type, 12345);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.tid, 8);

	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.has, SAMPLE_TYPE);
	assert_int_equal(record.sample.ip, 0x1234);
	assert_int_equal(record.time_ns, 5000);
	assert_int_equal(record.sample.chain_count, 2);
	assert_int_equal(xp_perfdata_record_chain(&record, 0), PERF_CONTEXT_USER);
	assert_int_equal(xp_perfdata_record_chain(&record, 1), 0x1234);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 0);
	free(bytes);
}

/* Every field of a sample, and of a trailer. */
TEST(test_full_sample)
{
	const uint64_t all = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			     PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW;
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	uint8_t *bytes;

	begin(all);
	words(RECORD(PERF_RECORD_SAMPLE, 2, 8 * 11), 1, 0x1234, PAIR(7, 8), 5000, PAIR(11, 0), 99, /* chain */ 1, 0x77,
	      /* raw */ 8, 9);
	words(RECORD(PERF_RECORD_COMM, 0, 8 * 7), PAIR(7, 9), 0x6362, /* trailer */ PAIR(7, 8), 6000, PAIR(12, 0), 1);
	end_data();
	bytes = copy();
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.time_ns, 5000);
	assert_int_equal(record.cpu, 11);
	assert_int_equal(record.sample.period, 99);
	assert_int_equal(record.sample.chain_count, 1);
	assert_int_equal(xp_perfdata_record_chain(&record, 0), 0x77);
	assert_int_equal(record.sample.raw_bytes, 8);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.time_ns, 6000);
	assert_int_equal(record.cpu, 12);
	assert_string_equal(record.comm.name, "bc");
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 0);
	free(bytes);
	begin(SAMPLE_TYPE | PERF_SAMPLE_ADDR); /* xprof writes no such samples */
	put_sample(1);
	end_data();
	assert_violation(DATA, "is malformed");
}

/* Two events with different samples, distinguished by their ids. */
TEST(test_two_events)
{
	struct xp_perfdata_header header = {
		.magic = XP_PERFDATA_MAGIC,
		.size = sizeof(header),
		.attr_size = 128,
		.attrs = { 120, 256 },
		.data = { 376, 0 },
	};
	struct perf_event_attr attr = { .size = 112, .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME };
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	uint8_t *bytes;

	file.size = 0;
	put(&header, sizeof(header));
	words(71, 72);
	put(&attr, 112);
	words(104, 8);
	attr.sample_type |= PERF_SAMPLE_CPU;
	put(&attr, 112);
	words(112, 8);
	words(RECORD(PERF_RECORD_SAMPLE, 2, 32), 72, 500, PAIR(3, 0));
	words(RECORD(PERF_RECORD_SAMPLE, 2, 24), 71, 600);
	words(RECORD(PERF_RECORD_SAMPLE, 2, 24), 73, 700);
	poke64(DATA_SIZE_AT, file.size - 376);
	bytes = copy();
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.cpu, 3);
	assert_int_equal(record.time_ns, 500);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	assert_int_equal(record.has, PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME);
	assert_int_equal(record.time_ns, 600);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), -EBADMSG);
	assert_int_equal(violation.offset, 376 + 56);
	free(bytes);
	poke64(120 + offsetof(struct perf_event_attr, sample_type), PERF_SAMPLE_TIME);
	assert_violation(120, "differ in what their records hold");
}

TEST(test_headers)
{
	begin(SAMPLE_TYPE);
	file.size = 7;
	assert_violation(0, "not a perf.data file");
	file.size = 50;
	assert_violation(0, "ends inside the header");
	begin(SAMPLE_TYPE);
	memcpy(file.bytes, "2ELIFREP", 8);
	assert_violation(0, "not a perf.data file");
	begin(SAMPLE_TYPE);
	poke64(8, 103);
	assert_violation(8, "103 bytes");
	begin(SAMPLE_TYPE);
	poke64(24, 1000); /* attrs */
	assert_violation(24, "outside the file");
	poke64(24, 104);
	poke64(32, UINT64_MAX);
	assert_violation(24, "outside the file");
	poke64(32, 127);
	assert_violation(16, "which is not 1 to");
	poke64(32, 0);
	assert_violation(16, "which is not 1 to");
	begin(SAMPLE_TYPE);
	poke64(16, 79);
	assert_violation(16, "79 bytes");
	begin(SAMPLE_TYPE);
	poke64(104 + 4, 111);
	assert_violation(104 + 4, "have 111 bytes");
	begin(SAMPLE_TYPE);
	poke64(104 + 120, 4);
	assert_violation(104 + 112, "ids of an event");
	begin(SAMPLE_TYPE);
	poke64(DATA_SIZE_AT, 8);
	assert_violation(40, "extend beyond the file's end");
}

static void refuse_record(const char *words)
{
	end_data();
	assert_violation(DATA, words);
	begin(SAMPLE_TYPE);
}

TEST(test_malformed_records)
{
	begin(SAMPLE_TYPE);
	put("1234", 4);
	refuse_record("end inside a record");
	words(RECORD(68, 0, 7));
	refuse_record("has 7 bytes");
	words(RECORD(68, 0, 16));
	refuse_record("end inside a record of 16");
	words(RECORD(68, 0, 12), 0);
	refuse_record("not a multiple of 8");
	words(RECORD(68, 0, 16), 0);
	refuse_record("8 bytes longer");
	words(RECORD(PERF_RECORD_SAMPLE, 2, 56), 0x1234, PAIR(7, 8), 5, 3, 1, 2);
	refuse_record("is malformed");
	words(RECORD(PERF_RECORD_SAMPLE, 2, 56), 0x1234, PAIR(7, 8), 5, 1, 1, 2);
	refuse_record("8 bytes longer");
	words(RECORD(PERF_RECORD_SAMPLE, 2, 40), 0x1234, PAIR(7, 8), 5, UINT64_MAX / 8 + 1);
	refuse_record("is malformed");
	words(RECORD(PERF_RECORD_COMM, 0, 16), PAIR(7, 8));
	refuse_record("is malformed"); /* no trailer */
	words(RECORD(PERF_RECORD_COMM, 0, 40), PAIR(7, 8), 0x6161616161616161, TRAILER);
	refuse_record("is malformed"); /* no zero */
	words(RECORD(PERF_RECORD_EXIT, 0, 40), PAIR(7, 8), PAIR(7, 8), TRAILER);
	refuse_record("is malformed");
	words(RECORD(PERF_RECORD_MMAP2, 2 | 1 << 14, 96), PAIR(7, 8), 0, 0, 0, 21, 0, 0, PAIR(5, 2), 0x622f, TRAILER);
	refuse_record("is malformed"); /* a build id of 21 bytes */
	words(RECORD(79, 0, 24), 1, 2);
	refuse_record("is malformed");
}

TEST(test_features)
{
	struct xp_perfdata_feature_section section;
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	uint8_t *bytes;

	begin(SAMPLE_TYPE);
	put_sample(1);
	end_data();
	poke64(72, 1 << 3 | 1 << 5);
	poke64(96, 1ull << 63);
	words(336, 16, 352, 8, 360, 0);
	words(PAIR(12, 0x6f6e /* "no" */), 0, PAIR(4, 0x61616161));
	assert_rule(0, NULL);
	bytes = copy();
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	assert_int_equal(xp_perfdata_reader_feature(&reader, 0, &section, &violation), 1);
	assert_int_equal(section.feature, 3);
	assert_int_equal(section.bytes, 16);
	assert_int_equal(xp_perfdata_reader_feature(&reader, 4, &section, &violation), 1);
	assert_int_equal(section.feature, 5);
	assert_int_equal(xp_perfdata_reader_feature(&reader, 6, &section, &violation), 1);
	assert_int_equal(section.feature, 255);
	assert_int_equal(xp_perfdata_reader_feature(&reader, 256, &section, &violation), 0);
	free(bytes);
	file.size -= 8;
	assert_violation(DATA + 56 + 16, "feature 5 lies outside the file");
	file.size = DATA + 56 + 20;
	poke64(DATA + 56, DATA);
	assert_violation(file.size, "table of features");
}

TEST(test_rules)
{
	begin(SAMPLE_TYPE);
	assert_rule(DATA_SIZE_AT, "cut off");
	words(RECORD(79, 0, 32), 32, 0, 77);
	end_data();
	assert_rule(DATA, "multiplier of 0");
	begin(SAMPLE_TYPE);
	words(RECORD(79, 0, 32), 64, 1, 77);
	end_data();
	assert_rule(DATA, "shift of 64");
	begin(SAMPLE_TYPE);
	words(RECORD(79, 0, 56), 32, 1, 77, 0, 0, 0);
	end_data();
	assert_rule(DATA, "no zero");
}

TEST(test_order)
{
	const uint64_t round = RECORD(68, 0, 8);

	begin(SAMPLE_TYPE);
	put_sample(100);
	put_sample(50);
	words(round);
	put_sample(60);
	put_sample(200);
	words(round);
	put_sample(100);
	put_sample(0); /* no time */
	end_data();
	assert_rule(0, NULL);
	put_sample(99);
	end_data();
	assert_rule(file.size - 56, "out of order: it is 1 ns older");
}

static void put_jit_mark(const char *path)
{
	char padded[32] = "";

	words(RECORD(PERF_RECORD_MMAP, 2, 40 + sizeof(padded) + 16), 0, 0, 4096, 0);
	memcpy(padded, path, strlen(path));
	put(padded, sizeof(padded));
	words(TRAILER);
	end_data();
}

TEST(test_jit_mark)
{
	const uint64_t use_clockid = 1 << 25;

	begin(SAMPLE_TYPE);
	put_jit_mark("/a/jit-1.dump");
	assert_rule(DATA, "perf inject --jit");
	begin(SAMPLE_TYPE);
	words(RECORD(79, 0, 32), 32, 1, 77);
	put_jit_mark("/a/jit-1.dump");
	assert_rule(0, NULL);
	begin(SAMPLE_TYPE);
	poke64(104 + 40, 1 << 18 | use_clockid);
	poke64(104 + 88, PAIR(0, CLOCK_MONOTONIC));
	put_jit_mark("/a/jit-1.dump");
	assert_rule(0, NULL);
	begin(SAMPLE_TYPE);
	put_jit_mark("/a/jit-x.dump");
	assert_rule(0, NULL);
}

/* ---- compressed records ---- */

static ZSTD_CCtx *zstd;

/* A record with this many of the bytes, continuing the stream of the records before. */
static void put_compressed(const void *bytes, size_t size)
{
	struct {
		struct perf_event_header header;
		uint8_t packed[1000];
	} record = { .header.type = XP_PERFDATA_COMPRESSED };
	ZSTD_inBuffer in = { .src = bytes, .size = size };
	ZSTD_outBuffer out = { .dst = record.packed, .size = sizeof(record.packed) };

	assert_int_equal(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush), 0);
	record.header.size = sizeof(record.header) + out.pos;
	put(&record, record.header.size);
}

/* Ends the data and writes the compression feature. */
static void end_compressed(uint32_t type, uint32_t expanded_bytes)
{
	uint32_t feature[] = { 1, type, 1, 1, expanded_bytes };

	end_data();
	poke64(72, 1 << 27);
	words(file.size + 16, sizeof(feature));
	put(feature, sizeof(feature));
}

static void begin_compressed(void)
{
	begin(SAMPLE_TYPE);
	ZSTD_freeCCtx(zstd);
	zstd = ZSTD_createCCtx();
	assert_non_null(zstd);
}

/* Two records, and the start of a third whose rest is in the next compressed record, or missing. */
TEST(test_compressed)
{
	static const uint64_t inner[] = {
		RECORD(PERF_RECORD_SAMPLE, 2, 56), 0x1234, PAIR(7, 8), 5, 2, PERF_CONTEXT_USER, 0x1234,
		RECORD(PERF_RECORD_SAMPLE, 2, 56), 0x5678, PAIR(7, 8), 6, 2, PERF_CONTEXT_USER, 0x5678,
		RECORD(PERF_RECORD_SAMPLE, 2, 56), 0x9abc, PAIR(7, 8), 7, 2, PERF_CONTEXT_USER, 0x9abc,
	};
	static const uint64_t ips[] = { 0, 0x1234, 0x5678, 4, 0, 0x9abc };
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	uint8_t *bytes;

	begin_compressed();
	put_compressed(inner, 2 * 56 + 4);
	put_sample(4);
	put_compressed((const uint8_t *)inner + 2 * 56 + 4, 52);
	end_compressed(1, 116);
	bytes = copy();
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	for (size_t i = 0; i < 6; i++) {
		bool is_compressor = i % 4 == 0;

		assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
		assert_int_equal(record.type, is_compressor ? XP_PERFDATA_COMPRESSED : PERF_RECORD_SAMPLE);
		assert_int_equal(record.is_decompressed, !is_compressor && i != 3);
		if (i < 3)
			assert_int_equal(record.offset, DATA);
		if (!is_compressor && i != 3) {
			assert_int_equal(record.sample.ip, ips[i]);
			assert_int_equal(xp_perfdata_record_chain(&record, 1), ips[i]);
		}
	}
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 0);
	xp_perfdata_reader_end(&reader);
	free(bytes);
	assert_rule(0, NULL);
	begin_compressed();
	put_compressed(inner, 2 * 56 + 4);
	end_compressed(1, 116);
	assert_violation(DATA, "end inside a record");
	begin_compressed();
	put_compressed(inner, 2 * 56 + 12);
	end_compressed(1, 124);
	assert_violation(DATA, "end inside a record of 56 bytes");
}

TEST(test_malformed_compression)
{
	static const uint64_t inner[] = { RECORD(XP_PERFDATA_COMPRESSED, 0, 16), 0 };
	static const uint8_t zeros[200000];
	static uint64_t rounds[100000];
	struct xp_violation violation;
	uint8_t *bytes;

	for (size_t i = 0; i < XP_ARRAY_SIZE(rounds); i += 1000)
		rounds[i] = RECORD(12345, 0, 8000);
	begin_compressed();
	put_compressed(zeros, 8);
	end_data();
	assert_violation(DATA, "no feature COMPRESSED");
	end_compressed(2, 8);
	assert_violation(file.size - 20, "by method 2");
	begin_compressed();
	put_compressed(zeros, 8);
	end_compressed(1, 0);
	assert_violation(file.size - 20, "cannot expand to 0 bytes");
	memset(file.bytes + file.size - 4, 0xff, 4);
	assert_violation(file.size - 20, "cannot expand to 4294967295 bytes");
	memcpy(file.bytes + file.size - 4, "\x08\0\0\0", 4);
	assert_violation(DATA, "A record has 0 bytes");

	begin_compressed();
	put_compressed(zeros, sizeof(zeros));
	end_compressed(1, 8);
	assert_violation(DATA, "expands to more");
	begin_compressed();
	words(RECORD(XP_PERFDATA_COMPRESSED, 0, 24), 0x1122334455667788, 0);
	end_compressed(1, 8);
	assert_violation(DATA, "Unknown frame descriptor");
	begin_compressed();
	for (int i = 0; i < 40; i++)
		put_compressed(rounds, sizeof(rounds));
	end_compressed(1, sizeof(rounds));
	bytes = copy();
	assert_int_equal(read_all(bytes, &violation), -EBADMSG);
	assert_non_null(strstr(violation.text, "more than 4000 times"));
	free(bytes);
	begin_compressed();
	put_compressed(inner, sizeof(inner));
	end_compressed(1, 16);
	assert_violation(DATA, "holds one of type 81");
	ZSTD_freeCCtx(zstd);
	zstd = NULL;
}

/* What all records of a file may be: each bound by itself. */
TEST(test_expansion_is_bounded)
{
	static uint64_t rounds[100000];
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	uint64_t count = 0;
	uint8_t *bytes;
	int more;

	for (size_t i = 0; i < XP_ARRAY_SIZE(rounds); i++)
		rounds[i] = RECORD(XP_PERFDATA_FINISHED_ROUND, 0, 8);
	begin_compressed();
	for (int i = 0; i < 12; i++) {
		put_compressed(rounds, sizeof(rounds));
		/* So that it is the number of records that is too high. */
		for (int j = 0; j < 8; j++)
			put_sample(4);
	}
	end_compressed(1, sizeof(rounds));
	bytes = copy();
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	while ((more = xp_perfdata_reader_next(&reader, &record, &violation)) > 0)
		count += record.is_decompressed;
	assert_int_equal(more, -EBADMSG);
	assert_non_null(strstr(violation.text, "more than one for 2 bytes"));
	assert_int_equal(count, (1 << 20) + file.size / 2);
	xp_perfdata_reader_end(&reader);

	/* A file of 3 MB, whose first records have nearly all the bytes. */
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, file.size, &violation), 0);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
	reader.size = 3000000;
	reader.expanded_bytes = (UINT64_C(8) << 30) + 200 * reader.size - sizeof(rounds);
	while ((more = xp_perfdata_reader_next(&reader, &record, &violation)) > 0)
		;
	assert_int_equal(more, -EBADMSG);
	assert_non_null(strstr(violation.text, "xprof reads no more of a file of 3000000"));
	xp_perfdata_reader_end(&reader);
	free(bytes);
	ZSTD_freeCCtx(zstd);
	zstd = NULL;
}
