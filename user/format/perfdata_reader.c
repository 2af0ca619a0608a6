// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "format/perfdata_zstd.h"

/*
 * Limits for the size and the number of decompressed records, in proportion to the size of the file. Most recordings
 * expand 5 to 50 times. Samples of a recursion of 4096 calls expand 1800 times; zstd allows 12000 times. Records up to
 * 8 GB are always read, which takes a minute or two. A real record needs about 8 compressed bytes, because each record
 * has another time.
 */
#define EXPANSION_MAX 4000
#define EXPANDED_BYTES_ALWAYS (UINT64_C(8) << 30) /* beyond this, EXPANSION_BEYOND applies */
#define EXPANSION_BEYOND 200
#define RECORDS_ALWAYS (UINT64_C(1) << 20)
#define RECORDS_BEYOND 2 /* bytes of the file per additional record */

bool xp_perfdata_probe(const uint8_t *bytes, uint64_t size)
{
	return size >= 8 && !memcmp(bytes, XP_PERFDATA_MAGIC, 8);
}

static int read_header(struct xp_perfdata_reader *reader, struct xp_violation *violation)
{
	struct xp_perfdata_header *header = &reader->header;

	if (reader->size < sizeof(*header))
		return xp_violate(violation, 0, "The file ends inside the header");
	memcpy(header, reader->bytes, sizeof(*header));
	if (header->size != sizeof(*header))
		return xp_violate(violation, 8, "The header has %" PRIu64 " bytes instead of %zu", header->size,
				  sizeof(*header));
	if (!xp_perfdata_fits(&header->attrs, reader->size))
		return xp_violate(violation, offsetof(struct xp_perfdata_header, attrs),
				  "The events lie outside the file");
	if (header->data.offset > reader->size)
		return xp_violate(violation, offsetof(struct xp_perfdata_header, data),
				  "The records extend beyond the file's end");
	return 0;
}

int xp_perfdata_reader_init(struct xp_perfdata_reader *reader, const uint8_t *bytes, uint64_t size,
			    struct xp_violation *violation)
{
	int err;

	memset(reader, 0, sizeof(*reader));
	reader->bytes = bytes;
	reader->size = size;
	if (!xp_perfdata_probe(bytes, size))
		return xp_violate(violation, 0, "This is not a perf.data file");
	err = read_header(reader, violation);
	if (!err)
		err = xp_perfdata_events_read(&reader->events, bytes, size, &reader->header, violation);
	if (err)
		return err;
	reader->pos = reader->header.data.offset;
	reader->end = reader->pos + XP_MIN(reader->header.data.size, size - reader->pos);
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
		return xp_violate(violation, section.offset, "The records are compressed by method %u instead of zstd",
				  compression.type);
	err = xp_perfdata_decompressor_new(&reader->decompressor, compression.expanded_bytes);
	if (err)
		return xp_violate(violation, section.offset, "A compressed record cannot expand to %u bytes: %s",
				  compression.expanded_bytes, strerror(-err));
	return 0;
}

static int check_expansion(const struct xp_perfdata_reader *reader, struct xp_violation *violation)
{
	uint64_t bytes = reader->expanded_bytes;

	if (bytes / EXPANSION_MAX > reader->size)
		return xp_violate(violation, reader->compressed_offset,
				  "The records so far expand to more than %d times the file's bytes, which no "
				  "recording does",
				  EXPANSION_MAX);
	if (bytes > EXPANDED_BYTES_ALWAYS && (bytes - EXPANDED_BYTES_ALWAYS) / EXPANSION_BEYOND > reader->size)
		return xp_violate(violation, reader->compressed_offset,
				  "The records so far expand to %" PRIu64 " bytes, and xprof reads no more of a file "
				  "of %" PRIu64,
				  bytes, reader->size);
	return 0;
}

static int unpack(struct xp_perfdata_reader *reader, const struct xp_perfdata_record *record,
		  struct xp_violation *violation)
{
	const uint8_t *data = reader->bytes + record->offset + sizeof(struct perf_event_header);
	uint64_t size = record->bytes - sizeof(struct perf_event_header);
	size_t before, behind;
	const char *why;
	int err = 0;

	reader->compressed_offset = record->offset;
	if (!reader->decompressor)
		err = begin_unpacking(reader, violation);
	if (err)
		return err;
	xp_perfdata_decompressed(reader->decompressor, &before);
	why = xp_perfdata_unpack(reader->decompressor, data, size);
	if (why)
		return xp_violate(violation, record->offset, "A compressed record cannot be read: %s", why);
	xp_perfdata_decompressed(reader->decompressor, &behind);
	reader->expanded_bytes += behind - before;
	return check_expansion(reader, violation);
}

/*
 * Checks that the `left` bytes contain the whole record with this header. Returns 1, or 0 if the rest can follow in
 * the next compressed record (may_go_on), or -EBADMSG.
 */
static int check_header(const struct perf_event_header *header, uint64_t left, uint64_t offset, bool may_go_on,
			struct xp_violation *violation)
{
	if (left < sizeof(*header))
		return may_go_on ? 0 : xp_violate(violation, offset, "The records end inside a record");
	if (header->size < sizeof(*header))
		return xp_violate(violation, offset, "A record has %u bytes", header->size);
	if (header->size > left)
		return may_go_on
			   ? 0
			   : xp_violate(violation, offset, "The records end inside a record of %u bytes", header->size);
	/* perf does not pad the size of a compressed record. */
	if (header->size % 8 && header->type != XP_PERFDATA_COMPRESSED)
		return xp_violate(violation, offset, "A record has %u bytes, which is not a multiple of 8",
				  header->size);
	return 1;
}

/*
 * Gets the next record from the decompressed bytes. Returns 1, or 0 if they do not contain a whole record, or -EBADMSG.
 */
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
	if (header.type == XP_PERFDATA_COMPRESSED)
		return xp_violate(violation, reader->compressed_offset, "A compressed record holds one of type %u",
				  header.type);
	if (++reader->expanded_records > RECORDS_ALWAYS + reader->size / RECORDS_BEYOND)
		return xp_violate(violation, reader->compressed_offset,
				  "The compressed records so far are more than one for %d bytes of the file, which no "
				  "recording has",
				  RECORDS_BEYOND);
	*record = (struct xp_perfdata_record){ .offset = reader->compressed_offset,
					       .is_decompressed = true,
					       .bytes = header.size,
					       .type = header.type,
					       .misc = header.misc };
	xp_perfdata_decompressor_consume(reader->decompressor, header.size);
	more = xp_perfdata_record_parse(record, &reader->events, at + sizeof(header), header.size - sizeof(header),
					violation);
	return more ? more : 1;
}

int xp_perfdata_reader_next(struct xp_perfdata_reader *reader, struct xp_perfdata_record *record,
			    struct xp_violation *violation)
{
	uint64_t left = reader->end - reader->pos;
	struct perf_event_header header = { 0 };
	int err = next_decompressed(reader, record, violation);

	if (err)
		return err;
	if (!left)
		return xp_perfdata_fits(&reader->header.data, reader->size)
			   ? 0
			   : xp_violate(violation, offsetof(struct xp_perfdata_header, data),
					"The records extend beyond the file's end");
	memcpy(&header, reader->bytes + reader->pos, XP_MIN(left, sizeof(header)));
	err = check_header(&header, left, reader->pos, false, violation);
	if (err < 0)
		return err;
	*record = (struct xp_perfdata_record){
		.offset = reader->pos, .bytes = header.size, .type = header.type, .misc = header.misc
	};
	err = xp_perfdata_record_parse(record, &reader->events, reader->bytes + reader->pos + sizeof(header),
				       header.size - sizeof(header), violation);
	reader->pos += record->bytes;
	if (!err && header.type == XP_PERFDATA_COMPRESSED)
		err = unpack(reader, record, violation);
	return err ? err : 1;
}

void xp_perfdata_reader_end(struct xp_perfdata_reader *reader)
{
	xp_perfdata_decompressor_free(reader->decompressor);
	xp_perfdata_events_free(&reader->events);
	reader->decompressor = NULL;
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
	if (!xp_perfdata_fits(&table, reader->size))
		return xp_violate(violation, reader->size, "The file ends inside the table of features");
	memcpy(&at, reader->bytes + table.offset, sizeof(at));
	if (!xp_perfdata_fits(&at, reader->size))
		return xp_violate(violation, table.offset, "The section of feature %u lies outside the file", feature);
	*section = (struct xp_perfdata_feature_section){ feature, at.offset, at.size };
	return 1;
}
