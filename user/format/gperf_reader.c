// SPDX-License-Identifier: BSD-2-Clause
#include "format/gperf_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define HEADER_WORDS_MIN 3
#define HEADER_WORDS_MAX 0xffff /* google-pprof detects the byte order with this limit */

/* ---- slots ---- */

static uint64_t slot_at(const struct xp_gperf_reader *reader, uint64_t offset)
{
	const struct xp_gperf_sample at = { .pcs = reader->bytes + offset };

	return xp_gperf_reader_pc(reader, &at, 0);
}

/* Returns the number of slots between the position and the end of the file. */
static uint64_t slots_left(const struct xp_gperf_reader *reader)
{
	return (reader->size - reader->pos) / reader->slot_bytes;
}

static bool probe_layout(struct xp_gperf_reader *reader, unsigned int slot_bytes, bool big_endian)
{
	reader->slot_bytes = slot_bytes;
	reader->big_endian = big_endian;
	if (reader->size < 2 * slot_bytes || slot_at(reader, 0))
		return false;
	reader->header_words = slot_at(reader, slot_bytes);
	return reader->header_words >= HEADER_WORDS_MIN && reader->header_words <= HEADER_WORDS_MAX;
}

/* Finds the size and the byte order of the slots: the first slot must be 0, and the second one small. */
static bool find_layout(struct xp_gperf_reader *reader)
{
	return probe_layout(reader, 8, false) || probe_layout(reader, 8, true) || probe_layout(reader, 4, false) ||
	       probe_layout(reader, 4, true);
}

bool xp_gperf_probe(const uint8_t *bytes, uint64_t size)
{
	struct xp_gperf_reader reader = { .bytes = bytes, .size = size };

	return find_layout(&reader);
}

int xp_gperf_reader_init(struct xp_gperf_reader *reader, const uint8_t *bytes, uint64_t size,
			 struct xp_violation *violation)
{
	uint64_t version;

	memset(reader, 0, sizeof(*reader));
	reader->bytes = bytes;
	reader->size = size;
	if (!find_layout(reader))
		return xp_violate(violation, 0, "This is not a gperftools CPU profile");
	if (slots_left(reader) < 2 + reader->header_words)
		return xp_violate(violation, 0, "The file ends inside the header, which has %" PRIu64 " slots",
				  2 + reader->header_words);
	version = slot_at(reader, 2 * reader->slot_bytes);
	if (version)
		return xp_violate(violation, 2 * reader->slot_bytes, "The format's version is %" PRIu64 " instead of 0",
				  version);
	reader->period_us = slot_at(reader, 3 * reader->slot_bytes);
	reader->padding = slot_at(reader, 4 * reader->slot_bytes);
	reader->pos = (2 + reader->header_words) * reader->slot_bytes;
	return 0;
}

int xp_gperf_reader_next(struct xp_gperf_reader *reader, struct xp_gperf_sample *sample, struct xp_violation *violation)
{
	uint64_t at = reader->pos;

	if (reader->in_text)
		return 0;
	if (at == reader->size)
		return xp_violate(violation, at, "The file ends without the trailer");
	if (slots_left(reader) < 3)
		return xp_violate(violation, at, "The file ends inside a record");
	sample->offset = at;
	sample->count = slot_at(reader, at);
	sample->pc_count = slot_at(reader, at + reader->slot_bytes);
	sample->pcs = reader->bytes + at + 2 * reader->slot_bytes;
	if (!sample->count && (sample->pc_count != 1 || xp_gperf_reader_pc(reader, sample, 0)))
		return xp_violate(violation, at, "A record has a count of 0 but is not the trailer");
	if (!sample->pc_count)
		return xp_violate(violation, at + reader->slot_bytes, "A record has no PCs");
	if (sample->pc_count > slots_left(reader) - 2)
		return xp_violate(violation, at, "The file ends inside a record, which has %" PRIu64 " PCs",
				  sample->pc_count);
	if (sample->pc_count > XP_GPERF_PCS_MAX)
		return xp_violate(violation, at + reader->slot_bytes,
				  "A record has %" PRIu64 " PCs, more than the %d that its readers take",
				  sample->pc_count, XP_GPERF_PCS_MAX);
	reader->pos += (2 + sample->pc_count) * reader->slot_bytes;
	reader->in_text = !sample->count;
	return sample->count ? 1 : 0;
}

/* ---- text: a cursor reads known parts of a line; at any other text it sets `bad` and does not advance ---- */

struct cursor {
	const char *at;
	const char *end;
	bool bad;
};

static bool take(struct cursor *cursor, char c)
{
	if (cursor->bad || cursor->at == cursor->end || *cursor->at != c) {
		cursor->bad = true;
		return false;
	}
	cursor->at++;
	return true;
}

static void take_blanks(struct cursor *cursor)
{
	if (take(cursor, ' '))
		while (cursor->at < cursor->end && *cursor->at == ' ')
			cursor->at++;
}

static unsigned int digit_value(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower(c) - 'a' + 10 : 16;
}

/* Reads a number of at most 64 bits. */
static uint64_t take_number(struct cursor *cursor, unsigned int base)
{
	const char *at = cursor->at;
	uint64_t value = 0;

	for (; !cursor->bad && at < cursor->end && digit_value(*at) < base; at++)
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit_value(*at), &value))
			cursor->bad = true;
	if (at == cursor->at)
		cursor->bad = true;
	if (!cursor->bad)
		cursor->at = at;
	return value;
}

static void take_perms(struct cursor *cursor, char perms[5])
{
	static const char *const known[4] = { "r-", "w-", "x-", "ps" };

	for (unsigned int i = 0; i < 4; i++) {
		char c = cursor->at < cursor->end ? *cursor->at : 0;

		if (cursor->bad || !c || !strchr(known[i], c)) {
			cursor->bad = true;
			return;
		}
		perms[i] = c;
		cursor->at++;
	}
	perms[4] = 0;
}

/* Reads "HEX-HEX ". Returns false if the line is not a mapping. */
static bool take_range(struct cursor *cursor, struct xp_gperf_line *line)
{
	line->start = take_number(cursor, 16);
	if (cursor->bad || !take(cursor, '-'))
		return false;
	line->end = take_number(cursor, 16);
	return !cursor->bad && cursor->at < cursor->end && *cursor->at == ' ';
}

static void take_path(struct cursor *cursor, struct xp_gperf_line *line)
{
	while (cursor->end > cursor->at && cursor->end[-1] == ' ')
		cursor->end--;
	line->path = cursor->at;
	line->path_bytes = cursor->end - cursor->at;
}

/* Returns 1, 0 if this is not a mapping line, or -EBADMSG if it is malformed. */
static int parse_map(struct xp_gperf_line *line, struct xp_violation *violation)
{
	struct cursor cursor = { line->text, line->text + line->bytes, false };

	if (!take_range(&cursor, line))
		return 0;
	take_blanks(&cursor);
	take_perms(&cursor, line->perms);
	take_blanks(&cursor);
	line->map_offset = take_number(&cursor, 16);
	take_blanks(&cursor);
	line->dev_major = take_number(&cursor, 16);
	take(&cursor, ':');
	line->dev_minor = take_number(&cursor, 16);
	take_blanks(&cursor);
	line->inode = take_number(&cursor, 10);
	if (!cursor.bad && cursor.at < cursor.end)
		take_blanks(&cursor);
	if (cursor.bad)
		return xp_violate(violation, line->offset + (cursor.at - line->text),
				  "A line of a mapping is not \"start-end perms offset major:minor inode path\"");
	if (line->start >= line->end)
		return xp_violate(violation, line->offset, "A mapping ends at 0x%" PRIx64 ", at or before its start",
				  line->end);
	take_path(&cursor, line);
	return 1;
}

static bool parse_build(struct xp_gperf_line *line)
{
	static const char key[] = "build=";
	struct cursor cursor = { line->text, line->text + line->bytes, false };

	while (cursor.at < cursor.end && *cursor.at == ' ')
		cursor.at++;
	if ((size_t)(cursor.end - cursor.at) < strlen(key) || memcmp(cursor.at, key, strlen(key)))
		return false;
	cursor.at += strlen(key);
	take_path(&cursor, line);
	return true;
}

int xp_gperf_reader_line(struct xp_gperf_reader *reader, struct xp_gperf_line *line, struct xp_violation *violation)
{
	const uint8_t *from = reader->bytes + reader->pos, *newline, *zero;
	uint64_t left = reader->size - reader->pos;
	uint64_t searched = left < XP_GPERF_LINE_BYTES_MAX ? left : XP_GPERF_LINE_BYTES_MAX;
	int is_map;

	if (!left)
		return 0;
	*line = (struct xp_gperf_line){ .offset = reader->pos, .text = (const char *)from };
	newline = memchr(from, '\n', searched);
	line->bytes = newline ? (uint64_t)(newline - from) : searched;
	zero = memchr(from, 0, line->bytes);
	if (zero)
		return xp_violate(violation, line->offset + (zero - from),
				  "The list of mapped objects contains a zero byte");
	if (!newline && searched < left)
		return xp_violate(violation, line->offset, "A line has more than %d bytes", XP_GPERF_LINE_BYTES_MAX);
	reader->pos += line->bytes + !!newline;
	is_map = parse_map(line, violation);
	if (is_map < 0)
		return is_map;
	line->kind = is_map ? XP_GPERF_LINE_MAP : parse_build(line) ? XP_GPERF_LINE_BUILD : XP_GPERF_LINE_OTHER;
	return 1;
}
