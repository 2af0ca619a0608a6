// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "format/perfdata_head.h"
#include "format/perfdata_put.h"
#include "format/perfdata_record.h"
#include "format/perfdata_zstd.h"

#define KERNEL_PID (-1)
#define COMM_BYTES 16	 /* the kernel's TASK_COMM_LEN */
#define SYMBOL_BYTES 512 /* KSYM_NAME_LEN of the kernel */
/*
 * Flag of a FORK: the process does not inherit the mappings of its parent (tools/perf/util/event.h:
 * PERF_RECORD_MISC_FORK_EXEC).
 */
#define MISC_FORK_EXEC (1 << 13)
#define MISC_MMAP_BUILD_ID (1 << 14)

/*
 * The trailer of each kernel record except samples: PERF_SAMPLE_TID, TIME, CPU and with several events IDENTIFIER
 * (sample_id_all).
 */
struct trailer {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t id;
};

struct xp_perfdata {
	struct xp_perfdata_options options;
	struct xp_perfdata_head head;
	struct xp_perfdata_span span;
	uint64_t newest_ns; /* time of the newest record */
	uint64_t round_ns;  /* newest_ns at the last FINISHED_ROUND; 0: none yet */
	uint64_t floor_ns;  /* newest_ns at the FINISHED_ROUND before the last: perf cannot sort older records */
	struct xp_perfdata_compressor *compressor; /* compressor of samples; NULL: samples are never compressed */
	bool compresses;			   /* samples are compressed from now on */
	struct xp_perfdata_sink sink;
};

/* The feature that describes compressed records, if it is the only one. */
struct compressed_feature {
	struct xp_perfdata_section section;
	struct xp_perfdata_compression compression;
};

static size_t trailer_bytes(const struct xp_perfdata *perfdata)
{
	return xp_perfdata_head_count(&perfdata->options) > 1 ? sizeof(struct trailer) : offsetof(struct trailer, id);
}

/* Updates the header to cover all written records. */
static int put_header(struct xp_perfdata *perfdata)
{
	struct xp_perfdata_sink *sink = &perfdata->sink;

	if (!sink->err)
		sink->err = xp_pwrite_all(sink->fd, &perfdata->head, xp_perfdata_head_bytes(&perfdata->options), 0);
	return sink->err;
}

/*
 * The description of the compressed records follows the records. To keep it complete at all times, except between the
 * last two writes, this writes the new end first, and the data that overwrites the old end last.
 */
static int write_compressed(struct xp_perfdata *perfdata)
{
	struct xp_perfdata_sink *sink = &perfdata->sink;
	uint64_t end = sink->offset + sink->used;
	struct compressed_feature feature = { .section = { end + sizeof(feature.section),
							   sizeof(feature.compression) } };
	size_t old = XP_MIN(sink->used, sizeof(feature));

	xp_perfdata_compressor_describe(perfdata->compressor, &feature.compression);
	if (!sink->err)
		sink->err = xp_pwrite_all(sink->fd, &feature, sizeof(feature), end);
	if (!sink->err)
		sink->err = xp_pwrite_all(sink->fd, sink->buf + old, sink->used - old, sink->offset + old);
	sink->used = old;
	if (xp_perfdata_flush(sink))
		return sink->err;
	sink->offset = end;
	return 0;
}

static int flush(struct xp_perfdata *perfdata)
{
	struct xp_perfdata_sink *sink = &perfdata->sink;
	int err = perfdata->compresses ? write_compressed(perfdata) : xp_perfdata_flush(sink);

	if (err)
		return err;
	perfdata->head.header.data.size = sink->offset - perfdata->head.header.data.offset;
	return put_header(perfdata);
}

/* Compresses pending samples. */
static int pack(struct xp_perfdata *perfdata)
{
	struct xp_perfdata_sink *sink = &perfdata->sink;

	if (!perfdata->compresses || sink->err)
		return sink->err;
	if (sizeof(sink->buf) - sink->used < XP_PERFDATA_PACKED_MAX && flush(perfdata))
		return sink->err;
	sink->err = xp_perfdata_pack(perfdata->compressor, sink);
	return sink->err;
}

/* Starts a record. The caller appends everything after its header. After an error, nothing is written. */
static void begin(struct xp_perfdata *perfdata, uint32_t type, uint16_t misc, size_t size)
{
	const struct perf_event_header header = { .type = type, .misc = misc, .size = size };
	struct xp_perfdata_sink *sink = &perfdata->sink;

	if (size > sizeof(sink->buf) - sink->used)
		flush(perfdata);
	xp_perfdata_put(sink, &header, sizeof(header), sizeof(header));
}

static void put(struct xp_perfdata *perfdata, const void *data, size_t size)
{
	xp_perfdata_put(&perfdata->sink, data, size, size);
}

/* Returns the time of a record, raised to the earliest time that perf can still sort. */
static uint64_t time_of(const struct xp_perfdata *perfdata, uint64_t tsc)
{
	return tsc ? XP_MAX(xp_perfdata_ns(&perfdata->options.conversion, tsc), perfdata->floor_ns) : 0;
}

/*
 * Ends a record, and writes a FINISHED_ROUND if late_ns have passed since the last one. At a FINISHED_ROUND, perf
 * processes all records that are not newer than the newest record before the previous FINISHED_ROUND
 * (tools/perf/util/ordered-events.c). Two of them are late_ns apart, so no older record can follow.
 */
static int end(struct xp_perfdata *perfdata, uint64_t ns)
{
	perfdata->newest_ns = XP_MAX(perfdata->newest_ns, ns);
	if (!perfdata->round_ns)
		perfdata->round_ns = perfdata->newest_ns;
	if (perfdata->newest_ns - perfdata->round_ns > perfdata->options.late_ns) {
		perfdata->floor_ns = perfdata->round_ns;
		perfdata->round_ns = perfdata->newest_ns;
		pack(perfdata);
		begin(perfdata, XP_PERFDATA_FINISHED_ROUND, 0, sizeof(struct perf_event_header));
	}
	return perfdata->sink.err;
}

static int end_with_trailer(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid)
{
	const struct trailer trailer = {
		.pid = pid, .tid = tid, .time = time_of(perfdata, tsc), .id = XP_PERFDATA_EVENT_SAMPLES + 1
	};

	put(perfdata, &trailer, trailer_bytes(perfdata));
	return end(perfdata, trailer.time);
}

static void put_time_conv(struct xp_perfdata *perfdata)
{
	const struct xp_perfdata_conversion *conversion = &perfdata->options.conversion;
	const struct xp_perfdata_time_conv record = {
		.header = { .type = XP_PERFDATA_TIME_CONV, .size = sizeof(record) },
		.shift = conversion->shift,
		.mult = conversion->mult,
		.zero = conversion->zero,
		.has_zero = 1,
	};

	put(perfdata, &record, sizeof(record));
}

/* Returns whether to compress samples. Starts compression when the file has plain_bytes. */
static bool may_compress(struct xp_perfdata *perfdata)
{
	if (perfdata->compresses || !perfdata->compressor ||
	    xp_perfdata_bytes(perfdata) < perfdata->options.plain_bytes)
		return perfdata->compresses;
	perfdata->head.header.features[0] |= 1ull << XP_PERFDATA_COMPRESSION;
	perfdata->compresses = true;
	return true;
}

int xp_perfdata_new(struct xp_perfdata **result, int fd, const struct xp_perfdata_options *options)
{
	struct xp_perfdata *perfdata;

	*result = NULL;
	if (!options->period)
		return -EINVAL;
	perfdata = malloc(sizeof(*perfdata));
	if (!perfdata)
		return -ENOMEM;
	memset(perfdata, 0, offsetof(struct xp_perfdata, sink.buf));
	perfdata->options = *options;
	perfdata->span.first_ns = UINT64_MAX;
	perfdata->sink.fd = fd;
	perfdata->sink.offset = xp_perfdata_head_bytes(&perfdata->options);
	xp_perfdata_head_fill(&perfdata->head, options);
	if (options->compression_level) {
		int err = xp_perfdata_compressor_new(&perfdata->compressor, options->compression_level);

		if (err) {
			free(perfdata);
			return err;
		}
	}
	may_compress(perfdata);
	put_time_conv(perfdata);
	*result = perfdata;
	return 0;
}

static int put_kernel_map(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes, uint64_t offset,
			  const char *path)
{
	const uint32_t ids[] = { KERNEL_PID, 0 };
	const uint64_t range[] = { start, bytes, offset };
	size_t path_bytes = strlen(path) + 1, padded = xp_perfdata_align(path_bytes, 8);
	size_t size = sizeof(struct perf_event_header) + sizeof(ids) + sizeof(range) + padded + trailer_bytes(perfdata);

	if (path_bytes > XP_PERFDATA_PATH_MAX)
		return -ENAMETOOLONG;
	begin(perfdata, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL, size);
	put(perfdata, ids, sizeof(ids));
	put(perfdata, range, sizeof(range));
	xp_perfdata_put(&perfdata->sink, path, path_bytes, padded);
	return end_with_trailer(perfdata, 0, 0, 0);
}

int xp_perfdata_kernel(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes)
{
	/*
	 * The name ends with the symbol whose address is `offset`: perf uses it to compute how far the kernel was
	 * relocated.
	 */
	return put_kernel_map(perfdata, start, bytes, start, "[kernel.kallsyms]_text");
}

int xp_perfdata_module(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes, const char *path)
{
	return put_kernel_map(perfdata, start, bytes, 0, path);
}

/* Identifies the mapped file. Follows the range of an MMAP2. */
struct identity {
	union {
		struct {
			uint32_t maj, min;
			uint64_t ino, generation;
		};
		struct {
			uint8_t bytes, reserved[3];
			uint8_t build_id[XP_PERFDATA_BUILD_ID_BYTES];
		};
	};
	uint32_t prot, flags;
};
_Static_assert(sizeof(struct identity) == 32, "perf_record_mmap2");

static int put_map(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_map *map)
{
	const uint32_t ids[] = { map->pid, map->tid };
	const uint64_t range[] = { map->start, map->bytes, map->file_offset };
	struct identity identity = { .prot = PROT_READ | PROT_EXEC, .flags = MAP_PRIVATE };
	size_t path_bytes = strlen(map->path) + 1, padded = xp_perfdata_align(path_bytes, 8);
	size_t size = sizeof(struct perf_event_header) + sizeof(ids) + sizeof(range) + sizeof(identity) + padded +
		      trailer_bytes(perfdata);
	uint16_t misc = PERF_RECORD_MISC_USER;

	if (path_bytes > XP_PERFDATA_PATH_MAX)
		return -ENAMETOOLONG;
	if (map->build_id_bytes > XP_PERFDATA_BUILD_ID_BYTES)
		return -EINVAL;
	if (map->build_id_bytes) {
		misc |= MISC_MMAP_BUILD_ID;
		identity.bytes = map->build_id_bytes;
		memcpy(identity.build_id, map->build_id, map->build_id_bytes);
	} else {
		identity.maj = major(map->dev);
		identity.min = minor(map->dev);
		identity.ino = map->inode;
		identity.generation = map->generation;
	}
	begin(perfdata, PERF_RECORD_MMAP2, misc, size);
	put(perfdata, ids, sizeof(ids));
	put(perfdata, range, sizeof(range));
	put(perfdata, &identity, sizeof(identity));
	xp_perfdata_put(&perfdata->sink, map->path, path_bytes, padded);
	return end_with_trailer(perfdata, tsc, map->pid, map->tid);
}

int xp_perfdata_map(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_map *map)
{
	return xp_perfdata_is_jit(map->path) ? -EINVAL : put_map(perfdata, tsc, map);
}

int xp_perfdata_comm(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, const char *comm, bool exec)
{
	const uint32_t ids[] = { pid, tid };
	size_t bytes = strnlen(comm, COMM_BYTES - 1), padded = xp_perfdata_align(bytes + 1, 8);

	begin(perfdata, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0,
	      sizeof(struct perf_event_header) + sizeof(ids) + padded + trailer_bytes(perfdata));
	put(perfdata, ids, sizeof(ids));
	xp_perfdata_put(&perfdata->sink, comm, bytes, padded);
	return end_with_trailer(perfdata, tsc, pid, tid);
}

/* Writes a FORK or EXIT. The creating thread (ptid) is unknown, so this writes the PID of its process instead. */
static int put_task(struct xp_perfdata *perfdata, uint64_t tsc, uint64_t then_tsc, uint32_t type, uint16_t misc,
		    const pid_t ids[4])
{
	const uint64_t then_ns = then_tsc ? xp_perfdata_ns(&perfdata->options.conversion, then_tsc) : 0;
	size_t size = sizeof(struct perf_event_header) + 4 * sizeof(ids[0]) + sizeof(then_ns) + trailer_bytes(perfdata);

	begin(perfdata, type, misc, size);
	put(perfdata, ids, 4 * sizeof(ids[0]));
	put(perfdata, &then_ns, sizeof(then_ns));
	return end_with_trailer(perfdata, tsc, ids[0], ids[2]);
}

int xp_perfdata_fork(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_birth *birth)
{
	return put_task(perfdata, tsc, birth->tsc, PERF_RECORD_FORK, birth->maps ? 0 : MISC_FORK_EXEC,
			(const pid_t[]){ birth->pid, birth->ppid, birth->tid, birth->ppid });
}

int xp_perfdata_exit(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, pid_t ppid)
{
	return put_task(perfdata, tsc, tsc, PERF_RECORD_EXIT, 0, (const pid_t[]){ pid, ppid, tid, ppid });
}

/*
 * Reserves space for a sample, or for another record that is compressed like samples. A compressed record stays in
 * memory for up to a second. Returns NULL on error.
 */
static uint8_t *sample_room(struct xp_perfdata *perfdata, size_t size)
{
	struct xp_perfdata_sink *sink = &perfdata->sink;
	uint8_t *room;

	if (sink->err)
		return NULL;
	if (!may_compress(perfdata))
		return size > sizeof(sink->buf) - sink->used && flush(perfdata) ? NULL : xp_perfdata_room(sink, size);
	room = xp_perfdata_compressor_room(perfdata->compressor, size);
	return room || pack(perfdata) ? room : xp_perfdata_compressor_room(perfdata->compressor, size);
}

/*
 * Writes a record that names a BPF program. Compresses it like a sample: there may be thousands of such records, and
 * perf inject does not need them.
 */
static int put_bpf(struct xp_perfdata *perfdata, uint64_t tsc, uint32_t type, const void *fields, size_t bytes)
{
	const struct trailer trailer = { .time = time_of(perfdata, tsc), .id = XP_PERFDATA_EVENT_SAMPLES + 1 };
	const struct perf_event_header header = { .type = type,
						  .size = sizeof(header) + bytes + trailer_bytes(perfdata) };
	uint8_t *to = sample_room(perfdata, header.size);

	if (!to)
		return perfdata->sink.err;
	memcpy(to, &header, sizeof(header));
	memcpy(to + sizeof(header), fields, bytes);
	memcpy(to + sizeof(header) + bytes, &trailer, trailer_bytes(perfdata));
	return end(perfdata, trailer.time);
}

int xp_perfdata_symbol(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_symbol *symbol)
{
	struct {
		uint64_t start;
		uint32_t bytes;
		uint16_t type, flags;
		char name[SYMBOL_BYTES];
	} fields = { .start = symbol->start, .bytes = symbol->bytes, .type = symbol->type, .flags = symbol->flags };
	size_t bytes = strnlen(symbol->name, SYMBOL_BYTES - 1);

	_Static_assert(SYMBOL_BYTES % 8 == 0, "PERF_RECORD_KSYMBOL");
	memcpy(fields.name, symbol->name, bytes);
	return put_bpf(perfdata, tsc, PERF_RECORD_KSYMBOL, &fields,
		       offsetof(typeof(fields), name) + xp_perfdata_align(bytes + 1, 8));
}

int xp_perfdata_bpf(struct xp_perfdata *perfdata, uint64_t tsc, uint16_t type, uint32_t id,
		    const uint8_t tag[XP_PERFDATA_BPF_TAG_BYTES])
{
	struct {
		uint16_t type, flags;
		uint32_t id;
		uint8_t tag[XP_PERFDATA_BPF_TAG_BYTES];
	} fields = { .type = type, .id = id };

	memcpy(fields.tag, tag, sizeof(fields.tag));
	return put_bpf(perfdata, tsc, PERF_RECORD_BPF_EVENT, &fields, sizeof(fields));
}

static uint8_t *put_chain(uint8_t *to, uint64_t context, const uint64_t *addresses, size_t count)
{
	if (!count)
		return to;
	memcpy(to, &context, sizeof(context));
	memcpy(to + sizeof(context), addresses, count * sizeof(*addresses));
	return to + sizeof(context) + count * sizeof(*addresses);
}

/* A sample of an event. raw: the data of PERF_SAMPLE_RAW. raw_bytes plus 4 must be a multiple of 8. */
struct event_sample {
	const struct xp_perfdata_sample *sample;
	uint64_t id;
	uint64_t period;
	const uint8_t *raw;
	uint32_t raw_bytes; /* 0: the event has none */
};

static int put_sample(struct xp_perfdata *perfdata, const struct event_sample *from)
{
	const struct xp_perfdata_sample *sample = from->sample;
	size_t count = sample->kernel_count + sample->user_count;
	struct perf_event_header header = {
		.type = PERF_RECORD_SAMPLE,
		.misc = sample->kernel_count ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER,
	};
	struct {
		uint64_t ip;
		uint32_t pid, tid;
		uint64_t time;
		uint32_t cpu, reserved;
		uint64_t period;
		uint64_t nr;
	} head = {
		.pid = sample->pid,
		.tid = sample->tid,
		.time = time_of(perfdata, sample->tsc),
		.cpu = sample->cpu,
		.period = from->period,
		.nr = count + !!sample->kernel_count + !!sample->user_count,
	};
	size_t id_bytes = xp_perfdata_head_count(&perfdata->options) > 1 ? sizeof(from->id) : 0;
	size_t raw_bytes = from->raw_bytes ? sizeof(from->raw_bytes) + from->raw_bytes : 0;
	uint8_t *to;

	if (!count || sample->kernel_count > XP_PERFDATA_CHAIN_MAX || sample->user_count > XP_PERFDATA_CHAIN_MAX ||
	    count > XP_PERFDATA_CHAIN_MAX)
		return -EINVAL;
	header.size = sizeof(header) + id_bytes + sizeof(head) + head.nr * sizeof(uint64_t) + raw_bytes;
	head.ip = sample->kernel_count ? sample->kernel[0] : sample->user[0];
	to = sample_room(perfdata, header.size);
	if (!to)
		return perfdata->sink.err;
	memcpy(to, &header, sizeof(header));
	memcpy(to + sizeof(header), &from->id, id_bytes);
	memcpy(to + sizeof(header) + id_bytes, &head, sizeof(head));
	to = put_chain(to + sizeof(header) + id_bytes + sizeof(head), PERF_CONTEXT_KERNEL, sample->kernel,
		       sample->kernel_count);
	to = put_chain(to, PERF_CONTEXT_USER, sample->user, sample->user_count);
	if (raw_bytes) {
		memcpy(to, &from->raw_bytes, sizeof(from->raw_bytes));
		memcpy(to + sizeof(from->raw_bytes), from->raw, from->raw_bytes);
	}
	perfdata->span.first_ns = XP_MIN(perfdata->span.first_ns, head.time);
	perfdata->span.last_ns = XP_MAX(perfdata->span.last_ns, head.time);
	return end(perfdata, head.time);
}

int xp_perfdata_sample(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample)
{
	const struct event_sample event_sample = { .sample = sample,
						   .id = XP_PERFDATA_EVENT_SAMPLES + 1,
						   .period = perfdata->options.period };

	return put_sample(perfdata, &event_sample);
}

int xp_perfdata_wait(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample,
		     const struct xp_wait_record *wait)
{
	uint8_t raw[XP_WAIT_RECORD_BYTES];
	const struct event_sample event_sample = {
		.sample = sample,
		.id = XP_PERFDATA_EVENT_WAITS + 1,
		.period = xp_wait_record_period(wait),
		.raw = raw,
		.raw_bytes = sizeof(raw),
	};

	_Static_assert((sizeof(uint32_t) + sizeof(raw)) % 8 == 0, "PERF_SAMPLE_RAW");
	if (!perfdata->options.waits)
		return -EINVAL;
	xp_wait_record_write(wait, raw);
	return put_sample(perfdata, &event_sample);
}

int xp_perfdata_usdt(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample, const char *text)
{
	uint8_t raw[XP_PERFDATA_USDT_BYTES] = { 0 };
	size_t bytes = strlen(text);
	const struct event_sample event_sample = {
		.sample = sample,
		.id = xp_perfdata_head_usdt(&perfdata->options) + 1,
		.period = 1,
		.raw = raw,
		.raw_bytes = xp_perfdata_align(sizeof(uint32_t) + bytes + 1, 8) - sizeof(uint32_t),
	};

	memcpy(raw, text, XP_MIN(bytes, sizeof(raw)));
	return perfdata->options.usdt && bytes < sizeof(raw) ? put_sample(perfdata, &event_sample) : -EINVAL;
}

int xp_perfdata_switch(struct xp_perfdata *perfdata, const struct xp_perfdata_switch *event)
{
	const struct {
		struct perf_event_header header;
		struct trailer trailer;
	} record = {
		.header.type = PERF_RECORD_SWITCH,
		.header.misc = (event->out ? PERF_RECORD_MISC_SWITCH_OUT : 0) |
			       (event->preempted ? PERF_RECORD_MISC_SWITCH_OUT_PREEMPT : 0),
		.header.size = sizeof(record.header) + trailer_bytes(perfdata),
		.trailer = { event->pid, event->tid, time_of(perfdata, event->tsc), event->cpu, 0,
			     XP_PERFDATA_EVENT_SAMPLES + 1 },
	};
	uint8_t *to = sample_room(perfdata, record.header.size);

	if (!to)
		return perfdata->sink.err;
	memcpy(to, &record, record.header.size);
	return end(perfdata, record.trailer.time);
}

int xp_perfdata_jit(struct xp_perfdata *perfdata, uint64_t tsc, const char *path)
{
	struct xp_perfdata_map map = { .bytes = 4096, .path = path };

	if (path[0] != '/' || !xp_perfdata_is_jit(path))
		return -EINVAL;
	/*
	 * Gets the number from the name, truncated to 32 bits as in perf. perf skips the file unless the number is a
	 * PID in perf's PID namespace, or no PID at all; perf 7.2 crashes without a number.
	 */
	map.pid = map.tid = (pid_t)strtoull(strrchr(path, '/') + strlen("/jit-"), NULL, 10);
	return put_map(perfdata, tsc, &map);
}

int xp_perfdata_sync(struct xp_perfdata *perfdata)
{
	pack(perfdata);
	return perfdata->sink.used ? flush(perfdata) : perfdata->sink.err;
}

int xp_perfdata_finish(struct xp_perfdata *perfdata, const struct xp_perfdata_features *features)
{
	const size_t count = xp_perfdata_head_count(&perfdata->options);
	const struct xp_perfdata_described described[] = {
		{ features->event, perfdata->head.events[0].attr, count > 1 },
		{ count > 1 ? perfdata->options.waits ? XP_WAIT_EVENT : XP_PERFDATA_USDT_EVENT : NULL,
		  perfdata->head.events[1].attr, 2 },
		{ count > 2 ? XP_PERFDATA_USDT_EVENT : NULL, perfdata->head.events[2].attr, 3 },
		{ 0 },
	};
	struct xp_perfdata_compression compression;
	int err = pack(perfdata);

	if (!err)
		err = flush(perfdata);
	if (err)
		return err;
	if (perfdata->compresses)
		xp_perfdata_compressor_describe(perfdata->compressor, &compression);
	err = xp_perfdata_put_features(&perfdata->sink, &perfdata->head.header, features, described, &perfdata->span,
				       perfdata->compresses ? &compression : NULL);
	return err ? err : put_header(perfdata);
}

uint64_t xp_perfdata_bytes(const struct xp_perfdata *perfdata)
{
	return perfdata->sink.offset + perfdata->sink.used - xp_perfdata_head_bytes(&perfdata->options);
}

bool xp_perfdata_is_compressed(const struct xp_perfdata *perfdata)
{
	return perfdata->compresses;
}

void xp_perfdata_free(struct xp_perfdata *perfdata)
{
	if (perfdata)
		xp_perfdata_compressor_free(perfdata->compressor);
	free(perfdata);
}
