// SPDX-License-Identifier: BSD-2-Clause
/* Writes the sections after the records of a perf.data file: tools/perf/util/header.c. */
#include <time.h>

#include "format/perfdata.h"
#include "format/perfdata_put.h"
#include "format/perfdata_zstd.h"

#define NAME_ALIGN 64		     /* alignment of strings */
#define FEATURES_MAX 16		     /* limit for the entries of `all` below */
#define MISC_BUILD_ID_SIZE (1 << 15) /* PERF_RECORD_MISC_BUILD_ID_SIZE: byte 20 of a build id is its length */
#define CLOCK_DATA_VERSION 1
#define PATH_BYTES_MAX (64u << 10)

struct source {
	const struct xp_perfdata_features *features;
	const struct xp_perfdata_described *events;
	const struct xp_perfdata_span *span;
	const struct xp_perfdata_compression *compression;
};

static void put32(struct xp_perfdata_sink *sink, uint32_t value)
{
	xp_perfdata_put(sink, &value, sizeof(value), sizeof(value));
}

static void put64(struct xp_perfdata_sink *sink, uint64_t value)
{
	xp_perfdata_put(sink, &value, sizeof(value), sizeof(value));
}

static void put_text(struct xp_perfdata_sink *sink, const char *text)
{
	size_t bytes = strnlen(text, PATH_BYTES_MAX - 1), padded = xp_perfdata_align(bytes + 1, NAME_ALIGN);

	put32(sink, padded);
	xp_perfdata_put(sink, text, bytes, padded);
}

/* Each function writes the section of one feature, or nothing if there is no data. */

static void put_build_ids(struct xp_perfdata_sink *sink, const struct source *from)
{
	for (size_t i = 0; i < from->features->build_id_count; i++) {
		const struct xp_perfdata_build_id *id = &from->features->build_ids[i];
		size_t path_bytes = strnlen(id->path, XP_PERFDATA_PATH_MAX - 1);
		size_t padded = xp_perfdata_align(path_bytes + 1, NAME_ALIGN);
		struct {
			struct perf_event_header header;
			int32_t pid;
			uint8_t build_id[XP_PERFDATA_BUILD_ID_BYTES];
			uint8_t bytes, reserved[3];
		} record = {
			.header = { .misc = (id->kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER) |
					    MISC_BUILD_ID_SIZE,
				    .size = sizeof(record) + padded },
			.pid = -1,
			.bytes = XP_MIN(id->build_id_bytes, (size_t)XP_PERFDATA_BUILD_ID_BYTES),
		};

		memcpy(record.build_id, id->build_id, record.bytes);
		xp_perfdata_put(sink, &record, sizeof(record), sizeof(record));
		xp_perfdata_put(sink, id->path, path_bytes, padded);
	}
}

static void put_cpus(struct xp_perfdata_sink *sink, const struct source *from)
{
	if (!from->features->cpus)
		return;
	put32(sink, from->features->cpus);
	put32(sink, from->features->cpus_online);
}

static void put_memory(struct xp_perfdata_sink *sink, const struct source *from)
{
	if (from->features->memory_kb)
		put64(sink, from->features->memory_kb);
}

static void put_argv(struct xp_perfdata_sink *sink, const struct source *from)
{
	char *const *argv = from->features->argv;
	uint32_t count = 0;

	if (!argv)
		return;
	while (argv[count])
		count++;
	put32(sink, count);
	for (; *argv; argv++)
		put_text(sink, *argv);
}

static void put_events(struct xp_perfdata_sink *sink, const struct source *from)
{
	const struct xp_perfdata_described *events = from->events;
	uint32_t count = 0;

	while (events[count].name && events[count].id)
		count++;
	count = XP_MAX(count, (uint32_t) !!events[0].name); /* a single event needs no ID */
	if (!count)
		return;
	put32(sink, count);
	put32(sink, XP_PERFDATA_ATTR_BYTES);
	for (uint32_t i = 0; i < count; i++) {
		xp_perfdata_put(sink, events[i].attr, XP_PERFDATA_ATTR_BYTES, XP_PERFDATA_ATTR_BYTES);
		put32(sink, !!events[i].id);
		put_text(sink, events[i].name);
		if (events[i].id)
			put64(sink, events[i].id);
	}
}

static void put_span(struct xp_perfdata_sink *sink, const struct source *from)
{
	if (from->span->first_ns > from->span->last_ns)
		return;
	put64(sink, from->span->first_ns);
	put64(sink, from->span->last_ns);
}

static void put_clock_resolution(struct xp_perfdata_sink *sink, const struct source *from)
{
	(void)from;
	put64(sink, 1); /* ns */
}

static void put_compression(struct xp_perfdata_sink *sink, const struct source *from)
{
	if (from->compression)
		xp_perfdata_put(sink, from->compression, sizeof(*from->compression), sizeof(*from->compression));
}

static void put_clock(struct xp_perfdata_sink *sink, const struct source *from)
{
	if (!from->features->wall_ns)
		return;
	put32(sink, CLOCK_DATA_VERSION);
	put32(sink, CLOCK_MONOTONIC);
	put64(sink, from->features->wall_ns);
	put64(sink, from->features->mono_ns);
}

int xp_perfdata_put_features(struct xp_perfdata_sink *sink, struct xp_perfdata_header *header,
			     const struct xp_perfdata_features *features, const struct xp_perfdata_described *events,
			     const struct xp_perfdata_span *span, const struct xp_perfdata_compression *compression)
{
	const struct source source = { features, events, span, compression };
	/* In ascending order, like the sections in the file. */
	const struct {
		enum xp_perfdata_feature feature;
		void (*put)(struct xp_perfdata_sink *sink, const struct source *from);
		const char *text; /* instead of put() */
	} all[] = {
		{ XP_PERFDATA_BUILD_ID, .put = put_build_ids },
		{ XP_PERFDATA_HOSTNAME, .text = features->hostname },
		{ XP_PERFDATA_OSRELEASE, .text = features->release },
		{ XP_PERFDATA_VERSION, .text = features->version },
		{ XP_PERFDATA_ARCH, .text = features->arch },
		{ XP_PERFDATA_NRCPUS, .put = put_cpus },
		{ XP_PERFDATA_CPUDESC, .text = features->cpu },
		{ XP_PERFDATA_TOTAL_MEM, .put = put_memory },
		{ XP_PERFDATA_CMDLINE, .put = put_argv },
		{ XP_PERFDATA_EVENT_DESC, .put = put_events },
		{ XP_PERFDATA_SAMPLE_TIME, .put = put_span },
		{ XP_PERFDATA_CLOCKID, .put = put_clock_resolution },
		{ XP_PERFDATA_COMPRESSION, .put = put_compression },
		{ XP_PERFDATA_CLOCK_DATA, .put = put_clock },
	};
	struct xp_perfdata_section sections[FEATURES_MAX];
	uint64_t bits[XP_ARRAY_SIZE(header->features)] = { 0 };
	uint64_t table = sink->offset;
	size_t count = 0;

	_Static_assert(XP_ARRAY_SIZE(all) <= FEATURES_MAX, "FEATURES_MAX");
	/* Writes the sections first, after space for the largest possible table. perf does not read the unused space.
	 */
	sink->offset += sizeof(sections);
	for (size_t i = 0; i < XP_ARRAY_SIZE(all) && !sink->err; i++) {
		uint64_t offset = sink->offset + sink->used;

		if (all[i].put)
			all[i].put(sink, &source);
		else if (all[i].text)
			put_text(sink, all[i].text);
		sections[count] = (struct xp_perfdata_section){ offset, sink->offset + sink->used - offset };
		if (!sections[count].size)
			continue;
		count++;
		bits[all[i].feature / 64] |= 1ull << all[i].feature % 64;
	}
	xp_perfdata_flush(sink);
	if (!sink->err)
		sink->err = xp_pwrite_all(sink->fd, sections, count * sizeof(*sections), table);
	if (!sink->err)
		memcpy(header->features, bits, sizeof(bits));
	return sink->err;
}
