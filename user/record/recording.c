/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "record/messages.h"
#include "record/progress.h"

static void show_attaching(void *progress, size_t probes)
{
	xp_progress_attaching(progress, probes);
}

static int attach(struct xp_recording *recording)
{
	struct xp_progress progress;
	int err = xp_interrupted() ? -ECANCELED : xp_setup_budget(recording);

	xp_progress_begin(&progress);
	if (recording->targets.probes.attach)
		xp_attach_on_batch(recording->targets.probes.attach, show_attaching, &progress);
	if (!err)
		err = xp_targets_attach(&recording->targets);
	if (!err)
		err = xp_off_cpu_scan(&recording->off_cpu);
	if (!err)
		err = xp_sampling_attach(&recording->sampling, recording->targets.command.launch.pid);
	if (recording->targets.probes.attach)
		xp_attach_on_batch(recording->targets.probes.attach, NULL, NULL);
	xp_progress_end(&progress);
	if (err == -ECANCELED)
		xp_why_set(err, "stopped while attaching: nothing was recorded, and everything attached was detached");
	return err ? err : xp_targets_check(&recording->targets);
}

/* Dry run: records for a moment, and stores nothing. Omits calls that need probes, which are too expensive. */
static int try_out(struct xp_recording *recording, int signal_fd)
{
	const struct xp_forecast *forecast = &recording->targets.forecast;
	int err = 0;

	if (forecast->sleds + forecast->sites && !forecast->probed && forecast->probe_cost.entry_ns)
		err = xp_run(recording, signal_fd);
	if (recording->targets.probes.attach)
		err = xp_finish_stop(recording) ?: xp_finish_detach(recording) ?: err;
	if (err)
		return xp_failure_report(err, "cannot count calls");
	xp_announce_dry_run(recording);
	return XP_EXIT_OK;
}

/* Calls from before, while other processes were being attached, are not part of the recording. */
static void begin_calls(struct xp_recording *recording)
{
	/* A command is recorded from its first instruction on. */
	if (recording->options->child_argv || !recording->targets.probes.attach)
		return;
	recording->targets.processes.begin_tsc = xp_clock_now_tsc();
	xp_bpf_side_begin(&recording->bpf);
}

/* Records from the first probe to the last file. Sets *stored if there is something to keep in the output directory. */
static int record_all(struct xp_recording *recording, int signal_fd, bool *stored)
{
	int code = XP_EXIT_OK, stopped;
	int err = attach(recording);

	if (err)
		return xp_failure_report(err, "cannot attach");
	begin_calls(recording);
	xp_forecast_expect(&recording->targets);
	if (recording->options->dry_run)
		return try_out(recording, signal_fd);
	xp_announce(recording);
	xp_why_clear();
	*stored = true;
	err = xp_run(recording, signal_fd);
	if (err)
		code = xp_failure_report(err, "the recording was cut short");
	stopped = xp_finish_stop(recording);
	if (recording->plan.sleds && !recording->plan.samples && !recording->targets.probes.any_attached)
		xp_warn("nothing was recorded: no program with XRay sleds ran; select functions with --functions, or "
			"build it with `clang -fxray-instrument`");
	xp_targets_check_libraries(&recording->targets);
	err = xp_finish_detach(recording) ?: stopped;
	if (err && code == XP_EXIT_OK)
		code = xp_failure_report(err, "the last records could not be read");
	return xp_finish_store(recording, code);
}

/* Sets *kept if there is a recording afterwards. */
static int record_in(struct xp_recording *recording, int signal_fd, bool *kept)
{
	bool stored = false;
	int err, code;

	err = xp_setup(recording);
	code = err ? xp_failure_report(err, "cannot set up") : record_all(recording, signal_fd, &stored);
	if (!stored)
		xp_finish_kill(recording);
	xp_setup_free(recording);
	if (!recording->options->dry_run) {
		err = xp_outdir_close(&recording->outdir, stored);
		*kept = !err;
		if (err < 0 && code == XP_EXIT_OK)
			code = XP_EXIT_FAILED;
	}
	return xp_finish_command(recording, code);
}

/* Opens the directory of the recording, or of its first part. */
static int open_outdir(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	int err;

	if (options->dry_run)
		return 0;
	if (options->rotate.given)
		return xp_rotation_open(&recording->rotation, recording->clock, options, &recording->outdir);
	err = xp_outdir_open(&recording->outdir, options->output_dir);
	if (!err)
		xp_outdir_limit(&recording->outdir, options->max_bytes);
	return err;
}

/* Makes the products of the recording or its last part, and returns the result of all parts. */
static int make_products(struct xp_recording *recording, bool kept, int code)
{
	const struct xp_record_after *after = recording->rotation.after;
	int made = XP_EXIT_OK;

	xp_interrupt_tell_next();
	if (kept) {
		made = xp_rotation_products(&recording->rotation, recording->outdir.path);
		after->complete(after->arg, recording->outdir.path);
	}
	return code ?: xp_rotation_end(&recording->rotation) ?: made;
}

/* Refuses targets that cannot be traced, before anything is written. Skips a target whose mappings cannot be read. */
static int check_targets(const struct xp_options *options)
{
	size_t left_out = 0;
	int err = 0;

	for (size_t i = 0; i < options->pids.count && !err; i++) {
		struct xp_target_info info;

		err = xp_target_check(options->pids.pids[i], &info);
		if (err == -ETIMEDOUT && ++left_out < options->pids.count)
			err = 0;
	}
	return err;
}

int xp_record(const struct xp_options *options, const struct xp_record_after *after)
{
	struct xp_recording recording = {
		.options = options,
		.outdir.fd = -1,
		.rotation = { .options = options, .after = after, .parts.fd = -1, .shared_fd = -1 },
	};
	bool kept = false;
	struct xp_preflight preflight;
	int code, signal_fd, err;

	xp_preflight_run(&preflight);
	code = xp_preflight_require(&preflight);
	if (code != XP_EXIT_OK)
		return code;
	err = xp_plan_make(&recording.plan, options, &preflight);
	if (err)
		return xp_failure_report(err, "cannot trace");
	err = check_targets(options);
	if (err)
		return xp_failure_report(err, "cannot trace");
	err = xp_clock_open(&recording.clock);
	if (err)
		return xp_failure_report(err, "cannot set up the clock");
	/* From here on, a signal leaves no empty directory behind. */
	signal_fd = xp_run_block_signals(options);
	err = signal_fd < 0 ? signal_fd : 0;
	err = err ?: open_outdir(&recording);
	if (err) {
		xp_clock_free(recording.clock);
		code = xp_failure_report(err, "cannot create the output directory");
	} else {
		code = record_in(&recording, signal_fd, &kept);
		code = make_products(&recording, kept, code);
	}
	if (signal_fd >= 0)
		close(signal_fd);
	return code;
}
