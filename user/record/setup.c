/* SPDX-License-Identifier: BSD-2-Clause */
/* Everything that a recording needs and that touches no target yet: programs, rings, merge, budget; its release. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/recording.h"
#include "base/util.h"

#define RING_BYTES (4u << 20)
/* Of a ring for samples alone. */
#define RING_BYTES_MIN (256u << 10)
/* A quarter of a second's worth of samples must fit, however large each is. */
#define RING_SHARE_OF_SECOND 4
/* Processes that --follow and --exec may find at once. */
#define TARGETS_MAX 65536

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

enum xp_sample_stacks xp_setup_stacks(enum xp_call_graph call_graph)
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
	if (xp_setup_stacks(options->call_graph) == XP_STACKS_SNAPSHOT)
		sample_bytes += XP_STACK_BYTES_MAX;
	/* The last quarter is for samples without their stacks. */
	while (bytes < RING_BYTES && bytes * 3 / 4 / sample_bytes < options->hz / RING_SHARE_OF_SECOND)
		bytes *= 2;
	return bytes;
}

int xp_setup(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	const struct xp_options *options = rec->options;
	struct xp_programs_options programs = {
		.tasks = !options->all && !options->tid,
		.sleds = rec->with_sleds,
		.samples = rec->with_samples,
		.stacks = xp_setup_stacks(options->call_graph),
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
		err = xp_setup_samples(rec);
	if (!err && rec->with_samples && !options->no_perf_data)
		err = xp_setup_perf(rec);
	if (err && !rec->why[0])
		snprintf(rec->why, sizeof(rec->why),
			 "cannot set up the BPF side: %s; `xprof doctor` tells what is "
			 "missing, -v shows the kernel's messages",
			 strerror(-err));
	return err;
}

int xp_setup_budget(struct xp_recording *rec)
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

void xp_setup_free(struct xp_recording *rec)
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
