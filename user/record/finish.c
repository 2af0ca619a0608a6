/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a recording: nothing is attached any more, what is in the rings is read, the files are made. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "record/recording.h"
#include "base/util.h"

/* XRay's runtime may have patched sleds under our probes: then their events have stopped. */
static void check_overwritten(struct xp_recording *rec)
{
	for (struct xp_process *process = rec->processes.first; process; process = process->next) {
		/* What it has executed since says nothing of these. */
		if (!process->live || process->execs != xp_programs_execs(&rec->programs, process->pid))
			continue;
		for (size_t i = 0; i < process->range_count; i++) {
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

void xp_finish_stop(struct xp_recording *rec)
{
	uint64_t begin = xp_clock_now_tsc();

	/* What is lost from here on belongs to the recording no more than what is recorded: see `outside`. */
	rec->processes.stop_tsc = begin;
	rec->stopped = true;
	xp_run_read_losses(rec);
	xp_follow_release(rec);
	if (rec->throttle)
		xp_throttle_stop(rec->throttle);
	check_overwritten(rec);
	if (rec->patch) {
		xp_patch_restore(rec->patch);
		rec->stopped_ns = xp_patch_stopped_ns(rec->patch, &rec->longest_stop_ns);
	}
	rec->detach_ns = xp_clock_ns(rec->clock, xp_clock_now_tsc() - begin);
}

int xp_finish_detach(struct xp_recording *rec)
{
	uint64_t begin = xp_clock_now_tsc();
	int err;

	if (rec->sampler)
		xp_sampler_stop(rec->sampler);
	if (rec->throttle)
		xp_throttle_end(rec->throttle);
	xp_attach_detach_all(rec->attach);
	rec->detach_ns += xp_clock_ns(rec->clock, xp_clock_now_tsc() - begin);
	err = xp_run_drain(rec);
	/* Before the logs are finished: calls of what was just taken out would get exits that nobody has seen. */
	if (rec->throttle)
		xp_throttle_drained(rec->throttle);
	return err;
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
			 xp_failure_remedy(err));
	return err;
}

int xp_finish_files(struct xp_recording *rec)
{
	int first;

	xp_clock_verify(rec->clock);
	first = finish_flights(rec);
	for (struct xp_process *process = rec->processes.first; process; process = process->next) {
		struct xp_shell_path dir;
		int err;

		if (!process->range_count)
			continue;
		err = xp_process_finish(process);
		if (err && process->spool)
			xp_error("the log of process %d (%s) cannot be made: %s; when that is remedied, run "
				 "`xprof recover %s`",
				 process->pid, process->comm, strerror(-err),
				 xp_shell_path(&dir, "%s", rec->outdir.path));
		else if (err)
			xp_error("the log of process %d (%s) is not complete: %s%s", process->pid, process->comm,
				 strerror(-err), xp_failure_remedy(err));
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
			xp_error("the profiles are not complete: %s%s", strerror(-err), xp_failure_remedy(err));
		first = first ?: err;
	}
	return first;
}

int xp_finish_launch(struct xp_recording *rec, int code, bool recorded)
{
	if (!rec->launch.pid || rec->launch.ended)
		goto out;
	xp_follow_release(rec);
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
