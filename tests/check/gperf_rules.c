// SPDX-License-Identifier: BSD-2-Clause
#include "check/gperf_rules.h"

#include "base/array.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PERL "google-pprof: "
#define GO "go tool pprof: "
#define PERL_PERIOD_MAX (1ull << 32)

struct range {
	uint64_t start;
	uint64_t end;
};

struct ranges {
	struct range *ranges;
	size_t count;
	size_t room;
};

/* Rules return 1 for a file that breaks them. */
#define violate(...) (xp_violate(__VA_ARGS__), 1)

/* Executable mappings, sorted and merged once complete. */

static int add_range(struct ranges *ranges, uint64_t start, uint64_t end)
{
	if (XP_ARRAY_RESERVE(ranges->ranges, ranges->room, ranges->count + 1))
		return -ENOMEM;
	ranges->ranges[ranges->count++] = (struct range){ start, end };
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

static void join_ranges(struct ranges *ranges)
{
	size_t joined = 0;

	if (!ranges->count)
		return;
	qsort(ranges->ranges, ranges->count, sizeof(*ranges->ranges), compare);
	for (size_t i = 1; i < ranges->count; i++) {
		struct range *last = &ranges->ranges[joined];

		if (ranges->ranges[i].start > last->end)
			ranges->ranges[++joined] = ranges->ranges[i];
		else if (ranges->ranges[i].end > last->end)
			last->end = ranges->ranges[i].end;
	}
	ranges->count = joined + 1;
}

static bool covered(const struct ranges *ranges, uint64_t address)
{
	size_t low = XP_FIND_FIRST(ranges->count, i, address >= ranges->ranges[i].end);

	return low < ranges->count && address >= ranges->ranges[low].start;
}

static bool is_executable(const struct xp_gperf_line *line)
{
	return line->perms[2] == 'x';
}

/* before: the previous executable mapping; its end is 0 if there is none. */
static int check_line(const struct xp_gperf_line *line, const struct xp_gperf_line *before,
		      struct xp_violation *violation)
{
	if (memchr(line->path, ' ', line->path_bytes))
		return violate(violation, line->offset,
			       "google-pprof and go tool pprof: They end the path of this executable mapping at its "
			       "first blank");
	if (line->perms[3] == 's')
		return violate(violation, line->offset, GO "It finds no path in a shared executable mapping");
	if (before->end && before->end == line->start && !before->path_bytes != !line->path_bytes)
		return violate(
		    violation, line->offset,
		    GO "It joins this executable mapping to the one before, although only one of them has a name");
	return 0;
}

/* Checks the lines after the trailer. */
static int check_lines(struct xp_gperf_reader *reader, struct ranges *ranges, struct xp_violation *violation)
{
	struct xp_gperf_line line, before = { 0 };
	int found = 0;

	while (!found && xp_gperf_reader_line(reader, &line, violation) == 1) {
		if (!is_executable(&line))
			continue;
		found = add_range(ranges, line.start, line.end);
		if (!found)
			found = check_line(&line, &before, violation);
		before = line;
	}
	join_ranges(ranges);
	return found;
}

static int check_pcs(const struct xp_gperf_sample *sample, const struct ranges *ranges, struct xp_violation *violation)
{
	for (uint64_t i = 0; i < sample->pc_count; i++) {
		uint64_t pc = xp_gperf_reader_pc(sample, i), address = pc - !!i;
		uint64_t at = sample->offset + (2 + i) * XP_GPERF_SLOT_BYTES;

		if (pc >> 63)
			return violate(violation, at, PERL "It drops addresses as high as 0x%" PRIx64, pc);
		/* Readers skip an address of 0. */
		if (address && !covered(ranges, address))
			return violate(violation, at, GO "0x%" PRIx64 " is in no executable mapping", pc);
	}
	return 0;
}

/* Checks the records before the trailer. */
static int check_samples(struct xp_gperf_reader *reader, const struct ranges *ranges, struct xp_violation *violation)
{
	struct xp_gperf_sample sample;
	uint64_t sum = 0;
	int found = 0;

	while (!found && xp_gperf_reader_next(reader, &sample, violation) == 1) {
		if (!xp_gperf_reader_pc(&sample, 0))
			found = violate(violation, sample.offset,
					PERL "It takes a record that begins with PC 0 for the "
					     "trailer");
		else if (__builtin_add_overflow(sum, sample.count, &sum) || sum > INT64_MAX)
			found = violate(violation, sample.offset, GO "The sum of the counts exceeds 63 bits");
		else
			found = check_pcs(&sample, ranges, violation);
	}
	return found;
}

static int check_header(const struct xp_gperf_reader *reader, struct xp_violation *violation)
{
	if (reader->header_words != 3)
		return violate(violation, XP_GPERF_SLOT_BYTES, GO "It knows headers of 3 words only, not of %" PRIu64,
			       reader->header_words);
	if (!reader->period_us)
		return violate(violation, 3 * XP_GPERF_SLOT_BYTES, GO "It fails on a period of 0");
	if (reader->period_us > PERL_PERIOD_MAX)
		return violate(violation, 3 * XP_GPERF_SLOT_BYTES,
			       PERL "It fails on a period as long as %" PRIu64 " us", reader->period_us);
	if (reader->padding)
		return violate(violation, 4 * XP_GPERF_SLOT_BYTES, GO "It fails when the header's padding is not 0");
	return 0;
}

int xp_gperf_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation)
{
	struct xp_violation of_line, none;
	struct xp_gperf_reader reader, samples;
	struct xp_gperf_sample sample;
	struct ranges ranges = { 0 };
	int found, in_lines;

	if (xp_gperf_reader_init(&reader, bytes, size, &none))
		return 0;
	found = check_header(&reader, violation);
	if (found)
		return found;
	samples = reader;
	while (xp_gperf_reader_next(&reader, &sample, &none) == 1)
		;
	in_lines = check_lines(&reader, &ranges, &of_line);
	if (in_lines >= 0)
		found = check_samples(&samples, &ranges, violation);
	if (!found && in_lines > 0)
		*violation = of_line;
	free(ranges.ranges);
	return found ? found : in_lines;
}
