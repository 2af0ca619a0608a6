// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto's traces. The bytes are made by hand from trace.proto and "Protocol Buffers Encoding". */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/util.h"
#include "check/formats.h"
#include "format/perfetto.h"
#include "check/perfetto_reader.h"

struct bytes {
	char *all;
	size_t size;
};

static const struct xp_perfetto_event begin = {
	.type = XP_PERFETTO_BEGIN,
	.time_ns = 1300,
	.name = { 5, "f" },
	.arguments = { { .name = { 1, "arg1" }, .number = 9 } },
	.argument_count = 1,
};
/* With a name that its sequence has, and no arguments. */
static const struct xp_perfetto_event again = { .type = XP_PERFETTO_BEGIN, .time_ns = 1700, .name = { 5, "f" } };
static const struct xp_perfetto_event end = { .type = XP_PERFETTO_END, .time_ns = 1310 };

static struct xp_perfetto *start(FILE *out, uint32_t *sequence)
{
	const struct xp_perfetto_options options = { 1000, 5, "x", "6", "m" };
	struct xp_perfetto *perfetto;

	assert_int_equal(xp_perfetto_new(&perfetto, out, &options), 0);
	assert_int_equal(xp_perfetto_thread(perfetto, &(struct xp_perfetto_thread){ 7, 8, "p", "t" }), 0);
	assert_int_equal(xp_perfetto_sequence(perfetto, 7, 8, sequence), 0);
	return perfetto;
}

static struct bytes write_small(void)
{
	const struct xp_perfetto_sample sample = { 1400, 7, 8, 1, 9, true, 100 };
	struct xp_perfetto_frame frame = { 1, 1, 1, 0, 0x10, 3, XP_PERFETTO_KERNEL, false };
	uint64_t frames[] = { 1, 2 };
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t sequence;
	struct xp_perfetto *perfetto = start(out, &sequence);

	assert_int_equal(xp_perfetto_event(perfetto, sequence, &begin), 0);
	assert_int_equal(xp_perfetto_event(perfetto, sequence, &end), 0);
	assert_int_equal(xp_perfetto_event(perfetto, sequence, &again), 0);
	assert_int_equal(xp_perfetto_text(perfetto, XP_PERFETTO_FUNCTION, 1, "f"), 0);
	assert_int_equal(xp_perfetto_text(perfetto, XP_PERFETTO_PATH, 1, "/a"), 0);
	assert_int_equal(xp_perfetto_mapping(perfetto, 1, 1, (const uint8_t *)"\xab", 1), 0);
	assert_int_equal(xp_perfetto_frame(perfetto, &frame), 0);
	frame = (struct xp_perfetto_frame){ 2, 1, 1, 0, 0x10, 0, XP_PERFETTO_KERNEL, true };
	assert_int_equal(xp_perfetto_frame(perfetto, &frame), 0);
	assert_int_equal(xp_perfetto_callstack(perfetto, 9, frames, 2), 0);
	assert_int_equal(xp_perfetto_sample(perfetto, &sample), 0);
	assert_int_equal(xp_perfetto_finish(perfetto), 0);
	xp_perfetto_free(perfetto);
	assert_int_equal(fclose(out), 0);
	return bytes;
}

// clang-format off
/* clock_snapshot: clocks 3 at 1000 and 1 at 5, primary_trace_clock 3; trusted_packet_sequence_id 1 */
#define CLOCKS "\x0a\x13\x32\x0f\x0a\x05\x08\x03\x10\xe8\x07\x0a\x04\x08\x01\x10\x05\x10\x03\x50\x01"
/* system_info: utsname, tracing_service_version */
#define SYSTEM "\x0a\x17\x50\x01\xea\x02\x12\x0a\x0d\x0a\x05Linux\x1a\x01\x36\x22\x01m\x22\x01x"
/* sequence_flags 1; trace_packet_defaults: timestamp_clock_id 3; stack_sample_defaults: source, primary_descriptor */
#define DEFAULTS "\x0a\x23\x50\x01\x68\x01\xda\x03\x1c\xd0\x03\x03\xa2\x06\x16\x0a\x05xprof\x12\x0d\x12\x09" \
	"cpu-clock\x18\x01"
/* track_descriptor: uuid 0x8ffffffff, process: pid 7, process_name */
#define PROCESS "\x0a\x13\x50\x01\xe2\x03\x0e\x08\xff\xff\xff\xff\x8f\x01\x1a\x05\x08\x07\x32\x01p"
/* track_descriptor: uuid 0x800000008, thread: pid 7, tid 8, thread_name; parent_uuid */
#define THREAD "\x0a\x1c\x50\x01\xe2\x03\x17\x08\x88\x80\x80\x80\x80\x01\x22\x07\x08\x07\x10\x08\x2a\x01t" \
	"\x28\xff\xff\xff\xff\x8f\x01"
/* Clock 64 is incremental and at 1000 when clock 3 is; sequence 2, sequence_flags 1; default track, default clock 64 */
#define SEQUENCE "\x0a\x25\x32\x10\x0a\x07\x08\x40\x10\xe8\x07\x18\x01\x0a\x05\x08\x03\x10\xe8\x07\x50\x02\x68\x01" \
	"\xda\x03\x0c\x5a\x07\x58\x88\x80\x80\x80\x80\x01\xd0\x03\x40"
/* timestamp 300 later; type 1, name_iid 5, debug annotation 1 = 9; both names are interned; sequence_flags 2 */
#define BEGIN "\x0a\x26\x40\xac\x02\x50\x02\x5a\x0a\x22\x04\x08\x01\x18\x09\x48\x01\x50\x05" \
	"\x62\x11\x12\x05\x08\x05\x12\x01" "f\x1a\x08\x08\x01\x12\x04" "arg1\x68\x02"
#define END "\x0a\x0a\x40\x0a\x50\x02\x5a\x02\x48\x02\x68\x02"
#define AGAIN "\x0a\x0d\x40\x86\x03\x50\x02\x5a\x04\x48\x01\x50\x05\x68\x02"
#define FUNCTION "\x0a\x0d\x50\x01\x62\x07\x2a\x05\x08\x01\x12\x01" "f\x68\x02"
#define PATH "\x0a\x0f\x50\x01\x62\x09\x8a\x01\x06\x08\x01\x12\x02/a\x68\x02"
/* build_ids and mappings */
#define MAPPING "\x0a\x17\x50\x01\x62\x11\x82\x01\x05\x08\x01\x12\x01\xab\x9a\x01\x06\x08\x01\x10\x01\x38\x01\x68\x02"
/* function 1, mapping 1, rel_pc 0x10, line 3, kind 2 */
#define FRAME "\x0a\x14\x50\x01\x62\x0e\x32\x0c\x08\x01\x10\x01\x18\x01\x20\x10\x30\x03\x38\x02\x68\x02"
#define INLINED "\x0a\x19\x50\x01\x62\x13\x32\x11\x08\x02\x10\x01\x18\x01\x20\x10\x42\x07inlined\x68\x02"
#define CALLSTACK "\x0a\x0e\x50\x01\x62\x08\x3a\x06\x08\x09\x10\x01\x10\x02\x68\x02"
/* timestamp 1400; task_context: pid 7, tid 8; execution_context: cpu 1, mode 2; callstack_iid 9, primary_weight 100 */
#define SAMPLE "\x0a\x1a\x40\xf8\x0a\x50\x01\x68\x02\xba\x08\x10\x0a\x04\x10\x07\x18\x08\x1a\x04\x10\x01\x18\x02\x30\x09\x58\x64"
// clang-format on

/* type 3, and a flow by its key: flow_ids or terminating_flow_ids, of type fixed64 */
#define FLOW(key) "\x0a\x12\x50\x02\x5a\x0c\x48\x03" key "\x02\x01\0\0\0\0\0\0\x68\x02"
#define STATE SYSTEM DEFAULTS PROCESS THREAD SEQUENCE
#define CODE FUNCTION PATH MAPPING FRAME INLINED CALLSTACK

/* A trace of one bundle has a packet of it, whose length takes two bytes: field 50 of the packet. */
TEST(test_writer)
{
	static const char packets[] = STATE BEGIN END AGAIN CODE SAMPLE;
	struct bytes bytes = write_small();
	uint8_t inflated[1024];
	uLongf size = sizeof(inflated);
	size_t head = sizeof(CLOCKS) - 1 + 7;

	assert_memory_equal(bytes.all, CLOCKS "\x0a", sizeof(CLOCKS));
	assert_memory_equal(bytes.all + head - 4, "\x92\x03", 2);
	assert_int_equal(uncompress(inflated, &size, (uint8_t *)bytes.all + head, bytes.size - head), Z_OK);
	assert_int_equal(size, sizeof(packets) - 1);
	assert_memory_equal(inflated, packets, size);
	free(bytes.all);
}

/* Names are interned once for each sequence, and a time does not go back. */
TEST(test_sequences)
{
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t first, second;
	struct xp_perfetto *perfetto = start(out, &first);
	struct xp_perfetto_event early = begin;
	struct xp_perfetto_reader reader;
	struct xp_perfetto_record record;
	struct xp_violation violation;
	unsigned int events = 0;

	early.time_ns = 1;
	assert_int_equal(xp_perfetto_thread(perfetto, &(struct xp_perfetto_thread){ 7, 9, "p", "u" }), 0);
	assert_int_equal(xp_perfetto_sequence(perfetto, 7, 9, &second), 0);
	assert_int_equal(xp_perfetto_event(perfetto, first, &begin), 0);
	assert_int_equal(xp_perfetto_event(perfetto, second, &early), 0);
	assert_int_equal(xp_perfetto_event(perfetto, first, &early), 0);
	xp_perfetto_end_sequences(perfetto);
	assert_int_equal(xp_perfetto_sequence(perfetto, 7, 8, &first), 0);
	assert_int_equal(xp_perfetto_event(perfetto, first, &begin), 0);
	assert_int_equal(xp_perfetto_finish(perfetto), 0);
	xp_perfetto_free(perfetto);
	assert_int_equal(fclose(out), 0);
	xp_perfetto_reader_init(&reader, (uint8_t *)bytes.all, bytes.size);
	while (xp_perfetto_reader_next(&reader, &record, &violation) > 0) {
		static const uint64_t times[] = { 1300, 1000, 1300, 1300 }, tids[] = { 8, 9, 8, 8 };

		if (record.kind != XP_PERFETTO_SLICE_BEGIN)
			continue;
		assert_string_equal(record.name, "f");
		assert_int_equal(record.time, times[events]);
		assert_int_equal(record.track & UINT32_MAX, tids[events++]);
	}
	assert_int_equal(events, 4);
	assert_int_equal(reader.open_slices, 4);
	assert_int_equal(reader.unknown_fields, 0);
	xp_perfetto_reader_free(&reader);
	free(bytes.all);
}

/* More than a bundle takes, and a packet that is larger than one. */
TEST(test_bundles)
{
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t sequence;
	struct xp_perfetto *perfetto = start(out, &sequence);
	struct xp_perfetto_event event = begin;
	struct xp_report report = { 0 };
	char *large = malloc(600000 + 1);
	uint64_t random = 1;

	memset(large, 'a', 600000);
	large[600000] = 0;
	for (unsigned int i = 0; i < 100000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		event.arguments[0].number = random;
		assert_int_equal(xp_perfetto_event(perfetto, sequence, &event), 0);
		assert_int_equal(xp_perfetto_event(perfetto, sequence, &end), 0);
	}
	assert_int_equal(xp_perfetto_text(perfetto, XP_PERFETTO_SOURCE, 1, large), 0);
	assert_int_equal(xp_perfetto_finish(perfetto), 0);
	xp_perfetto_free(perfetto);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(xp_format_perfetto.check((uint8_t *)bytes.all, bytes.size, &report), 0);
	assert_int_equal(report.finding_count, 0);
	assert_non_null(strstr(report.summary, "200007 packets, 100000 slices (0 open)"));
	assert_true(bytes.size > 600000 && bytes.size < 2600000);
	free(large);
	free(bytes.all);
}

TEST(test_full_disk)
{
	struct xp_perfetto_event event = begin;
	FILE *out = fopen("/dev/full", "w");
	struct xp_perfetto *perfetto;
	uint32_t sequence;
	uint64_t random = 1;
	int err = 0;

	setvbuf(out, NULL, _IONBF, 0);
	assert_int_equal(xp_perfetto_new(&perfetto, out, &(struct xp_perfetto_options){ 0 }), -ENOSPC);
	assert_int_equal(xp_perfetto_finish(perfetto), -ENOSPC);
	xp_perfetto_free(perfetto);
	fclose(out);
	out = fopen("/dev/full", "w");
	perfetto = start(out, &sequence);
	for (unsigned int i = 0; !err && i < 100000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		event.arguments[0].number = random;
		err = xp_perfetto_event(perfetto, sequence, &event);
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(xp_perfetto_event(perfetto, sequence, &event), -ENOSPC);
	xp_perfetto_free(perfetto);
	fclose(out);
}

/* ---- reader ---- */

static int read_all(const char *bytes, size_t size, struct xp_violation *violation)
{
	struct xp_perfetto_reader reader;
	struct xp_perfetto_record record;
	int more;

	xp_perfetto_reader_init(&reader, (const uint8_t *)bytes, size);
	while ((more = xp_perfetto_reader_next(&reader, &record, violation)) > 0)
		;
	xp_perfetto_reader_free(&reader);
	return more;
}

TEST(test_reader)
{
	static const char trace[] = CLOCKS STATE BEGIN CODE SAMPLE END;
	struct xp_perfetto_reader reader;
	struct xp_perfetto_record record;
	struct xp_violation violation;
	size_t whole = 0;

	assert_true(xp_perfetto_probe((const uint8_t *)trace, sizeof(trace) - 1));
	assert_ptr_equal(xp_format_find((const uint8_t *)trace, sizeof(trace) - 1), &xp_format_perfetto);
	assert_false(xp_perfetto_probe((const uint8_t *)"\x0a\x02\x08\x01", 4));
	xp_perfetto_reader_init(&reader, (const uint8_t *)trace, sizeof(trace) - 1);
	while (xp_perfetto_reader_next(&reader, &record, &violation) > 0) {
		if (record.kind == XP_PERFETTO_SLICE_BEGIN) {
			assert_int_equal(record.time, 1300);
			assert_int_equal(record.track, 0x800000008);
			assert_string_equal(record.name, "f");
		} else if (record.kind == XP_PERFETTO_STACK_SAMPLE) {
			assert_int_equal(record.pid, 7);
			assert_int_equal(record.tid, 8);
			assert_int_equal(record.cpu, 1);
			assert_int_equal(record.callstack, 9);
			assert_int_equal(record.weight, 100);
		}
	}
	assert_int_equal(record.kind, XP_PERFETTO_SLICE_END);
	assert_int_equal(record.time, 1310);
	assert_int_equal(reader.packets, 15);
	assert_int_equal(reader.unknown_fields, 0);
	xp_perfetto_reader_free(&reader);
	/* Cut off anywhere but between packets. */
	for (size_t size = 0; size < sizeof(trace); size++)
		whole += !read_all(trace, size, &violation);
	assert_int_equal(whole, 16);
}

TEST(test_violations)
{
#define CASE(bytes, words)                                                                                             \
	{                                                                                                              \
		bytes, sizeof(bytes) - 1, words                                                                        \
	}
	static const struct {
		const char *bytes;
		size_t size;
		const char *words; /* NULL: there is nothing to object to */
	} cases[] = {
		CASE(CLOCKS "\x12\x00", "not a packet: field 2"),
		CASE(CLOCKS "\x0a\x02\x42\x00", "field 8 has type 2"),
		CASE(CLOCKS "\x0a\x02\x58\x00", "field 11 has type 0"),
		/* A packet that xprof does not know, and a field. */
		CASE(CLOCKS "\x0a\x06\x50\x01\x0a\x02\x08\x01", NULL),
		CASE(CLOCKS "\x0a\x04\x50\x09\x68\x02", "was not cleared before, in sequence 9"),
		CASE(CLOCKS STATE END, "the end of a slice that has no beginning, on track 34359738376"),
		CASE(CLOCKS STATE BEGIN END END, "the end of a slice that has no beginning"),
		/* track_uuid 5 */
		CASE(CLOCKS STATE "\x0a\x0a\x50\x02\x5a\x04\x48\x01\x58\x05\x68\x02", "not described: 5"),
		CASE(CLOCKS STATE "\x0a\x0a\x50\x02\x5a\x04\x48\x01\x50\x06\x68\x02", "no name of an event: 6"),
		CASE(CLOCKS STATE "\x0a\x08\x50\x02\x5a\x02\x48\x06\x68\x02", "unknown type 6"),
		CASE(CLOCKS STATE "\x0a\x0c\x50\x02\x5a\x06\x22\x02\x08\x03\x48\x03\x68\x02",
		     "no name of an argument: 3"),
		CASE(CLOCKS SYSTEM DEFAULTS SAMPLE, "no callstack 9"),
		CASE(CLOCKS SYSTEM DEFAULTS FUNCTION FRAME, "no mapping 1"),
		CASE(CLOCKS SYSTEM DEFAULTS PATH MAPPING FRAME, "no function 1"),
		CASE(CLOCKS SYSTEM DEFAULTS MAPPING, "no path 1"),
		CASE(CLOCKS SYSTEM DEFAULTS FUNCTION PATH MAPPING FRAME CALLSTACK, "no frame 2"),
		CASE(CLOCKS SYSTEM FUNCTION, "state that a packet needs"),
		/* The same sequence forgets when its state is cleared again. */
		CASE(CLOCKS SYSTEM DEFAULTS CODE SAMPLE DEFAULTS SAMPLE, "no callstack 9"),
		/* function 1 is "g" */
		CASE(CLOCKS SYSTEM DEFAULTS FUNCTION "\x0a\x0d\x50\x01\x62\x07\x2a\x05\x08\x01\x12\x01g\x68\x02",
		     "another text for id 1"),
		CASE(CLOCKS SYSTEM DEFAULTS FUNCTION FUNCTION, NULL),
		CASE(CLOCKS SYSTEM DEFAULTS "\x0a\x0d\x50\x01\x62\x07\x2a\x05\x08\x00\x12\x01g\x68\x02",
		     "cannot intern id 0"),
		/* A mapping without rel_pc. */
		CASE(CLOCKS SYSTEM DEFAULTS FUNCTION PATH MAPPING
		     "\x0a\x0c\x50\x01\x62\x06\x32\x04\x08\x01\x18\x01\x68\x02",
		     "no rel_pc"),
		/* timestamp 1 of clock 5; of clock 65, which is another sequence's */
		CASE(CLOCKS "\x0a\x07\x40\x01\x50\x01\xd0\x03\x05", "a clock that no snapshot has: 5"),
		CASE(CLOCKS STATE "\x0a\x07\x40\x01\x50\x01\xd0\x03\x40", "a clock that no snapshot has: 64"),
		CASE(CLOCKS "\x0a\x07\x40\x01\x50\x01\xd0\x03\x03", NULL),
		CASE(CLOCKS SYSTEM DEFAULTS THREAD, "a parent that is not described: track 38654705663"),
		/* Flows: one that begins, an end of it, and again. */
		CASE(CLOCKS STATE FLOW("\xf9\x02") FLOW("\x81\x03"), NULL),
		CASE(CLOCKS STATE FLOW("\xf9\x02") FLOW("\xf9\x02"), "a flow begins twice: 258"),
		CASE(CLOCKS STATE FLOW("\x81\x03") FLOW("\x81\x03"), "a flow ends twice: 258"),
		CASE(CLOCKS STATE "\x0a\x0b\x50\x02\x5a\x05\x48\x03\xf8\x02\x01\x68\x02", "field 47 has type 0"),
		CASE(CLOCKS "\x0a\x05\x92\x03\x02\x78\x9c", "cannot be decompressed"),
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		struct xp_violation violation = { .text = "" };
		int err = read_all(cases[i].bytes, cases[i].size, &violation);

		if (err != (cases[i].words ? -EBADMSG : 0) ||
		    (cases[i].words && !strstr(violation.text, cases[i].words)))
			fail_msg("case %zu: %d, %s", i, err, violation.text);
	}
}

/* What is on a further track of a thread, and an arrow from there. Its end precedes its beginning in the file. */
TEST(test_flows)
{
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t first, second;
	struct xp_perfetto *perfetto = start(out, &first);
	struct xp_perfetto_event from = { .type = XP_PERFETTO_INSTANT, .time_ns = 1400, .name = { 6, "g" } },
				 to = begin;
	struct xp_report report = { 0 };

	to.flow_end = from.flow_begin = UINT64_C(1) << 63 | 1;
	assert_int_equal(xp_perfetto_sequence_beside(perfetto, 7, 8, "w", &second), 0);
	assert_int_equal(xp_perfetto_event(perfetto, second, &to), 0);
	assert_int_equal(xp_perfetto_event(perfetto, second, &end), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(xp_perfetto_finish(perfetto), 0);
		assert_int_equal(fflush(out), 0);
		memset(&report, 0, sizeof(report));
		assert_int_equal(xp_format_perfetto.check((uint8_t *)bytes.all, bytes.size, &report), 0);
		assert_int_equal(report.finding_count, round ? 0 : 1);
		assert_non_null(strstr(report.summary, round ? "1 slices (0 open), 1 instants, 1 flows" : "0 flows"));
		assert_int_equal(xp_perfetto_event(perfetto, first, &from), 0);
	}
	xp_perfetto_free(perfetto);
	assert_int_equal(fclose(out), 0);
	free(bytes.all);
}

/* Compressed packets in compressed packets, and more than the reader takes. */
TEST(test_bundles_of_others)
{
	static const char inner[] = "\x0a\x05\x92\x03\x02\x78\x9c";
	struct xp_violation violation;
	char *large = calloc(1, XP_PERFETTO_BUNDLE_BYTES_MAX + 1), trace[32768] = "\x0a";

	for (int i = 0; i < 2; i++) {
		uint8_t packed[32768];
		uLongf size = sizeof(packed);
		size_t at = 1;

		assert_int_equal(compress(packed, &size, i ? (uint8_t *)large : (const uint8_t *)inner,
					  i ? XP_PERFETTO_BUNDLE_BYTES_MAX + 1 : sizeof(inner) - 1),
				 Z_OK);
		for (int part = 0; part < 2; part++) {
			uint64_t length = part ? size : size + 5;

			trace[at++] = (char)(length | 0x80);
			trace[at++] = (char)(length >> 7 | 0x80);
			trace[at++] = (char)(length >> 14);
			if (!part) {
				trace[at++] = (char)0x92;
				trace[at++] = 3;
			}
		}
		memcpy(trace + at, packed, size);
		assert_int_equal(read_all(trace, at + size, &violation), -EBADMSG);
		assert_non_null(strstr(violation.text, i ? "too large" : "compressed packets in compressed packets"));
	}
	free(large);
}
