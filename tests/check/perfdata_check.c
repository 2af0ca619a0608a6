// SPDX-License-Identifier: BSD-2-Clause
/* perf.data files: checked, and printed. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "check/formats.h"
#include "format/perfdata_reader.h"
#include "check/perfdata_rules.h"

static void dump_event(FILE *out, const struct xp_perfdata_event *event)
{
	const struct perf_event_attr *attr = &event->attr;

	fprintf(out, "# event type %u, config 0x%llx, %s %llu, samples 0x%llx, %" PRIu64 " ids\n", attr->type,
		(unsigned long long)attr->config, attr->freq ? "frequency" : "period",
		(unsigned long long)attr->sample_period, (unsigned long long)attr->sample_type, event->ids.size / 8);
}

static void dump_header(FILE *out, const struct xp_perfdata_reader *reader)
{
	fprintf(out, "# perf.data, little-endian, %" PRIu64 " bytes of records\n", reader->header.data.size);
	for (uint64_t i = 0; i < reader->events.count; i++) {
		struct xp_perfdata_event event;

		xp_perfdata_events_get(&reader->events, i, &event);
		dump_event(out, &event);
	}
	fprintf(out, "#%9s %7s %7s %3s %18s %s\n", "offset", "pid", "tid", "cpu", "seconds", "record");
}

/* Context markers between the addresses of a chain say where the next addresses belong. */
static void dump_address(FILE *out, uint64_t address)
{
	switch (address) {
	case (uint64_t)PERF_CONTEXT_KERNEL:
		fputs(" kernel", out);
		break;
	case (uint64_t)PERF_CONTEXT_USER:
		fputs(" user", out);
		break;
	default:
		if (address >= (uint64_t)PERF_CONTEXT_MAX)
			fprintf(out, " context %" PRId64, (int64_t)address);
		else
			fprintf(out, " 0x%" PRIx64, address);
	}
}

/* Raw data of other programs' events: only their size. */
static void dump_raw(FILE *out, const struct xp_perfdata_record *record)
{
	struct xp_wait_record wait;

	if (!xp_wait_record_read(&wait, record->sample.raw, record->sample.raw_bytes)) {
		fprintf(out, " raw %u bytes", record->sample.raw_bytes);
		return;
	}
	fprintf(out, " %s blocked %" PRIu64 " runnable %" PRIu64 " chance %u/%u", xp_wait_state_text(wait.state),
		wait.blocked_ns, wait.runnable_ns, wait.chance, XP_WAIT_CHANCE_ONE);
	if (wait.syscall >= 0)
		fprintf(out, " syscall %d", wait.syscall);
	if (wait.lock)
		fprintf(out, " lock 0x%" PRIx64, wait.lock);
	if (wait.waker_pid) {
		fprintf(out, " waker %d/%d ", wait.waker_pid, wait.waker_tid);
		xp_put_quoted(out, wait.waker_comm, strlen(wait.waker_comm));
	}
	fprintf(out, "%s%s%s%s%s", wait.flags & XP_WAIT_FIRST ? " first" : "", wait.flags & XP_WAIT_LAST ? " last" : "",
		wait.flags & XP_WAIT_HARDIRQ ? " hardirq" : "", wait.flags & XP_WAIT_SOFTIRQ ? " softirq" : "",
		wait.flags & XP_WAIT_NO_STACK ? " no-stack" : "");
}

static void dump_sample(FILE *out, const struct xp_perfdata_record *record)
{
	fprintf(out, " ip 0x%" PRIx64, record->sample.ip);
	if (record->has & PERF_SAMPLE_PERIOD)
		fprintf(out, " period %" PRIu64, record->sample.period);
	for (uint64_t i = 0; i < record->sample.chain_count; i++)
		dump_address(out, xp_perfdata_record_chain(record, i));
	if (record->has & PERF_SAMPLE_RAW)
		dump_raw(out, record);
}

static void dump_map(FILE *out, const struct xp_perfdata_record *record)
{
	fprintf(out, " %d/%d 0x%" PRIx64 "+0x%" PRIx64 " at 0x%" PRIx64, record->map.pid, record->map.tid,
		record->map.start, record->map.bytes, record->map.file_offset);
	if (record->map.build_id_bytes) {
		fputs(" build id ", out);
		for (size_t i = 0; i < record->map.build_id_bytes; i++)
			fprintf(out, "%02x", record->map.build_id[i]);
	} else if (record->type == PERF_RECORD_MMAP2) {
		fprintf(out, " device %u:%u inode %" PRIu64 " generation %" PRIu64, record->map.maj, record->map.min,
			record->map.inode, record->map.generation);
	}
	putc(' ', out);
	xp_put_quoted(out, record->map.path, strlen(record->map.path));
}

static void dump_details(FILE *out, const struct xp_perfdata_record *record)
{
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		dump_sample(out, record);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		dump_map(out, record);
		break;
	case PERF_RECORD_COMM:
		fprintf(out, "%s %d/%d ", record->misc & PERF_RECORD_MISC_COMM_EXEC ? " exec" : "", record->comm.pid,
			record->comm.tid);
		xp_put_quoted(out, record->comm.name, strlen(record->comm.name));
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		fprintf(out, " %d/%d parent %d/%d", record->task.pid, record->task.tid, record->task.ppid,
			record->task.ptid);
		break;
	case PERF_RECORD_KSYMBOL:
		fprintf(out, " 0x%" PRIx64 "+0x%x%s ", record->symbol.start, record->symbol.bytes,
			record->symbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER ? " gone" : "");
		xp_put_quoted(out, record->symbol.name, strlen(record->symbol.name));
		break;
	case PERF_RECORD_BPF_EVENT:
		fprintf(out, " id %u tag ", record->bpf.id);
		for (size_t i = 0; i < XP_PERFDATA_BPF_TAG_BYTES; i++)
			fprintf(out, "%02x", record->bpf.tag[i]);
		fputs(record->bpf.type == PERF_BPF_EVENT_PROG_UNLOAD ? " unloaded" : "", out);
		break;
	case XP_PERFDATA_TIME_CONV:
		fprintf(out, " ns = %" PRIu64 " + (tsc * %" PRIu64 " >> %" PRIu64 ")", record->conversion.zero,
			record->conversion.mult, record->conversion.shift);
		break;
	case PERF_RECORD_SWITCH:
		fputs(record->misc & PERF_RECORD_MISC_SWITCH_OUT ? " out" : " in", out);
		fputs(record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? " preempted" : "", out);
		break;
	case XP_PERFDATA_FINISHED_ROUND:
		break;
	default:
		fprintf(out, " %" PRIu64 " bytes", record->bytes);
	}
}

static const char *record_name(uint32_t type)
{
	static const char *const names[] = {
		[1] = "MMAP",	       [2] = "LOST",	      [3] = "COMM",	   [4] = "EXIT",
		[5] = "THROTTLE",      [6] = "UNTHROTTLE",    [7] = "FORK",	   [8] = "READ",
		[9] = "SAMPLE",	       [10] = "MMAP2",	      [11] = "AUX",	   [12] = "ITRACE_START",
		[13] = "LOST_SAMPLES", [14] = "SWITCH",	      [15] = "SWITCH_CPU", [16] = "NAMESPACES",
		[17] = "KSYMBOL",      [18] = "BPF_EVENT",    [19] = "CGROUP",	   [20] = "TEXT_POKE",
		[21] = "AUX_HW_ID",    [64] = "ATTR",	      [65] = "EVENT_TYPE", [66] = "TRACING_DATA",
		[67] = "BUILD_ID",     [68] = "ROUND",	      [69] = "ID_INDEX",   [70] = "AUXTRACE_INFO",
		[71] = "AUXTRACE",     [72] = "AUX_ERROR",    [73] = "THREAD_MAP", [74] = "CPU_MAP",
		[75] = "STAT_CONFIG",  [76] = "STAT",	      [77] = "STAT_ROUND", [78] = "EVENT_UPDATE",
		[79] = "TIME_CONV",    [80] = "FEATURE",      [81] = "COMPRESSED", [82] = "FINISHED_INIT",
		[83] = "COMPRESSED2",  [84] = "BPF_METADATA",
	};

	return type < XP_ARRAY_SIZE(names) ? names[type] : NULL;
}

static void dump_record(FILE *out, const struct xp_perfdata_record *record)
{
	const char *name = record_name(record->type);

	fprintf(out, "0x%08" PRIx64, record->offset);
	if (record->has & PERF_SAMPLE_TID)
		fprintf(out, " %7d %7d", record->pid, record->tid);
	else
		fprintf(out, " %7s %7s", "-", "-");
	if (record->has & PERF_SAMPLE_CPU)
		fprintf(out, " %3u", record->cpu);
	else
		fprintf(out, " %3s", "-");
	if (record->has & PERF_SAMPLE_TIME && record->time_ns)
		fprintf(out, " %8" PRIu64 ".%09" PRIu64, record->time_ns / 1000000000, record->time_ns % 1000000000);
	else
		fprintf(out, " %18s", "-");
	if (name)
		fprintf(out, " %s", name);
	else
		fprintf(out, " type %u", record->type);
	dump_details(out, record);
	putc('\n', out);
}

static const char *feature_text(const struct xp_perfdata_reader *reader,
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

static const char *feature_name(unsigned int feature)
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

static void dump_feature(FILE *out, const struct xp_perfdata_reader *reader,
			 const struct xp_perfdata_feature_section *section)
{
	const char *name = feature_name(section->feature), *text = NULL;

	fprintf(out, "0x%08" PRIx64 " feature", section->offset);
	if (name)
		fprintf(out, " %s", name);
	else
		fprintf(out, " %u", section->feature);
	switch (section->feature) {
	case XP_PERFDATA_HOSTNAME:
	case XP_PERFDATA_OSRELEASE:
	case XP_PERFDATA_VERSION:
	case XP_PERFDATA_ARCH:
	case XP_PERFDATA_CPUDESC:
		text = feature_text(reader, section);
	}
	if (text) {
		putc(' ', out);
		xp_put_quoted(out, text, strlen(text));
	} else {
		fprintf(out, " %" PRIu64 " bytes", section->bytes);
	}
	putc('\n', out);
}

static int dump(const uint8_t *bytes, uint64_t size, FILE *out, struct xp_violation *violation)
{
	struct xp_perfdata_feature_section section = { 0 };
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	int more;

	more = xp_perfdata_reader_init(&reader, bytes, size, violation);
	if (!more) {
		dump_header(out, &reader);
		while ((more = xp_perfdata_reader_next(&reader, &record, violation)) == 1 && !ferror(out))
			dump_record(out, &record);
	}
	for (unsigned int from = 0; !more; from = section.feature + 1) {
		more = xp_perfdata_reader_feature(&reader, from, &section, violation);
		if (more <= 0)
			break;
		dump_feature(out, &reader, &section);
		more = ferror(out) ? -EIO : 0;
	}
	xp_perfdata_reader_end(&reader);
	return more > 0 ? -EIO : more;
}

struct counts {
	uint64_t samples;
	uint64_t maps;
	uint64_t names;
	uint64_t tasks;
	uint64_t switches;
	uint64_t others;
};

static void count(struct counts *counts, const struct xp_perfdata_record *record)
{
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		counts->samples++;
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		counts->maps++;
		break;
	case PERF_RECORD_COMM:
		counts->names++;
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		counts->tasks++;
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		counts->switches++;
		break;
	case XP_PERFDATA_COMPRESSED:
	case XP_PERFDATA_TIME_CONV:
	case XP_PERFDATA_FINISHED_ROUND:
		break;
	default:
		counts->others++;
	}
}

/* Returns 0 or -EBADMSG. */
static int read_all(const uint8_t *bytes, uint64_t size, struct counts *counts, struct xp_violation *violation)
{
	struct xp_perfdata_feature_section section;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	int more = xp_perfdata_reader_init(&reader, bytes, size, violation);

	if (more)
		return more;
	while ((more = xp_perfdata_reader_next(&reader, &record, violation)) == 1)
		count(counts, &record);
	for (unsigned int from = 0; !more; from = section.feature + 1) {
		more = xp_perfdata_reader_feature(&reader, from, &section, violation);
		if (more <= 0)
			break;
		more = 0;
	}
	xp_perfdata_reader_end(&reader);
	return more;
}

static int check(const uint8_t *bytes, uint64_t size, struct xp_report *report)
{
	struct xp_violation violation;
	struct counts counts = { 0 };
	int used;

	if (read_all(bytes, size, &counts, &violation) || xp_perfdata_rules_check(bytes, size, &violation))
		xp_report_add(report, "", &violation);
	used = snprintf(report->summary, sizeof(report->summary),
			"perf.data: %" PRIu64 " samples, %" PRIu64 " mappings, %" PRIu64 " names, %" PRIu64
			" forks and exits",
			counts.samples, counts.maps, counts.names, counts.tasks);
	if (counts.switches)
		used += snprintf(report->summary + used, sizeof(report->summary) - used, ", %" PRIu64 " switches",
				 counts.switches);
	if (counts.others)
		snprintf(report->summary + used, sizeof(report->summary) - used, ", %" PRIu64 " records of other types",
			 counts.others);
	return 0;
}

const struct xp_format xp_format_perfdata = {
	.probe = xp_perfdata_probe,
	.dump = dump,
	.check = check,
};
