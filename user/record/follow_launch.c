/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows the command that xprof started, until its objects are mapped. */
#include <errno.h>

#include "record/follow.h"

/* How long a started program without sleds is held, in case it executes one that has some. */
#define LAUNCH_PATIENCE_NS XP_NS_PER_S

/*
 * Returns whether the started program can be released. glibc calls _dl_debug_state() before and after it maps the
 * objects, musl only after. A wrapper (env, nice, a shell) without sleds is held for a while, in case it executes the
 * real program, which is then recorded from its first instruction.
 */
static bool launched(struct xp_recording *recording)
{
	const struct xp_process *process = recording->command.process;

	if (recording->command.launch.stops < process->attaching.stops_when_loaded)
		return false;
	if (process->functions.range_count || recording->options->follow || !recording->plan.sleds)
		return true;
	if (!recording->command.release_tsc)
		recording->command.release_tsc =
		    xp_clock_now_tsc() + xp_clock_ticks(recording->clock, LAUNCH_PATIENCE_NS);
	return xp_clock_now_tsc() >= recording->command.release_tsc;
}

int xp_follow_release(struct xp_recording *recording)
{
	if (!recording->command.launch.traced)
		return 0;
	/* This comes first: a stop signal that finds no tracer would stop the program permanently. */
	xp_programs_stop_at_link_map(&recording->bpf.programs, 0);
	return xp_launch_release(&recording->command.launch);
}

static int release_or_continue(struct xp_recording *recording)
{
	return launched(recording) ? xp_follow_release(recording) : xp_launch_continue(&recording->command.launch);
}

int xp_follow_launch(struct xp_recording *recording)
{
	int err;

	xp_programs_stop_at_link_map(&recording->bpf.programs, recording->command.launch.pid);
	err = xp_follow_add(recording, &recording->command.process, recording->command.launch.pid, xp_clock_now_tsc());
	return err ? err : release_or_continue(recording);
}

/*
 * The program has been held long enough. What it does while it is stopped for the release is not seen, nor taken from
 * records before that, so this scans it again.
 */
static int release_running(struct xp_recording *recording)
{
	struct xp_process *process = recording->command.process;
	int err = xp_follow_release(recording);

	if (err || !xp_target_start_time(recording->command.launch.pid))
		return err;
	if (process->attaching.execs == xp_programs_execs(&recording->bpf.programs, process->pid))
		return xp_follow_scan(recording, process);
	if (recording->probes.patch)
		xp_probes_drop_process(&recording->probes, process->pid, recording->plan.multi);
	err = xp_follow_begin_image(recording, process->pid, xp_clock_now_tsc());
	return err == -ESRCH ? 0 : err;
}

int xp_follow_launch_event(struct xp_recording *recording)
{
	int err = 0;

	switch (xp_launch_poll_event(&recording->command.launch)) {
	case XP_LAUNCH_NONE:
		return recording->command.launch.traced && recording->command.release_tsc && launched(recording)
			   ? release_running(recording)
			   : 0;
	case XP_LAUNCH_EXEC:
		recording->command.release_tsc = 0;
		if (recording->probes.patch)
			xp_probes_drop_process(&recording->probes, recording->command.launch.pid,
					       recording->plan.multi);
		err = xp_follow_add(recording, &recording->command.process, recording->command.launch.pid,
				    xp_clock_now_tsc());
		break;
	case XP_LAUNCH_LOADED:
		err = xp_follow_scan(recording, recording->command.process);
		break;
	}
	return err ? err : release_or_continue(recording);
}
