/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes and threads that the command line asks for: scanned and attached, and whether that was any use. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "record/recording.h"
#include "base/util.h"

/* A process may just start to load what has sleds: how often to look again, and after what time. */
#define SCAN_TRIES 5
#define SCAN_PAUSE_US 2000
/* One that executes programs faster than they can be attached: after that, the records of its execs lead. */
#define SCAN_TRIES_MAX 20

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
		usleep(SCAN_PAUSE_US);
		err = xp_follow_again(rec, process);
		none = process->flees ? 0 : none + 1;
	}
	/* What was looked at last had none, but it has executed programs too often to be sure of the next. */
	if (!err && !process->range_count && none < SCAN_TRIES)
		process->flees = XP_MAX(process->flees, 1u);
	return err;
}

static int attach_process(struct xp_recording *rec, pid_t pid)
{
	struct xp_process *process;
	int err = xp_follow_add(rec, &process, pid, xp_clock_now_tsc());

	if (!err && rec->with_sleds)
		err = look_again(rec, process);
	if (!err && rec->sampler)
		err = sample_process(rec, pid);
	return err;
}

/* One that ends meanwhile does not keep the others from being recorded: if it was looked at, a record tells its end. */
static int attach_processes(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	size_t ended = 0;
	int err = 0;

	for (size_t i = 0; i < options->pids.count && !err; i++) {
		pid_t pid = options->pids.pids[i];

		err = attach_process(rec, pid);
		if (err != -ESRCH || ++ended == options->pids.count)
			continue;
		xp_info("process %d ended while it was being attached", pid);
		rec->why[0] = 0;
		err = 0;
	}
	return err;
}

int xp_targets_attach(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	int err = attach_processes(rec);

	if (options->exec_path && !err)
		err = xp_follow_exec_file(rec);
	if (options->child_argv && !err)
		err = start_command(rec);
	if (options->tid && rec->sampler && !err)
		err = xp_sampler_add_thread(rec->sampler, options->tid);
	if (options->all && rec->sampler && !err)
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

static bool is_denied(const struct xp_recording *rec)
{
	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		if (process->denied)
			return true;
	return false;
}

int xp_targets_check(struct xp_recording *rec)
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
	if (attached || rec->options->exec_path || (rec->options->child_argv && !objects) || has_fled(rec) ||
	    is_denied(rec))
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
