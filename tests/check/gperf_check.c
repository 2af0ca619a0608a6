// SPDX-License-Identifier: BSD-2-Clause
/* gperftools CPU profiles: checked, and printed. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "check/formats.h"
#include "format/gperf_reader.h"
#include "check/gperf_rules.h"

static void dump_header(FILE *out, const struct xp_gperf_reader *reader)
{
	fprintf(out, "# gperftools CPU profile, period %" PRIu64 " us", reader->period_us);
	if (reader->period_us)
		fprintf(out, " (%.1f Hz)", 1e6 / reader->period_us);
	fprintf(out, "\n#%9s %10s %s\n", "offset", "count", "PCs, the most recently called function first");
}

static void dump_sample(FILE *out, const struct xp_gperf_sample *sample)
{
	fprintf(out, "0x%08" PRIx64 " %10" PRIu64, sample->offset, sample->count);
	for (uint64_t i = 0; i < sample->pc_count; i++)
		fprintf(out, " 0x%" PRIx64, xp_gperf_reader_pc(sample, i));
	putc('\n', out);
}

/* Escapes control characters, which may drive a terminal. */
static void dump_line(FILE *out, const struct xp_gperf_line *line)
{
	fprintf(out, "0x%08" PRIx64 " %" PRIx64 "-%" PRIx64 " %s %" PRIx64 " ", line->offset, line->start, line->end,
		line->perms, line->map_offset);
	for (uint64_t i = 0; i < line->path_bytes; i++) {
		unsigned char c = line->path[i];

		if (c >= 0x20 && c < 0x7f)
			putc(c, out);
		else
			fprintf(out, "\\x%02x", c);
	}
	putc('\n', out);
}

static int dump(const uint8_t *bytes, uint64_t size, FILE *out, struct xp_violation *violation)
{
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	struct xp_gperf_line line;
	int more;

	more = xp_gperf_reader_init(&reader, bytes, size, violation);
	if (!more) {
		dump_header(out, &reader);
		while ((more = xp_gperf_reader_next(&reader, &sample, violation)) == 1 && !ferror(out))
			dump_sample(out, &sample);
	}
	if (!more)
		while ((more = xp_gperf_reader_line(&reader, &line, violation)) == 1 && !ferror(out))
			dump_line(out, &line);
	return more > 0 ? -EIO : more;
}

struct counts {
	uint64_t samples;
	uint64_t records;
	uint64_t maps;
};

/* Returns 0 or -EBADMSG. */
static int read_all(struct xp_gperf_reader *reader, const uint8_t *bytes, uint64_t size, struct counts *counts,
		    struct xp_violation *violation)
{
	struct xp_gperf_sample sample;
	struct xp_gperf_line line;
	int more = xp_gperf_reader_init(reader, bytes, size, violation);

	if (more)
		return more;
	while ((more = xp_gperf_reader_next(reader, &sample, violation)) == 1) {
		counts->samples += sample.count;
		counts->records++;
	}
	if (more)
		return more;
	while ((more = xp_gperf_reader_line(reader, &line, violation)) == 1)
		counts->maps++;
	return more;
}

static int check(const uint8_t *bytes, uint64_t size, struct xp_report *report)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct counts counts = { 0 };
	char what[96];
	int found;

	found = read_all(&reader, bytes, size, &counts, &violation);
	if (!found)
		found = xp_gperf_rules_check(bytes, size, &violation);
	if (found == -ENOMEM)
		return found;
	if (found)
		xp_report_add(report, "", &violation);
	/* Its samples are the us that threads waited. */
	if (report->is_of_waits)
		snprintf(what, sizeof(what), "profile of waits: %" PRIu64 " us",
			 xp_scale(counts.samples, reader.period_us, 1));
	else
		snprintf(what, sizeof(what), "CPU profile: %" PRIu64 " samples of %" PRIu64 " us", counts.samples,
			 reader.period_us);
	snprintf(report->summary, sizeof(report->summary), "gperftools %s, %" PRIu64 " records, %" PRIu64 " mappings",
		 what, counts.records, counts.maps);
	return 0;
}

const struct xp_format xp_format_gperf = {
	.probe = xp_gperf_probe,
	.dump = dump,
	.check = check,
};
