/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets up, and frees, everything that a recording needs without touching a target: programs, ring buffers, merge,
 * budget.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "record/recording.h"
#include "sled/stub_cost.h"

#define RING_BYTES (4u << 20)
/* The smallest ring for samples alone. */
#define RING_BYTES_MIN (256u << 10)
/* A quarter of a second of samples must fit, however large each is. */
#define RING_SHARE_OF_SECOND 4
/* Limit of processes that --follow and --exec find at the same time. */
#define TARGETS_MAX 65536

/* Finds the stub form on which a probe costs least. */
static enum xp_stub_form choose_form(const struct xp_recording *recording)
{
	enum xp_stub_form form = XP_STUB_NOP1;
	struct xp_stub_cost costs[XP_STUB_FORMS];

	if (!recording->multi)
		return form;
	if (xp_stub_measure(&form, costs))
		xp_debug("the costs of probes on nops cannot be measured");
	else
		xp_debug("probes on a %s cost least: %.0f ns a hit", xp_stub_form_name(form), costs[form].hit_ns);
	return form;
}

static int prepare_patch(struct xp_recording *recording)
{
	const struct xp_patch_options patch = {
		.attach = recording->attach,
		.programs = &recording->programs,
		.form = recording->stub_form,
		.args = recording->options->args,
		.budget = recording->options->max_overhead > 0,
	};

	return recording->may_patch ? xp_patch_new(&recording->patch, &patch) : 0;
}

enum xp_sample_stacks xp_setup_stacks(enum xp_call_graph call_graph)
{
	switch (call_graph) {
	case XP_CALL_GRAPH_FP:
		return XP_STACKS_FRAMES;
	case XP_CALL_GRAPH_NONE:
		return XP_STACKS_NONE;
	default:
		return XP_STACKS_DUMP;
	}
}

/* The time to create a ring grows with its size: a ring for samples alone is only as large as they may need. */
static uint64_t ring_bytes(const struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	uint64_t sample_bytes = sizeof(struct xp_event_sample) + 2 * XP_SAMPLE_FRAMES_MAX * sizeof(uint64_t);
	uint64_t bytes = RING_BYTES_MIN;

	if (options->buffer_bytes)
		return options->buffer_bytes;
	if (recording->with_sleds || options->period)
		return RING_BYTES;
	if (xp_setup_stacks(options->call_graph) == XP_STACKS_DUMP)
		sample_bytes += XP_STACK_BYTES_MAX;
	/* The last quarter is for samples without their stacks. */
	while (bytes < RING_BYTES && bytes * 3 / 4 / sample_bytes < options->hz / RING_SHARE_OF_SECOND)
		bytes *= 2;
	return bytes;
}

/* How the options and the kernel have sleds recorded. */
static void choose_modes(struct xp_recording *recording, const struct xp_preflight *preflight)
{
	const struct xp_options *options = recording->options;

	recording->all_processes = options->follow || options->exec_path;
	recording->multi =
	    options->uprobes == XP_UPROBES_AUTO ? preflight->has_uprobe_multi : options->uprobes == XP_UPROBES_MULTI;
	/* With --follow and --exec, processes that start later have probes, too, so sleds are always probed. */
	recording->may_patch =
	    recording->with_sleds && options->sled_mode != XP_SLED_MODE_OPTION_PROBE && !recording->all_processes;
	if (recording->may_patch)
		recording->stub_form = choose_form(recording);
	recording->objects.patterns = options->functions.texts;
	recording->objects.pattern_count = options->functions.count;
}

static int setup_processes(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	struct xp_processes *processes = &recording->processes;

	recording->start_tsc = xp_clock_now_tsc();
	processes->clock = recording->clock;
	processes->dir_fd = recording->outdir.fd;
	processes->fdr_version = options->fdr_version;
	processes->start_tsc = recording->start_tsc;
	processes->min_ticks = xp_clock_ticks(recording->clock, options->min_duration_ns);
	processes->flight_bytes = options->flight_bytes;
	if (options->flight_bytes) {
		xp_flight_writer_init(&recording->flight_writer, recording->outdir.fd);
		processes->writer = &recording->flight_writer;
	}
	return xp_processes_init(processes);
}

static int open_programs(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	const struct xp_programs_options programs = {
		.tasks = !options->all && !options->tid,
		.sleds = recording->with_sleds,
		.samples = recording->with_samples,
		.stacks = xp_setup_stacks(options->call_graph),
		.only_targets = options->follow && !options->exec_path,
		.follow_children = options->follow,
		.exec_inode = options->exec_path ? recording->exec_file.st_ino : 0,
		.args = options->args ? options->args : 1,
		/* A command is one more than the listed pids. */
		.targets = recording->all_processes ? TARGETS_MAX : options->pids.count + 1,
		.stub = recording->may_patch,
		.uprobe_multi = recording->multi,
		.counters = options->max_overhead > 0 ? XP_THROTTLE_MAX : 0,
	};

	return xp_programs_open(&recording->programs, &programs);
}

/* Programs, rings, and all that takes events out of them. */
static int setup_kernel(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	int err = open_programs(recording);

	if (!err)
		err =
		    xp_rings_open(&recording->rings, xp_programs_rings_fd(&recording->programs), ring_bytes(recording));
	if (!err)
		err = xp_programs_set_clock(&recording->programs, recording->clock);
	if (!err)
		err = xp_merge_new(&recording->merge, recording->rings, recording->clock);
	if (!err)
		err = xp_attach_new(&recording->attach, recording->multi);
	if (!err)
		err = prepare_patch(recording);
	if (!err && !options->all && !options->tid)
		err = xp_programs_attach_tasks(&recording->programs);
	recording->lost = calloc(recording->programs.cpus, sizeof(*recording->lost));
	if (!err && !recording->lost)
		err = -ENOMEM;
	if (!err && recording->with_samples)
		err = xp_setup_samples(recording);
	if (!err && recording->with_samples && !options->no_perf_data)
		err = xp_setup_perf(recording);
	if (err && !recording->why[0])
		snprintf(recording->why, sizeof(recording->why),
			 "cannot set up the BPF side: %s; `xprof doctor` shows what is "
			 "missing, -v shows the kernel's messages",
			 strerror(-err));
	return err;
}

int xp_setup(struct xp_recording *recording, const struct xp_preflight *preflight)
{
	bool dry_run = recording->options->dry_run;
	int err;

	choose_modes(recording, preflight);
	err = setup_processes(recording);
	/* The counting comes before anything that a kill would leave behind. */
	if (!err)
		xp_call_rates(recording);
	if (!err && dry_run)
		err = prepare_patch(recording);
	return err || dry_run ? err : setup_kernel(recording);
}

int xp_setup_budget(struct xp_recording *recording)
{
	struct xp_throttle_options throttle = {
		.attach = recording->attach,
		.patch = recording->patch,
		.programs = &recording->programs,
		.all_args = recording->options->args,
		.processes = &recording->processes,
		.clock = recording->clock,
		.hit_cost = recording->survey.hit_cost,
		.share = recording->options->max_overhead,
	};
	int err;

	if (!(recording->options->max_overhead > 0) || recording->options->dry_run)
		return 0;
	if (!recording->survey.hit_cost.entry_ns) {
		snprintf(recording->why, sizeof(recording->why),
			 "--max-overhead needs %s; omit it, and exclude hot functions with --functions '!NAME'",
			 recording->multi ? "to measure what a probe costs, and cannot (-v shows why)"
					  : "uprobe_multi, Linux 6.6");
		return -EOPNOTSUPP;
	}
	err = xp_throttle_new(&recording->throttle, &throttle);
	for (size_t i = 0; i < recording->survey.object_count && !err; i++)
		err = xp_throttle_add_object(recording->throttle, recording->survey.objects[i].object,
					     recording->survey.objects[i].calls, recording->survey.own_ns);
	return err;
}

void xp_setup_free(struct xp_recording *recording)
{
	xp_sampler_free(recording->sampler);
	xp_sideband_free(recording->sideband);
	xp_samples_free(&recording->samples);
	xp_perf_out_free(recording->samples.perf);
	free(recording->cpus);
	xp_patch_free(recording->patch);
	xp_attach_free(recording->attach);
	xp_throttle_free(recording->throttle);
	xp_merge_free(recording->merge);
	xp_programs_close(&recording->programs);
	xp_rings_free(recording->rings);
	xp_processes_free(&recording->processes);
	xp_call_rates_free(&recording->survey);
	xp_objects_free(&recording->objects);
	xp_clock_free(recording->clock);
	free(recording->attached);
	free(recording->linkers);
	free(recording->lost);
}
