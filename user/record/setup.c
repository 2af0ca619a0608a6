/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets up, and frees, the parts of a recording, without touching a target. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "base/why.h"
#include "elf/function_patterns.h"
#include "export/logs.h"
#include "record/messages.h"
#include "record/recording.h"

static int prepare_patch(struct xp_recording *recording)
{
	const struct xp_patch_options patch = {
		.attach = recording->targets.probes.attach,
		.programs = &recording->bpf.programs,
		.args = recording->options->args,
		.memory = recording->plan.memory,
		.rdpid = recording->plan.rdpid,
		.min_ticks = xp_clock_ticks(recording->clock, recording->options->min_duration_ns),
		.budget = recording->options->max_overhead > 0,
		.children = recording->plan.all_processes,
	};

	return recording->plan.may_patch ? xp_patch_new(&recording->targets.probes.patch, &patch) : 0;
}

static int setup_triggers(struct xp_recording *recording)
{
	const struct xp_trigger_list *given = &recording->options->triggers;
	struct xp_targets *targets = &recording->targets;
	struct xp_triggers *triggers = &targets->processes.triggers;
	int err;

	if (!given->count)
		return 0;
	err = xp_triggers_new(triggers, given->count, recording->options->trigger_limit,
			      xp_clock_ticks(recording->clock, 60 * XP_NS_PER_S));
	for (size_t i = 0; i < given->count && !err; i++) {
		triggers->list[i].text = given->list[i].text;
		triggers->list[i].above_ticks = xp_clock_ticks(recording->clock, given->list[i].above_ns);
		triggers->globs[i] = given->list[i].glob;
	}
	if (!err) {
		targets->objects.watched = triggers->globs;
		targets->objects.watched_count = triggers->count;
		targets->objects.watched_uses = xp_pattern_uses_new(triggers->globs, triggers->count);
	}
	return err;
}

static int make_log(int dir_fd, const char *spool_name, struct xp_spool_result *result)
{
	return xp_fdr_make(dir_fd, spool_name, 0, NULL, result);
}

/* Selects the functions to record, also functions without sleds in processes that are already known. */
static int select_functions(struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	struct xp_objects *objects = &targets->objects;

	objects->plans =
	    options->functions.count && targets->plan->may_patch && !options->exec_path && options->max_overhead <= 0;
	return xp_objects_select(objects, options->functions.texts, options->functions.count);
}

static void setup_targets(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	struct xp_targets *targets = &recording->targets;
	struct xp_processes *processes = &targets->processes;

	targets->options = options;
	targets->plan = &recording->plan;
	targets->clock = recording->clock;
	targets->programs = &recording->bpf.programs;
	targets->objects.only_patchable = options->max_overhead > 0;
	processes->clock = recording->clock;
	processes->dir_fd = recording->outdir.fd;
	processes->fdr_version = options->fdr_version;
	processes->start_tsc = xp_clock_now_tsc();
	processes->min_ticks = xp_clock_ticks(recording->clock, options->min_duration_ns);
	processes->make_log = make_log;
	processes->flight_bytes = options->flight_bytes;
	if (options->flight_bytes) {
		xp_flight_writer_init(&targets->flight_writer, recording->outdir.fd, make_log);
		processes->writer = &targets->flight_writer;
	}
	xp_processes_init(processes);
}

static int open_bpf_side(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	const bool samples = recording->plan.samples && !options->dry_run;
	const struct xp_programs_options programs = {
		.tasks = !options->all && !options->tid,
		.sleds = recording->plan.sleds,
		.usdt = options->usdt.count,
		.samples = samples,
		.stacks = xp_plan_stacks(options),
		.only_targets = options->follow && !options->exec_path,
		.follow_children = options->follow,
		.births = samples && xp_plan_chooses_events(&recording->plan, options),
		.exec_inode = options->exec_path ? recording->plan.exec_file.st_ino : 0,
		.args = options->args ? options->args : 1,
		/* One more than the listed PIDs, for a command. */
		.targets = recording->plan.all_processes ? XP_TARGETS_MAX : options->pids.count + 1,
		.stub = recording->plan.may_patch,
		.threads = recording->plan.memory,
		.uprobe_multi = recording->plan.multi,
		.switches = samples && xp_plan_switches(&recording->plan, options),
		.switches_of_all = options->all,
		.switches_of_tid = (pid_t)options->tid,
	};

	return xp_bpf_side_open(&recording->bpf, &programs, xp_plan_ring_bytes(&recording->plan, options),
				recording->clock);
}

static int sample_process(void *sampling, pid_t pid)
{
	return xp_sampling_add_process(sampling, pid);
}

static uint64_t original_of(const void *arg, uint64_t inode, uint64_t offset)
{
	const struct xp_targets *targets = arg;

	return targets->probes.patch ? xp_patch_original(targets->probes.patch, inode, offset) : 0;
}

/* Sets what sampling borrows, before anything is set up. */
static void begin_sampling(struct xp_recording *recording)
{
	struct xp_sampling *sampling = &recording->sampling;

	sampling->options = recording->options;
	sampling->plan = &recording->plan;
	sampling->clock = recording->clock;
	sampling->programs = &recording->bpf.programs;
	sampling->targets = &recording->targets.processes;
	sampling->dir_fd = recording->outdir.fd;
	sampling->shared_fd = recording->rotation.shared_fd;
	sampling->usdt = &recording->targets.probes.usdt;
	sampling->watch_jit = xp_targets_watch_jit;
	sampling->watch_arg = &recording->targets;
	sampling->samples.original = original_of;
	sampling->samples.original_arg = &recording->targets;
}

static int setup_sampling(struct xp_recording *recording)
{
	recording->targets.sample = sample_process;
	recording->targets.sample_arg = &recording->sampling;
	return xp_sampling_setup(&recording->sampling);
}

static int setup_samples(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	int err = recording->plan.samples ? setup_sampling(recording) : 0;

	if (!err && xp_plan_switches(&recording->plan, options))
		err = xp_programs_attach_switches(&recording->bpf.programs);
	if (!err && options->off_cpu.given)
		err = xp_off_cpu_setup(&recording->off_cpu, &recording->sampling);
	return err;
}

/* Sets up the BPF programs, the rings, and the code that reads events from them. */
static int setup_kernel(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	int err = open_bpf_side(recording);

	if (!err && recording->plan.memory && !xp_programs_know_tsc(&recording->bpf.programs)) {
		recording->plan.no_memory =
		    "the kernel does not report which threads have disabled their TSC (PR_SET_TSC in prctl(2))";
		recording->plan.memory = false;
	}
	if (!err && recording->plan.memory)
		recording->targets.processes.tasks_lost = xp_programs_tasks_lost(&recording->bpf.programs);
	if (!err)
		err = xp_attach_new(&recording->targets.probes.attach, recording->plan.multi);
	if (!err)
		err = prepare_patch(recording);
	if (!err && !options->all && !options->tid)
		err = xp_programs_attach_tasks(&recording->bpf.programs);
	if (!err && !options->dry_run)
		err = setup_samples(recording);
	if (!err || xp_why_has(err))
		return err;
	return xp_why_set(err == -ENOMEM ? err : -EOPNOTSUPP,
			  "cannot set up the BPF side: %s; `xprof doctor` shows what is "
			  "missing, -v shows the kernel's messages",
			  strerror(-err));
}

int xp_setup(struct xp_recording *recording)
{
	int err;

	begin_sampling(recording);
	xp_sampling_look(&recording->sampling);
	setup_targets(recording);
	err = select_functions(&recording->targets) ?: setup_triggers(recording)
		  ?: xp_usdt_on_init(&recording->targets.probes.usdt, recording->options->usdt.texts,
				     recording->options->usdt.count);
	if (err)
		return err;
	/* Measure before anything is set up that would remain if xprof were killed. */
	xp_forecast_measure(&recording->targets);
	return recording->options->dry_run && !recording->plan.sleds ? 0 : setup_kernel(recording);
}

int xp_setup_budget(struct xp_recording *recording)
{
	struct xp_throttle_options throttle = {
		.patch = recording->targets.probes.patch,
		.processes = &recording->targets.processes,
		.clock = recording->clock,
		.probe_cost = recording->targets.forecast.probe_cost,
		.share = recording->options->max_overhead,
	};

	if (!(recording->options->max_overhead > 0) || recording->options->dry_run)
		return 0;
	if (!recording->targets.forecast.probe_cost.entry_ns) {
		return xp_why_set(
		    -EOPNOTSUPP,
		    "--max-overhead requires %s; omit it, and exclude hot functions with --functions '!NAME'",
		    recording->plan.multi ? "the cost of a probe, which cannot be measured (-v shows why)"
					  : "uprobe_multi, Linux 6.6");
	}
	return xp_throttle_new(&recording->targets.probes.throttle, &throttle);
}

void xp_setup_free(struct xp_recording *recording)
{
	xp_off_cpu_free(&recording->off_cpu);
	xp_sampling_free(&recording->sampling);
	xp_probes_free(&recording->targets.probes);
	/* Free this before the BPF programs, which have the addresses of the processes' call rings. */
	xp_processes_free(&recording->targets.processes);
	xp_bpf_side_close(&recording->bpf);
	xp_objects_free(&recording->targets.objects);
	xp_clock_free(recording->clock);
}
