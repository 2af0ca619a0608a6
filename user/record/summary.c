/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said of a recording at its end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/command_line.h"
#include "record/manifest.h"
#include "record/recording.h"
#include "base/util.h"

/* What parts of a manifest take at most, but for strange names. */
#define MANIFEST_BASE_BYTES 8192u
#define MANIFEST_PROFILE_BYTES 1024u
#define MANIFEST_PROCESS_BYTES 4096u
#define MANIFEST_THREAD_BYTES 1024u
/* One period of so many without a sample is nothing to tell. */
#define MISSED_WORTH_TELLING 30

void xp_recording_totals(const struct xp_recording *rec, struct xp_totals *totals)
{
	memset(totals, 0, sizeof(*totals));
	for (const struct xp_process *process = rec->processes.first; process; process = process->next) {
		xp_counts_add(&totals->counts, &process->counts);
		totals->threads += process->thread_count;
		totals->processes++;
	}
	for (size_t i = 0; i < rec->processes.thread_room; i++)
		for (const struct xp_thread *thread = rec->processes.threads[i]; thread; thread = thread->next) {
			xp_counts_add(&totals->counts, &thread->counts);
			totals->threads++;
		}
	for (unsigned int cpu = 0; cpu < rec->programs.cpus; cpu++)
		for (int kind = 0; kind <= XP_REC_TYPED_EVENT; kind++)
			totals->lost_ring += rec->lost[cpu].lost[kind];
	totals->lost_ring += rec->missed;
	for (unsigned int cpu = 0; cpu < rec->programs.cpus; cpu++) {
		totals->samples_lost += rec->lost[cpu].lost[XP_REC_SAMPLE];
		totals->idle += rec->lost[cpu].idle;
	}
	totals->samples_lost += rec->samples.unstored;
	totals->samples = rec->samples.samples - rec->samples.unstored;
	if (rec->sampler)
		totals->missed = xp_sampler_periods(rec->sampler);
	totals->missed -= XP_MIN(totals->missed, totals->samples + totals->samples_lost + totals->idle);
	totals->lost = totals->lost_ring + totals->counts.unstored;
	totals->filtered = xp_counts_filtered(&totals->counts) + rec->other_process;
	totals->seen = totals->counts.seen + rec->other_process + totals->lost_ring;
}

static uint64_t duration_ns(const struct xp_recording *rec)
{
	return xp_clock_ns(rec->clock, rec->processes.stop_tsc - rec->run_tsc);
}

/* Typed events have no place in the version that was wanted. */
static bool has_other_version(const struct xp_recording *rec, const struct xp_process *process)
{
	return process->log_name[0] && process->log_version != rec->options->fdr_version;
}

/* The side ELF names the functions of a log where there is one, the program otherwise. */
static void print_account(const struct xp_recording *rec, const struct xp_process *process, const char *log_name)
{
	const char *dir = rec->outdir.path;
	struct xp_shell_path log, map;

	xp_shell_path(&log, "%s/%s", dir, log_name);
	if (process->side_name[0])
		xp_shell_path(&map, "%s/%s", dir, process->side_name);
	else
		xp_shell_path(&map, "%s", process->exe);
	xp_put_line(stderr, "    llvm-xray account %s -instr_map=%s", log.text, map.text);
}

static void print_next(const struct xp_recording *rec, const struct xp_process *process)
{
	const char *dir = rec->outdir.path;

	xp_put_line(stderr, "  %s/%s  %.1f MB%s", dir, process->log_name, process->log_bytes / 1e6,
		    has_other_version(rec, process) ? ", version 5: it has typed events" : "");
	print_account(rec, process, process->log_name);
}

/* The profiles with most samples, and the commands for them. */
static void print_profiles(const struct xp_recording *rec)
{
	const struct xp_image *most = NULL;
	const char *dir = rec->outdir.path;
	struct xp_shell_path path;

	for (size_t i = 0; i < rec->samples.tasks.image_count; i++) {
		const struct xp_image *image = rec->samples.tasks.images[i];

		if (image->name[0] && (!most || image->samples > most->samples))
			most = image;
	}
	if (!most)
		return;
	xp_put_line(stderr, "  %s/%s  %" PRIu64 " samples, %.1f KB", dir, most->name, most->samples, most->bytes / 1e3);
	xp_put_line(stderr, "    xprof report %s", xp_shell_path(&path, "%s", dir));
	xp_put_line(stderr, "    go tool pprof -top %s", xp_shell_path(&path, "%s/%s", dir, most->name));
}

/* What is in all jitdumps. */
static struct xp_jit_dump_out_counts count_jitdumps(const struct xp_recording *rec)
{
	struct xp_jit_dump_out_counts all = { 0 };

	for (size_t i = 0; i < rec->samples.tasks.image_count; i++) {
		const struct xp_image *image = rec->samples.tasks.images[i];
		struct xp_jit_dump_out_counts dump = { 0 };

		if (!image->jit || !xp_jit_dump(image->jit, &dump))
			continue;
		all.functions += dump.functions;
		all.functions_lost += dump.functions_lost;
		all.bytes += dump.bytes;
	}
	return all;
}

static void print_perf(const struct xp_recording *rec)
{
	const struct xp_jit_dump_out_counts jit = count_jitdumps(rec);
	const struct xp_perf_out *perf = rec->samples.perf;
	const char *dir = rec->outdir.path, *name = XP_PERF_OUT_NAME;
	struct xp_shell_path path, injected;

	if (jit.functions_lost)
		xp_warn("%" PRIu64 " functions are not in the jitdumps: they are too large, or there was no room",
			jit.functions_lost);
	if (jit.bytes)
		xp_put_line(stderr, "  %s/jit-*.dump  %" PRIu64 " functions, %.1f KB", dir, jit.functions,
			    jit.bytes / 1e3);
	if (!perf || !xp_perf_out_samples(perf))
		return;
	xp_put_line(stderr, "  %s/%s  %" PRIu64 " samples, %.1f KB", dir, name, xp_perf_out_samples(perf),
		    xp_perf_out_bytes(perf) / 1e3);
	xp_shell_path(&path, "%s/%s", dir, name);
	if (jit.bytes && rec->options->jitdump_version == 1) {
		xp_shell_path(&injected, "%s/perf.jit.data", dir);
		xp_put_line(stderr, "    perf inject --jit -i %s -o %s", path.text, injected.text);
		path = injected;
	}
	xp_put_line(stderr, "    perf report -i %s", path.text);
}

/* The newest logs of a flight recorder; the rest can be seen in the directory. */
static void print_flights(const struct xp_recording *rec, const struct xp_process *process)
{
	const struct xp_flight_log *log = NULL;

	for (size_t i = 0; i < process->flight_count; i++)
		if (!process->flights[i].error)
			log = &process->flights[i];
	if (!log)
		return;
	xp_put_line(stderr, "  %s/%s  %.1f MB%s", rec->outdir.path, log->name, log->bytes / 1e6,
		    process->flight_count > 1 ? ", the last of several" : "");
	print_account(rec, process, log->name);
}

/* How many user stacks lack their outer frames, and the reason of most of them. */
static void print_stacks(const struct xp_recording *rec)
{
	uint64_t stacks[XP_UNWIND_ENDS], seen = 0, incomplete;
	int most = XP_UNWIND_TRUNCATED;

	xp_samples_stacks(&rec->samples, stacks);
	for (int end = 0; end < XP_UNWIND_ENDS; end++) {
		seen += stacks[end];
		if (end != XP_UNWIND_COMPLETE && stacks[end] > stacks[most])
			most = end;
	}
	incomplete = seen - stacks[XP_UNWIND_COMPLETE];
	if (incomplete)
		xp_info("%" PRIu64 " of %" PRIu64 " user stacks are not complete; %" PRIu64 " of them: %s", incomplete,
			seen, stacks[most], xp_unwind_end_text((enum xp_unwind_end)most));
}

/* The JIT code of all processes: how much of it has names. */
static void print_jit(const struct xp_recording *rec)
{
	uint64_t named = 0, unnamed = 0, functions = 0;

	for (size_t i = 0; i < rec->samples.tasks.image_count; i++) {
		const struct xp_image *image = rec->samples.tasks.images[i];

		named += image->jit_named;
		unnamed += image->jit_unnamed;
		functions += image->jit ? xp_jit_functions(image->jit) : 0;
	}
	if (named + unnamed)
		xp_info("%" PRIu64 " samples in JIT code = %" PRIu64 " in a known function + %" PRIu64
			" without a name; %" PRIu64 " functions known",
			named + unnamed, named, unnamed, functions);
}

static void print_samples(const struct xp_recording *rec, const struct xp_totals *totals)
{
	uint64_t seen = totals->samples + totals->samples_lost;
	size_t profiles = 0;

	for (size_t i = 0; i < rec->samples.tasks.image_count; i++)
		profiles += rec->samples.tasks.images[i]->name[0] != 0;
	xp_info("%.1f s: %" PRIu64 " samples seen = %" PRIu64 " written + %" PRIu64 " lost; %zu profile%s",
		duration_ns(rec) / 1e9, seen, totals->samples, totals->samples_lost, profiles,
		profiles == 1 ? "" : "s");
	if (totals->missed > (seen + totals->missed) / MISSED_WORTH_TELLING)
		xp_warn("%" PRIu64
			" periods of the threads' CPU time have no sample: interrupts were off, a hypervisor "
			"had taken the CPU, or threads were shorter than a period",
			totals->missed);
	if (rec->samples.stacks)
		print_stacks(rec);
	print_jit(rec);
}

static void print_figures(const struct xp_recording *rec, const struct xp_totals *totals)
{
	double seconds = duration_ns(rec) / 1e9;
	char overwritten[48] = "";

	if (rec->options->flight_bytes)
		snprintf(overwritten, sizeof(overwritten), " + %" PRIu64 " overwritten", totals->counts.overwritten);
	if (rec->attached_count || totals->seen || !rec->sampler)
		xp_info("%.1f s, %zu process%s, %zu thread%s: %" PRIu64 " events seen = %" PRIu64 " written + %" PRIu64
			" filtered + %" PRIu64 " lost%s",
			seconds, totals->processes, totals->processes == 1 ? "" : "es", totals->threads,
			totals->threads == 1 ? "" : "s", totals->seen, totals->counts.written, totals->filtered,
			totals->lost, overwritten);
	if (rec->sampler)
		print_samples(rec, totals);
}

/* The function that was out for longest, and how many there were. */
static void print_budget(const struct xp_recording *rec)
{
	const struct xp_throttled *all, *most = NULL;
	size_t count, out = 0;
	char text[512] = "no function was taken out";
	struct xp_short_text name;

	if (!rec->throttle)
		return;
	all = xp_throttle_list(rec->throttle, &count);
	for (size_t i = 0; i < count; i++) {
		out += all[i].times > 0;
		if (all[i].times && (!most || all[i].out_ticks > most->out_ticks))
			most = &all[i];
	}
	if (most)
		snprintf(text, sizeof(text), "%zu function%s taken out, %s for %.1f s%s", out,
			 out == 1 ? " was" : "s were",
			 xp_short_text(&name, most->object->table->functions[most->function_id - 1].name
						  ?: "one without a name"),
			 xp_clock_ns(rec->clock, most->out_ticks) / 1e9, out > 1 ? " (`xprof report` has all)" : "");
	if (xp_throttle_spent(rec->throttle) > 1.2 * rec->options->max_overhead)
		xp_warn(
		    "the budget of %.3g %% was not kept: the calls are spread over many functions, or it was over too "
		    "soon; record fewer functions with --functions",
		    100 * rec->options->max_overhead);
	xp_info("budget %.3g %%: recording took about %.1f %% of the CPU time; %s", 100 * rec->options->max_overhead,
		100 * xp_throttle_spent(rec->throttle), text);
}

void xp_summary_print(const struct xp_recording *rec, const struct xp_totals *totals)
{
	if (xp_log_level < XP_LOG_NORMAL)
		return;
	print_figures(rec, totals);
	print_budget(rec);
	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		if (process->log_name[0])
			print_next(rec, process);
		else
			print_flights(rec, process);
	print_profiles(rec);
	print_perf(rec);
}

/* The object's functions that the budget took out: to be freed; NULL: none, or no memory. */
static struct xp_manifest_taken_out *list_taken_out(const struct xp_recording *rec, const struct xp_object *object,
						    size_t *count)
{
	struct xp_manifest_taken_out *list;
	const struct xp_throttled *all;
	size_t all_count;

	*count = 0;
	if (!rec->throttle)
		return NULL;
	all = xp_throttle_list(rec->throttle, &all_count);
	list = calloc(all_count + 1, sizeof(*list));
	for (size_t i = 0; i < all_count && list; i++) {
		const struct xp_throttled *one = &all[i];

		if (one->object != object || !one->times)
			continue;
		list[(*count)++] = (struct xp_manifest_taken_out){
			.id = one->function_id,
			.name = object->table->functions[one->function_id - 1].name,
			.times = one->times,
			.out_ns = xp_clock_ns(rec->clock, one->out_ticks),
			.counted_ns = xp_clock_ns(rec->clock, one->counted_ticks),
			.calls = one->counted,
		};
	}
	return list;
}

static struct xp_manifest_object manifest_object(const struct xp_recording *rec, const struct xp_range *range)
{
	const struct xp_sled_table *table = range->object->table;
	size_t taken_out_count;
	const struct xp_manifest_taken_out *taken_out = list_taken_out(rec, range->object, &taken_out_count);

	return (struct xp_manifest_object){
		.path = range->object->path,
		.build_id = table->build_id,
		.build_id_bytes = table->build_id_bytes,
		.functions = table->function_count,
		.sled_mode = range->sleds.mode == XP_SLEDS_PATCHED ? "patch" : "probe",
		.sleds_attached = range->sleds.attached,
		.sleds_patched = range->sleds.patched,
		.sleds_unreadable = range->sleds.unreadable,
		.sleds_overwritten = range->overwritten,
		.first_id = range->fdr_base + 1,
		.taken_out = taken_out,
		.taken_out_count = taken_out_count,
	};
}

static uint64_t since_start_ns(const struct xp_recording *rec, uint64_t tsc)
{
	return tsc > rec->start_tsc ? xp_clock_ns(rec->clock, tsc - rec->start_tsc) : 0;
}

static struct xp_manifest_flight manifest_flight(const struct xp_recording *rec, const struct xp_flight_log *log)
{
	return (struct xp_manifest_flight){
		.log_name = log->name,
		.cause = xp_flight_cause_name(log->cause),
		.signal = log->signal,
		.error = log->error,
		.from_ns = since_start_ns(rec, log->first_tsc),
		.to_ns = since_start_ns(rec, log->at_tsc),
		.records = log->records,
		.synthesized_entries = log->entries,
		.synthesized_exits = log->exits,
	};
}

/* Allocates objects, threads and flights for the caller to free. */
static int manifest_process(const struct xp_recording *rec, const struct xp_process *process,
			    struct xp_manifest_process *out)
{
	struct xp_manifest_object *objects = calloc(process->range_count + 1, sizeof(*objects));
	struct xp_manifest_thread *threads = calloc(process->summary_count + 1, sizeof(*threads));
	struct xp_manifest_flight *flights = calloc(process->flight_count + 1, sizeof(*flights));

	*out = (struct xp_manifest_process){
		.pid = process->pid,
		.image = process->image,
		.comm = process->comm,
		.exe = process->exe,
		.start_ns = since_start_ns(rec, process->begin_tsc),
		.log_name = process->log_name,
		.error = process->error,
		.probed_why = process->probed_why,
		.counts = process->counts,
		.synthesized = process->synthesized,
		.synthesized_room = process->synthesized_room,
		.flights = flights,
		.flight_count = process->flight_count,
		.objects = objects,
		.object_count = process->range_count,
		.threads = threads,
		.thread_count = process->summary_count,
		.thread_total = process->thread_count,
	};
	if (!objects || !threads || !flights)
		return -ENOMEM;
	for (size_t i = 0; i < process->flight_count; i++)
		flights[i] = manifest_flight(rec, &process->flights[i]);
	for (size_t i = 0; i < process->range_count; i++)
		objects[i] = manifest_object(rec, &process->ranges[i]);
	for (size_t i = 0; i < process->summary_count; i++)
		threads[i] = (struct xp_manifest_thread){ process->summaries[i].tid, process->summaries[i].name,
							  process->summaries[i].counts };
	return 0;
}

static uint64_t file_bytes(const struct xp_recording *rec, const char *name)
{
	struct stat st;

	return fstatat(rec->outdir.fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_size;
}

static size_t count_flights(const struct xp_recording *rec)
{
	size_t count = 0;

	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		count += process->flight_count;
	return count;
}

static size_t list_files(const struct xp_recording *rec, struct xp_manifest_file *files)
{
	struct xp_image *const *images = rec->samples.tasks.images;
	size_t count = 0;

	for (const struct xp_process *process = rec->processes.first; process; process = process->next) {
		if (process->log_name[0])
			files[count++] = (struct xp_manifest_file){ process->log_name, "fdr", process->log_bytes };
		for (size_t i = 0; i < process->flight_count; i++)
			if (!process->flights[i].error)
				files[count++] = (struct xp_manifest_file){ process->flights[i].name, "fdr",
									    process->flights[i].bytes };
		if (process->side_name[0])
			files[count++] = (struct xp_manifest_file){ process->side_name, "side-elf",
								    file_bytes(rec, process->side_name) };
	}
	for (size_t i = 0; i < rec->samples.tasks.image_count; i++) {
		struct xp_jit_dump_out_counts dump = { 0 };
		const char *dump_name = images[i]->jit ? xp_jit_dump(images[i]->jit, &dump) : NULL;

		if (images[i]->name[0])
			files[count++] = (struct xp_manifest_file){ images[i]->name, "gperftools", images[i]->bytes };
		if (dump_name && dump.bytes)
			files[count++] = (struct xp_manifest_file){ dump_name, "jitdump", dump.bytes };
	}
	if (rec->samples.perf && xp_perf_out_bytes(rec->samples.perf))
		files[count++] =
		    (struct xp_manifest_file){ XP_PERF_OUT_NAME, "perf.data", xp_perf_out_bytes(rec->samples.perf) };
	return count;
}

static struct xp_manifest_jit manifest_jit(const struct xp_image *image)
{
	struct xp_jit_dump_out_counts dump = { 0 };
	const char *dump_name = xp_jit_dump(image->jit, &dump);

	return (struct xp_manifest_jit){
		.functions = xp_jit_functions(image->jit),
		.refused = xp_jit_refused(image->jit),
		.named = image->jit_named,
		.unnamed = image->jit_unnamed,
		.dump = dump.bytes ? dump_name : NULL,
		.dump_functions = dump.functions,
		.dump_lost = dump.functions_lost,
	};
}

/* profiles has room for all of them. */
static struct xp_manifest_samples manifest_samples(const struct xp_recording *rec, const struct xp_totals *totals,
						   struct xp_manifest_profile *profiles, uint64_t *stacks)
{
	static const char *const ways[] = { "auto", "fp", "dwarf", "none" };
	bool has_stacks = rec->samples.stacks;
	size_t count = 0;

	if (!rec->sampler)
		return (struct xp_manifest_samples){ 0 };
	xp_samples_stacks(&rec->samples, stacks);
	for (size_t i = 0; i < rec->samples.tasks.image_count; i++) {
		const struct xp_image *image = rec->samples.tasks.images[i];

		if (!image->name[0])
			continue;
		profiles[count] = (struct xp_manifest_profile){
			.pid = image->pid,
			.image = image->number,
			.comm = image->comm,
			.name = image->name,
			.samples = image->samples,
			.stacks = has_stacks ? image->stacks : NULL,
			.has_jit = image->jit,
		};
		if (image->jit)
			profiles[count].jit = manifest_jit(image);
		count++;
	}
	return (struct xp_manifest_samples){
		.event = xp_sampler_event(rec->sampler),
		.period_ns = xp_sampler_period_ns(rec->sampler, xp_clock_hz(rec->clock)),
		.written = totals->samples,
		.lost = totals->samples_lost,
		.idle = totals->idle,
		.missed = totals->missed,
		.kernel = rec->samples.kernel_samples,
		.sideband_lost = xp_sideband_lost(rec->sideband),
		.call_graph = ways[rec->options->call_graph],
		.stacks = has_stacks ? stacks : NULL,
		.profiles = profiles,
		.profile_count = count,
	};
}

#define NOTICES_MAX 2

/* text: of a notice that has numbers. */
static size_t list_notices(const struct xp_recording *rec, const char **notices, char *text, size_t text_size)
{
	const struct xp_perf_out *perf = rec->samples.perf;
	size_t count = 0;

	for (const struct xp_process *process = rec->processes.first; process && !count; process = process->next)
		if (has_other_version(rec, process))
			notices[count++] = "Logs with typed events are of version 5, since no version below has them.";
	if (perf && xp_perf_out_samples(perf) < rec->samples.samples) {
		snprintf(text, text_size,
			 XP_PERF_OUT_NAME " has %" PRIu64 " of %" PRIu64 " samples: it could not be written further.",
			 xp_perf_out_samples(perf), rec->samples.samples);
		notices[count++] = text;
	}
	return count;
}

int xp_summary_reserve(const struct xp_recording *rec)
{
	uint64_t bytes = MANIFEST_BASE_BYTES + rec->samples.tasks.image_count * MANIFEST_PROFILE_BYTES;

	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		bytes += MANIFEST_PROCESS_BYTES +
			 XP_MIN(process->thread_count, (size_t)XP_MANIFEST_THREADS_MAX) * MANIFEST_THREAD_BYTES;
	return xp_manifest_reserve(rec->outdir.fd, bytes);
}

int xp_summary_manifest(const struct xp_recording *rec, const struct xp_totals *totals, int reserved_fd)
{
	struct xp_manifest_process *processes = calloc(totals->processes + 1, sizeof(*processes));
	struct xp_manifest_file *files =
	    calloc(2 * totals->processes + count_flights(rec) + 2 * rec->samples.tasks.image_count + 2, sizeof(*files));
	struct xp_manifest_profile *profiles = calloc(rec->samples.tasks.image_count + 1, sizeof(*profiles));
	char **argv = xp_command_line_read();
	size_t count = 0;
	uint64_t stacks[XP_UNWIND_ENDS];
	const char *notices[NOTICES_MAX];
	char notice[128];
	struct xp_manifest manifest = {
		.argv = argv,
		.start_wall_ns = xp_clock_wall_ns(rec->clock, rec->start_tsc),
		.duration_ns = duration_ns(rec),
		.clock = {
			.source = xp_clock_source(rec->clock),
			.hz = xp_clock_hz(rec->clock),
			.start_tsc = rec->start_tsc,
			.error_bound_ns = xp_clock_error_ns(rec->clock),
			.ktime_error_ns = xp_clock_ktime_error_ns(rec->clock),
			.constant_tsc = xp_clock_constant_tsc(rec->clock),
			.nonstop_tsc = xp_clock_nonstop_tsc(rec->clock),
			.records_by_ktime = rec->by_ktime,
		},
		.attach_method = rec->multi ? "uprobe_multi" : "perf_uprobe",
		.attach_ns = rec->attach_ns,
		.detach_ns = rec->detach_ns,
		.stopped_ns = rec->stopped_ns,
		.longest_stop_ns = rec->longest_stop_ns,
		.forecast = rec->survey.made ? &rec->survey.forecast : NULL,
		.hit_cost = rec->survey.hit_cost,
		.budget = rec->throttle ? rec->options->max_overhead : 0,
		.budget_spent = rec->throttle ? xp_throttle_spent(rec->throttle) : 0,
		.flight_bytes = rec->options->flight_bytes,
		.counts = totals->counts,
		.other_process = rec->other_process,
		.missed = rec->missed,
		.cpus = rec->lost,
		.cpu_count = rec->programs.cpus,
		.processes = processes,
		.files = files,
		.notices = notices,
		.notice_count = list_notices(rec, notices, notice, sizeof(notice)),
	};
	int err = -ENOMEM;

	if (!processes || !files || !profiles || !argv)
		goto out;
	err = 0;
	for (const struct xp_process *process = rec->processes.first; process && !err; process = process->next)
		err = manifest_process(rec, process, &processes[count++]);
	manifest.process_count = count;
	manifest.file_count = list_files(rec, files);
	manifest.samples = manifest_samples(rec, totals, profiles, stacks);
	if (!err) {
		err = xp_manifest_write(rec->outdir.fd, reserved_fd, &manifest);
		reserved_fd = -1;
	}
out:
	xp_manifest_release(rec->outdir.fd, reserved_fd);
	for (size_t i = 0; i < count; i++) {
		for (size_t o = 0; o < processes[i].object_count && processes[i].objects; o++)
			free((void *)processes[i].objects[o].taken_out);
		free((void *)processes[i].objects);
		free((void *)processes[i].threads);
		free((void *)processes[i].flights);
	}
	free(processes);
	free(files);
	free(profiles);
	free(argv);
	return err;
}
