/* SPDX-License-Identifier: BSD-2-Clause */
/* The layout of a perf.data file and the output buffer, shared by the writer's and the reader's files. */
#ifndef XPROF_FORMAT_PERFDATA_PUT_H
#define XPROF_FORMAT_PERFDATA_PUT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"

/* The writer copies the structures below to the file. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "perf.data of this machine are little-endian");

#define XP_PERFDATA_MAGIC "PERFILE2"
#define XP_PERFDATA_ATTR_BYTES PERF_ATTR_SIZE_VER5

struct xp_perfdata_section {
	uint64_t offset;
	uint64_t size;
};

static inline bool xp_perfdata_fits(const struct xp_perfdata_section *section, uint64_t file_bytes)
{
	return section->offset <= file_bytes && section->size <= file_bytes - section->offset;
}

struct xp_perfdata_header {
	char magic[8];
	uint64_t size;
	uint64_t attr_size; /* size of an entry of attrs: an attr and the section of its ids */
	struct xp_perfdata_section attrs;
	struct xp_perfdata_section data;
	struct xp_perfdata_section event_types;
	uint64_t features[4]; /* a bit for each feature that has a section after the data */
};
_Static_assert(sizeof(struct xp_perfdata_header) == 104, "perf_file_header");

/* Bits of a header's features: tools/perf/util/header.h. */
enum xp_perfdata_feature {
	XP_PERFDATA_BUILD_ID = 2,
	XP_PERFDATA_HOSTNAME = 3,
	XP_PERFDATA_OSRELEASE = 4,
	XP_PERFDATA_VERSION = 5,
	XP_PERFDATA_ARCH = 6,
	XP_PERFDATA_NRCPUS = 7,
	XP_PERFDATA_CPUDESC = 8,
	XP_PERFDATA_TOTAL_MEM = 10,
	XP_PERFDATA_CMDLINE = 11,
	XP_PERFDATA_EVENT_DESC = 12,
	XP_PERFDATA_SAMPLE_TIME = 21,
	XP_PERFDATA_CLOCKID = 23,
	XP_PERFDATA_COMPRESSION = 27, /* perf: HEADER_COMPRESSED */
	XP_PERFDATA_CLOCK_DATA = 29,
	XP_PERFDATA_FEATURES = 256,
};

/* Types of records that perf defines, not the kernel: enum perf_user_event_type. These records have no trailer. */
enum xp_perfdata_user_record {
	XP_PERFDATA_USER_RECORDS = 64, /* the first */
	XP_PERFDATA_FINISHED_ROUND = 68,
	XP_PERFDATA_TIME_CONV = 79,
	XP_PERFDATA_COMPRESSED = 81,
};

struct xp_perfdata_time_conv {
	struct perf_event_header header;
	uint64_t shift;
	uint64_t mult;
	uint64_t zero;
	uint64_t cycles;
	uint64_t mask;
	uint8_t has_zero;  /* cap_user_time_zero: without it, perf converts all times to 0 */
	uint8_t has_short; /* cap_user_time_short: cycles and mask are valid */
	uint8_t pad[6];
};
_Static_assert(sizeof(struct xp_perfdata_time_conv) == 56, "perf_record_time_conv");

#define XP_PERFDATA_BUFFER_BYTES (128 << 10) /* more than the longest record */

/* The output buffer. After an error, it ignores all data. */
struct xp_perfdata_sink {
	int fd;
	int err;
	uint64_t offset; /* offset of buf[0] in the file */
	size_t used;
	uint8_t buf[XP_PERFDATA_BUFFER_BYTES];
};

static inline int xp_perfdata_flush(struct xp_perfdata_sink *sink)
{
	if (!sink->err)
		sink->err = xp_pwrite_all(sink->fd, sink->buf, sink->used, sink->offset);
	if (!sink->err)
		sink->offset += sink->used;
	sink->used = 0;
	return sink->err;
}

/* Reserves size bytes, at most XP_PERFDATA_BUFFER_BYTES. Flushes the buffer if needed. */
static inline void *xp_perfdata_room(struct xp_perfdata_sink *sink, size_t size)
{
	uint8_t *room;

	if (size > sizeof(sink->buf) - sink->used)
		xp_perfdata_flush(sink);
	room = sink->buf + sink->used;
	sink->used += size;
	return room;
}

/* Appends data, and zeros up to a total of `padded` bytes. */
static inline void xp_perfdata_put(struct xp_perfdata_sink *sink, const void *data, size_t size, size_t padded)
{
	uint8_t *room = xp_perfdata_room(sink, padded);

	memcpy(room, data, size);
	memset(room + size, 0, padded - size);
}

static inline size_t xp_perfdata_align(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

/*
 * In perfdata_features.c: writes the sections from sink->offset on, and sets their bits in the header. The list
 * `events` ends with an event without a name. compression: NULL if no record is compressed.
 */
struct xp_perfdata_features;
struct xp_perfdata_compression;
struct xp_perfdata_described {
	const char *name; /* NULL: omitted */
	const uint8_t *attr;
	uint64_t id; /* 0: none */
};
struct xp_perfdata_span {
	uint64_t first_ns; /* times of the first and last sample; first_ns > last_ns: no samples */
	uint64_t last_ns;
};
int xp_perfdata_put_features(struct xp_perfdata_sink *sink, struct xp_perfdata_header *header,
			     const struct xp_perfdata_features *features, const struct xp_perfdata_described *events,
			     const struct xp_perfdata_span *span, const struct xp_perfdata_compression *compression);

#endif
