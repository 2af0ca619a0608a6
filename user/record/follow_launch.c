/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows the command that xprof started, until its binaries are mapped. */
#include <errno.h>

#include "record/follow.h"

/* How long to hold a started program without sleds, in case it executes a program that has some. */
#define LAUNCH_PATIENCE_NS XP_NS_PER_S

/*
 * Returns whether the started program can be released. glibc calls _dl_debug_state() before and after it maps the
 * binaries, musl only after. A program without sleds may be a wrapper (env, nice, a shell): it is held for a while, so
 * that the real program is recorded from its first instruction.
 */
static bool launched(struct xp_targets *targets)
{
	const struct xp_process *process = targets->command.process;

	if (targets->command.launch.stops < process->attaching.stops_when_loaded)
		return false;
	if (process->functions.range_count || targets->options->follow || !targets->plan->sleds)
		return true;
	if (!targets->command.release_tsc)
		targets->command.release_tsc = xp_clock_now_tsc() + xp_clock_ticks(targets->clock, LAUNCH_PATIENCE_NS);
	return xp_clock_now_tsc() >= targets->command.release_tsc;
}

int xp_follow_release(struct xp_targets *targets)
{
	if (!targets->command.launch.traced)
		return 0;
	/* Clear this first: a stop signal without a tracer would stop the program permanently. */
	xp_programs_stop_at_link_map(targets->programs, 0);
	return xp_launch_release(&targets->command.launch);
}

static int release_or_continue(struct xp_targets *targets)
{
	return launched(targets) ? xp_follow_release(targets) : xp_launch_continue(&targets->command.launch);
}

int xp_follow_launch(struct xp_targets *targets)
{
	int err;

	xp_programs_stop_at_link_map(targets->programs, targets->command.launch.pid);
	err = xp_follow_add(targets, &targets->command.process, targets->command.launch.pid, xp_clock_now_tsc());
	return err ? err : release_or_continue(targets);
}

/*
 * Scans the program again when it has been held long enough: events from while it is stopped for the release, and
 * records from before, do not show what it maps.
 */
static int release_running(struct xp_targets *targets)
{
	struct xp_process *process = targets->command.process;
	int err = xp_follow_release(targets);

	if (err || !xp_target_start_time(targets->command.launch.pid))
		return err;
	if (process->attaching.execs == xp_programs_execs(targets->programs, process->pid))
		return xp_follow_scan(targets, process);
	if (targets->probes.patch)
		xp_probes_drop_process(&targets->probes, process->pid, targets->plan->multi);
	err = xp_follow_begin_image(targets, process->pid, xp_clock_now_tsc());
	return err == -ESRCH ? 0 : err;
}

int xp_follow_launch_event(struct xp_targets *targets)
{
	int err = 0;

	switch (xp_launch_poll_event(&targets->command.launch)) {
	case XP_LAUNCH_NONE:
		return targets->command.launch.traced && targets->command.release_tsc && launched(targets)
			   ? release_running(targets)
			   : 0;
	case XP_LAUNCH_EXEC:
		targets->command.release_tsc = 0;
		if (targets->probes.patch)
			xp_probes_drop_process(&targets->probes, targets->command.launch.pid, targets->plan->multi);
		err =
		    xp_follow_add(targets, &targets->command.process, targets->command.launch.pid, xp_clock_now_tsc());
		break;
	case XP_LAUNCH_LOADED:
		err = xp_follow_scan(targets, targets->command.process);
		break;
	}
	return err ? err : release_or_continue(targets);
}
