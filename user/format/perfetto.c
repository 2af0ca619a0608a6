// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfetto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/perfetto_bundle.h"

#define TIMESTAMP_KEY 0x40 /* keys in TracePacket */
#define SEQUENCE_KEY 0x50
#define EVENT_KEY 0x5a
#define FLAGS_KEY 0x68
#define EVENT_TYPE_KEY 0x48 /* keys in TrackEvent */
#define EVENT_NAME_KEY 0x50
#define EVENT_BYTES_MAX 22 /* two keys, each with a number of at most 10 bytes */

#define SAMPLES_SEQUENCE 1
#define CLOCK_REALTIME_ID 1
#define CLOCK_MONOTONIC_ID 3
#define CLOCK_OF_SEQUENCE 64 /* the first id that belongs to a sequence */
#define STATE_CLEARED 1	     /* SEQ_INCREMENTAL_STATE_CLEARED */
#define STATE_NEEDED 2	     /* SEQ_NEEDS_INCREMENTAL_STATE */
#define UNIT_NANOSECONDS 1
#define MODE_USER 1
#define MODE_KERNEL 2

#define PROCESS_TRACK UINT32_MAX /* a tid that no thread has */

typedef Xprof__Perfetto__TracePacket Packet;
typedef Xprof__Perfetto__InternedData Interned;

struct xp_perfetto {
	struct xp_perfetto_bundle bundle;
	uint64_t start_ns;
	uint64_t *times; /* time of the last event of each sequence */
	size_t time_room;
	uint32_t sequence_count;
	uint32_t first_sequence; /* the first sequence that has not ended */
	struct {
		struct xp_u64_map event, argument; /* written names, by sequence and ID */
	} names;
};

/* A packet of a sequence. flags: STATE_CLEARED, STATE_NEEDED, or 0. */
static Packet packet_of(uint32_t sequence, uint32_t flags)
{
	Packet packet = XPROF__PERFETTO__TRACE_PACKET__INIT;

	packet.has_trusted_packet_sequence_id = true;
	packet.trusted_packet_sequence_id = sequence;
	packet.has_sequence_flags = flags;
	packet.sequence_flags = flags;
	return packet;
}

static Xprof__Perfetto__Clock clock_at(uint32_t id, uint64_t ns)
{
	Xprof__Perfetto__Clock clock = XPROF__PERFETTO__CLOCK__INIT;

	clock.has_clock_id = clock.has_timestamp = true;
	clock.clock_id = id;
	clock.timestamp = ns;
	return clock;
}

/* ---- the beginning ---- */

/* Readers recognize the format by the first packet, so it must not be compressed. */
static int put_clocks(struct xp_perfetto *perfetto, const struct xp_perfetto_options *options)
{
	Xprof__Perfetto__Clock monotonic = clock_at(CLOCK_MONOTONIC_ID, options->start_ns);
	Xprof__Perfetto__Clock realtime = clock_at(CLOCK_REALTIME_ID, options->realtime_ns);
	Xprof__Perfetto__Clock *clocks[] = { &monotonic, &realtime };
	Xprof__Perfetto__ClockSnapshot snapshot = XPROF__PERFETTO__CLOCK_SNAPSHOT__INIT;
	Packet packet = packet_of(SAMPLES_SEQUENCE, 0);

	snapshot.n_clocks = options->realtime_ns ? 2 : 1;
	snapshot.clocks = clocks;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = CLOCK_MONOTONIC_ID;
	packet.clock_snapshot = &snapshot;
	return xp_perfetto_bundle_put_alone(&perfetto->bundle, &packet);
}

static int put_system(struct xp_perfetto *perfetto, const struct xp_perfetto_options *options)
{
	Xprof__Perfetto__Utsname names = XPROF__PERFETTO__UTSNAME__INIT;
	Xprof__Perfetto__SystemInfo system = XPROF__PERFETTO__SYSTEM_INFO__INIT;
	Packet packet = packet_of(SAMPLES_SEQUENCE, 0);

	names.sysname = "Linux";
	names.release = (char *)options->release;
	names.machine = (char *)options->machine;
	system.utsname = &names;
	system.tracing_service_version = (char *)options->maker;
	packet.system_info = &system;
	return xp_perfetto_bundle_put(&perfetto->bundle, &packet);
}

static int put_sample_defaults(struct xp_perfetto *perfetto)
{
	Xprof__Perfetto__CounterDescriptor counter = XPROF__PERFETTO__COUNTER_DESCRIPTOR__INIT;
	Xprof__Perfetto__StackSampleDefaults samples = XPROF__PERFETTO__STACK_SAMPLE_DEFAULTS__INIT;
	Xprof__Perfetto__TracePacketDefaults defaults = XPROF__PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
	Packet packet = packet_of(SAMPLES_SEQUENCE, STATE_CLEARED);

	counter.name = "cpu-clock";
	counter.has_unit = true;
	counter.unit = UNIT_NANOSECONDS;
	samples.source = "xprof";
	samples.primary_descriptor = &counter;
	defaults.has_timestamp_clock_id = true;
	defaults.timestamp_clock_id = CLOCK_MONOTONIC_ID;
	defaults.stack_sample_defaults = &samples;
	packet.trace_packet_defaults = &defaults;
	return xp_perfetto_bundle_put(&perfetto->bundle, &packet);
}

int xp_perfetto_new(struct xp_perfetto **perfetto, FILE *out, const struct xp_perfetto_options *options)
{
	struct xp_perfetto *new = calloc(1, sizeof(*new));

	*perfetto = new;
	if (!new)
		return -ENOMEM;
	new->start_ns = options->start_ns;
	new->sequence_count = new->first_sequence = SAMPLES_SEQUENCE + 1;
	if (xp_perfetto_bundle_begin(&new->bundle, out))
		return new->bundle.err;
	return put_clocks(new, options) ?: put_system(new, options) ?: put_sample_defaults(new);
}

/* ---- threads ---- */

static uint64_t track_of(uint32_t pid, uint32_t tid)
{
	return ((uint64_t)pid + 1) << 32 | tid;
}

int xp_perfetto_thread(struct xp_perfetto *perfetto, const struct xp_perfetto_thread *from)
{
	Xprof__Perfetto__ProcessDescriptor process = XPROF__PERFETTO__PROCESS_DESCRIPTOR__INIT;
	Xprof__Perfetto__ThreadDescriptor thread = XPROF__PERFETTO__THREAD_DESCRIPTOR__INIT;
	Xprof__Perfetto__TrackDescriptor track = XPROF__PERFETTO__TRACK_DESCRIPTOR__INIT;
	Packet packet = packet_of(SAMPLES_SEQUENCE, 0);
	int err;

	process.has_pid = thread.has_pid = thread.has_tid = true;
	process.pid = thread.pid = (int32_t)from->pid;
	process.process_name = (char *)from->process_name;
	thread.tid = from->tid ? from->tid : from->pid;
	thread.thread_name = (char *)from->name;
	track.has_uuid = true;
	track.uuid = track_of(from->pid, PROCESS_TRACK);
	track.process = &process;
	packet.track_descriptor = &track;
	err = xp_perfetto_bundle_put(&perfetto->bundle, &packet);
	track.process = NULL;
	track.thread = &thread;
	track.has_parent_uuid = true;
	track.parent_uuid = track.uuid;
	track.uuid = track_of(from->pid, from->tid);
	return err ? err : xp_perfetto_bundle_put(&perfetto->bundle, &packet);
}

/* The IDs of tracks of no thread: PIDs have 22 bits. */
#define OWN_TRACKS (UINT64_C(1) << 62)

/* Returns the ID of the additional track of a thread. The IDs of other tracks are lower. */
static uint64_t track_beside(uint32_t pid, uint32_t tid)
{
	return track_of(pid, tid) | UINT64_C(1) << 63;
}

/*
 * All snapshots have the same CLOCK_MONOTONIC time: trace_processor (clock_tracker.cc) rejects a snapshot that is
 * earlier than the previous one.
 */
static int begin_sequence(struct xp_perfetto *perfetto, uint64_t track, uint32_t *sequence)
{
	Xprof__Perfetto__Clock monotonic = clock_at(CLOCK_MONOTONIC_ID, perfetto->start_ns);
	Xprof__Perfetto__Clock own = clock_at(CLOCK_OF_SEQUENCE, perfetto->start_ns);
	Xprof__Perfetto__Clock *clocks[] = { &own, &monotonic };
	Xprof__Perfetto__ClockSnapshot snapshot = XPROF__PERFETTO__CLOCK_SNAPSHOT__INIT;
	Xprof__Perfetto__TrackEventDefaults events = XPROF__PERFETTO__TRACK_EVENT_DEFAULTS__INIT;
	Xprof__Perfetto__TracePacketDefaults defaults = XPROF__PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
	Packet packet;
	size_t index = perfetto->sequence_count - perfetto->first_sequence;

	if (XP_ARRAY_RESERVE(perfetto->times, perfetto->time_room, index + 1))
		return xp_perfetto_bundle_fail(&perfetto->bundle, -ENOMEM);
	perfetto->times[index] = perfetto->start_ns;
	*sequence = perfetto->sequence_count++;
	packet = packet_of(*sequence, STATE_CLEARED);
	own.has_is_incremental = own.is_incremental = true;
	snapshot.n_clocks = 2;
	snapshot.clocks = clocks;
	events.has_track_uuid = true;
	events.track_uuid = track;
	defaults.has_timestamp_clock_id = true;
	defaults.timestamp_clock_id = CLOCK_OF_SEQUENCE;
	defaults.track_event_defaults = &events;
	packet.clock_snapshot = &snapshot;
	packet.trace_packet_defaults = &defaults;
	return xp_perfetto_bundle_put(&perfetto->bundle, &packet);
}

int xp_perfetto_sequence(struct xp_perfetto *perfetto, uint32_t pid, uint32_t tid, uint32_t *sequence)
{
	return begin_sequence(perfetto, track_of(pid, tid), sequence);
}

/* parent: 0: none. */
static int begin_named(struct xp_perfetto *perfetto, uint64_t id, uint64_t parent, const char *name, uint32_t *sequence)
{
	Xprof__Perfetto__TrackDescriptor track = XPROF__PERFETTO__TRACK_DESCRIPTOR__INIT;
	Packet packet = packet_of(SAMPLES_SEQUENCE, 0);
	int err;

	track.has_uuid = true;
	track.has_parent_uuid = parent;
	track.uuid = id;
	track.name = (char *)name;
	track.parent_uuid = parent;
	packet.track_descriptor = &track;
	err = xp_perfetto_bundle_put(&perfetto->bundle, &packet);
	return err ? err : begin_sequence(perfetto, track.uuid, sequence);
}

int xp_perfetto_sequence_beside(struct xp_perfetto *perfetto, uint32_t pid, uint32_t tid, const char *name,
				uint32_t *sequence)
{
	return begin_named(perfetto, track_beside(pid, tid), track_of(pid, tid), name, sequence);
}

int xp_perfetto_sequence_below(struct xp_perfetto *perfetto, uint64_t track, uint64_t parent, const char *name,
			       uint32_t *sequence)
{
	return begin_named(perfetto, track | OWN_TRACKS, parent ? parent | OWN_TRACKS : 0, name, sequence);
}

/* ---- events ---- */

static uint64_t name_key(const struct xp_perfetto *perfetto, uint32_t sequence, uint64_t id)
{
	return (uint64_t)(sequence - perfetto->first_sequence) << 33 ^ id;
}

/* Returns whether the name was written in the sequence. */
static bool is_known(const struct xp_perfetto *perfetto, const struct xp_u64_map *names, uint32_t sequence, uint64_t id)
{
	return xp_u64_map_find(names, name_key(perfetto, sequence, id));
}

/* Returns whether the name is new in the sequence. The caller then writes the name. */
static bool is_new(struct xp_perfetto *perfetto, struct xp_u64_map *names, uint32_t sequence, uint64_t id)
{
	if (is_known(perfetto, names, sequence, id))
		return false;
	if (!xp_u64_map_add(names, name_key(perfetto, sequence, id), 0))
		xp_perfetto_bundle_fail(&perfetto->bundle, -ENOMEM);
	return true;
}

/* A packet with an event, and the messages that the packet refers to. */
struct event_packet {
	Packet packet;
	Xprof__Perfetto__TrackEvent event;
	Interned interned;
	Xprof__Perfetto__InternedName name, *names[1];
	Xprof__Perfetto__InternedName new[XP_PERFETTO_ARGUMENTS_MAX], *news[XP_PERFETTO_ARGUMENTS_MAX];
	Xprof__Perfetto__DebugAnnotation arguments[XP_PERFETTO_ARGUMENTS_MAX],
	    *argument_pointers[XP_PERFETTO_ARGUMENTS_MAX];
};

static void set_name(Xprof__Perfetto__InternedName *to, const struct xp_perfetto_name *from)
{
	xprof__perfetto__interned_name__init(to);
	to->has_iid = true;
	to->iid = from->id;
	to->name = (char *)from->text;
}

static void add_argument(struct xp_perfetto *perfetto, struct event_packet *to, uint32_t sequence,
			 const struct xp_perfetto_argument *from)
{
	Xprof__Perfetto__DebugAnnotation *argument = &to->arguments[to->event.n_debug_annotations];

	xprof__perfetto__debug_annotation__init(argument);
	argument->has_name_iid = true;
	argument->name_iid = from->name.id;
	argument->string_value = (char *)from->text;
	argument->has_uint_value = !from->text;
	argument->uint_value = from->number;
	to->argument_pointers[to->event.n_debug_annotations++] = argument;
	if (!is_new(perfetto, &perfetto->names.argument, sequence, from->name.id))
		return;
	to->news[to->interned.n_debug_annotation_names] = &to->new[to->interned.n_debug_annotation_names];
	set_name(&to->new[to->interned.n_debug_annotation_names++], &from->name);
}

/*
 * Writes an event with a known name. Most packets are such events. This writes the same bytes as the library, which
 * needs 5 times as long: half of the time of an export of calls.
 */
static int put_known_event(struct xp_perfetto *perfetto, uint32_t sequence, const struct xp_perfetto_event *from,
			   uint64_t delta_ns)
{
	uint8_t event[EVENT_BYTES_MAX], packet[XP_PERFETTO_PACKED_BYTES_MAX];
	size_t event_bytes = 0, size = 0;

	event[event_bytes++] = EVENT_TYPE_KEY;
	event_bytes += xp_perfetto_put_varint(event + event_bytes, from->type);
	if (from->name.id) {
		event[event_bytes++] = EVENT_NAME_KEY;
		event_bytes += xp_perfetto_put_varint(event + event_bytes, from->name.id);
	}
	packet[size++] = TIMESTAMP_KEY;
	size += xp_perfetto_put_varint(packet + size, delta_ns);
	packet[size++] = SEQUENCE_KEY;
	size += xp_perfetto_put_varint(packet + size, sequence);
	packet[size++] = EVENT_KEY;
	packet[size++] = (uint8_t)event_bytes;
	memcpy(packet + size, event, event_bytes);
	size += event_bytes;
	packet[size++] = FLAGS_KEY;
	packet[size++] = STATE_NEEDED;
	return xp_perfetto_bundle_put_packed(&perfetto->bundle, packet, size);
}

/* Writes an event with arguments, or with a name that may be new. */
static int put_event(struct xp_perfetto *perfetto, uint32_t sequence, const struct xp_perfetto_event *from,
		     uint64_t delta_ns)
{
	struct event_packet to;
	Packet *packet = &to.packet;
	uint64_t flow_begin = from->flow_begin, flow_end = from->flow_end;

	*packet = packet_of(sequence, STATE_NEEDED);
	xprof__perfetto__track_event__init(&to.event);
	xprof__perfetto__interned_data__init(&to.interned);
	packet->has_timestamp = true;
	packet->timestamp = delta_ns;
	packet->track_event = &to.event;
	to.event.has_type = true;
	to.event.type = from->type;
	to.event.debug_annotations = to.argument_pointers;
	to.event.n_flow_ids = flow_begin > 0;
	to.event.flow_ids = &flow_begin;
	to.event.n_terminating_flow_ids = flow_end > 0;
	to.event.terminating_flow_ids = &flow_end;
	to.interned.event_names = to.names;
	to.interned.debug_annotation_names = to.news;
	to.names[0] = &to.name;
	if (from->name.id) {
		to.event.has_name_iid = true;
		to.event.name_iid = from->name.id;
		set_name(&to.name, &from->name);
		to.interned.n_event_names = is_new(perfetto, &perfetto->names.event, sequence, from->name.id);
	}
	for (size_t i = 0; i < from->argument_count; i++)
		add_argument(perfetto, &to, sequence, &from->arguments[i]);
	if (to.interned.n_event_names || to.interned.n_debug_annotation_names)
		packet->interned_data = &to.interned;
	return xp_perfetto_bundle_put(&perfetto->bundle, packet);
}

int xp_perfetto_event(struct xp_perfetto *perfetto, uint32_t sequence, const struct xp_perfetto_event *from)
{
	uint64_t *last_ns = &perfetto->times[sequence - perfetto->first_sequence];
	uint64_t delta_ns = from->time_ns - XP_MIN(from->time_ns, *last_ns);

	*last_ns += delta_ns;
	if (!from->argument_count &&
	    (!from->name.id || is_known(perfetto, &perfetto->names.event, sequence, from->name.id)))
		return put_known_event(perfetto, sequence, from, delta_ns);
	return put_event(perfetto, sequence, from, delta_ns);
}

void xp_perfetto_end_sequences(struct xp_perfetto *perfetto)
{
	xp_u64_map_free(&perfetto->names.event);
	xp_u64_map_free(&perfetto->names.argument);
	memset(&perfetto->names, 0, sizeof(perfetto->names));
	perfetto->first_sequence = perfetto->sequence_count;
}

/* ---- samples ---- */

static int put_interned(struct xp_perfetto *perfetto, Interned *interned)
{
	Packet packet = packet_of(SAMPLES_SEQUENCE, STATE_NEEDED);

	packet.interned_data = interned;
	return xp_perfetto_bundle_put(&perfetto->bundle, &packet);
}

static void set_bytes(Xprof__Perfetto__InternedBytes *to, uint64_t id, const void *bytes, size_t size)
{
	xprof__perfetto__interned_bytes__init(to);
	to->has_iid = to->has_str = true;
	to->iid = id;
	to->str.data = (uint8_t *)bytes;
	to->str.len = size;
}

int xp_perfetto_text(struct xp_perfetto *perfetto, enum xp_perfetto_text kind, uint64_t id, const char *text)
{
	Interned interned = XPROF__PERFETTO__INTERNED_DATA__INIT;
	Xprof__Perfetto__InternedBytes bytes, *pointer = &bytes;

	set_bytes(&bytes, id, text, strlen(text));
	if (kind == XP_PERFETTO_FUNCTION) {
		interned.n_function_names = 1;
		interned.function_names = &pointer;
	} else if (kind == XP_PERFETTO_SOURCE) {
		interned.n_source_paths = 1;
		interned.source_paths = &pointer;
	} else {
		interned.n_mapping_paths = 1;
		interned.mapping_paths = &pointer;
	}
	return put_interned(perfetto, &interned);
}

int xp_perfetto_mapping(struct xp_perfetto *perfetto, uint64_t id, uint64_t path, const uint8_t *build_id,
			size_t build_id_bytes)
{
	Xprof__Perfetto__Mapping mapping = XPROF__PERFETTO__MAPPING__INIT, *pointer = &mapping;
	Interned interned = XPROF__PERFETTO__INTERNED_DATA__INIT;
	Xprof__Perfetto__InternedBytes bytes, *bytes_pointer = &bytes;

	set_bytes(&bytes, id, build_id, build_id_bytes);
	mapping.has_iid = true;
	mapping.iid = id;
	mapping.has_build_id = build_id_bytes > 0;
	mapping.build_id = id;
	mapping.n_path_string_ids = 1;
	mapping.path_string_ids = &path;
	interned.n_mappings = 1;
	interned.mappings = &pointer;
	interned.n_build_ids = build_id_bytes > 0;
	interned.build_ids = &bytes_pointer;
	return put_interned(perfetto, &interned);
}

int xp_perfetto_frame(struct xp_perfetto *perfetto, const struct xp_perfetto_frame *from)
{
	Xprof__Perfetto__Frame frame = XPROF__PERFETTO__FRAME__INIT, *pointer = &frame;
	Interned interned = XPROF__PERFETTO__INTERNED_DATA__INIT;

	frame.has_iid = frame.has_function_name_id = frame.has_mapping_id = frame.has_rel_pc = true;
	frame.iid = from->id;
	frame.function_name_id = from->function;
	frame.mapping_id = from->mapping;
	frame.rel_pc = from->address;
	frame.has_source_path_iid = from->source > 0;
	frame.source_path_iid = from->source;
	frame.has_line_number = from->line > 0;
	frame.line_number = from->line;
	frame.has_kind = !from->is_inlined;
	frame.kind = from->kind;
	frame.kind_str = from->is_inlined ? "inlined" : NULL;
	interned.n_frames = 1;
	interned.frames = &pointer;
	return put_interned(perfetto, &interned);
}

int xp_perfetto_callstack(struct xp_perfetto *perfetto, uint64_t id, uint64_t *frames, size_t count)
{
	Xprof__Perfetto__Callstack stack = XPROF__PERFETTO__CALLSTACK__INIT, *pointer = &stack;
	Interned interned = XPROF__PERFETTO__INTERNED_DATA__INIT;

	stack.has_iid = true;
	stack.iid = id;
	stack.n_frame_ids = count;
	stack.frame_ids = frames;
	interned.n_callstacks = 1;
	interned.callstacks = &pointer;
	return put_interned(perfetto, &interned);
}

int xp_perfetto_sample(struct xp_perfetto *perfetto, const struct xp_perfetto_sample *from)
{
	Xprof__Perfetto__ExecutionContext where = XPROF__PERFETTO__EXECUTION_CONTEXT__INIT;
	Xprof__Perfetto__TaskContext task = XPROF__PERFETTO__TASK_CONTEXT__INIT;
	Xprof__Perfetto__StackSample sample = XPROF__PERFETTO__STACK_SAMPLE__INIT;
	Packet packet = packet_of(SAMPLES_SEQUENCE, STATE_NEEDED);

	task.has_pid = task.has_tid = true;
	task.pid = from->pid;
	task.tid = from->tid ? from->tid : from->pid;
	where.has_cpu = from->cpu != XP_PERFETTO_CPU_UNKNOWN;
	where.cpu = from->cpu;
	where.has_mode = true;
	where.mode = from->in_kernel ? MODE_KERNEL : MODE_USER;
	sample.task_context = &task;
	sample.execution_context = &where;
	sample.has_callstack_iid = from->callstack > 0;
	sample.callstack_iid = from->callstack;
	sample.has_primary_weight = true;
	sample.primary_weight = from->weight_ns;
	packet.has_timestamp = true;
	packet.timestamp = from->time_ns;
	packet.stack_sample = &sample;
	return xp_perfetto_bundle_put(&perfetto->bundle, &packet);
}

/* ---- the end ---- */

int xp_perfetto_finish(struct xp_perfetto *perfetto)
{
	return xp_perfetto_bundle_flush(&perfetto->bundle);
}

void xp_perfetto_free(struct xp_perfetto *perfetto)
{
	if (!perfetto)
		return;
	xp_perfetto_bundle_free(&perfetto->bundle);
	xp_u64_map_free(&perfetto->names.event);
	xp_u64_map_free(&perfetto->names.argument);
	free(perfetto->times);
	free(perfetto);
}
