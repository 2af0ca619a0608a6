// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto traces. The bytes are hand-made from trace.proto and "Protocol Buffers Encoding". */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/util.h"
#include "format/perfetto.h"
#include "perfetto.pb-c.h"

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
/* Puts an event with a name that its sequence has interned, without arguments. */
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

#define STATE SYSTEM DEFAULTS PROCESS THREAD SEQUENCE
#define CODE FUNCTION PATH MAPPING FRAME INLINED CALLSTACK

/* A trace of one bundle has a packet with the bundle, whose length needs two bytes: field 50 of the packet. */
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

/* Calls look() for each packet in the compressed bundles of a trace. Returns the size of the largest bundle. */
static size_t each_packet(const struct bytes *bytes,
			  void (*look)(const Xprof__Perfetto__TracePacket *packet, void *arg), void *arg)
{
	Xprof__Perfetto__Trace *trace = xprof__perfetto__trace__unpack(NULL, bytes->size, (const uint8_t *)bytes->all),
			       *bundle;
	uLong room = 1 << 20;
	uint8_t *inflated = malloc(room);
	size_t largest = 0;

	assert_non_null(trace);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const ProtobufCBinaryData *packed = &trace->packet[i]->compressed_packets;
		uLongf size = room;

		if (!packed->len)
			continue;
		largest = XP_MAX(largest, packed->len);
		assert_int_equal(uncompress(inflated, &size, packed->data, packed->len), Z_OK);
		bundle = xprof__perfetto__trace__unpack(NULL, size, inflated);
		assert_non_null(bundle);
		for (size_t k = 0; k < bundle->n_packet; k++)
			look(bundle->packet[k], arg);
		xprof__perfetto__trace__free_unpacked(bundle, NULL);
	}
	xprof__perfetto__trace__free_unpacked(trace, NULL);
	free(inflated);
	return largest;
}

struct seen {
	size_t packets, begins, ends, interned;
	uint64_t deltas[4], flows[2];
};

static void note(const Xprof__Perfetto__TracePacket *packet, void *arg)
{
	const Xprof__Perfetto__TrackEvent *event = packet->track_event;
	struct seen *seen = arg;

	seen->packets++;
	if (packet->interned_data)
		seen->interned += packet->interned_data->n_event_names;
	if (!event)
		return;
	if (event->type == XP_PERFETTO_BEGIN && seen->begins < XP_ARRAY_SIZE(seen->deltas))
		seen->deltas[seen->begins] = packet->timestamp;
	seen->begins += event->type == XP_PERFETTO_BEGIN;
	seen->ends += event->type == XP_PERFETTO_END;
	if (event->n_flow_ids)
		seen->flows[0] = event->flow_ids[0];
	if (event->n_terminating_flow_ids)
		seen->flows[1] = event->terminating_flow_ids[0];
}

/* Names are interned once per sequence, and times do not decrease. */
TEST(test_sequences)
{
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t first, second;
	struct xp_perfetto *perfetto = start(out, &first);
	struct xp_perfetto_event early = begin;
	struct seen seen = { 0 };

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
	each_packet(&bytes, note, &seen);
	assert_int_equal(seen.begins, 4);
	/* Time since the previous event of the sequence: 300, none, none, 300 again in a new sequence. */
	assert_memory_equal(seen.deltas, ((uint64_t[]){ 300, 0, 0, 300 }), sizeof(seen.deltas));
	assert_int_equal(seen.interned, 3);
	free(bytes.all);
}

/* More packets than fit into a bundle, and a packet that is larger than a bundle. */
TEST(test_bundles)
{
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t sequence;
	struct xp_perfetto *perfetto = start(out, &sequence);
	struct xp_perfetto_event event = begin;
	struct seen seen = { 0 };
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
	/* trace_packet.proto, compressed_packets: 512 KiB at most */
	assert_true(each_packet(&bytes, note, &seen) < 512 << 10);
	assert_int_equal(seen.begins, 100000);
	assert_int_equal(seen.ends, 100000);
	assert_int_equal(seen.packets, 200005);
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

/* A slice on an additional track of a thread, and an arrow from it. In the file, its end precedes its start. */
TEST(test_flows)
{
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	uint32_t first, second;
	struct xp_perfetto *perfetto = start(out, &first);
	struct xp_perfetto_event from = { .type = XP_PERFETTO_INSTANT, .time_ns = 1400, .name = { 6, "g" } },
				 to = begin;
	struct seen seen = { 0 };

	to.flow_end = from.flow_begin = UINT64_C(1) << 63 | 1;
	assert_int_equal(xp_perfetto_sequence_beside(perfetto, 7, 8, "w", &second), 0);
	assert_int_equal(xp_perfetto_event(perfetto, second, &to), 0);
	assert_int_equal(xp_perfetto_event(perfetto, second, &end), 0);
	assert_int_equal(xp_perfetto_event(perfetto, first, &from), 0);
	assert_int_equal(xp_perfetto_finish(perfetto), 0);
	xp_perfetto_free(perfetto);
	assert_int_equal(fclose(out), 0);
	each_packet(&bytes, note, &seen);
	assert_int_equal(seen.begins, 1);
	assert_memory_equal(seen.flows, ((uint64_t[]){ from.flow_begin, to.flow_end }), sizeof(seen.flows));
	free(bytes.all);
}
