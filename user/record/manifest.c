/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/file_name.h"
#include "event/kinds.h"
#include "record/manifest_parts.h"

/* Upper limits of the sizes of a manifest's parts, except with unusually long names. */
#define MANIFEST_BASE_BYTES 8192u
#define MANIFEST_PROFILE_BYTES 1536u
#define MANIFEST_PROCESS_BYTES 4096u
#define MANIFEST_THREAD_BYTES 1024u

/* ---- counts ---- */

static json_t *filtered_value(const struct xp_counts *counts, const uint64_t *other_process)
{
	struct section section = begin();

	put_number(&section, "total", xp_counts_filtered(counts) + (other_process ? *other_process : 0));
	for (int i = 0; i < XP_FILTERS; i++)
		put_number(&section, xp_filter_name((enum xp_filter)i), counts->filtered[i]);
	if (other_process)
		put_number(&section, "other_process", *other_process);
	return done(&section);
}

/* Events that were lost before xprof knew their process are counted only in the totals. */
void xp_manifest_put_counts(struct section *section, const struct xp_counts *counts)
{
	struct section lost = begin();

	put_number(section, "seen", counts->seen);
	put_number(section, "written", counts->written);
	put(section, "filtered", filtered_value(counts, NULL));
	put_number(&lost, "total", counts->unstored);
	put_number(&lost, "unstored", counts->unstored);
	put(section, "lost", done(&lost));
	put_number(section, "overwritten", counts->overwritten);
	put_number(section, "synthesized_exits", counts->synthesized);
	put_number(section, "carried_entries", counts->carried);
	put_number(section, "in_memory", counts->in_memory);
}

static json_t *lost_cpu_value(unsigned int cpu, const struct xp_bpf_counters *counters)
{
	struct section section = begin();

	put_number(&section, "cpu", cpu);
	for (int kind = 0; kind < XP_EVENT_KINDS; kind++)
		if (counters->lost[kind])
			put_number(&section, xp_kinds[kind].name, counters->lost[kind]);
	return done(&section);
}

static bool lost_any(const struct xp_bpf_counters *counters)
{
	for (int kind = 0; kind < XP_EVENT_KINDS; kind++)
		if (counters->lost[kind])
			return true;
	return false;
}

/* Lists only the CPUs that lost events, and only the kinds that they lost. */
static json_t *lost_cpus_value(const struct xp_bpf_side *bpf)
{
	json_t *cpus = json_array();

	for (unsigned int cpu = 0; cpu < bpf->programs.cpus; cpu++)
		if (lost_any(&bpf->counters[cpu]))
			append(&cpus, lost_cpu_value(cpu, &bpf->counters[cpu]));
	return cpus;
}

struct sums {
	uint64_t ring; /* events lost in ring buffers */
	uint64_t truncated;
	uint64_t faulted;
	uint64_t not_taken;
};

static struct sums sum_cpus(const struct xp_bpf_side *bpf)
{
	struct sums sums = { 0 };

	for (unsigned int cpu = 0; cpu < bpf->programs.cpus; cpu++) {
		const struct xp_bpf_counters *counters = &bpf->counters[cpu];

		for (int kind = 0; kind < XP_EVENT_KINDS; kind++) {
			sums.ring += xp_kinds[kind].of_program ? counters->lost[kind] : 0;
			sums.truncated += counters->truncated[kind];
			sums.faulted += counters->faulted[kind];
		}
		sums.not_taken += counters->not_taken;
	}
	return sums;
}

static json_t *totals_value(const struct xp_recording *recording, const struct xp_totals *totals)
{
	const struct xp_counts *counts = &totals->counts;
	uint64_t missed = recording->bpf.missed, other_process = recording->targets.other_process;
	struct sums sums = sum_cpus(&recording->bpf);
	struct section section = begin(), lost = begin();
	uint64_t before = sums.ring + missed; /* lost before they reached xprof */

	put_number(&lost, "total", before + counts->unstored);
	put_number(&lost, "ring", sums.ring);
	put_number(&lost, "missed", missed);
	put_number(&lost, "unstored", counts->unstored);
	put(&lost, "cpus", lost_cpus_value(&recording->bpf));

	put_number(&section, "seen", counts->seen + other_process + before);
	put_number(&section, "written", counts->written);
	put(&section, "filtered", filtered_value(counts, &other_process));
	put(&section, "lost", done(&lost));
	put_number(&section, "overwritten", counts->overwritten);
	put_number(&section, "truncated", sums.truncated);
	put_number(&section, "faulted", sums.faulted);
	put_number(&section, "not_taken", sums.not_taken);
	put_number(&section, "synthesized_exits", counts->synthesized);
	put_number(&section, "carried_entries", counts->carried);
	put_number(&section, "in_memory", counts->in_memory);
	return done(&section);
}

/* ---- other parts ---- */

static json_t *kernel_value(void)
{
	struct section section = begin();
	struct utsname names;

	if (!uname(&names)) {
		put_text(&section, "release", names.release);
		put_text(&section, "version", names.version);
		put_text(&section, "machine", names.machine);
	}
	return done(&section);
}

static json_t *clock_value(const struct xp_recording *recording)
{
	const struct xp_clock *clock = recording->clock;
	struct section section = begin();

	put_number(&section, "hz", clock->hz);
	put_number(&section, "start_tsc", recording->targets.processes.start_tsc);
	/* For a part: the time when the next part starts. Calls that are open then continue in the next part. */
	if (recording->rotation.goes_on)
		put_number(&section, "goes_on_tsc", recording->targets.processes.stop_tsc);
	put_number(&section, "error_ns", clock->error_ns);
	put_bool(&section, "constant_tsc", clock->constant_tsc);
	put_bool(&section, "nonstop_tsc", clock->nonstop_tsc);
	return done(&section);
}

/* How sleds were attached, and how long targets were stopped to patch and restore them. */
static json_t *attach_value(const struct xp_recording *recording)
{
	const struct xp_probes *probes = &recording->targets.probes;
	struct section section = begin();

	put_text(&section, "method", recording->plan.multi ? "uprobe_multi" : "perf_uprobe");
	put(&section, "attach_ms", json_real(probes->attach_ns / 1e6));
	put(&section, "detach_ms", json_real(probes->detach_ns / 1e6));
	put(&section, "stopped_ms", json_real(probes->stopped_ns / 1e6));
	put(&section, "longest_stop_ms", json_real(probes->longest_stop_ns / 1e6));
	return done(&section);
}

static json_t *forecast_value(const struct xp_forecast *forecast)
{
	const struct xp_probe_cost *cost = &forecast->probe_cost;
	const struct xp_cost_seen *seen = &forecast->seen;
	struct section section = begin(), hit = begin();

	put_number(&hit, "entry", cost->entry_ns);
	put_number(&hit, "exit", cost->exit_ns);
	if (cost->stub_ns) {
		put_number(&hit, "patched", cost->stub_ns);
		put_number(&hit, "counted", cost->count_ns);
		if (cost->memory_ns)
			put_number(&hit, "memory", cost->memory_ns);
		if (cost->args_ns)
			put_number(&hit, "arguments", cost->args_ns);
	}
	put(&section, "calls_per_s", json_real(seen->calls_per_s));
	put(&section, "call_ns", json_real(seen->call_ns));
	put(&section, "cost_cores", json_real(seen->cores));
	put(&section, "cost_share", json_real(seen->share));
	put(&section, "hit_ns", done(&hit));
	return done(&section);
}

/* --max-overhead, as shares of the targets' CPU time. */
static json_t *budget_value(const struct xp_recording *recording)
{
	const struct xp_throttle *throttle = recording->targets.probes.throttle;

	return json_pack("{s:f, s:f, s:f}", "share", recording->options->max_overhead, "spent",
			 xp_throttle_spent(throttle), "spent_in_stops", xp_throttle_stopped(throttle));
}

static json_t *text_item(const void *arg, size_t index)
{
	return text_value(((const char *const *)arg)[index]);
}

/* ---- files ---- */

static void append_file(json_t **files, const char *name, const char *kind, uint64_t bytes)
{
	append(files,
	       json_pack("{s:o, s:s, s:o}", "name", text_value(name), "kind", kind, "bytes", number_value(bytes)));
}

/* A file that is made of the recording, after this manifest. */
static void append_product(json_t **files, const char *name)
{
	append(files, json_pack("{s:o, s:s}", "name", text_value(name), "kind", "gperftools"));
}

static void append_logs(json_t **files, const struct xp_recording *recording, const struct xp_process *process)
{
	const struct xp_process_log *log = &process->log;
	const struct xp_process_flights *flights = &process->flights;
	struct stat st;

	if (log->name[0])
		append_file(files, log->name, "fdr", log->bytes);
	for (size_t i = 0; i < flights->count; i++)
		if (!flights->logs[i].error)
			append_file(files, flights->logs[i].name, "fdr", flights->logs[i].bytes);
	if (log->side_name[0])
		append_file(files, log->side_name, "side-elf",
			    fstatat(recording->outdir.fd, log->side_name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_size);
}

static void append_profiles(json_t **files, const struct xp_image *image)
{
	struct xp_jit_dump_out_counts dump = { 0 };
	const char *dump_name = image->jit ? xp_jit_dump(image->jit, &dump) : NULL;
	char name[XP_FILE_PROFILE_BYTES];

	append_product(files, xp_sampled_profile_name(name, image, XP_PROFILE_SUFFIX));
	if (image->waits)
		append_product(files, xp_sampled_profile_name(name, image, XP_WAIT_PROFILE_SUFFIX));
	if (dump_name && dump.bytes)
		append_file(files, dump_name, "jitdump", dump.bytes);
}

static json_t *files_value(const struct xp_recording *recording)
{
	const struct xp_samples *samples = &recording->sampling.samples;
	json_t *files = json_array();

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next)
		append_logs(&files, recording, process);
	for (size_t i = 0; xp_sampling_has_file(&recording->sampling) && i < samples->processes.image_count; i++)
		append_profiles(&files, samples->processes.images[i]);
	if (xp_sampling_has_file(&recording->sampling))
		append_file(&files, XP_PERF_DATA_NAME, "perf.data", xp_perf_out_counts(samples->perf).bytes);
	return files;
}

static json_t *notices_value(const struct xp_recording *recording)
{
	uint64_t written = xp_perf_out_counts(recording->sampling.samples.perf).samples;
	uint64_t samples = recording->sampling.samples.samples;
	bool has_other_version = false;
	json_t *notices = json_array();
	char text[128];

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next)
		has_other_version |= xp_summary_has_other_version(recording, process);
	if (has_other_version)
		append(&notices, text_value("Logs with typed events have version 5, because earlier versions have no "
					    "typed events."));
	if (recording->sampling.samples.perf && written < samples) {
		snprintf(text, sizeof(text),
			 XP_PERF_DATA_NAME " has %" PRIu64 " of %" PRIu64 " samples: it could not be written further.",
			 written, samples);
		append(&notices, text_value(text));
	}
	return notices;
}

/* ---- all ---- */

static json_t *manifest_value(const struct xp_recording *recording, const struct xp_totals *totals, char *const *argv)
{
	uint64_t start_tsc = recording->targets.processes.start_tsc;
	const struct xp_triggers *triggers = &recording->targets.processes.triggers;
	char started[XP_ISO_TIME_BYTES];
	struct section section = begin();
	size_t argc = 0;

	while (argv[argc])
		argc++;
	xp_iso_time(started, xp_clock_wall_ns(recording->clock, start_tsc));
	put_number(&section, "manifest_version", XP_MANIFEST_VERSION);
	put_text(&section, "xprof_version", XPROF_VERSION);
	put(&section, "command", list(argc, text_item, argv));
	put_text(&section, "started", started);
	/* Time from the start until everything was attached; the duration begins then. */
	put_seconds(&section, "attached_after_s",
		    xp_clock_ns(recording->clock, recording->targets.run_tsc - start_tsc));
	put_seconds(&section, "duration_s", xp_summary_duration_ns(recording));
	put(&section, "kernel", kernel_value());
	put(&section, "clock", clock_value(recording));
	put(&section, "attach", attach_value(recording));
	if (recording->targets.forecast.made)
		put(&section, "forecast", forecast_value(&recording->targets.forecast));
	if (recording->targets.probes.throttle)
		put(&section, "budget", budget_value(recording));
	if (recording->options->flight_bytes)
		put_number(&section, "flight_bytes", recording->options->flight_bytes);
	if (triggers->count) {
		put_number(&section, "trigger_limit", triggers->limit);
		put(&section, "triggers", xp_manifest_triggers_value(triggers));
	}
	put(&section, "totals", totals_value(recording, totals));
	if (recording->sampling.sampler)
		put(&section, "samples", xp_manifest_samples_value(recording, totals));
	if (recording->off_cpu.on)
		put(&section, "waits", xp_manifest_waits_value(&recording->off_cpu));
	put(&section, "processes", xp_manifest_processes_value(recording));
	put(&section, "binaries", xp_manifest_binaries_value(recording));
	put(&section, "symbols", xp_manifest_symbols_value(recording));
	put(&section, "files", files_value(recording));
	put(&section, "notices", notices_value(recording));
	return done(&section);
}

uint64_t xp_manifest_bytes(const struct xp_recording *recording)
{
	size_t threads = XP_MIN(recording->off_cpu.waits.sum_count, (size_t)XP_MANIFEST_THREADS_MAX);
	uint64_t bytes =
	    MANIFEST_BASE_BYTES + recording->sampling.samples.processes.image_count * MANIFEST_PROFILE_BYTES;

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		bytes += MANIFEST_PROCESS_BYTES;
		threads += XP_MIN(process->sums.thread_count, (size_t)XP_MANIFEST_THREADS_MAX);
	}
	return bytes + threads * MANIFEST_THREAD_BYTES;
}

int xp_manifest_write(const struct xp_recording *recording, const struct xp_totals *totals, char *const *argv,
		      int reserved_fd)
{
	json_t *json = manifest_value(recording, totals, argv);
	int err = xp_manifest_file_write(recording->outdir.fd, reserved_fd, json);

	json_decref(json);
	return err;
}
