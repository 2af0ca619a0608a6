/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches probes to a traced process, or patches it, when the process appears or changes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_view.h"
#include "record/follow.h"
#include "base/why.h"
#include "sled/unpatch.h"
#include "target/target.h"
#include "trace/process_rings.h"

/* If a program runs for a shorter time, it was executed before its sleds were patched, or shortly after. */
#define SHORT_LIFE_NS 50000000u
/* Longer than the error of an event's time: an event this long before a scan is known to be older than the scan. */
#define LOOK_MARGIN_NS 1000000u

/* Restores sleds that a killed xprof left patched: xprof would refuse to probe these. */
static int put_back_leftovers(struct xp_targets *targets, pid_t pid)
{
	struct xp_unpatched unpatched;
	int err;

	if (!targets->plan->sleds || !targets->probes.attach || targets->probes.stopped)
		return 0;
	/* A forked child whose fork event was lost has the patched sleds of its parent. */
	if (targets->probes.patch && xp_patch_knows(targets->probes.patch, pid))
		return 0;
	err = xp_unpatch_process(pid, false, &unpatched);
	if (err == -EKEYREJECTED)
		xp_warn("%s; its calls are not recorded", xp_why(err));
	if (!err && unpatched.sleds)
		xp_info("process %d: restored %zu sled%s that a killed xprof had left patched", pid, unpatched.sleds,
			xp_plural_s(unpatched.sleds));
	return err;
}

int xp_follow_add(struct xp_targets *targets, struct xp_process **process, pid_t pid, uint64_t tsc)
{
	struct xp_target_info info;
	int err = xp_target_check(pid, &info);
	bool forges;

	if (err)
		return err;
	err = put_back_leftovers(targets, pid);
	forges = err == -EKEYREJECTED;
	if (!err || forges)
		err = xp_processes_add(&targets->processes, process, pid, &info, tsc);
	if (!err)
		(*process)->attaching.denied = forges;
	/* This comes first: changes in the process during the scan must cause events. */
	if (!err && targets->probes.attach)
		err = xp_programs_add_target(targets->programs, pid);
	if (!err && targets->probes.attach)
		(*process)->attaching.execs = xp_programs_execs(targets->programs, pid);
	if (!err)
		err = xp_follow_scan(targets, *process);
	return err;
}

int xp_follow_adopt(struct xp_targets *targets, const struct xp_arrival *arrival, const char *comm)
{
	pid_t pid = (pid_t)arrival->event->pid;
	struct xp_process *process = xp_processes_find(&targets->processes, pid);
	struct xp_object *object = xp_objects_find(&targets->objects, xp_event_fn(arrival->event));
	const struct xp_attached *attached = object ? xp_probes_find(&targets->probes, object, pid) : NULL;
	struct xp_target_info info = { 0 };
	int err = 0;

	/* A forked child has the sleds of its parent: use the result of any process that maps this binary. */
	if (object && !attached && targets->plan->all_processes)
		attached = xp_probes_find_any(&targets->probes, object);
	if (!process) {
		snprintf(info.comm, sizeof(info.comm), "%s", comm);
		err = xp_processes_add(&targets->processes, &process, pid, &info, arrival->tsc);
	}
	if (!err && attached)
		err = xp_functions_add(&process->functions, object, &attached->sleds);
	return XP_MIN(err, 0);
}

int xp_follow_again(struct xp_targets *targets, struct xp_process *process)
{
	uint64_t tsc = xp_clock_now_tsc();
	struct xp_target_info info;
	int err = xp_target_check(process->pid, &info);

	if (err == -ESRCH)
		xp_why_set(err, "process %d ended while it was being attached", process->pid);
	if (err)
		return err;
	if (process->attaching.flees)
		xp_probes_drop_process(&targets->probes, process->pid, targets->plan->multi);
	err = xp_process_rename(process, &info, tsc);
	if (err)
		return err;
	if (targets->probes.attach)
		process->attaching.execs = xp_programs_execs(targets->programs, process->pid);
	return xp_follow_scan(targets, process);
}

/* Like xp_patch_since(). */
static uint64_t patched_since(const struct xp_targets *targets, pid_t pid)
{
	return targets->probes.patch ? xp_patch_since(targets->probes.patch, pid) : 0;
}

static int add_past_program(struct xp_targets *targets, const struct xp_event_task *task, uint64_t tsc)
{
	struct xp_target_info info = { .start_time = xp_target_start_time(task->head.pid) };
	struct xp_process *process;
	int err;

	memcpy(info.comm, task->comm, sizeof(info.comm));
	xp_debug("process %d (%s) has executed another program since", task->head.pid, info.comm);
	err = xp_processes_add(&targets->processes, &process, task->head.pid, &info, tsc);
	if (!err)
		process->attaching.execs = task->execs;
	return err;
}

/*
 * Replaces the image of the process by the program that it runs now. Returns -ESRCH if the process has exited. A
 * process that cannot be traced is not an error.
 */
int xp_follow_begin_image(struct xp_targets *targets, pid_t pid, uint64_t tsc)
{
	struct xp_process *process = xp_processes_find(&targets->processes, pid);
	int err = process ? xp_process_end(process) : 0;

	if (err)
		return err;
	err = xp_follow_add(targets, &process, pid, tsc);
	if (err == -ENOEXEC || err == -EINVAL) {
		xp_warn("%s", xp_why(err));
		return 0;
	}
	return err == -EACCES ? -ESRCH : err;
}

/*
 * Handles an exec at this TSC. If the process had patched sleds for only a short time, patching was in vain; after
 * several such execs, xprof probes the process instead. Returns true if the process was probed for that reason and has
 * now run for a long time: patch it again.
 */
static bool count_in_vain(const struct xp_targets *targets, struct xp_process *process, uint64_t patched, uint64_t tsc)
{
	bool probed = targets->probes.patch && process->attaching.in_vain >= XP_FOLLOW_PATCH_TRIES;

	if (!process->functions.range_count)
		return false;
	if (tsc - XP_MAX(process->begin_tsc, patched) > xp_clock_ticks(targets->clock, SHORT_LIFE_NS))
		process->attaching.in_vain = 0;
	else if (patched)
		process->attaching.in_vain++;
	return probed && !process->attaching.in_vain;
}

/* Handles an exec of a followed process. */
int xp_follow_exec(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	const struct xp_event_task *task = (const struct xp_event_task *)arrival->event;
	pid_t pid = task->head.pid;
	uint64_t tsc = arrival->tsc;
	struct xp_process *process = xp_processes_find(&targets->processes, pid);
	uint64_t patched = patched_since(targets, pid);
	bool drop;
	int err;

	if (xp_command_traces(&targets->command, pid)) {
		/* The process is or was stopped at this exec, see xp_follow_launch_event(). */
		if ((pid_t)task->head.tid == pid)
			return 0;
		/* Another thread has replaced the first thread, and xprof does not trace that thread. */
		xp_launch_lose(&targets->command.launch);
	}
	/* The image was added or patched when the program was already running; this is the program's exec event. */
	if (process && (process->begin_tsc > tsc || patched > tsc)) {
		process->attaching.execs = XP_MAX(process->attaching.execs, task->execs);
		return 0;
	}
	drop = ((pid_t)task->head.tid != pid && !targets->plan->all_processes) || patched;
	if (process && count_in_vain(targets, process, patched, tsc))
		drop = true;
	if (drop)
		xp_probes_drop_process(&targets->probes, pid, targets->plan->multi);
	if (process) {
		err = xp_process_end(process);
		if (err)
			return err;
	}
	/*
	 * The program has already been replaced by another one, so it cannot be scanned. A scan of the current program
	 * takes longer than the next execs of the process: with a scan after each exec event, the recording would never
	 * end.
	 */
	if (xp_programs_execs(targets->programs, pid) != task->execs)
		return add_past_program(targets, task, tsc);
	err = xp_follow_begin_image(targets, pid, tsc);
	process = xp_processes_find(&targets->processes, pid);
	/* If the next program has started but its exec is not counted yet, /proc shows the name of the next program. */
	if (!err && process && process->attaching.execs == task->execs)
		memcpy(process->comm, task->comm, sizeof(process->comm));
	/* The process has exited, but its events have arrived. */
	return err == -ESRCH ? xp_follow_adopt(targets, arrival, task->comm) : err;
}

/* Returns whether all sleds of the parent were patched before this TSC: then a child that was forked then has them. */
static bool was_patched(const struct xp_process *parent, uint64_t tsc)
{
	for (size_t i = 0; i < parent->functions.range_count; i++) {
		const struct xp_sled_result *sleds = &parent->functions.ranges[i].sleds;

		if (sleds->mode == XP_SLEDS_PATCHED && sleds->begin_tsc > tsc)
			return false;
	}
	return true;
}

/* Records a forked child through the sleds of its parent, and through the kernel until the child gets a ring. */
static int inherit(struct xp_process *child, const struct xp_process *parent)
{
	int err = xp_functions_copy(&child->functions, &parent->functions);

	for (size_t i = 0; i < child->functions.range_count; i++) {
		struct xp_sled_result *sleds = &child->functions.ranges[i].sleds;

		if (sleds->mode == XP_SLEDS_PATCHED)
			child->attaching.inherits_from = parent->attaching.inherits_from ?: parent->pid;
		sleds->memory = false;
	}
	return err;
}

int xp_follow_fork(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	const struct xp_event_task *task = (const struct xp_event_task *)arrival->event;
	struct xp_process *parent = xp_processes_find(&targets->processes, task->ppid);
	struct xp_target_info info = { 0 };
	struct xp_process *child;
	int err;

	child = xp_processes_find(&targets->processes, task->head.pid);
	info.start_time =
	    xp_target_start_time_ago(task->head.pid, xp_clock_ns(targets->clock, xp_clock_now_tsc() - arrival->tsc));
	/* The child is known if a call came first: the merge did not wait for the ring with the fork event. */
	if (!parent || (child && info.start_time && child->start_time == info.start_time))
		return 0;
	memcpy(info.comm, parent->comm, sizeof(info.comm));
	snprintf(info.exe, sizeof(info.exe), "%s", parent->exe);
	err = xp_processes_add(&targets->processes, &child, task->head.pid, &info, arrival->tsc);
	if (err)
		return err;
	child->cpu.used_ns = 1; /* nearly nothing, but not 0, which means unknown */
	child->cpu.running = 1;
	child->attaching.parent = parent->pid;
	if (!was_patched(parent, arrival->tsc))
		return xp_follow_scan(targets, child);
	child->functions.main_object = parent->functions.main_object;
	return inherit(child, parent);
}

int xp_follow_exit_thread(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	const struct xp_event_task *task = (const struct xp_event_task *)arrival->event;
	struct xp_process *process = xp_processes_find(&targets->processes, task->head.pid);
	int err;

	if (process) {
		xp_process_explain_end(process, task);
		process->signal = task->exit_code & 0x7f;
	}
	err = xp_processes_end_calls(&targets->processes, arrival);
	return err ? err : xp_processes_end_thread(&targets->processes, task->head.tid);
}

int xp_follow_exit_process(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	const struct xp_event_task *task = (const struct xp_event_task *)arrival->event;
	pid_t pid = task->head.pid;
	struct xp_process *process = xp_processes_find(&targets->processes, pid);
	int err;

	if (!process)
		return 0;
	xp_process_explain_end(process, task);
	process->signal = task->exit_code & 0x7f; /* like WTERMSIG() */
	xp_process_ran(process, task->cpu_ns);
	err = xp_process_end(process);
	/* With --follow and --exec, processes are created and exit during the whole recording. */
	if (targets->plan->all_processes && patched_since(targets, pid))
		xp_probes_drop_process(&targets->probes, pid, targets->plan->multi);
	return err;
}

/* Handles a change of the list of loaded binaries, unless the process has executed another program since. */
int xp_follow_link_map(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	const struct xp_event *event = arrival->event;
	struct xp_process *process = xp_processes_find(&targets->processes, event->pid);
	uint64_t latest_tsc = arrival->tsc + xp_clock_ticks(targets->clock, LOOK_MARGIN_NS);

	/* A traced process is stopped at this event, and xp_follow_launch_event() scans it then. */
	if (xp_command_traces(&targets->command, (pid_t)event->pid) && event->tid == event->pid)
		return 0;
	if (!process || process->attaching.execs != xp_programs_execs(targets->programs, process->pid) ||
	    process->attaching.looked_tsc > latest_tsc)
		return 0;
	return xp_follow_scan(targets, process);
}

/* --exec attaches probes before processes start, so they are recorded from their first instruction. */
static int attach_exec_file(struct xp_targets *targets)
{
	const char *path = targets->options->exec_path;
	int fd = xp_file_open_regular(AT_FDCWD, path);
	const struct xp_object_file file = { fd, path, 0 };
	struct xp_sled_result sleds = { 0 };
	struct xp_short_text shown;
	struct xp_object *object;
	int err, refused;

	if (fd < 0)
		return xp_why_set(fd, "--exec %s: %s", xp_short_text(&shown, path),
				  fd == -EINVAL ? "not a regular file" : strerror(-fd));
	err =
	    fstat(fd, &targets->plan->exec_file) ? -errno : xp_objects_add(&targets->objects, &object, &file, &refused);
	close(fd);
	if (err)
		return err;
	if (!object->table)
		return xp_why_set(-ENOENT,
				  "--exec %s: %s; build it with `clang -fxray-instrument` (and "
				  "-fxray-instruction-threshold=1 for short functions too)",
				  xp_short_text(&shown, path), refused ? xp_why(refused) : "it has no sleds");
	/* Otherwise each process is patched when it executes the file. */
	if (!targets->probes.patch)
		err = xp_follow_attach_object(targets, object, NULL, &sleds);
	if (!err)
		xp_follow_warn_refused(object, 0, &sleds);
	return err;
}

int xp_follow_exec_file(struct xp_targets *targets)
{
	int err = attach_exec_file(targets);
	DIR *list;
	pid_t pid;

	if (err)
		return err;
	list = xp_target_list(0);
	if (!list)
		return -errno;
	while (!err && (pid = xp_target_next(list))) {
		struct xp_process *process;
		struct stat st;

		if (xp_target_stat_exe(pid, &st) || !xp_follow_same_file(&st, &targets->plan->exec_file))
			continue;
		err = xp_follow_add(targets, &process, pid, xp_clock_now_tsc());
		if (err == -ESRCH)
			err = 0;
	}
	closedir(list);
	return err;
}

int xp_follow_rescan(struct xp_targets *targets)
{
	uint64_t begin_tsc = xp_clock_now_tsc();
	int err = 0;

	for (struct xp_process *process = targets->processes.first_live; process && !err;
	     process = process->next_live) {
		uint32_t execs = xp_programs_execs(targets->programs, process->pid);

		/* Processes from here on were scanned after begin_tsc. */
		if (process->begin_tsc > begin_tsc)
			break;
		/* xp_follow_launch_event() handles the event at which this process is stopped. */
		if (xp_command_traces(&targets->command, process->pid))
			continue;
		if (!execs || execs == process->attaching.execs) {
			err = xp_follow_scan(targets, process);
			continue;
		}
		/* Ignores exec events that arrive later but are from before the new image. */
		xp_probes_drop_process(&targets->probes, process->pid, targets->plan->multi);
		err = xp_follow_begin_image(targets, process->pid, xp_clock_now_tsc());
		if (err == -ESRCH)
			err = 0;
	}
	return err;
}

void xp_follow_release_stubs(struct xp_targets *targets)
{
	const struct xp_throttle *throttle = targets->probes.throttle;
	struct xp_patch *patch = targets->probes.patch;
	struct xp_patch_heir *heirs;
	size_t count = 0;

	/* The throttle may be changing a child through the stub of its parent: wait for the next call. */
	if (!patch || !xp_patch_left(patch) || (throttle && xp_throttle_is_busy(throttle)))
		return;
	for (const struct xp_process *process = targets->processes.first_live; process; process = process->next_live)
		count++;
	heirs = malloc((count + 1) * sizeof(*heirs));
	if (!heirs)
		return;
	count = 0;
	for (const struct xp_process *process = targets->processes.first_live; process; process = process->next_live)
		heirs[count++] = (struct xp_patch_heir){ process->pid, process->attaching.inherits_from };
	xp_patch_release(patch, heirs, count);
	free(heirs);
}

void xp_follow_check(struct xp_targets *targets)
{
	for (struct xp_process *process = targets->processes.first_live; process; process = process->next_live) {
		uint64_t start_time = xp_target_start_time(process->pid);
		bool gone = !start_time || start_time != process->start_time;

		/* The last records of the process may not have arrived yet: wait until the next check. */
		if (gone && process->attaching.missing) {
			process->vanished = true;
			xp_process_end(process);
		}
		process->attaching.missing = gone;
	}
}
