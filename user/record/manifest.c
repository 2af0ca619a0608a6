/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/manifest.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include <jansson.h>

#include "base/file_name.h"
#include "record/manifest_file.h"
#include "record/manifest_flights.h"
#include "record/manifest_json.h"
#include "record/manifest_waits.h"

/* ---- values ---- */

static const char *const kind_names[XP_EVENT_KINDS] = {
	[XP_EVENT_ENTRY] = "entry",
	[XP_EVENT_EXIT] = "exit",
	[XP_EVENT_TAIL_EXIT] = "tail_exit",
	[XP_EVENT_ENTRY_ARGS] = "entry_args",
	[XP_EVENT_CUSTOM] = "custom_event",
	[XP_EVENT_TYPED] = "typed_event",
	[XP_EVENT_EXEC] = "exec",
	[XP_EVENT_FORK] = "fork",
	[XP_EVENT_THREAD] = "thread",
	[XP_EVENT_THREAD_GONE] = "thread_gone",
	[XP_EVENT_EXIT_THREAD] = "exit_thread",
	[XP_EVENT_EXIT_PROCESS] = "exit_process",
	[XP_EVENT_LINK_MAP] = "link_map",
	[XP_EVENT_SAMPLE] = "sample",
};

/* The kinds that correspond to something in the target's program. The rest are internal to xprof, and not events. */
static bool is_event(int kind)
{
	return kind <= XP_EVENT_TYPED;
}

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

/* For a process or a thread. Events lost before xprof knows their owner are in the totals. */
static void put_counts(struct section *section, const struct xp_counts *counts)
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
	put_number(section, "in_memory", counts->in_memory);
}

static json_t *lost_cpu_value(unsigned int cpu, const struct xp_bpf_counters *counters)
{
	struct section section = begin();

	put_number(&section, "cpu", cpu);
	for (int kind = 0; kind < XP_EVENT_KINDS; kind++)
		if (kind_names[kind] && counters->lost[kind])
			put_number(&section, kind_names[kind], counters->lost[kind]);
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
static json_t *lost_cpus_value(const struct xp_manifest *manifest)
{
	json_t *array = json_array();

	for (size_t cpu = 0; cpu < manifest->cpu_count; cpu++)
		if (lost_any(&manifest->cpus[cpu]) &&
		    json_array_append_new(array, lost_cpu_value(cpu, &manifest->cpus[cpu]))) {
			json_decref(array);
			return NULL;
		}
	return array;
}

struct sums {
	uint64_t ring; /* events lost in ring buffers */
	uint64_t truncated;
	uint64_t faulted;
	uint64_t not_taken;
};

static struct sums sum_cpus(const struct xp_manifest *manifest)
{
	struct sums sums = { 0 };

	for (size_t cpu = 0; cpu < manifest->cpu_count; cpu++) {
		const struct xp_bpf_counters *counters = &manifest->cpus[cpu];

		for (int kind = 0; kind < XP_EVENT_KINDS; kind++) {
			sums.ring += is_event(kind) ? counters->lost[kind] : 0;
			sums.truncated += counters->truncated[kind];
			sums.faulted += counters->faulted[kind];
		}
		sums.not_taken += counters->not_taken;
	}
	return sums;
}

static json_t *totals_value(const struct xp_manifest *manifest)
{
	const struct xp_counts *counts = &manifest->counts;
	struct sums sums = sum_cpus(manifest);
	struct section section = begin(), lost = begin();
	uint64_t before = sums.ring + manifest->missed; /* lost before xprof saw them */

	put_number(&lost, "total", before + counts->unstored);
	put_number(&lost, "ring", sums.ring);
	put_number(&lost, "missed", manifest->missed);
	put_number(&lost, "unstored", counts->unstored);
	put(&lost, "cpus", lost_cpus_value(manifest));

	put_number(&section, "seen", counts->seen + manifest->other_process + before);
	put_number(&section, "written", counts->written);
	put(&section, "filtered", filtered_value(counts, &manifest->other_process));
	put(&section, "lost", done(&lost));
	put_number(&section, "overwritten", counts->overwritten);
	put_number(&section, "truncated", sums.truncated);
	put_number(&section, "faulted", sums.faulted);
	put_number(&section, "not_taken", sums.not_taken);
	put_number(&section, "synthesized_exits", counts->synthesized);
	put_number(&section, "in_memory", counts->in_memory);
	return done(&section);
}

/* ---- samples ---- */

/* Samples with a user stack: seen = complete + all others. with_zeros: include reasons with no samples. */
static json_t *stacks_value(const uint64_t *stacks, bool with_zeros)
{
	struct section section = begin();
	uint64_t seen = 0;

	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		seen += stacks[end];
	put_number(&section, "seen", seen);
	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		if (stacks[end] || end == XP_UNWIND_COMPLETE || with_zeros)
			put_number(&section, xp_unwind_end_key((enum xp_unwind_end)end), stacks[end]);
	return done(&section);
}

static json_t *jit_value(const struct xp_manifest_jit *jit)
{
	struct section section = begin();

	put_number(&section, "functions", jit->functions);
	put_number(&section, "functions_refused", jit->refused);
	put_number(&section, "samples_named", jit->named);
	put_number(&section, "samples_unnamed", jit->unnamed);
	if (jit->dump)
		put_text(&section, "dump", jit->dump);
	if (jit->dump || jit->dump_lost) {
		put_number(&section, "dump_functions", jit->dump_functions);
		put_number(&section, "dump_functions_lost", jit->dump_lost);
	}
	return done(&section);
}

static json_t *profile_value(const void *arg, size_t index)
{
	const struct xp_manifest_profile *profile = (const struct xp_manifest_profile *)arg + index;
	struct section section = begin();

	put_number(&section, "pid", profile->pid);
	put_number(&section, "image", profile->image);
	put_text(&section, "comm", profile->comm);
	if (profile->cgroup)
		put_text(&section, "cgroup", profile->cgroup);
	put_text(&section, "file", profile->name);
	put_number(&section, "samples", profile->samples);
	if (profile->stacks)
		put(&section, "stacks", stacks_value(profile->stacks, false));
	if (profile->has_jit)
		put(&section, "jit", jit_value(&profile->jit));
	return done(&section);
}

static json_t *samples_value(const struct xp_manifest_samples *samples)
{
	struct section section = begin();

	put_text(&section, "event", samples->event);
	put_number(&section, "period_ns", samples->period_ns);
	put_number(&section, "seen", samples->written + samples->lost);
	put_number(&section, "written", samples->written);
	put_number(&section, "lost", samples->lost);
	put_number(&section, "idle", samples->idle);
	put_number(&section, "switches", samples->switches);
	put_number(&section, "switches_lost", samples->switches_lost);
	put_number(&section, "missed", samples->missed);
	put_number(&section, "kernel", samples->kernel);
	if (samples->cpus)
		put_number(&section, "cpus", samples->cpus);
	put_number(&section, "sideband_lost", samples->sideband_lost);
	put_text(&section, "call_graph", samples->call_graph);
	if (samples->stacks)
		put(&section, "stacks", stacks_value(samples->stacks, true));
	put(&section, "profiles", list(samples->profile_count, profile_value, samples->profiles));
	return done(&section);
}

/* ---- processes ---- */

static json_t *hex_value(const uint8_t *bytes, size_t count)
{
	char text[2 * 64 + 1] = "";

	for (size_t i = 0; i < XP_MIN(count, (size_t)64); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_string(text);
}

static json_t *taken_out_value(const void *arg, size_t index)
{
	const struct xp_manifest_taken_out *function = (const struct xp_manifest_taken_out *)arg + index;
	struct section section = begin();

	put_number(&section, "id", function->id);
	if (function->name)
		put_text(&section, "name", function->name);
	put_number(&section, "times", function->times);
	put(&section, "out_s", json_real((double)function->out_ns / NS_PER_S));
	put(&section, "counted_s", json_real((double)function->counted_ns / NS_PER_S));
	if (function->counted_ns)
		put_number(&section, "calls_counted", function->calls);
	return done(&section);
}

static json_t *object_value(const void *arg, size_t index)
{
	const struct xp_manifest_object *object = (const struct xp_manifest_object *)arg + index;
	struct section section = begin(), refused = begin();

	put_number(&refused, "patched", object->sleds_patched);
	put_number(&refused, "unreadable", object->sleds_unreadable);

	put_text(&section, "path", object->path);
	if (object->build_id_bytes)
		put(&section, "build_id", hex_value(object->build_id, object->build_id_bytes));
	put_number(&section, "functions", object->functions);
	put_number(&section, "first_id", object->first_id);
	put_text(&section, "sled_mode", object->sled_mode);
	put_number(&section, "sleds_attached", object->sleds_attached);
	put(&section, "sleds_refused", done(&refused));
	put_number(&section, "sleds_overwritten", object->sleds_overwritten);
	if (object->taken_out_count)
		put(&section, "taken_out", list(object->taken_out_count, taken_out_value, object->taken_out));
	return done(&section);
}

static json_t *thread_value(const void *arg, size_t index)
{
	const struct xp_manifest_thread *thread = (const struct xp_manifest_thread *)arg + index;
	struct section section = begin();

	put_number(&section, "tid", thread->tid);
	put_text(&section, "name", thread->name);
	put_counts(&section, &thread->counts);
	return done(&section);
}

static json_t *synthesized_value(const struct xp_manifest_process *process)
{
	json_t *array = json_array();

	for (size_t id = 0; process->synthesized && id < process->synthesized_room; id++) {
		struct section section;

		if (!process->synthesized[id])
			continue;
		section = begin();
		put_number(&section, "id", id);
		put_number(&section, "exits", process->synthesized[id]);
		if (json_array_append_new(array, done(&section))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *process_value(const void *arg, size_t index)
{
	const struct xp_manifest_process *process = (const struct xp_manifest_process *)arg + index;
	size_t threads = XP_MIN(process->thread_count, (size_t)XP_MANIFEST_THREADS_MAX);
	struct section section = begin();

	put_number(&section, "pid", process->pid);
	put_number(&section, "image", process->image);
	put_text(&section, "comm", process->comm);
	put_text(&section, "exe", process->exe);
	put(&section, "start_s", json_real((double)process->start_ns / NS_PER_S));
	if (process->log_name && process->log_name[0])
		put_text(&section, "log", process->log_name);
	if (process->flight_count)
		put(&section, "flights", list(process->flight_count, xp_manifest_flight_value, process->flights));
	put_number(&section, "without_ring", process->without_ring);
	put_number(&section, "full_ring", process->full_ring);
	if (process->probed_why)
		put_text(&section, "probed_because", process->probed_why);
	if (process->patched_why)
		put_text(&section, "patched_because", process->patched_why);
	if (process->error)
		put_text(&section, "error", strerror(-process->error));
	put_counts(&section, &process->counts);
	put(&section, "synthesized_by_function", synthesized_value(process));
	put(&section, "objects", list(process->object_count, object_value, process->objects));
	put_number(&section, "thread_count", process->thread_total);
	put(&section, "threads", list(threads, thread_value, process->threads));
	put_number(&section, "threads_omitted", process->thread_total > threads ? process->thread_total - threads : 0);
	return done(&section);
}

/* ---- other members ---- */

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

static json_t *clock_value(const struct xp_manifest_clock *clock)
{
	struct section section = begin();

	put_text(&section, "source", clock->source);
	put_number(&section, "hz", clock->hz);
	put_number(&section, "start_tsc", clock->start_tsc);
	put_number(&section, "error_bound_ns", clock->error_bound_ns);
	put_number(&section, "ktime_error_ns", clock->ktime_error_ns);
	put_bool(&section, "constant_tsc", clock->constant_tsc);
	put_bool(&section, "nonstop_tsc", clock->nonstop_tsc);
	put_number(&section, "records_by_ktime", clock->records_by_ktime);
	return done(&section);
}

static json_t *attach_value(const struct xp_manifest_attach *attach)
{
	struct section section = begin();

	put_text(&section, "method", attach->method);
	put(&section, "attach_ms", json_real(attach->attach_ns / 1e6));
	put(&section, "detach_ms", json_real(attach->detach_ns / 1e6));
	put(&section, "stopped_ms", json_real(attach->stopped_ns / 1e6));
	put(&section, "longest_stop_ms", json_real(attach->longest_stop_ns / 1e6));
	return done(&section);
}

static json_t *forecast_value(const struct xp_manifest *manifest)
{
	const struct xp_forecast *forecast = manifest->forecast;
	struct section section = begin(), hit = begin();

	put_number(&hit, "entry", manifest->probe_cost.entry_ns);
	put_number(&hit, "exit", manifest->probe_cost.exit_ns);
	put_number(&hit, "entry_counted", manifest->probe_cost.counting_ns);
	if (manifest->probe_cost.stub_ns) {
		put_number(&hit, "patched", manifest->probe_cost.stub_ns);
		put_number(&hit, "counted", manifest->probe_cost.count_ns);
		if (manifest->probe_cost.memory_ns)
			put_number(&hit, "memory", manifest->probe_cost.memory_ns);
		if (manifest->probe_cost.args_ns)
			put_number(&hit, "arguments", manifest->probe_cost.args_ns);
	}
	put(&section, "calls_per_s", json_real(forecast->calls_per_s));
	put(&section, "call_ns", json_real(forecast->call_ns));
	put(&section, "cost_cores", json_real(forecast->cost_cores));
	put(&section, "cost_share", json_real(forecast->cost_share));
	put(&section, "slowdown", json_real(forecast->slowdown));
	put(&section, "hit_ns", done(&hit));
	return done(&section);
}

static json_t *budget_value(const struct xp_manifest *manifest)
{
	return json_pack("{s:f, s:f, s:f}", "share", manifest->budget.share, "spent", manifest->budget.spent,
			 "spent_in_stops", manifest->budget.stopped);
}

static json_t *file_value(const void *arg, size_t index)
{
	const struct xp_manifest_file *file = (const struct xp_manifest_file *)arg + index;
	struct section section = begin();

	put_text(&section, "name", file->name);
	put_text(&section, "kind", file->kind);
	put_number(&section, "bytes", file->bytes);
	return done(&section);
}

static json_t *text_item(const void *arg, size_t index)
{
	return xp_manifest_text(((const char *const *)arg)[index]);
}

static json_t *manifest_value(const struct xp_manifest *manifest)
{
	char started[XP_ISO_TIME_BYTES];
	struct section section = begin();
	size_t argc = 0;

	while (manifest->argv[argc])
		argc++;
	xp_iso_time(started, manifest->start_wall_ns);
	put_number(&section, "manifest_version", XP_MANIFEST_VERSION);
	put_text(&section, "xprof_version", XPROF_VERSION);
	put(&section, "command", list(argc, text_item, manifest->argv));
	put_text(&section, "started", started);
	put(&section, "attached_after_s", json_real((double)manifest->attached_after_ns / NS_PER_S));
	put(&section, "duration_s", json_real((double)manifest->duration_ns / NS_PER_S));
	put(&section, "kernel", kernel_value());
	put(&section, "clock", clock_value(&manifest->clock));
	put(&section, "attach", attach_value(&manifest->attach));
	if (manifest->forecast)
		put(&section, "forecast", forecast_value(manifest));
	if (manifest->budget.share > 0)
		put(&section, "budget", budget_value(manifest));
	if (manifest->flight_bytes)
		put_number(&section, "flight_bytes", manifest->flight_bytes);
	if (manifest->triggers.count) {
		put_number(&section, "trigger_limit", manifest->triggers.limit);
		put(&section, "triggers",
		    list(manifest->triggers.count, xp_manifest_trigger_value, manifest->triggers.list));
	}
	put(&section, "totals", totals_value(manifest));
	if (manifest->samples.event)
		put(&section, "samples", samples_value(&manifest->samples));
	if (manifest->off_cpu)
		put(&section, "waits", xp_manifest_waits_value(manifest->off_cpu));
	put(&section, "processes", list(manifest->process_count, process_value, manifest->processes));
	put(&section, "files", list(manifest->file_count, file_value, manifest->files));
	put(&section, "notices", list(manifest->notice_count, text_item, manifest->notices));
	return done(&section);
}

/* ---- the file ---- */

int xp_manifest_write(int dir_fd, int reserved_fd, const struct xp_manifest *manifest)
{
	json_t *json = manifest_value(manifest);
	/* 15 digits: with 17, the nanoseconds of a duration would show rounding errors of doubles. */
	char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
	int err = -ENOMEM;

	json_decref(json);
	if (!text) {
		xp_manifest_release(dir_fd, reserved_fd);
		return err;
	}
	if (reserved_fd < 0)
		reserved_fd = xp_manifest_reserve(dir_fd, 1);
	err = reserved_fd < 0 ? reserved_fd : xp_manifest_file_write(dir_fd, reserved_fd, text);
	free(text);
	return err;
}
