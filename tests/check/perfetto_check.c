// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto's traces: checked, and printed. */
#include <errno.h>
#include <inttypes.h>

#include "base/util.h"
#include "check/formats.h"
#include "check/perfetto_reader.h"

#define BUNDLE_BYTES_MAX (512u << 10) /* trace_packet.proto, compressed_packets */

static const char *const kind_names[] = {
	[XP_PERFETTO_OTHER] = "other",	       [XP_PERFETTO_STATE] = "state",	[XP_PERFETTO_TRACK] = "track",
	[XP_PERFETTO_SLICE_BEGIN] = "begin",   [XP_PERFETTO_SLICE_END] = "end", [XP_PERFETTO_INSTANT_EVENT] = "instant",
	[XP_PERFETTO_STACK_SAMPLE] = "sample",
};

static void dump_record(FILE *out, const struct xp_perfetto_record *record)
{
	xp_put(out, "0x%08" PRIx64 " sequence %" PRIu32 " %s", record->offset, record->sequence,
	       kind_names[record->kind]);
	if (record->has_time)
		xp_put(out, " time %" PRIu64, record->time);
	if (record->track)
		xp_put(out, " track 0x%" PRIx64, record->track);
	if (record->kind == XP_PERFETTO_STACK_SAMPLE)
		xp_put(out, " pid %" PRIu64 " tid %" PRIu64 " cpu %" PRIu64 " callstack %" PRIu64 " weight %" PRIu64,
		       record->pid, record->tid, record->cpu, record->callstack, record->weight);
	if (record->name)
		xp_put(out, " \"%s\"", record->name);
	xp_put_line(out, "%s", "");
}

static int dump(const uint8_t *bytes, uint64_t size, const struct xp_function_names *names, FILE *out,
		struct xp_violation *violation)
{
	struct xp_perfetto_reader reader;
	struct xp_perfetto_record record;
	int more;

	(void)names;
	xp_perfetto_reader_init(&reader, bytes, size);
	while ((more = xp_perfetto_reader_next(&reader, &record, violation)) > 0 && !ferror(out))
		dump_record(out, &record);
	xp_perfetto_reader_free(&reader);
	return more > 0 ? -EIO : more;
}

static int check(const uint8_t *bytes, uint64_t size, struct xp_report *report)
{
	uint64_t counts[XP_ARRAY_SIZE(kind_names)] = { 0 };
	struct xp_perfetto_reader reader;
	struct xp_perfetto_record record;
	struct xp_violation violation;
	int more;

	xp_perfetto_reader_init(&reader, bytes, size);
	while ((more = xp_perfetto_reader_next(&reader, &record, &violation)) > 0)
		counts[record.kind]++;
	if (!more && reader.bundle_bytes >= BUNDLE_BYTES_MAX)
		more = xp_violate(&violation, 0,
				  "a packet of compressed ones has %" PRIu32 " bytes; 512 KiB are the limit",
				  reader.bundle_bytes);
	if (!more && reader.stray_flows)
		more = xp_violate(&violation, 0, "%" PRIu64 " flows end that do not begin", reader.stray_flows);
	if (more == -EBADMSG)
		xp_report_add(report, "", &violation);
	snprintf(report->summary, sizeof(report->summary),
		 "Perfetto trace: %" PRIu64 " packets, %" PRIu64 " slices (%" PRIu64 " open), %" PRIu64
		 " instants, %" PRIu64 " flows, %" PRIu64 " samples; not known to xprof: %" PRIu64 " packets, %" PRIu64
		 " fields",
		 reader.packets, counts[XP_PERFETTO_SLICE_BEGIN], reader.open_slices, counts[XP_PERFETTO_INSTANT_EVENT],
		 reader.flows, counts[XP_PERFETTO_STACK_SAMPLE], counts[XP_PERFETTO_OTHER], reader.unknown_fields);
	xp_perfetto_reader_free(&reader);
	return more == -ENOMEM ? more : 0;
}

const struct xp_format xp_format_perfetto = {
	.name = "Perfetto trace",
	.probe = xp_perfetto_probe,
	.dump = dump,
	.check = check,
};
