// SPDX-License-Identifier: BSD-2-Clause
/* XRay FDR logs: checked, and printed. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "format/fdr_reader.h"
#include "check/fdr_rules.h"
#include "check/formats.h"

/* limit of the payload shown; "..." marks a longer one */
#define SHOWN_BYTES_MAX 4096

static void dump_payload(FILE *out, const uint8_t *data, uint32_t bytes)
{
	uint32_t shown = XP_MIN(bytes, (uint32_t)SHOWN_BYTES_MAX);

	xp_put_quoted(out, data, shown);
	if (shown < bytes)
		fputs("...", out);
}

static void dump_details(FILE *out, const struct xp_fdr_record *record)
{
	switch ((enum xp_fdr_metadata_kind)record->kind) {
	case XP_FDR_WALL_CLOCK:
		fprintf(out, " %" PRIu64 ".%06u", record->wall.seconds, record->wall.microseconds);
		break;
	case XP_FDR_CALL_ARGUMENT:
		fprintf(out, " 0x%" PRIx64, record->argument);
		break;
	case XP_FDR_BUFFER_EXTENTS:
		fprintf(out, " %" PRIu64 " bytes", record->extents);
		break;
	case XP_FDR_PID:
		fprintf(out, " %d", record->pid);
		break;
	case XP_FDR_TYPED_EVENT:
		fprintf(out, " type %u", record->event.type);
		/* fallthrough */
	case XP_FDR_CUSTOM_EVENT:
		fprintf(out, " %u bytes ", record->event.bytes);
		dump_payload(out, record->event.data, record->event.bytes);
		break;
	case XP_FDR_END_OF_BUFFER:
		fprintf(out, " %" PRIu64 " bytes skipped", record->rest.bytes);
		break;
	case XP_FDR_NEW_BUFFER:
	case XP_FDR_NEW_CPU_ID:
	case XP_FDR_TSC_WRAP:
		break;
	}
}

/* Seconds from one TSC to another, earlier or later. */
static double seconds_between(uint64_t from, uint64_t to, uint64_t cycle_hz)
{
	return to >= from ? (double)(to - from) / cycle_hz : -((double)(from - to) / cycle_hz);
}

static void dump_start(FILE *out, const struct xp_fdr_record *record, uint64_t start_tsc, uint64_t cycle_hz)
{
	fprintf(out, "0x%08" PRIx64 " %7d", record->offset, record->tid);
	if (!record->has_cpu)
		fprintf(out, " %3s %20s %14s", "-", "-", "-");
	else if (!cycle_hz)
		fprintf(out, " %3u %20" PRIu64 " %14s", record->cpu, record->tsc, "-");
	else
		fprintf(out, " %3u %20" PRIu64 " %14.9f", record->cpu, record->tsc,
			seconds_between(start_tsc, record->tsc, cycle_hz));
	fprintf(out, " %s", xp_fdr_record_name(record));
}

static void dump_header(FILE *out, const struct xp_fdr_reader *reader)
{
	const struct xp_fdr_header *header = &reader->header;

	fprintf(out, "# XRay FDR log, version %u, %" PRIu64 " Hz%s%s, buffers of %" PRIu64 " bytes\n", header->version,
		header->cycle_hz, header->constant_tsc ? ", constant TSC" : "",
		header->nonstop_tsc ? ", nonstop TSC" : "", header->buffer_bytes);
	fprintf(out, "#%9s %7s %3s %20s %14s %s\n", "offset", "tid", "cpu", "tsc", "seconds", "record");
}

static int dump(const uint8_t *bytes, uint64_t size, FILE *out, struct xp_violation *violation)
{
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	bool started = false;
	uint64_t start_tsc = 0;
	int more;

	more = xp_fdr_reader_init(&reader, bytes, size, violation);
	if (!more)
		dump_header(out, &reader);
	while (!more) {
		more = xp_fdr_reader_next(&reader, &record, violation);
		if (more <= 0)
			break;
		if (record.has_cpu && !started) {
			started = true;
			start_tsc = record.tsc;
		}
		dump_start(out, &record, start_tsc, reader.header.cycle_hz);
		if (record.is_function)
			fprintf(out, " function %u delta %u", record.function.fn_id, record.function.delta);
		else
			dump_details(out, &record);
		putc('\n', out);
		more = ferror(out) ? -EIO : 0;
	}
	return more;
}

struct counts {
	uint64_t buffers;
	uint64_t functions;
	uint64_t arguments;
	uint64_t events;
};

static void count(struct counts *counts, const struct xp_fdr_record *record)
{
	if (record->is_function)
		counts->functions++;
	else if (record->kind == XP_FDR_NEW_BUFFER)
		counts->buffers++;
	else if (record->kind == XP_FDR_CALL_ARGUMENT)
		counts->arguments++;
	else if (record->kind == XP_FDR_CUSTOM_EVENT || record->kind == XP_FDR_TYPED_EVENT)
		counts->events++;
}

static int check(const uint8_t *bytes, uint64_t size, struct xp_report *report)
{
	struct xp_fdr_rules *rules = NULL;
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	struct counts counts = { 0 };
	int more;

	more = xp_fdr_reader_init(&reader, bytes, size, &violation);
	if (more) {
		xp_report_add(report, "", &violation);
		return 0;
	}
	more = xp_fdr_rules_new(&rules, &reader);
	while (!more) {
		more = xp_fdr_reader_next(&reader, &record, &violation);
		if (more <= 0)
			break;
		count(&counts, &record);
		more = xp_fdr_rules_record(rules, &record);
	}
	if (more == -EBADMSG)
		xp_report_add(report, "", &violation);
	else if (!more && !xp_fdr_rules_finish(rules, &violation))
		xp_report_add(report, "llvm-xray: ", &violation);
	snprintf(report->summary, sizeof(report->summary),
		 "XRay FDR log of version %u: %zu threads, %" PRIu64 " buffers, %" PRIu64 " function records, %" PRIu64
		 " arguments, %" PRIu64 " events",
		 reader.header.version, rules ? xp_fdr_rules_threads(rules) : 0, counts.buffers, counts.functions,
		 counts.arguments, counts.events);
	xp_fdr_rules_free(rules);
	return more == -EBADMSG ? 0 : more;
}

const struct xp_format xp_format_fdr = {
	.probe = xp_fdr_probe,
	.dump = dump,
	.check = check,
};
