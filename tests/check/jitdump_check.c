// SPDX-License-Identifier: BSD-2-Clause
/* Jitdumps: checked, and printed. */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>

#include "base/util.h"
#include "check/formats.h"
#include "format/jitdump_reader.h"
#include "check/jitdump_rules.h"

static void dump_header(FILE *out, const struct xp_jitdump_header *header)
{
	fprintf(out, "# jitdump, version %u, machine %u%s, pid %u, times: %s\n", header->version, header->elf_mach,
		header->elf_mach == EM_X86_64 ? " (x86-64)" : "", header->pid,
		header->flags & XP_JITDUMP_FLAG_ARCH_TIMESTAMP ? "the machine's own (TSC)" : "CLOCK_MONOTONIC, ns");
	fprintf(out, "#%9s %20s %s\n", "offset", "time", "record");
	fprintf(out, "0x%08x %20" PRIu64 " header\n", 0, header->timestamp);
}

static void dump_lines(FILE *out, const struct xp_jitdump_record *record)
{
	struct xp_jitdump_lines lines;
	struct xp_jitdump_line line;

	fprintf(out, " of 0x%" PRIx64 ", %" PRIu64 " lines\n", record->debug.code_addr, record->debug.line_count);
	xp_jitdump_lines_start(&lines, record);
	while (xp_jitdump_lines_next(&lines, &line) && !ferror(out)) {
		xp_put(out, "%10s %20s 0x%" PRIx64 " %s:%u", "", "", line.address, line.file, line.line);
		if (line.discriminator)
			fprintf(out, " (%u)", line.discriminator);
		putc('\n', out);
	}
}

static void dump_unwinding(FILE *out, const struct xp_jitdump_record *record)
{
	static const char *const orders[] = {
		[XP_JITDUMP_ONE_PART] = "",
		[XP_JITDUMP_FRAME_FIRST] = ", the header last",
		[XP_JITDUMP_HEADER_FIRST] = ", the header first",
	};

	fprintf(out,
		" .eh_frame %" PRIu64 " bytes, .eh_frame_hdr %" PRIu64 " bytes%s, %" PRIu64 " bytes mapped in memory\n",
		record->unwinding.eh_frame_bytes, record->unwinding.eh_frame_hdr_bytes, orders[record->unwinding.order],
		record->unwinding.mapped_bytes);
}

static void dump_record(FILE *out, const struct xp_jitdump_record *record)
{
	fprintf(out, "0x%08" PRIx64 " %20" PRIu64 " %s", record->offset, record->timestamp,
		xp_jitdump_kind_name(record->kind));
	switch (record->kind) {
	case XP_JITDUMP_LOAD:
		xp_put_line(out, " %u/%u code %" PRIu64 " at 0x%" PRIx64 " %" PRIu64 " bytes %s", record->load.pid,
			    record->load.tid, record->load.code_index, record->load.code_addr, record->load.code_size,
			    record->load.name);
		break;
	case XP_JITDUMP_MOVE:
		fprintf(out, " %u/%u code %" PRIu64 " from 0x%" PRIx64 " to 0x%" PRIx64 " %" PRIu64 " bytes\n",
			record->move.pid, record->move.tid, record->move.code_index, record->move.old_code_addr,
			record->move.new_code_addr, record->move.code_size);
		break;
	case XP_JITDUMP_DEBUG_INFO:
		dump_lines(out, record);
		break;
	case XP_JITDUMP_UNWINDING_INFO:
		dump_unwinding(out, record);
		break;
	case XP_JITDUMP_CLOSE:
		putc('\n', out);
		break;
	default:
		fprintf(out, " kind %u, %" PRIu64 " bytes\n", record->kind, record->bytes);
	}
}

static int dump(const uint8_t *bytes, uint64_t size, FILE *out, struct xp_violation *violation)
{
	struct xp_jitdump_reader reader;
	struct xp_jitdump_record record;
	int more;

	more = xp_jitdump_reader_init(&reader, bytes, size, violation);
	if (!more) {
		dump_header(out, &reader.header);
		while ((more = xp_jitdump_reader_next(&reader, &record, violation)) == 1 && !ferror(out))
			dump_record(out, &record);
	}
	return more > 0 ? -EIO : more;
}

struct counts {
	uint64_t kinds[XP_JITDUMP_UNWINDING_INFO + 1];
	uint64_t unknown;
	uint64_t code_bytes;
};

/* Returns 0 or -EBADMSG. */
static int read_all(struct xp_jitdump_reader *reader, const uint8_t *bytes, uint64_t size, struct counts *counts,
		    struct xp_violation *violation)
{
	struct xp_jitdump_record record;
	int more = xp_jitdump_reader_init(reader, bytes, size, violation);

	if (more)
		return more;
	while ((more = xp_jitdump_reader_next(reader, &record, violation)) == 1) {
		if (record.kind < XP_ARRAY_SIZE(counts->kinds))
			counts->kinds[record.kind]++;
		else
			counts->unknown++;
		if (record.kind == XP_JITDUMP_LOAD)
			counts->code_bytes += record.load.code_size;
	}
	return more;
}

static int check(const uint8_t *bytes, uint64_t size, struct xp_report *report)
{
	struct xp_violation violation;
	struct xp_jitdump_reader reader;
	struct counts counts = { 0 };
	int found;

	found = read_all(&reader, bytes, size, &counts, &violation);
	if (found) {
		xp_report_add(report, "", &violation);
		return 0;
	}
	found = xp_jitdump_rules_check(bytes, size, &violation);
	if (found < 0)
		return found;
	if (found)
		xp_report_add(report, "perf inject: ", &violation);
	snprintf(report->summary, sizeof(report->summary),
		 "jitdump of pid %u: %" PRIu64 " functions of %" PRIu64 " bytes, %" PRIu64 " moves, %" PRIu64
		 " with lines, %" PRIu64 " with unwinding data, %" PRIu64 " unknown records%s",
		 reader.header.pid, counts.kinds[XP_JITDUMP_LOAD], counts.code_bytes, counts.kinds[XP_JITDUMP_MOVE],
		 counts.kinds[XP_JITDUMP_DEBUG_INFO], counts.kinds[XP_JITDUMP_UNWINDING_INFO], counts.unknown,
		 counts.kinds[XP_JITDUMP_CLOSE] ? ", closed" : "");
	return 0;
}

const struct xp_format xp_format_jitdump = {
	.probe = xp_jitdump_probe,
	.dump = dump,
	.check = check,
};
