// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "format/perfdata_zstd.h"

/* perf has one per event and CPU. */
#define EVENTS_MAX 4096
#define IDS_MAX 65536
/*
 * Maximum expansion of compressed records, per byte of the file. Samples of a recursion 4096 calls deep reach 1800;
 * zstd could reach 12000.
 */
#define EXPANSION_MAX 4000
/* The header before features were added. */
#define OLD_HEADER_BYTES offsetof(struct xp_perfdata_header, features)
#define PIPE_HEADER_BYTES 16
#define ATTR_BYTES_MAX 4096 /* a page: the kernel's limit */

bool xp_perfdata_probe(const uint8_t *bytes, uint64_t size)
{
	return size >= 8 && (!memcmp(bytes, XP_PERFDATA_MAGIC, 8) || !memcmp(bytes, XP_PERFDATA_MAGIC_SWAPPED, 8));
}

static bool fits(const struct xp_perfdata_reader *reader, const struct xp_perfdata_section *section)
{
	return section->offset <= reader->size && section->size <= reader->size - section->offset;
}

static int read_header(struct xp_perfdata_reader *reader, struct xp_violation *violation)
{
	struct xp_perfdata_header *header = &reader->header;

	if (!memcmp(reader->bytes, XP_PERFDATA_MAGIC_SWAPPED, 8))
		return xp_violate(violation, 0, "This perf.data is of a big-endian machine, which xprof does not read");
	memcpy(header, reader->bytes, XP_MIN(reader->size, (uint64_t)sizeof(*header)));
	if (reader->size >= PIPE_HEADER_BYTES && header->size == PIPE_HEADER_BYTES)
		return xp_violate(violation, 8,
				  "This perf.data was written to a pipe (`perf record -o -`), which xprof "
				  "does not read");
	if (reader->size < OLD_HEADER_BYTES || reader->size < header->size)
		return xp_violate(violation, 0, "The file ends inside the header");
	if (header->size != sizeof(*header) && header->size != OLD_HEADER_BYTES)
		return xp_violate(violation, 8, "The header has %" PRIu64 " bytes instead of %zu", header->size,
				  sizeof(*header));
	if (header->size == OLD_HEADER_BYTES)
		memset(header->features, 0, sizeof(header->features));
	if (!fits(reader, &header->attrs))
		return xp_violate(violation, offsetof(struct xp_perfdata_header, attrs),
				  "The events are not in the file");
	if (!fits(reader, &header->data))
		return xp_violate(violation, offsetof(struct xp_perfdata_header, data),
				  "The records are not in the file, which ends too early");
	return 0;
}

static uint64_t event_offset(const struct xp_perfdata_reader *reader, uint64_t index)
{
	return reader->header.attrs.offset + index * reader->header.attr_size;
}

void xp_perfdata_reader_event(const struct xp_perfdata_reader *reader, uint64_t index, struct xp_perfdata_event *event)
{
	const uint8_t *at = reader->bytes + event_offset(reader, index);
	uint64_t attr_bytes = reader->header.attr_size - sizeof(event->ids);

	memset(event, 0, sizeof(*event));
	memcpy(&event->attr, at, XP_MIN(attr_bytes, (uint64_t)sizeof(event->attr)));
	memcpy(&event->ids, at + attr_bytes, sizeof(event->ids));
}

static int check_event(const struct xp_perfdata_reader *reader, uint64_t index, const struct xp_perfdata_event *event,
		       struct xp_violation *violation)
{
	uint64_t attr_bytes = reader->header.attr_size - sizeof(event->ids), at = event_offset(reader, index);

	if ((event->attr.size ? event->attr.size : PERF_ATTR_SIZE_VER0) != attr_bytes)
		return xp_violate(violation, at + offsetof(struct perf_event_attr, size),
				  "The attributes of an event have %u bytes, their place in the file has %" PRIu64,
				  event->attr.size, attr_bytes);
	if (!fits(reader, &event->ids) || event->ids.size % 8)
		return xp_violate(violation, at + attr_bytes, "The ids of an event are not in the file");
	return 0;
}

/* The layout of records depends on these fields. */
static bool same_layout(const struct perf_event_attr *a, const struct perf_event_attr *b)
{
	return a->sample_type == b->sample_type && a->read_format == b->read_format &&
	       a->sample_id_all == b->sample_id_all;
}

static int by_id(const void *a, const void *b)
{
	const struct xp_perfdata_id *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->event > y->event) - (x->event < y->event);
}

static int read_ids(struct xp_perfdata_reader *reader, size_t count, struct xp_violation *violation)
{
	if (!count)
		return 0;
	reader->ids = calloc(count, sizeof(*reader->ids));
	if (!reader->ids)
		return xp_violate(violation, 0, "There is no memory for the ids of the events");
	for (uint64_t i = 0; i < reader->event_count; i++) {
		struct xp_perfdata_event event;

		xp_perfdata_reader_event(reader, i, &event);
		for (uint64_t at = 0; at < event.ids.size; at += 8) {
			struct xp_perfdata_id *id = &reader->ids[reader->id_count++];

			memcpy(&id->id, reader->bytes + event.ids.offset + at, sizeof(id->id));
			id->event = i;
		}
	}
	qsort(reader->ids, reader->id_count, sizeof(*reader->ids), by_id);
	return 0;
}

static int read_events(struct xp_perfdata_reader *reader, struct xp_violation *violation)
{
	const struct xp_perfdata_header *header = &reader->header;
	uint64_t at = offsetof(struct xp_perfdata_header, attr_size), ids = 0, with_id = 0;

	if (header->attr_size < PERF_ATTR_SIZE_VER0 + sizeof(struct xp_perfdata_section) ||
	    header->attr_size > ATTR_BYTES_MAX)
		return xp_violate(violation, at, "An event has %" PRIu64 " bytes", header->attr_size);
	reader->event_count = header->attrs.size / header->attr_size;
	if (header->attrs.size % header->attr_size || !reader->event_count || reader->event_count > EVENTS_MAX)
		return xp_violate(violation, at,
				  "The events take %" PRIu64 " bytes, which is not 1 to %d times %" PRIu64,
				  header->attrs.size, EVENTS_MAX, header->attr_size);
	xp_perfdata_reader_event(reader, 0, &reader->event);
	for (uint64_t i = 0; i < reader->event_count; i++) {
		struct xp_perfdata_event event;
		int err;

		xp_perfdata_reader_event(reader, i, &event);
		err = check_event(reader, i, &event, violation);
		if (err)
			return err;
		ids += event.ids.size / 8;
		if (ids > IDS_MAX)
			return xp_violate(violation, event_offset(reader, i), "The events have more than %d ids",
					  IDS_MAX);
		reader->by_id |= !same_layout(&event.attr, &reader->event.attr);
		with_id += !!(event.attr.sample_type & PERF_SAMPLE_IDENTIFIER);
	}
	if (reader->by_id && with_id != reader->event_count)
		return xp_violate(violation, header->attrs.offset,
				  "The events differ in what their records hold, and the records have no event id");
	return read_ids(reader, ids, violation);
}

int xp_perfdata_reader_init(struct xp_perfdata_reader *reader, const uint8_t *bytes, uint64_t size,
			    struct xp_violation *violation)
{
	int err;

	memset(reader, 0, sizeof(*reader));
	reader->bytes = bytes;
	reader->size = size;
	if (!xp_perfdata_probe(bytes, size))
		return xp_violate(violation, 0, "This is no perf.data");
	err = read_header(reader, violation);
	if (!err)
		err = read_events(reader, violation);
	reader->pos = reader->header.data.offset;
	reader->end = reader->header.data.offset + reader->header.data.size;
	return err;
}

bool xp_perfdata_reader_find(struct xp_perfdata_reader *reader, uint64_t id)
{
	size_t begin = 0, end = reader->id_count;

	if (id && id == reader->event_id)
		return true;
	/* Records that perf synthesized have id 0, which matches any event. */
	if (!id) {
		xp_perfdata_reader_event(reader, 0, &reader->event);
		reader->event_id = 0;
		return true;
	}
	while (begin < end) {
		size_t middle = begin + (end - begin) / 2;

		if (reader->ids[middle].id < id)
			begin = middle + 1;
		else
			end = middle;
	}
	if (begin == reader->id_count || reader->ids[begin].id != id)
		return false;
	xp_perfdata_reader_event(reader, reader->ids[begin].event, &reader->event);
	reader->event_id = id;
	return true;
}

/* Bytes that follow a record outside of its size: the trace of AUXTRACE, whose length is its first field. */
static int count_payload(const struct xp_perfdata_reader *reader, const struct perf_event_header *header,
			 uint64_t *payload, struct xp_violation *violation)
{
	uint64_t left = reader->end - reader->pos - header->size;

	*payload = 0;
	if (header->type != XP_PERFDATA_AUXTRACE)
		return 0;
	if (header->size < sizeof(*header) + sizeof(*payload))
		return xp_violate(violation, reader->pos, "An AUXTRACE record has no size of its trace");
	memcpy(payload, reader->bytes + reader->pos + sizeof(*header), sizeof(*payload));
	if (*payload > left)
		return xp_violate(violation, reader->pos, "The records end inside a trace of %" PRIu64 " bytes",
				  *payload);
	return 0;
}

/* ---- compressed records ---- */

static int begin_unpacking(struct xp_perfdata_reader *reader, struct xp_violation *violation)
{
	struct xp_perfdata_feature_section section = { 0 };
	struct xp_perfdata_compression compression;
	int err = xp_perfdata_reader_feature(reader, XP_PERFDATA_COMPRESSION, &section, violation);

	if (err < 0)
		return err;
	if (section.feature != XP_PERFDATA_COMPRESSION || section.bytes < sizeof(compression))
		return xp_violate(violation, reader->compressed_offset,
				  "perf does not read this compressed record: no feature COMPRESSED describes it");
	memcpy(&compression, reader->bytes + section.offset, sizeof(compression));
	if (compression.type != XP_PERFDATA_ZSTD)
		return xp_violate(violation, section.offset, "The records are compressed by method %u, and not by zstd",
				  compression.type);
	err = xp_perfdata_decompressor_new(&reader->decompressor, compression.expanded_bytes);
	if (err)
		return xp_violate(violation, section.offset, "A compressed record cannot expand to %u bytes: %s",
				  compression.expanded_bytes, strerror(-err));
	return 0;
}

/* The newer type stores the length of its data, which padding may follow. */
static int unpack(struct xp_perfdata_reader *reader, const struct xp_perfdata_record *record,
		  struct xp_violation *violation)
{
	const uint8_t *data = reader->bytes + record->offset + sizeof(struct perf_event_header);
	uint64_t size = record->bytes - sizeof(struct perf_event_header), given = size;
	size_t before, behind;
	const char *why;
	int err = 0;

	reader->compressed_offset = record->offset;
	if (record->type == XP_PERFDATA_COMPRESSED2) {
		if (size < sizeof(given))
			return xp_violate(violation, record->offset, "A COMPRESSED2 record has no size of its bytes");
		memcpy(&given, data, sizeof(given));
		data += sizeof(given);
		size -= sizeof(given);
	}
	if (given > size)
		return xp_violate(violation, record->offset, "A COMPRESSED2 record ends inside its %" PRIu64 " bytes",
				  given);
	if (!reader->decompressor)
		err = begin_unpacking(reader, violation);
	if (err)
		return err;
	xp_perfdata_decompressed(reader->decompressor, &before);
	why = xp_perfdata_unpack(reader->decompressor, data, given);
	if (why)
		return xp_violate(violation, record->offset, "A compressed record cannot be read: %s", why);
	xp_perfdata_decompressed(reader->decompressor, &behind);
	reader->expanded_bytes += behind - before;
	if (reader->expanded_bytes / EXPANSION_MAX > reader->size)
		return xp_violate(
		    violation, record->offset,
		    "The records so far expand to more than %d times the file's bytes, which no recording "
		    "does",
		    EXPANSION_MAX);
	return 0;
}

/*
 * Checks that a record with this header is complete within the `left` bytes. Returns 1, 0 if more bytes may follow, or
 * -EBADMSG.
 */
static int check_header(const struct perf_event_header *header, uint64_t left, uint64_t offset, bool may_go_on,
			struct xp_violation *violation)
{
	if (left < sizeof(*header))
		return may_go_on ? 0 : xp_violate(violation, offset, "The records end inside one");
	if (header->size < sizeof(*header))
		return xp_violate(violation, offset, "A record has %u bytes", header->size);
	if (header->size > left)
		return may_go_on
			   ? 0
			   : xp_violate(violation, offset, "The records end inside one of %u bytes", header->size);
	/* perf does not pad the size of a compressed record. */
	if (header->size % 8 && header->type != XP_PERFDATA_COMPRESSED)
		return xp_violate(violation, offset, "A record has %u bytes, no multiple of 8", header->size);
	return 1;
}

/* The next record from a compressed record. Returns 0 if the rest of it, if any, is in the next compressed record. */
static int next_decompressed(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record,
			     struct xp_violation *violation)
{
	struct perf_event_header header = { 0 };
	size_t left = 0;
	const uint8_t *at = reader->decompressor ? xp_perfdata_decompressed(reader->decompressor, &left) : NULL;
	int more;

	if (!left)
		return 0;
	memcpy(&header, at, XP_MIN(left, sizeof(header)));
	more = check_header(&header, left, reader->compressed_offset, reader->pos != reader->end, violation);
	if (more <= 0)
		return more;
	if (header.type == XP_PERFDATA_COMPRESSED || header.type == XP_PERFDATA_COMPRESSED2 ||
	    header.type == XP_PERFDATA_AUXTRACE)
		return xp_violate(violation, reader->compressed_offset, "A compressed record holds one of type %u",
				  header.type);
	*record = (struct xp_perfdata_record){ .offset = reader->compressed_offset,
					       .is_decompressed = true,
					       .bytes = header.size,
					       .type = header.type,
					       .misc = header.misc };
	xp_perfdata_decompressor_consume(reader->decompressor, header.size);
	more = xp_perfdata_record_parse(reader, record, at + sizeof(header), header.size - sizeof(header), violation);
	return more ? more : 1;
}

int xp_perfdata_reader_next(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record,
			    struct xp_violation *violation)
{
	uint64_t left = reader->end - reader->pos, payload;
	struct perf_event_header header = { 0 };
	int err = next_decompressed(reader, record, violation);

	if (err || !left)
		return err;
	memcpy(&header, reader->bytes + reader->pos, XP_MIN(left, sizeof(header)));
	err = check_header(&header, left, reader->pos, false, violation);
	if (err < 0)
		return err;
	err = count_payload(reader, &header, &payload, violation);
	if (err)
		return err;
	*record = (struct xp_perfdata_record){
		.offset = reader->pos, .bytes = header.size + payload, .type = header.type, .misc = header.misc
	};
	err = xp_perfdata_record_parse(reader, record, reader->bytes + reader->pos + sizeof(header),
				       header.size - sizeof(header), violation);
	reader->pos += record->bytes;
	if (!err && (header.type == XP_PERFDATA_COMPRESSED || header.type == XP_PERFDATA_COMPRESSED2))
		err = unpack(reader, record, violation);
	return err ? err : 1;
}

void xp_perfdata_reader_end(struct xp_perfdata_reader *reader)
{
	xp_perfdata_decompressor_free(reader->decompressor);
	free(reader->ids);
	reader->decompressor = NULL;
	reader->ids = NULL;
	reader->id_count = 0;
}

int xp_perfdata_reader_feature(const struct xp_perfdata_reader *reader, unsigned int from,
			       struct xp_perfdata_feature_section *section, struct xp_violation *violation)
{
	struct xp_perfdata_section at, table = { reader->end, sizeof(at) };
	unsigned int feature;

	/* The table has an entry for each bit that is set. */
	for (feature = 0; feature < XP_PERFDATA_FEATURES; feature++) {
		if (!(reader->header.features[feature / 64] >> feature % 64 & 1))
			continue;
		if (feature >= from)
			break;
		table.offset += sizeof(at);
	}
	if (feature == XP_PERFDATA_FEATURES)
		return 0;
	if (!fits(reader, &table))
		return xp_violate(violation, reader->size, "The file ends inside the table of features");
	memcpy(&at, reader->bytes + table.offset, sizeof(at));
	if (!fits(reader, &at))
		return xp_violate(violation, table.offset, "The section of feature %u is not in the file", feature);
	*section = (struct xp_perfdata_feature_section){ feature, at.offset, at.size };
	return 1;
}

const char *xp_perfdata_reader_text(const struct xp_perfdata_reader *reader,
				    const struct xp_perfdata_feature_section *section)
{
	const uint8_t *at = reader->bytes + section->offset;
	uint32_t bytes;

	if (section->bytes < sizeof(bytes))
		return NULL;
	memcpy(&bytes, at, sizeof(bytes));
	if (bytes > section->bytes - sizeof(bytes) || !memchr(at + sizeof(bytes), 0, bytes))
		return NULL;
	return (const char *)at + sizeof(bytes);
}

const char *xp_perfdata_feature_name(unsigned int feature)
{
	static const char *const names[] = {
		[1] = "TRACING_DATA",	[2] = "BUILD_ID",	[3] = "HOSTNAME",
		[4] = "OSRELEASE",	[5] = "VERSION",	[6] = "ARCH",
		[7] = "NRCPUS",		[8] = "CPUDESC",	[9] = "CPUID",
		[10] = "TOTAL_MEM",	[11] = "CMDLINE",	[12] = "EVENT_DESC",
		[13] = "CPU_TOPOLOGY",	[14] = "NUMA_TOPOLOGY", [15] = "BRANCH_STACK",
		[16] = "PMU_MAPPINGS",	[17] = "GROUP_DESC",	[18] = "AUXTRACE",
		[19] = "STAT",		[20] = "CACHE",		[21] = "SAMPLE_TIME",
		[22] = "MEM_TOPOLOGY",	[23] = "CLOCKID",	[24] = "DIR_FORMAT",
		[25] = "BPF_PROG_INFO", [26] = "BPF_BTF",	[27] = "COMPRESSED",
		[28] = "CPU_PMU_CAPS",	[29] = "CLOCK_DATA",	[30] = "HYBRID_TOPOLOGY",
		[31] = "PMU_CAPS",
	};

	return feature < XP_ARRAY_SIZE(names) ? names[feature] : NULL;
}
