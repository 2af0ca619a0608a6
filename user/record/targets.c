/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes and threads that the command line requests: scans and attaches them, and checks the result. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/util.h"
#include "record/recording.h"

/* A process may only be starting to load what has sleds: how often to scan it again, and the pause in between. */
#define SCAN_TRIES 5
#define SCAN_PAUSE_US 2000
/* For a process that executes programs faster than they can be attached. After that, its exec records are used. */
#define SCAN_TRIES_MAX 20

static int sample_process(struct xp_recording *recording, pid_t pid)
{
	int err = xp_sampled_processes_expect(&recording->samples.tasks, pid);

	if (!err)
		err = xp_sampler_add_process(recording->sampler, pid);
	if (err == -ESRCH)
		snprintf(recording->why, sizeof(recording->why), "process %d ended while it was being attached", pid);
	else if (err == -EMFILE)
		snprintf(
		    recording->why, sizeof(recording->why),
		    "process %d has more threads than xprof may open files; raise `ulimit -n`, or sample all with -a",
		    pid);
	return err;
}

/* Starts the command, and holds it until everything is attached. */
static int start_command(struct xp_recording *recording)
{
	int err =
	    xp_launch_start(&recording->launch, recording->options->child_argv, recording->why, sizeof(recording->why));

	if (!err && recording->sampler)
		err = sample_process(recording, recording->launch.pid);
	return err ? err : xp_follow_launch(recording);
}

/*
 * Reads what processes have mapped before the side-band reports mappings: only sampled ones, since hundreds may run
 * here.
 */
static int scan_sampled(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	struct xp_sampled_processes *tasks = &recording->samples.tasks;
	int err = 0;

	if (options->all)
		return xp_sampled_processes_scan_all(tasks);
	for (size_t i = 0; i < options->pids.count && !err; i++)
		err = xp_sampled_processes_scan(tasks, options->pids.pids[i]);
	if (options->child_argv && !err)
		err = xp_sampled_processes_scan(tasks, recording->launch.pid);
	if (options->tid && !err)
		err = xp_sampled_processes_scan(tasks, xp_target_process(options->tid));
	return err;
}

/* Scans until sleds are found, or it is certain that there are none. */
static int look_again(struct xp_recording *recording, struct xp_process *process)
{
	int none = 0, err = 0;

	for (int tries = 0; tries < SCAN_TRIES_MAX && none < SCAN_TRIES && !process->range_count && !err; tries++) {
		usleep(SCAN_PAUSE_US);
		err = xp_follow_again(recording, process);
		none = process->flees ? 0 : none + 1;
	}
	/* The last scan found none, but the process has executed too many programs to be sure about the next one. */
	if (!err && !process->range_count && none < SCAN_TRIES)
		process->flees = XP_MAX(process->flees, 1u);
	return err;
}

static int attach_process(struct xp_recording *recording, pid_t pid)
{
	struct xp_process *process;
	int err = xp_follow_add(recording, &process, pid, xp_clock_now_tsc());

	if (!err && recording->with_sleds)
		err = look_again(recording, process);
	if (!err && recording->sampler)
		err = sample_process(recording, pid);
	return err;
}

/* A process that ends meanwhile does not prevent recording the others. If it was scanned, a record reports its end. */
static int attach_processes(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	size_t ended = 0;
	int err = 0;

	for (size_t i = 0; i < options->pids.count && !err; i++) {
		pid_t pid = options->pids.pids[i];

		err = attach_process(recording, pid);
		if (err != -ESRCH || ++ended == options->pids.count)
			continue;
		xp_info("process %d ended while it was being attached", pid);
		recording->why[0] = 0;
		err = 0;
	}
	return err;
}

int xp_targets_attach(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	int err = attach_processes(recording);

	if (options->exec_path && !err)
		err = xp_follow_exec_file(recording);
	if (options->child_argv && !err)
		err = start_command(recording);
	if (options->tid && recording->sampler && !err)
		err = xp_sampler_add_thread(recording->sampler, options->tid);
	if (options->all && recording->sampler && !err)
		err = xp_sampler_add_cpus(recording->sampler, recording->cpus, recording->programs.cpus);
	/* Samples wait in the rings meanwhile; from now on the side-band reports what happens. */
	if (recording->sampler && !err)
		err = scan_sampled(recording);
	return err;
}

/* A process that did not hold still for a scan is found by the record of its exec. */
static bool has_fled(const struct xp_recording *recording)
{
	for (const struct xp_process *process = recording->processes.first; process; process = process->next)
		if (process->live && process->flees)
			return true;
	return false;
}

static bool is_denied(const struct xp_recording *recording)
{
	for (const struct xp_process *process = recording->processes.first; process; process = process->next)
		if (process->denied)
			return true;
	return false;
}

int xp_targets_check(struct xp_recording *recording)
{
	size_t attached = 0, patched = 0, refused = 0, objects = 0;
	const struct xp_process *first = recording->processes.first;

	if (!recording->with_sleds)
		return 0;
	for (size_t i = 0; i < recording->attached_count; i++) {
		objects++;
		attached += recording->attached[i].sleds.attached;
		patched += recording->attached[i].sleds.patched;
		refused += recording->attached[i].sleds.patched + recording->attached[i].sleds.unreadable;
	}
	if (attached || recording->options->exec_path || (recording->options->child_argv && !objects) ||
	    has_fled(recording) || is_denied(recording))
		return 0;
	if (recording->with_samples && !recording->options->functions.count) {
		xp_info("process %d (%s) has no XRay sleds%s: it is sampled only. `clang -fxray-instrument` builds "
			"them in",
			first->pid, first->comm, refused ? " to attach" : "");
		return 0;
	}
	if (refused) {
		snprintf(recording->why, sizeof(recording->why), "no sled is left to attach: %s; see above",
			 patched == refused ? "all are patched already"
			 : patched	    ? "those that can be read are patched already"
					    : "none can be read");
		return -EBUSY;
	}
	if (objects && recording->options->functions.count) {
		snprintf(recording->why, sizeof(recording->why),
			 "no instrumented function matches --functions; `xprof list %d` "
			 "shows their names",
			 first->pid);
		return -ENOENT;
	}
	snprintf(
	    recording->why, sizeof(recording->why),
	    "process %d (%s) has no XRay sleds. Build it with `clang -fxray-instrument` (and "
	    "-fxray-instruction-threshold=1 for short functions too); without --no-samples it is sampled all the same",
	    first->pid, first->comm);
	return -ENOENT;
}
