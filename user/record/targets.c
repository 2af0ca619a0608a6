/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes and threads that the command line requests: scans and attaches them, and checks the result. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/function_patterns.h"
#include "record/follow.h"

/* Limit of probes for JIT code: each takes tens of ms to attach. Further processes are checked every second instead. */
#define JIT_WATCHES_MAX 32
/* A process may still be loading the binary with sleds: how often to scan it again, and the pause between scans. */
#define SCAN_TRIES 5
#define SCAN_PAUSE_US 2000
/* Limit of retries for a process that keeps executing programs. After that, its exec events are used. */
#define SCAN_TRIES_MAX 20

/* Starts the command, and holds it until everything is attached. Does not pass on earlier signals. */
static int start_command(struct xp_targets *targets)
{
	int err =
	    xp_interrupted() ? -ECANCELED : xp_launch_start(&targets->command.launch, targets->options->child_argv);

	if (!err && targets->sample)
		err = targets->sample(targets->sample_arg, targets->command.launch.pid);
	return err ? err : xp_follow_launch(targets);
}

/* Scans until sleds are found, or it is certain that there are none. */
static int look_again(struct xp_targets *targets, struct xp_process *process)
{
	int none = 0, err = 0;

	for (int tries = 0; tries < SCAN_TRIES_MAX && none < SCAN_TRIES && !process->functions.range_count && !err;
	     tries++) {
		usleep(SCAN_PAUSE_US);
		err = xp_follow_again(targets, process);
		none = process->attaching.flees ? 0 : none + 1;
	}
	/* The last scan found no sleds, but the process keeps executing programs: the next one may have some. */
	if (!err && !process->functions.range_count && none < SCAN_TRIES)
		process->attaching.flees = XP_MAX(process->attaching.flees, 1u);
	return err;
}

static int attach_process(struct xp_targets *targets, pid_t pid)
{
	struct xp_process *process;
	int err = xp_follow_add(targets, &process, pid, xp_clock_now_tsc());

	if (!err && targets->plan->sleds && !process->attaching.denied)
		err = look_again(targets, process);
	if (!err && targets->sample)
		err = targets->sample(targets->sample_arg, pid);
	return err;
}

/*
 * Attaches the processes of the command line. A process that exits meanwhile, or whose mappings cannot be read, does
 * not prevent recording the others. If it was scanned, an event reports its exit.
 */
static int attach_processes(struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	size_t left_out = 0;
	int err = 0;

	for (size_t i = 0; i < options->pids.count && !err; i++) {
		pid_t pid = options->pids.pids[i];

		err = attach_process(targets, pid);
		if ((err != -ESRCH && err != -ETIMEDOUT) || ++left_out == options->pids.count)
			continue;
		if (err == -ESRCH)
			xp_info("process %d ended while it was being attached", pid);
		else
			xp_warn("%s; it is not recorded", xp_why(err));
		xp_why_clear();
		err = 0;
	}
	return err;
}

int xp_targets_attach(struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	int err = attach_processes(targets);

	if (options->exec_path && !err)
		err = xp_follow_exec_file(targets);
	if (options->all && !err)
		err = xp_usdt_on_attach_files(&targets->probes.usdt, targets->probes.attach, targets->programs);
	if (options->child_argv && !err)
		err = start_command(targets);
	return err;
}

/* JIT compilers call an empty function after they change code; a probe on that function wakes xprof. */
void xp_targets_watch_jit(void *arg, pid_t pid, int fd, uint64_t offset)
{
	struct xp_targets *targets = arg;
	int err;

	if (!targets->probes.attach || targets->jit_watches == JIT_WATCHES_MAX)
		return;
	targets->jit_watches++;
	err = xp_attach_uprobe(targets->probes.attach, targets->programs->fds.jit, fd, pid, offset);
	if (err)
		xp_debug("process %d: cannot watch for new JIT code: %s", pid, strerror(-err));
}

/* Returns whether a process without probes may still be recorded later. */
static bool may_have_more(const struct xp_processes *processes)
{
	for (const struct xp_process *process = processes->first; process; process = process->next) {
		/* The process executed programs during each scan: its next exec event causes another scan. */
		if (process->live && process->attaching.flees)
			return true;
		/*
		 * The process is only sampled: a capability, memory or budget is missing, and xprof has printed that.
		 */
		if (process->attaching.denied || process->attaching.left_out)
			return true;
	}
	return false;
}

static int check_uses(const struct xp_objects *objects)
{
	return xp_pattern_uses_check(objects->pattern_uses, "--functions")
		   ?: xp_pattern_uses_check(objects->watched_uses, "--trigger");
}

/* Returns whether patterns select functions of libraries that a command has not loaded yet. */
static bool awaits_libraries(const struct xp_targets *targets)
{
	for (size_t i = 0; i < targets->objects.pattern_count && targets->options->child_argv; i++)
		if (targets->objects.pattern_objects[i])
			return true;
	return false;
}

void xp_targets_check_libraries(const struct xp_targets *targets)
{
	int err = awaits_libraries(targets) ? check_uses(&targets->objects) : 0;

	if (err)
		xp_warn("%s", xp_why(err));
	xp_why_clear();
}

/* Reports mistyped patterns, which match no function. But future processes may have the function. */
static int check_patterns(struct xp_targets *targets)
{
	const struct xp_objects *objects = &targets->objects;
	const struct xp_options *options = targets->options;
	int err;

	if ((!targets->probes.attached_count && !objects->plans) || awaits_libraries(targets))
		return 0;
	err = check_uses(objects);
	if (!err)
		return 0;
	if (!options->exec_path && !options->follow && !may_have_more(&targets->processes))
		return err;
	xp_warn("so far, %s", xp_why(err));
	return 0;
}

/* Reports patterns that match no probe. But a command or a child may map the file with the probe later. */
static int check_usdt(const struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	int err = xp_pattern_uses_check_of(targets->probes.usdt.uses, "--usdt", "USDT probe");

	if (!err || (!options->child_argv && !options->follow && !may_have_more(&targets->processes)))
		return err;
	xp_warn("so far, %s", xp_why(err));
	xp_why_clear();
	return 0;
}

/* Returns whether the process has moved its text to huge pages: calls are recorded only in mapped files. */
static bool has_moved_text(pid_t pid)
{
	struct xp_mappings mappings;
	bool found = false;

	if (xp_mappings_read_all(&mappings, pid))
		return false;
	for (size_t i = 0; i < mappings.count; i++)
		found |= mappings.list[i].moved;
	xp_mappings_free(&mappings);
	return found;
}

int xp_targets_check(struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	const struct xp_probes *probes = &targets->probes;
	const struct xp_process *first = targets->processes.first;
	const struct xp_sled_result sleds = xp_probes_sum(probes);
	size_t refused = sleds.patched + sleds.unreadable;
	int err = check_usdt(targets);

	if (!err && targets->plan->sleds)
		err = check_patterns(targets);

	if (err)
		return err;
	if (!targets->plan->sleds || sleds.attached || options->usdt.count || options->exec_path ||
	    (options->child_argv && !probes->attached_count) || may_have_more(&targets->processes))
		return 0;
	if (targets->plan->samples && !options->functions.count) {
		if (refused)
			xp_warn("all sleds of process %d (%s) were refused (see above); it is only sampled", first->pid,
				first->comm);
		else if (has_moved_text(first->pid))
			xp_warn("process %d (%s) has moved code to memory without a file (huge pages), where no calls "
				"can be recorded; it is only sampled",
				first->pid, first->comm);
		else
			xp_info("process %d (%s) has no XRay sleds and is sampled only", first->pid, first->comm);
		return 0;
	}
	/* Children may execute programs with these functions. */
	if (options->follow && options->functions.count)
		return 0;
	if (refused)
		return xp_why_set(-EBUSY, "no sleds to attach: %s; see above",
				  !sleds.unreadable ? "all are patched already"
				  : sleds.patched   ? "some cannot be read, and all others are patched already"
						    : "none can be read");
	if (probes->attached_count && options->functions.count)
		return xp_why_set(-ENOENT,
				  "no instrumented function matches --functions; `xprof list %d` shows their names",
				  first->pid);
	if (has_moved_text(first->pid))
		return xp_why_set(
		    -ENOENT,
		    "process %d (%s) has moved code to memory without a file (huge pages), where no calls "
		    "can be recorded; omit --no-samples to sample it",
		    first->pid, first->comm);
	return xp_why_set(-ENOENT,
			  "process %d (%s) has no XRay sleds; %s, build it with `clang -fxray-instrument`, or omit "
			  "--no-samples to sample it",
			  first->pid, first->comm,
			  options->functions.count
			      ? "to record other functions, omit --max-overhead and --call-mode probe"
			      : "select functions with --functions");
}
