/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recording was, for its manifest. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "base/command_line.h"
#include "record/calls_text.h"
#include "record/manifest.h"
#include "record/summary.h"

/* Upper limits of the parts of a manifest, except with unusual names. */
#define MANIFEST_BASE_BYTES 8192u
#define MANIFEST_PROFILE_BYTES 1536u
#define MANIFEST_PROCESS_BYTES 4096u
#define MANIFEST_THREAD_BYTES 1024u
#define NOTICES_MAX 2

/* The functions of the object that the budget took out, for the caller to free. NULL: none, or out of memory. */
static struct xp_manifest_taken_out *list_taken_out(const struct xp_recording *recording,
						    const struct xp_object *object, size_t *count)
{
	struct xp_manifest_taken_out *list;
	const struct xp_throttled *all;
	/* Functions are taken out before the recording begins, and put back after its end. */
	uint64_t length_ns = xp_summary_duration_ns(recording);
	size_t all_count;

	*count = 0;
	if (!recording->probes.throttle)
		return NULL;
	all = xp_throttle_list(recording->probes.throttle, &all_count);
	list = calloc(all_count + 1, sizeof(*list));
	for (size_t i = 0; i < all_count && list; i++) {
		const struct xp_throttled *one = &all[i];

		if (one->object != object || !one->times)
			continue;
		list[(*count)++] = (struct xp_manifest_taken_out){
			.id = one->function_id,
			.name = object->table->functions[one->function_id - 1].name,
			.times = one->times,
			.out_ns = XP_MIN(xp_clock_ns(recording->clock, one->out_ticks), length_ns),
			.counted_ns = XP_MIN(xp_clock_ns(recording->clock, one->counted_ticks), length_ns),
			.calls = one->counted,
		};
	}
	return list;
}

static struct xp_manifest_object manifest_object(const struct xp_recording *recording, const struct xp_range *range)
{
	const struct xp_sled_table *table = range->object->table;
	size_t taken_out_count;
	const struct xp_manifest_taken_out *taken_out = list_taken_out(recording, range->object, &taken_out_count);

	return (struct xp_manifest_object){
		.path = range->object->path,
		.build_id = table->build_id,
		.build_id_bytes = table->build_id_bytes,
		.functions = table->function_count,
		.sled_mode = xp_sled_mode_name(&range->sleds),
		.sleds_attached = range->sleds.attached,
		.sleds_patched = range->sleds.patched,
		.sleds_unreadable = range->sleds.unreadable,
		.sleds_overwritten = range->overwritten,
		.first_id = range->fdr_base + 1,
		.taken_out = taken_out,
		.taken_out_count = taken_out_count,
	};
}

static uint64_t since_start_ns(const struct xp_recording *recording, uint64_t tsc)
{
	return tsc > recording->traced.processes.start_tsc
		   ? xp_clock_ns(recording->clock, tsc - recording->traced.processes.start_tsc)
		   : 0;
}

static struct xp_manifest_calls manifest_calls(const struct xp_process *process, const struct xp_flight_thread *thread)
{
	struct xp_manifest_calls calls = { .tid = thread->tid, .count = thread->call_count };

	_Static_assert(XP_MANIFEST_CALLS_MAX == XP_FLIGHT_CALLS_MAX, "all that are known");
	for (size_t i = 0; i < calls.count; i++) {
		calls.ids[i] = thread->calls[i];
		calls.names[i] = xp_function_symbol(&process->functions, thread->calls[i]);
	}
	return calls;
}

static struct xp_manifest_slow_call manifest_slow_call(const struct xp_recording *recording,
						       const struct xp_process *process,
						       const struct xp_flight_slow_call *slow)
{
	if (!slow->calls)
		return (struct xp_manifest_slow_call){ 0 };
	return (struct xp_manifest_slow_call){
		.trigger = recording->traced.processes.triggers.list[slow->trigger].text,
		.in = manifest_calls(process, &slow->in),
		.start_ns = since_start_ns(recording, slow->begin_tsc),
		.took_ns = xp_clock_ns(recording->clock, slow->end_tsc - slow->begin_tsc),
		.further = slow->calls - 1,
	};
}

static struct xp_manifest_triggers manifest_triggers(const struct xp_recording *recording)
{
	const struct xp_triggers *triggers = &recording->traced.processes.triggers;
	struct xp_manifest_triggers all = { .count = triggers->count, .limit = triggers->limit };

	_Static_assert(XP_MANIFEST_TRIGGERS_MAX == XP_TRIGGERS_MAX, "all that there may be");
	for (size_t i = 0; i < triggers->count; i++)
		all.list[i] = (struct xp_manifest_trigger){
			.text = triggers->list[i].text,
			.calls = triggers->list[i].calls,
			.logs = triggers->list[i].logs,
			.shared = triggers->list[i].shared,
			.beyond = triggers->list[i].beyond,
			.beyond_share = triggers->list[i].beyond_share,
		};
	return all;
}

static struct xp_manifest_flight manifest_flight(const struct xp_recording *recording, const struct xp_process *process,
						 const struct xp_flight_log *log)
{
	struct xp_manifest_flight flight = {
		.log_name = log->name,
		.cause = xp_flight_cause_name(log->cause),
		.signal = log->signal,
		.error = log->error,
		.from_ns = since_start_ns(recording, log->first_tsc),
		.to_ns = since_start_ns(recording, log->at_tsc),
		.records = log->records,
		.synthesized_entries = log->entries,
		.synthesized_exits = log->exits,
		.slow = manifest_slow_call(recording, process, &log->slow),
	};

	for (size_t i = 0; i < log->threads.count && i < XP_MANIFEST_CALLERS_MAX; i++)
		flight.callers[flight.caller_count++] = manifest_calls(process, &log->threads.first[i]);
	return flight;
}

/* Allocates objects, threads and flights, for the caller to free. */
static int manifest_process(const struct xp_recording *recording, const struct xp_process *process,
			    struct xp_manifest_process *out)
{
	struct xp_manifest_object *objects = calloc(process->functions.range_count + 1, sizeof(*objects));
	struct xp_manifest_thread *threads = calloc(process->sums.summary_count + 1, sizeof(*threads));
	struct xp_manifest_flight *flights = calloc(process->flights.count + 1, sizeof(*flights));

	*out = (struct xp_manifest_process){
		.pid = process->pid,
		.image = process->image,
		.comm = process->comm,
		.exe = process->exe,
		.start_ns = since_start_ns(recording, process->begin_tsc),
		.log_name = process->log.name,
		.error = process->log.error,
		.without_ring = process->fallen.no_ring,
		.full_ring = process->fallen.full,
		.probed_why = process->attaching.probed_why,
		.patched_why = process->attaching.patched_why,
		.counts = process->sums.counts,
		.synthesized = process->sums.synthesized,
		.synthesized_room = process->sums.synthesized_room,
		.flights = flights,
		.flight_count = process->flights.count,
		.objects = objects,
		.object_count = process->functions.range_count,
		.threads = threads,
		.thread_count = process->sums.summary_count,
		.thread_total = process->sums.thread_count,
	};
	if (!objects || !threads || !flights)
		return -ENOMEM;
	for (size_t i = 0; i < process->flights.count; i++)
		flights[i] = manifest_flight(recording, process, &process->flights.logs[i]);
	for (size_t i = 0; i < process->functions.range_count; i++)
		objects[i] = manifest_object(recording, &process->functions.ranges[i]);
	for (size_t i = 0; i < process->sums.summary_count; i++)
		threads[i] =
		    (struct xp_manifest_thread){ process->sums.summaries[i].tid, process->sums.summaries[i].name,
						 process->sums.summaries[i].counts };
	return 0;
}

static uint64_t file_bytes(const struct xp_recording *recording, const char *name)
{
	struct stat st;

	return fstatat(recording->outdir.fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_size;
}

static size_t count_flights(const struct xp_recording *recording)
{
	size_t count = 0;

	for (const struct xp_process *process = recording->traced.processes.first; process; process = process->next)
		count += process->flights.count;
	return count;
}

static size_t list_files(const struct xp_recording *recording, struct xp_manifest_file *files)
{
	struct xp_image *const *images = recording->sampling.samples.processes.images;
	size_t count = 0;

	for (const struct xp_process *process = recording->traced.processes.first; process; process = process->next) {
		if (process->log.name[0])
			files[count++] = (struct xp_manifest_file){ process->log.name, "fdr", process->log.bytes };
		for (size_t i = 0; i < process->flights.count; i++)
			if (!process->flights.logs[i].error)
				files[count++] = (struct xp_manifest_file){ process->flights.logs[i].name, "fdr",
									    process->flights.logs[i].bytes };
		if (process->log.side_name[0])
			files[count++] = (struct xp_manifest_file){ process->log.side_name, "side-elf",
								    file_bytes(recording, process->log.side_name) };
	}
	for (size_t i = 0; i < recording->sampling.samples.processes.image_count; i++) {
		struct xp_jit_dump_out_counts dump = { 0 };
		const char *dump_name = images[i]->jit ? xp_jit_dump(images[i]->jit, &dump) : NULL;

		if (images[i]->name[0])
			files[count++] = (struct xp_manifest_file){ images[i]->name, "gperftools", images[i]->bytes };
		if (images[i]->wait_name[0])
			files[count++] =
			    (struct xp_manifest_file){ images[i]->wait_name, "gperftools", images[i]->wait_bytes };
		if (dump_name && dump.bytes)
			files[count++] = (struct xp_manifest_file){ dump_name, "jitdump", dump.bytes };
	}
	if (recording->sampling.samples.perf && xp_perf_out_bytes(recording->sampling.samples.perf))
		files[count++] = (struct xp_manifest_file){ XP_PERF_OUT_NAME, "perf.data",
							    xp_perf_out_bytes(recording->sampling.samples.perf) };
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
static struct xp_manifest_samples manifest_samples(const struct xp_recording *recording, const struct xp_totals *totals,
						   struct xp_manifest_profile *profiles, uint64_t *stacks)
{
	static const char *const ways[] = { "auto", "fp", "dwarf", "none" };
	bool has_stacks = recording->sampling.samples.stacks;
	size_t count = 0;

	if (!recording->sampling.sampler)
		return (struct xp_manifest_samples){ 0 };
	xp_samples_stacks(&recording->sampling.samples, stacks);
	for (size_t i = 0; i < recording->sampling.samples.processes.image_count; i++) {
		const struct xp_image *image = recording->sampling.samples.processes.images[i];

		if (!image->name[0])
			continue;
		profiles[count] = (struct xp_manifest_profile){
			.pid = image->pid,
			.image = image->number,
			.comm = image->comm,
			.cgroup = image->cgroup,
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
		.event = xp_sampler_event(recording->sampling.sampler),
		.period_ns = xp_sampler_period_ns(recording->sampling.sampler, xp_clock_hz(recording->clock)),
		.written = totals->samples,
		.lost = totals->samples_lost,
		.idle = totals->idle,
		.switches = recording->sampling.switches,
		.switches_lost = totals->switches_lost,
		.missed = totals->missed,
		.kernel = recording->sampling.samples.kernel_samples,
		.cpus = recording->options->all ? xp_sampling_cpus(&recording->sampling) : 0,
		.sideband_lost = xp_sideband_lost(recording->sampling.sideband),
		.call_graph = ways[recording->options->call_graph],
		.stacks = has_stacks ? stacks : NULL,
		.profiles = profiles,
		.profile_count = count,
	};
}

/* text: buffer for a notice with numbers. */
static size_t list_notices(const struct xp_recording *recording, const char **notices, char *text, size_t text_size)
{
	const struct xp_perf_out *perf = recording->sampling.samples.perf;
	size_t count = 0;

	for (const struct xp_process *process = recording->traced.processes.first; process && !count;
	     process = process->next)
		if (xp_summary_has_other_version(recording, process))
			notices[count++] =
			    "Logs with typed events have version 5, because earlier versions have no typed events.";
	if (perf && xp_perf_out_samples(perf) < recording->sampling.samples.samples) {
		snprintf(text, text_size,
			 XP_PERF_OUT_NAME " has %" PRIu64 " of %" PRIu64 " samples: it could not be written further.",
			 xp_perf_out_samples(perf), recording->sampling.samples.samples);
		notices[count++] = text;
	}
	return count;
}

int xp_summary_reserve(const struct xp_recording *recording)
{
	uint64_t bytes =
	    MANIFEST_BASE_BYTES + recording->sampling.samples.processes.image_count * MANIFEST_PROFILE_BYTES;

	for (const struct xp_process *process = recording->traced.processes.first; process; process = process->next)
		bytes += MANIFEST_PROCESS_BYTES +
			 XP_MIN(process->sums.thread_count, (size_t)XP_MANIFEST_THREADS_MAX) * MANIFEST_THREAD_BYTES;
	bytes += XP_MIN(recording->off_cpu.waits.sum_count, (size_t)XP_MANIFEST_THREADS_MAX) * MANIFEST_THREAD_BYTES;
	return xp_manifest_reserve(recording->outdir.fd, bytes);
}

static struct xp_manifest_clock manifest_clock(const struct xp_recording *recording)
{
	return (struct xp_manifest_clock){
		.source = xp_clock_source(recording->clock),
		.hz = xp_clock_hz(recording->clock),
		.start_tsc = recording->traced.processes.start_tsc,
		.error_bound_ns = xp_clock_error_ns(recording->clock),
		.ktime_error_ns = xp_clock_ktime_error_ns(recording->clock),
		.constant_tsc = xp_clock_constant_tsc(recording->clock),
		.nonstop_tsc = xp_clock_nonstop_tsc(recording->clock),
		.records_by_ktime = recording->bpf.by_ktime,
	};
}

static struct xp_manifest_attach manifest_attach(const struct xp_recording *recording)
{
	return (struct xp_manifest_attach){
		.method = recording->plan.multi ? "uprobe_multi" : "perf_uprobe",
		.attach_ns = recording->probes.attach_ns,
		.detach_ns = recording->probes.detach_ns,
		.stopped_ns = recording->probes.stopped_ns,
		.longest_stop_ns = recording->probes.longest_stop_ns,
	};
}

static void free_processes(struct xp_manifest_process *processes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t o = 0; o < processes[i].object_count && processes[i].objects; o++)
			free((void *)processes[i].objects[o].taken_out);
		free((void *)processes[i].objects);
		free((void *)processes[i].threads);
		free((void *)processes[i].flights);
	}
	free(processes);
}

static struct xp_manifest_budget budget_of(const struct xp_recording *recording)
{
	const struct xp_throttle *throttle = recording->probes.throttle;

	if (!throttle)
		return (struct xp_manifest_budget){ 0 };
	return (struct xp_manifest_budget){
		.share = recording->options->max_overhead,
		.spent = xp_throttle_spent(throttle),
		.stopped = xp_throttle_stopped(throttle),
	};
}

int xp_summary_manifest(const struct xp_recording *recording, const struct xp_totals *totals, int reserved_fd)
{
	struct xp_manifest_process *processes = calloc(totals->processes + 1, sizeof(*processes));
	size_t images = recording->sampling.samples.processes.image_count;
	struct xp_manifest_file *files =
	    calloc(2 * totals->processes + count_flights(recording) + 3 * images + 2, sizeof(*files));
	struct xp_manifest_profile *profiles = calloc(images + 1, sizeof(*profiles));
	char **argv = xp_command_line_read();
	size_t count = 0;
	uint64_t stacks[XP_UNWIND_ENDS];
	const char *notices[NOTICES_MAX];
	char notice[128];
	struct xp_manifest manifest = {
		.argv = argv,
		.start_wall_ns = xp_clock_wall_ns(recording->clock, recording->traced.processes.start_tsc),
		.attached_after_ns =
		    xp_clock_ns(recording->clock, recording->run_tsc - recording->traced.processes.start_tsc),
		.duration_ns = xp_summary_duration_ns(recording),
		.clock = manifest_clock(recording),
		.attach = manifest_attach(recording),
		.forecast = recording->rates.made ? &recording->rates.forecast : NULL,
		.probe_cost = recording->rates.probe_cost,
		.budget = budget_of(recording),
		.flight_bytes = recording->options->flight_bytes,
		.triggers = manifest_triggers(recording),
		.off_cpu = recording->off_cpu.on ? &recording->off_cpu : NULL,
		.counts = totals->counts,
		.other_process = recording->traced.other_process,
		.missed = recording->bpf.missed,
		.cpus = recording->bpf.counters,
		.cpu_count = recording->bpf.programs.cpus,
		.processes = processes,
		.files = files,
		.notices = notices,
		.notice_count = list_notices(recording, notices, notice, sizeof(notice)),
	};
	int err = -ENOMEM;

	if (!processes || !files || !profiles || !argv)
		goto out;
	err = 0;
	for (const struct xp_process *process = recording->traced.processes.first; process && !err;
	     process = process->next)
		err = manifest_process(recording, process, &processes[count++]);
	manifest.process_count = count;
	manifest.file_count = list_files(recording, files);
	manifest.samples = manifest_samples(recording, totals, profiles, stacks);
	if (!err) {
		err = xp_manifest_write(recording->outdir.fd, reserved_fd, &manifest);
		reserved_fd = -1;
	}
out:
	xp_manifest_release(recording->outdir.fd, reserved_fd);
	free_processes(processes, count);
	free(files);
	free(profiles);
	free(argv);
	return err;
}
