/* SPDX-License-Identifier: BSD-2-Clause */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "preflight.h"
#include "util.h"

/* Of each CPU: 1 MiB holds about 6000 mappings, more than a CPU makes between two looks. */
#define SIDEBAND_PAGES 256
#define RING_BYTES (4u << 20)
/* Of a ring for samples alone. */
#define RING_BYTES_MIN (256u << 10)
/* A quarter of a second's worth of samples must fit, however large each is. */
#define RING_SHARE_OF_SECOND 4
/* Processes that --follow and --exec may find at once. */
#define TARGETS_MAX 65536
/* Each takes tens of milliseconds to attach; of further processes new JIT code is looked for every second. */
#define JIT_WATCHES_MAX 32
/* A process may just start to load what has sleds: how often to look again, and after what time. */
#define SCAN_TRIES 5
#define SCAN_PAUSE_US 2000
/* One that executes programs faster than they can be attached: after that, the records of its execs lead. */
#define SCAN_TRIES_MAX 20

/* The CPUs of --all: those of --cpu, or all that there may be. */
static int choose_cpus(struct xp_recording *rec)
{
	const char *list = rec->options->cpus;
	int err;

	if (!rec->options->all)
		return 0;
	rec->cpus = malloc(rec->programs.cpus * sizeof(*rec->cpus));
	if (!rec->cpus)
		return -ENOMEM;
	memset(rec->cpus, true, rec->programs.cpus * sizeof(*rec->cpus));
	err = list ? xp_cpu_list_parse(list, rec->cpus, rec->programs.cpus) : 0;
	if (err == -ERANGE)
		snprintf(rec->why, sizeof(rec->why), "--cpu %s: this machine has only CPUs 0-%u", list,
			 rec->programs.cpus - 1);
	else if (err)
		snprintf(rec->why, sizeof(rec->why), "--cpu takes a list such as 0-3,7, not '%s'", list);
	return err;
}

static void say_clamped(const struct xp_recording *rec)
{
	uint64_t hz = xp_sampler_clamped_hz(rec->sampler);

	if (!xp_sampler_hardware(rec->sampler) && hz == XP_SAMPLER_CPU_CLOCK_HZ_MAX)
		xp_warn("sampling at %" PRIu64 " Hz, the most that cpu-clock bears", hz);
	else
		xp_warn("sampling at %" PRIu64
			" Hz, the most that kernel.perf_event_max_sample_rate allows; `sudo sysctl "
			"kernel.perf_event_max_sample_rate=%" PRIu64 "` raises it",
			hz, rec->options->hz);
}

static enum xp_sample_stacks stacks_of(enum xp_call_graph call_graph)
{
	switch (call_graph) {
	case XP_CALL_GRAPH_FP:
		return XP_STACKS_FRAMES;
	case XP_CALL_GRAPH_NONE:
		return XP_STACKS_NONE;
	default:
		return XP_STACKS_SNAPSHOT;
	}
}

static void set_stack_size(void *arg, pid_t tid, const struct xp_stack_size *size)
{
	struct xp_recording *rec = arg;
	int err = xp_programs_set_stack(&rec->programs, tid, size);

	if (err)
		xp_debug("cannot set the stack size of thread %d: %s", tid, strerror(-err));
}

/* A JIT compiler's call of an empty function, when its code changed, wakes the reader. */
static void watch_jit(void *arg, pid_t pid, int fd, uint64_t offset)
{
	struct xp_recording *rec = arg;
	const struct xp_uprobe probe = { .offset = offset };
	int err;

	if (!rec->attach || rec->jit_watches == JIT_WATCHES_MAX)
		return;
	rec->jit_watches++;
	err = xp_attach_uprobes(rec->attach, xp_programs_jit_fd(&rec->programs), fd, pid, &probe, 1);
	if (err)
		xp_debug("process %d: cannot be told of new JIT code: %s", pid, strerror(-err));
}

static int prepare_samples(struct xp_recording *rec)
{
	const struct xp_stacks_options stacks = {
		.by_frame_pointer = rec->options->call_graph == XP_CALL_GRAPH_AUTO,
		.set_size = set_stack_size,
		.arg = rec,
	};
	bool with_snapshots = stacks_of(rec->options->call_graph) == XP_STACKS_SNAPSHOT;
	struct xp_sampler_options sampler = {
		.program_fd = xp_programs_sample_fd(&rec->programs),
		.hz = rec->options->period ? 0 : rec->options->hz,
		.period = rec->options->period,
		.children = rec->options->follow,
	};
	int err = choose_cpus(rec);

	if (!err)
		err = xp_sampler_new(&rec->sampler, &sampler, rec->why, sizeof(rec->why));
	if (!err)
		err = xp_sideband_open(&rec->sideband, SIDEBAND_PAGES);
	rec->samples.dir_fd = rec->outdir.fd;
	rec->samples.describe = xp_programs_describe;
	rec->samples.describe_arg = &rec->programs;
	rec->samples.jit.jits = (struct xp_jits){
		.clock = rec->clock,
		.bytes_left = XP_JIT_BYTES_LEFT,
		.jvm_attach = rec->options->jvm_attach,
		.with_dumps = !rec->options->no_perf_data,
		.dump_bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX,
		.to_the_letter = rec->options->jitdump_version == 2,
		.dir_fd = rec->outdir.fd,
		.start_tsc = rec->start_tsc,
		.watch = watch_jit,
		.arg = rec,
	};
	if (!err)
		err = xp_samples_init(&rec->samples, with_snapshots ? &stacks : NULL);
	if (err)
		return err;
	if (!xp_sampler_hardware(rec->sampler))
		xp_info("no hardware counters here: sampling by cpu-clock, which cannot see code that runs with "
			"interrupts off");
	if (xp_sampler_clamped_hz(rec->sampler))
		say_clamped(rec);
	return 0;
}

static int prepare_perf(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	uint64_t tsc_hz = xp_clock_hz(rec->clock), period_ns = xp_sampler_period_ns(rec->sampler, tsc_hz);
	struct xp_perf_out_options perf = {
		.dir_fd = rec->outdir.fd,
		.clock = rec->clock,
		.tasks = &rec->samples.tasks,
		.hardware = xp_sampler_hardware(rec->sampler),
		.event = xp_sampler_event(rec->sampler),
		.period = options->period ? options->period : period_ns,
		.uncompressed = options->no_compression,
		.late_ns = 2 * XP_SAMPLES_WAIT_NS,
	};

	if (perf.hardware && !options->period)
		perf.period = xp_clock_ticks(rec->clock, period_ns);
	return xp_perf_out_new(&rec->samples.perf, &perf);
}

/* Finds what a probe on the stub costs least on. */
static enum xp_stub_form choose_form(const struct xp_recording *rec)
{
	enum xp_stub_form form = XP_STUB_NOP1;
	struct xp_stub_cost costs[XP_STUB_FORMS];

	if (!rec->multi)
		return form;
	if (xp_stub_measure(&form, costs))
		xp_debug("the costs of probes on nops cannot be measured");
	else
		xp_debug("probes on a %s cost least: %.0f ns a hit", xp_stub_form_name(form), costs[form].hit_ns);
	return form;
}

static int prepare_patch(struct xp_recording *rec)
{
	const struct xp_patch_options patch = {
		.attach = rec->attach,
		.programs = &rec->programs,
		.form = rec->stub_form,
		.args = rec->options->args,
		.budget = rec->options->max_overhead > 0,
	};

	return rec->may_patch ? xp_patch_new(&rec->patch, &patch) : 0;
}

/* A ring costs as much to make as it is large: where only samples fill it, it is as large as they may need. */
static uint64_t ring_bytes(const struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	uint64_t sample_bytes = sizeof(struct xp_rec_sample) + 2 * XP_SAMPLE_FRAMES_MAX * sizeof(uint64_t);
	uint64_t bytes = RING_BYTES_MIN;

	if (options->buffer_bytes)
		return options->buffer_bytes;
	if (rec->with_sleds || options->period)
		return RING_BYTES;
	if (stacks_of(options->call_graph) == XP_STACKS_SNAPSHOT)
		sample_bytes += XP_STACK_BYTES_MAX;
	/* The last quarter is for samples without their stacks. */
	while (bytes < RING_BYTES && bytes * 3 / 4 / sample_bytes < options->hz / RING_SHARE_OF_SECOND)
		bytes *= 2;
	return bytes;
}

/* Everything that does not touch the target yet. */
static int prepare(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	const struct xp_options *options = rec->options;
	struct xp_programs_options programs = {
		.tasks = !options->all && !options->tid,
		.sleds = rec->with_sleds,
		.samples = rec->with_samples,
		.stacks = stacks_of(options->call_graph),
		.only_targets = options->follow && !options->exec_path,
		.follow_children = options->follow,
		.exec_inode = options->exec_path ? rec->exec_file.st_ino : 0,
		.args = options->args ? options->args : 1,
	};
	int err;

	rec->all_processes = options->follow || options->exec_path;
	rec->multi =
	    options->uprobes == XP_UPROBES_AUTO ? preflight->has_uprobe_multi : options->uprobes == XP_UPROBES_MULTI;
	/* With --follow and --exec, probes are on processes that start later too: then sleds are always probed. */
	rec->may_patch = rec->with_sleds && options->sled_way != XP_SLED_WAY_PROBE && !rec->all_processes;
	if (rec->may_patch)
		rec->stub_form = choose_form(rec);
	rec->objects.patterns = options->functions.texts;
	rec->objects.pattern_count = options->functions.count;
	rec->start_tsc = xp_clock_now_tsc();
	rec->processes.clock = rec->clock;
	rec->processes.dir_fd = rec->outdir.fd;
	rec->processes.fdr_version = options->fdr_version;
	rec->processes.start_tsc = rec->start_tsc;
	rec->processes.min_ticks = xp_clock_ticks(rec->clock, options->min_duration_ns);
	rec->processes.flight_bytes = options->flight_bytes;
	if (options->flight_bytes) {
		xp_flight_writer_init(&rec->flight_writer, rec->outdir.fd);
		rec->processes.writer = &rec->flight_writer;
	}
	err = xp_processes_init(&rec->processes);
	/* First of all: until it is done, nothing is there that a kill would leave. */
	if (!err)
		xp_survey(rec);
	if (!err && options->dry_run)
		err = prepare_patch(rec);
	if (err || options->dry_run)
		return err;

	/* A command is one more than is listed. */
	programs.targets = rec->all_processes ? TARGETS_MAX : options->pids.count + 1;
	programs.stub = rec->may_patch;
	programs.uprobe_multi = rec->multi;
	programs.counters = options->max_overhead > 0 ? XP_THROTTLE_MAX : 0;
	err = xp_programs_open(&rec->programs, &programs);
	if (!err)
		err = xp_rings_open(&rec->rings, xp_programs_rings_fd(&rec->programs), ring_bytes(rec));
	if (!err)
		err = xp_programs_set_clock(&rec->programs, rec->clock);
	if (!err)
		err = xp_merge_new(&rec->merge, rec->rings, rec->clock);
	if (!err)
		err = xp_attach_new(&rec->attach, rec->multi);
	if (!err)
		err = prepare_patch(rec);
	if (!err && !options->all && !options->tid)
		err = xp_programs_attach_tasks(&rec->programs);
	rec->lost = calloc(rec->programs.cpus, sizeof(*rec->lost));
	if (!err && !rec->lost)
		err = -ENOMEM;
	if (!err && rec->with_samples)
		err = prepare_samples(rec);
	if (!err && rec->with_samples && !options->no_perf_data)
		err = prepare_perf(rec);
	if (err && !rec->why[0])
		snprintf(rec->why, sizeof(rec->why),
			 "cannot set up the BPF side: %s; `xprof doctor` tells what is "
			 "missing, -v shows the kernel's messages",
			 strerror(-err));
	return err;
}

static int sample_process(struct xp_recording *rec, pid_t pid)
{
	int err = xp_tasks_expect(&rec->samples.tasks, pid);

	if (!err)
		err = xp_sampler_add_process(rec->sampler, pid);
	if (err == -ESRCH)
		snprintf(rec->why, sizeof(rec->why), "process %d ended while it was being attached", pid);
	else if (err == -EMFILE)
		snprintf(
		    rec->why, sizeof(rec->why),
		    "process %d has more threads than xprof may open files; raise `ulimit -n`, or sample all with -a",
		    pid);
	return err;
}

/* Starts the command and holds it until what is to be attached is. */
static int start_command(struct xp_recording *rec)
{
	int err = xp_launch_start(&rec->launch, rec->options->child_argv, rec->why, sizeof(rec->why));

	if (!err && rec->sampler)
		err = sample_process(rec, rec->launch.pid);
	return err ? err : xp_follow_launch(rec);
}

/* What processes have mapped before the side-band tells: of those that are sampled, as hundreds may run here. */
static int scan_sampled(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	struct xp_tasks *tasks = &rec->samples.tasks;
	int err = 0;

	if (options->all)
		return xp_tasks_scan_all(tasks);
	for (size_t i = 0; i < options->pids.count && !err; i++)
		err = xp_tasks_scan(tasks, options->pids.pids[i]);
	if (options->child_argv && !err)
		err = xp_tasks_scan(tasks, rec->launch.pid);
	if (options->tid && !err)
		err = xp_tasks_scan(tasks, xp_target_process(options->tid));
	return err;
}

/* Until sleds are found, or it is sure that there are none. */
static int look_again(struct xp_recording *rec, struct xp_process *process)
{
	int none = 0, err = 0;

	for (int tries = 0; tries < SCAN_TRIES_MAX && none < SCAN_TRIES && !process->range_count && !err; tries++) {
		unsigned int flees = process->flees;

		usleep(SCAN_PAUSE_US);
		err = xp_follow_again(rec, process);
		none = process->flees == flees ? none + 1 : 0;
	}
	if (none == SCAN_TRIES)
		process->flees = 0;
	return err;
}

static int attach_targets(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	struct xp_process *process;
	int err = 0;

	for (size_t i = 0; i < options->pids.count && !err; i++) {
		pid_t pid = options->pids.pids[i];

		err = xp_follow_add(rec, &process, pid, xp_clock_now_tsc());
		if (!err && rec->with_sleds)
			err = look_again(rec, process);
		if (!err && rec->sampler)
			err = sample_process(rec, pid);
	}
	if (options->exec_path && !err)
		err = xp_follow_exec_file(rec);
	if (options->child_argv && !err)
		err = start_command(rec);
	if (options->tid && !err)
		err = xp_sampler_add_thread(rec->sampler, options->tid);
	if (options->all && !err)
		err = xp_sampler_add_cpus(rec->sampler, rec->cpus, rec->programs.cpus);
	/* Samples wait in the rings meanwhile; what happens from now on the side-band tells. */
	if (rec->sampler && !err)
		err = scan_sampled(rec);
	return err;
}

/* What a process runs that did not stand still to be looked at, the record of its exec leads to. */
static bool has_fled(const struct xp_recording *rec)
{
	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		if (process->live && process->flees)
			return true;
	return false;
}

/* Whether there is anything to record. With --exec, processes may come later; a command may execute another. */
static int check_attached(struct xp_recording *rec)
{
	size_t attached = 0, patched = 0, refused = 0, objects = 0;
	const struct xp_process *first = rec->processes.first;

	if (!rec->with_sleds)
		return 0;
	for (size_t i = 0; i < rec->attached_count; i++) {
		objects++;
		attached += rec->attached[i].sleds.attached;
		patched += rec->attached[i].sleds.patched;
		refused += rec->attached[i].sleds.patched + rec->attached[i].sleds.unreadable;
	}
	if (attached || rec->options->exec_path || (rec->options->child_argv && !objects) || has_fled(rec))
		return 0;
	if (rec->with_samples && !rec->options->functions.count) {
		xp_info("process %d (%s) has no XRay sleds%s: it is sampled only. `clang -fxray-instrument` builds "
			"them in",
			first->pid, first->comm, refused ? " to attach" : "");
		return 0;
	}
	if (refused) {
		snprintf(rec->why, sizeof(rec->why), "no sled is left to attach: %s; see above",
			 patched == refused ? "all are patched already"
			 : patched	    ? "those that can be read are patched already"
					    : "none can be read");
		return -EBUSY;
	}
	if (objects && rec->options->functions.count) {
		snprintf(rec->why, sizeof(rec->why),
			 "no instrumented function matches --functions; `xprof list %d` "
			 "shows their names",
			 first->pid);
		return -ENOENT;
	}
	snprintf(
	    rec->why, sizeof(rec->why),
	    "process %d (%s) has no XRay sleds. Build it with `clang -fxray-instrument` (and "
	    "-fxray-instruction-threshold=1 for short functions too); without --no-samples it is sampled all the same",
	    first->pid, first->comm);
	return -ENOENT;
}

/* XRay's runtime may have patched sleds under our probes: then their events have stopped. */
static void check_overwritten(struct xp_recording *rec)
{
	for (struct xp_process *process = rec->processes.first; process; process = process->next) {
		for (size_t i = 0; i < process->range_count && process->live; i++) {
			struct xp_range *range = &process->ranges[i];

			range->overwritten = range->sleds.mode == XP_SLEDS_PATCHED
						 ? xp_patch_overwritten(rec->patch, range->object, process->pid)
						 : xp_sleds_overwritten(range->object, process->pid);
			range->overwritten -= XP_MIN(range->overwritten, range->sleds.patched);
			if (range->overwritten)
				xp_warn("%s: XRay's runtime patched %zu sleds in process %d during the recording; "
					"their events are missing from then on",
					range->object->path, range->overwritten, process->pid);
		}
	}
}

/* The end of what is recorded. Sleds are put back before a second signal may end xprof. */
static void stop(struct xp_recording *rec)
{
	uint64_t begin = xp_clock_now_tsc();

	/* What is lost from here on belongs to the recording no more than what is recorded: see `outside`. */
	rec->processes.stop_tsc = begin;
	rec->stopped = true;
	xp_run_read_losses(rec);
	if (rec->launch.traced)
		xp_launch_release(&rec->launch);
	if (rec->throttle)
		xp_throttle_wait(rec->throttle);
	check_overwritten(rec);
	if (rec->patch) {
		xp_patch_restore(rec->patch);
		rec->stopped_ns = xp_patch_stopped_ns(rec->patch, &rec->longest_stop_ns);
	}
	rec->detach_ns = xp_clock_ns(rec->clock, xp_clock_now_tsc() - begin);
}

static int detach(struct xp_recording *rec)
{
	uint64_t begin = xp_clock_now_tsc();

	if (rec->sampler)
		xp_sampler_stop(rec->sampler);
	if (rec->throttle)
		xp_throttle_end(rec->throttle);
	xp_attach_detach_all(rec->attach);
	rec->detach_ns += xp_clock_ns(rec->clock, xp_clock_now_tsc() - begin);
	return xp_run_drain(rec);
}

static const char *storage_remedy(int err)
{
	switch (err) {
	case -ENOSPC:
	case -EDQUOT:
		return "; make room there or give another -o";
	case -EFBIG:
		return "; raise `ulimit -f` or give another -o";
	default:
		return "";
	}
}

/* Hands what is kept to the writer, all at once, and waits for it. */
static int finish_flights(struct xp_recording *rec)
{
	int err = 0;

	if (!rec->options->flight_bytes)
		return 0;
	for (struct xp_process *process = rec->processes.first; process; process = process->next)
		err = xp_process_finish(process) ?: err;
	return xp_run_collect_flights(rec, true) ?: err;
}

static int finish_perf(struct xp_recording *rec)
{
	int err = xp_perf_out_finish(rec->samples.perf);

	if (err)
		xp_error(XP_PERF_OUT_NAME " has %" PRIu64 " of %" PRIu64 " samples: %s%s",
			 xp_perf_out_samples(rec->samples.perf), rec->samples.samples, strerror(-err),
			 storage_remedy(err));
	return err;
}

/* Makes the files of every image that had sleds; goes on after an error, so that the others are kept. */
static int finish(struct xp_recording *rec)
{
	int first;

	xp_clock_verify(rec->clock);
	first = finish_flights(rec);
	for (struct xp_process *process = rec->processes.first; process; process = process->next) {
		int err;

		if (!process->range_count)
			continue;
		err = xp_process_finish(process);
		if (err && process->spool)
			xp_error("the log of process %d (%s) cannot be made: %s; when that is remedied, run "
				 "`xprof recover %s`",
				 process->pid, process->comm, strerror(-err), rec->outdir.path);
		else if (err)
			xp_error("the log of process %d (%s) is not complete: %s%s", process->pid, process->comm,
				 strerror(-err), storage_remedy(err));
		first = first ?: err;
	}
	if (rec->sampler) {
		int err = xp_samples_drain(&rec->samples);

		/* Before the profiles are written: it gives room back. */
		if (rec->samples.perf)
			first = finish_perf(rec) ?: first;
		err = xp_samples_finish(&rec->samples, xp_sampler_period_ns(rec->sampler, xp_clock_hz(rec->clock)))
			  ?: err;
		if (err)
			xp_error("the profiles are not complete: %s%s", strerror(-err), storage_remedy(err));
		first = first ?: err;
	}
	return first;
}

static void close_recording(struct xp_recording *rec)
{
	xp_sampler_free(rec->sampler);
	xp_sideband_free(rec->sideband);
	xp_samples_free(&rec->samples);
	xp_perf_out_free(rec->samples.perf);
	free(rec->cpus);
	xp_patch_free(rec->patch);
	xp_attach_free(rec->attach);
	xp_throttle_free(rec->throttle);
	xp_merge_free(rec->merge);
	xp_programs_close(&rec->programs);
	xp_rings_free(rec->rings);
	xp_processes_free(&rec->processes);
	xp_survey_free(&rec->survey);
	xp_objects_free(&rec->objects);
	xp_clock_free(rec->clock);
	free(rec->attached);
	free(rec->linkers);
	free(rec->lost);
}

static int exit_code_of(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
	case -EOPNOTSUPP:
	case -EMFILE:
		return XP_EXIT_ENVIRONMENT;
	default:
		return XP_EXIT_FAILED;
	}
}

/* Says once what failed: rec->why where a sentence was left, the errno otherwise. */
static int report(struct xp_recording *rec, int err, const char *doing)
{
	if (rec->why[0])
		xp_error("%s", rec->why);
	else
		xp_error("%s: %s%s", doing, strerror(-err), storage_remedy(err));
	return exit_code_of(err);
}

static void print_dry_run(const struct xp_recording *rec)
{
	size_t objects = 0;

	for (const struct xp_process *process = rec->processes.first; process; process = process->next) {
		printf("process %d (%s)\n", process->pid, process->comm);
		objects += process->range_count;
		for (size_t i = 0; i < process->range_count; i++) {
			const struct xp_range *range = &process->ranges[i];
			const struct xp_object *object = range->object;

			printf("  %s: %zu functions, %zu sleds, %zu to %s, %zu refused\n", object->path,
			       object->table->function_count, object->table->sled_count, range->sleds.attached,
			       range->sleds.mode == XP_SLEDS_PATCHED ? "patch" : "probe",
			       range->sleds.patched + range->sleds.unreadable);
		}
		if (process->probed_why[0])
			printf("  probed, not patched: %s\n", process->probed_why);
	}
	if (rec->survey.made) {
		char text[256];

		xp_survey_text(&rec->survey, text, sizeof(text));
		printf("forecast: %s\n", text);
	} else if (objects && !rec->multi) {
		printf("no forecast: it needs uprobe_multi, Linux 6.6\n");
	}
}

/* An idle target is not worth a word. */
static void say_forecast(const struct xp_recording *rec)
{
	char text[256];

	if (!rec->survey.made || rec->survey.forecast.calls_per_s < 1)
		return;
	xp_survey_text(&rec->survey, text, sizeof(text));
	xp_info("forecast: %s", text);
}

/* What the survey has found too hot for the budget. */
static void say_budget(const struct xp_recording *rec)
{
	const struct xp_throttled *all;
	size_t count;

	if (!rec->throttle)
		return;
	all = xp_throttle_list(rec->throttle, &count);
	if (count)
		xp_info("budget: %s%s not recorded at first, being called too often",
			all->object->table->functions[all->function_id - 1].name ?: "a function without a name",
			count > 1 ? " and others are" : " is");
}

static void say_recording(const struct xp_recording *rec)
{
	size_t sleds = 0;

	for (size_t i = 0; i < rec->attached_count; i++)
		sleds += rec->attached[i].sleds.attached;
	if (rec->sampler)
		xp_info("sampling by %s every %.1f us of CPU time", xp_sampler_event(rec->sampler),
			xp_sampler_period_ns(rec->sampler, xp_clock_hz(rec->clock)) / 1e3);
	if (!sleds) {
		xp_info("recording; %s", rec->options->child_argv ? "ends with the command" : "^C stops");
		return;
	}
	if (rec->processes.first && !rec->processes.first->next)
		xp_info("recording process %d (%s): %zu sleds; %s", rec->processes.first->pid,
			rec->processes.first->comm, sleds, rec->options->child_argv ? "ends when it does" : "^C stops");
	else
		xp_info("recording: %zu sleds; ^C stops", sleds);
}

/* What the survey has found too hot is not attached at all at first. */
static int set_budget(struct xp_recording *rec)
{
	struct xp_throttle_options throttle = {
		.attach = rec->attach,
		.patch = rec->patch,
		.programs = &rec->programs,
		.all_args = rec->options->args,
		.processes = &rec->processes,
		.clock = rec->clock,
		.hit_cost = rec->survey.hit_cost,
		.share = rec->options->max_overhead,
	};
	int err;

	if (!(rec->options->max_overhead > 0) || rec->options->dry_run)
		return 0;
	if (!rec->survey.hit_cost.entry_ns) {
		snprintf(rec->why, sizeof(rec->why),
			 "--max-overhead needs %s; leave it away, and hot functions out with --functions '!NAME'",
			 rec->multi ? "to measure what a probe costs, and cannot (-v tells why)"
				    : "uprobe_multi, Linux 6.6");
		return -EOPNOTSUPP;
	}
	err = xp_throttle_new(&rec->throttle, &throttle);
	for (size_t i = 0; i < rec->survey.object_count && !err; i++)
		err = xp_throttle_add_object(rec->throttle, rec->survey.objects[i].object, rec->survey.objects[i].calls,
					     rec->survey.own_ns);
	return err;
}

/* From the first probe to the last file. Sets *stored when there is something to keep in the output directory. */
static int record_all(struct xp_recording *rec, int signal_fd, bool *stored)
{
	struct xp_totals totals;
	int code = XP_EXIT_OK;
	int reserved_fd;
	int err = set_budget(rec);

	if (!err)
		err = attach_targets(rec);
	if (!err)
		err = check_attached(rec);
	if (err)
		return report(rec, err, "cannot attach");
	xp_survey_forecast(rec);
	if (rec->options->dry_run) {
		print_dry_run(rec);
		return XP_EXIT_OK;
	}
	say_forecast(rec);
	say_budget(rec);
	say_recording(rec);
	rec->why[0] = 0;
	*stored = true;
	err = xp_run(rec, signal_fd);
	if (err)
		code = report(rec, err, "the recording was cut short");
	stop(rec);
	xp_run_unblock_signals();
	if (rec->with_sleds && !rec->with_samples && !rec->attached_count)
		xp_warn(
		    "nothing was recorded: no program with XRay sleds ran. `clang -fxray-instrument` builds them in");
	err = detach(rec);
	if (err && code == XP_EXIT_OK)
		code = report(rec, err, "the last records could not be read");
	reserved_fd = xp_summary_reserve(rec);
	err = finish(rec);
	if (err && code == XP_EXIT_OK)
		code = exit_code_of(err);
	xp_recording_totals(rec, &totals);
	err = xp_summary_manifest(rec, &totals, reserved_fd);
	if (err) {
		xp_error("cannot write manifest.json: %s%s", strerror(-err), storage_remedy(err));
		code = code == XP_EXIT_OK ? XP_EXIT_FAILED : code;
	}
	xp_summary_print(rec, &totals);
	if (code == XP_EXIT_OK && totals.lost + totals.samples_lost && rec->options->strict) {
		xp_error("%" PRIu64 " events were lost (--strict), and %" PRIu64 " samples", totals.lost,
			 totals.samples_lost);
		code = XP_EXIT_LOST;
	}
	return code;
}

/* The command that xprof started: killed when the recording never began, waited for otherwise. */
static int end_launch(struct xp_recording *rec, int code, bool recorded)
{
	if (!rec->launch.pid || rec->launch.ended)
		goto out;
	xp_launch_release(&rec->launch);
	if (!recorded)
		kill(rec->launch.pid, SIGKILL);
	else
		xp_launch_poll(&rec->launch);
	if (recorded && !rec->launch.ended)
		xp_info("the recording is over; waiting for %s to end", rec->options->child_argv[0]);
	xp_launch_wait(&rec->launch);
out:
	if (code == XP_EXIT_OK && rec->launch.ended)
		return xp_launch_exit_code(&rec->launch);
	return code;
}

static int record_in(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	bool stored = false;
	int signal_fd = xp_run_block_signals(rec);
	int err, code;

	if (signal_fd < 0)
		return report(rec, signal_fd, "signalfd");
	err = prepare(rec, preflight);
	code = err ? report(rec, err, "cannot set up") : record_all(rec, signal_fd, &stored);
	code = end_launch(rec, code, stored);
	close_recording(rec);
	close(signal_fd);
	if (!rec->options->dry_run && xp_outdir_close(&rec->outdir, stored) && code == XP_EXIT_OK)
		code = XP_EXIT_FAILED;
	return code;
}

int xp_record(const struct xp_options *options)
{
	struct xp_recording rec = {
		.options = options,
		.outdir.fd = -1,
		.with_sleds = !options->no_sleds && !options->all && !options->tid,
		.with_samples = !options->no_samples && !options->exec_path,
	};
	struct xp_preflight preflight;
	int code, err;

	xp_preflight_run(&preflight);
	code = xp_preflight_require(&preflight);
	if (code != XP_EXIT_OK)
		return code;
	if (options->exec_path && stat(options->exec_path, &rec.exec_file)) {
		snprintf(rec.why, sizeof(rec.why), "--exec %s: %s", options->exec_path, strerror(errno));
		return report(&rec, -errno, "--exec");
	}
	/* Targets that cannot be traced are refused before anything is written. */
	for (size_t i = 0; i < options->pids.count; i++) {
		struct xp_target_info info;

		err = xp_target_check(options->pids.pids[i], &info, rec.why, sizeof(rec.why));
		if (err)
			return report(&rec, err, "cannot trace");
	}
	err = xp_clock_open(&rec.clock);
	if (err)
		return report(&rec, err, "cannot set up the clock");
	if (!options->dry_run) {
		err = xp_outdir_open(&rec.outdir, options->output_dir, rec.why, sizeof(rec.why));
		if (err) {
			xp_clock_free(rec.clock);
			return report(&rec, err, "cannot make the output directory");
		}
	}
	return record_in(&rec, &preflight);
}
