// SPDX-License-Identifier: BSD-2-Clause
#include "format/gperf_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define HEADER_WORDS_MIN 3
#define HEADER_WORDS_MAX 0xffff /* google-pprof detects the byte order with this limit */
#define FIELDS_BYTES 160	/* more than the fields of a mapping before its path, with any numbers */

static uint64_t slot_at(const uint8_t *bytes, uint64_t slot)
{
	return xp_bytes_get(bytes + slot * XP_GPERF_SLOT_BYTES, XP_GPERF_SLOT_BYTES);
}

/* Returns the number of slots between the position and the end of the file. */
static uint64_t slots_left(const struct xp_gperf_reader *reader)
{
	return (reader->size - reader->pos) / XP_GPERF_SLOT_BYTES;
}

bool xp_gperf_probe(const uint8_t *bytes, uint64_t size)
{
	return size >= 2 * XP_GPERF_SLOT_BYTES && !slot_at(bytes, 0) && slot_at(bytes, 1) >= HEADER_WORDS_MIN &&
	       slot_at(bytes, 1) <= HEADER_WORDS_MAX;
}

int xp_gperf_reader_init(struct xp_gperf_reader *reader, const uint8_t *bytes, uint64_t size,
			 struct xp_violation *violation)
{
	*reader = (struct xp_gperf_reader){ .bytes = bytes, .size = size };
	if (!xp_gperf_probe(bytes, size))
		return xp_violate(violation, 0, "This is not a gperftools CPU profile");
	reader->header_words = slot_at(bytes, 1);
	if (slots_left(reader) < 2 + reader->header_words)
		return xp_violate(violation, 0, "The file ends inside the header, which has %" PRIu64 " slots",
				  2 + reader->header_words);
	if (slot_at(bytes, 2))
		return xp_violate(violation, 2 * XP_GPERF_SLOT_BYTES,
				  "The format's version is %" PRIu64 " instead of 0", slot_at(bytes, 2));
	reader->period_us = slot_at(bytes, 3);
	reader->padding = slot_at(bytes, 4);
	reader->pos = (2 + reader->header_words) * XP_GPERF_SLOT_BYTES;
	return 0;
}

int xp_gperf_reader_next(struct xp_gperf_reader *reader, struct xp_gperf_sample *sample, struct xp_violation *violation)
{
	const uint8_t *record = reader->bytes + reader->pos;
	uint64_t at = reader->pos;

	if (reader->in_text)
		return 0;
	if (at == reader->size)
		return xp_violate(violation, at, "The file ends without the trailer");
	if (slots_left(reader) < 3)
		return xp_violate(violation, at, "The file ends inside a record");
	sample->offset = at;
	sample->count = slot_at(record, 0);
	sample->pc_count = slot_at(record, 1);
	sample->pcs = record + 2 * XP_GPERF_SLOT_BYTES;
	if (!sample->count && (sample->pc_count != 1 || xp_gperf_reader_pc(sample, 0)))
		return xp_violate(violation, at, "A record has a count of 0 but is not the trailer");
	if (!sample->pc_count)
		return xp_violate(violation, at + XP_GPERF_SLOT_BYTES, "A record has no PCs");
	if (sample->pc_count > slots_left(reader) - 2)
		return xp_violate(violation, at, "The file ends inside a record, which has %" PRIu64 " PCs",
				  sample->pc_count);
	if (sample->pc_count > XP_GPERF_PCS_MAX)
		return xp_violate(violation, at + XP_GPERF_SLOT_BYTES,
				  "A record has %" PRIu64 " PCs, more than the %d that its readers take",
				  sample->pc_count, XP_GPERF_PCS_MAX);
	reader->pos += (2 + sample->pc_count) * XP_GPERF_SLOT_BYTES;
	reader->in_text = !sample->count;
	return sample->count ? 1 : 0;
}

/* Parses "start-end perms offset major:minor inode path". Returns false for any other line. */
static bool parse_map(struct xp_gperf_line *line, const char *text, size_t bytes)
{
	const char *start, *end = text + bytes;
	char fields[FIELDS_BYTES];
	int used = 0;

	snprintf(fields, sizeof(fields), "%.*s", (int)XP_MIN(bytes, sizeof(fields) - 1), text);
	if (sscanf(fields, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %*u%n", &line->start, &line->end,
		   line->perms, &line->map_offset, &used) != 4 ||
	    !used)
		return false;
	start = text + used;
	while (start < end && *start == ' ')
		start++;
	while (start < end && end[-1] == ' ')
		end--;
	line->path = start;
	line->path_bytes = (uint64_t)(end - start);
	return true;
}

int xp_gperf_reader_line(struct xp_gperf_reader *reader, struct xp_gperf_line *line, struct xp_violation *violation)
{
	while (reader->pos < reader->size) {
		const char *text = (const char *)reader->bytes + reader->pos, *newline, *zero;
		uint64_t left = reader->size - reader->pos, searched = XP_MIN(left, (uint64_t)XP_GPERF_LINE_BYTES_MAX),
			 bytes;

		*line = (struct xp_gperf_line){ .offset = reader->pos };
		newline = memchr(text, '\n', searched);
		bytes = newline ? (uint64_t)(newline - text) : searched;
		zero = memchr(text, 0, bytes);
		if (zero)
			return xp_violate(violation, line->offset + (uint64_t)(zero - text),
					  "The list of mapped objects contains a zero byte");
		if (!newline && searched < left)
			return xp_violate(violation, line->offset, "A line has more than %d bytes",
					  XP_GPERF_LINE_BYTES_MAX);
		reader->pos += bytes + !!newline;
		if (!parse_map(line, text, bytes))
			continue;
		if (line->start >= line->end)
			return xp_violate(violation, line->offset,
					  "A mapping ends at 0x%" PRIx64 ", at or before its start", line->end);
		return 1;
	}
	return 0;
}
