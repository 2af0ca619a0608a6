/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a recording: detaches everything, reads what is left in the ring buffers, and makes the files. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/util.h"
#include "record/recording.h"

/* XRay's runtime may have patched sleds under our probes, which stops their events. */
static void check_overwritten(struct xp_recording *recording)
{
	for (struct xp_process *process = recording->processes.first; process; process = process->next) {
		/* These counts do not apply to a program that it has executed since. */
		if (!process->live || process->execs != xp_programs_execs(&recording->programs, process->pid))
			continue;
		for (size_t i = 0; i < process->range_count; i++) {
			struct xp_range *range = &process->ranges[i];

			range->overwritten = range->sleds.mode == XP_SLEDS_PATCHED
						 ? xp_patch_overwritten(recording->patch, range->object, process->pid)
						 : xp_sleds_overwritten(range->object, process->pid);
			range->overwritten -= XP_MIN(range->overwritten, range->sleds.patched);
			if (range->overwritten)
				xp_warn("%s: XRay's runtime patched %zu sleds in process %d during the recording; "
					"their events are missing from then on",
					range->object->path, range->overwritten, process->pid);
		}
	}
}

void xp_finish_stop(struct xp_recording *recording)
{
	uint64_t begin = xp_clock_now_tsc();

	/* Losses from here on are not part of the recording, like records: see `outside`. */
	recording->processes.stop_tsc = begin;
	recording->stopped = true;
	xp_run_read_losses(recording);
	xp_follow_release(recording);
	if (recording->throttle)
		xp_throttle_stop(recording->throttle);
	check_overwritten(recording);
	if (recording->patch) {
		xp_patch_restore(recording->patch);
		recording->stopped_ns = xp_patch_stopped_ns(recording->patch, &recording->longest_stop_ns);
	}
	recording->detach_ns = xp_clock_ns(recording->clock, xp_clock_now_tsc() - begin);
}

int xp_finish_detach(struct xp_recording *recording)
{
	uint64_t begin = xp_clock_now_tsc();
	int err;

	if (recording->sampler)
		xp_sampler_stop(recording->sampler);
	if (recording->throttle)
		xp_throttle_end(recording->throttle);
	xp_attach_detach_all(recording->attach);
	recording->detach_ns += xp_clock_ns(recording->clock, xp_clock_now_tsc() - begin);
	err = xp_run_drain(recording);
	/*
	 * This comes before the logs are finished: calls of functions that were just taken out would get exits that
	 * were never seen.
	 */
	if (recording->throttle)
		xp_throttle_drained(recording->throttle);
	return err;
}

/* Hands the kept records to the writer, all at once, and waits for it. */
static int finish_flights(struct xp_recording *recording)
{
	int err = 0;

	if (!recording->options->flight_bytes)
		return 0;
	for (struct xp_process *process = recording->processes.first; process; process = process->next)
		err = xp_process_finish(process) ?: err;
	return xp_run_collect_flights(recording, true) ?: err;
}

static int finish_perf(struct xp_recording *recording)
{
	int err = xp_perf_out_finish(recording->samples.perf);

	if (err)
		xp_error(XP_PERF_OUT_NAME " has %" PRIu64 " of %" PRIu64 " samples: %s%s",
			 xp_perf_out_samples(recording->samples.perf), recording->samples.samples, strerror(-err),
			 xp_failure_remedy(err));
	return err;
}

int xp_finish_files(struct xp_recording *recording)
{
	int first;

	xp_clock_verify(recording->clock);
	first = finish_flights(recording);
	for (struct xp_process *process = recording->processes.first; process; process = process->next) {
		struct xp_shell_path dir;
		int err;

		if (!process->range_count)
			continue;
		err = xp_process_finish(process);
		if (err && process->spool)
			xp_error("the log of process %d (%s) cannot be made: %s; when that is remedied, run "
				 "`xprof recover %s`",
				 process->pid, process->comm, strerror(-err),
				 xp_shell_path(&dir, "%s", recording->outdir.path));
		else if (err)
			xp_error("the log of process %d (%s) is not complete: %s%s", process->pid, process->comm,
				 strerror(-err), xp_failure_remedy(err));
		first = first ?: err;
	}
	if (recording->sampler) {
		int err = xp_samples_drain(&recording->samples);

		/* This comes before the profiles are written, since it frees room. */
		if (recording->samples.perf)
			first = finish_perf(recording) ?: first;
		err = xp_samples_finish(&recording->samples,
					xp_sampler_period_ns(recording->sampler, xp_clock_hz(recording->clock)))
			  ?: err;
		if (err)
			xp_error("the profiles are not complete: %s%s", strerror(-err), xp_failure_remedy(err));
		first = first ?: err;
	}
	return first;
}

int xp_finish_launch(struct xp_recording *recording, int code, bool recorded)
{
	if (!recording->launch.pid || recording->launch.ended)
		goto out;
	if (recorded) {
		xp_follow_release(recording);
		xp_launch_poll(&recording->launch);
	} else {
		/* This comes while the program is still held: it must not run its first instructions. */
		kill(recording->launch.pid, SIGKILL);
	}
	if (recorded && !recording->launch.ended)
		xp_info("the recording is over; waiting for %s to end", recording->options->child_argv[0]);
	xp_launch_wait(&recording->launch);
out:
	if (code == XP_EXIT_OK && recording->launch.ended)
		return xp_launch_exit_code(&recording->launch);
	return code;
}
