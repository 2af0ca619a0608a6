/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches the sleds of a binary that a traced process has mapped: with probes or by patching. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/why.h"
#include "kernel/privilege.h"
#include "record/follow.h"
#include "sled/plan_table.h"
#include "sled/unpatch.h"
#include "target/room.h"

/* Cost of a probe in s (and MB): see XP_ATTACH_MAX. */
#define PROBE_ATTACH_S 6e-6
#define PROBE_DETACH_S 5e-6
#define EVENT_ATTACH_S 1e-3
#define EVENT_DETACH_S 3e-2
#define PROBE_MB 3e-4
/* Memory that attaching uses in addition to copies of text: page tables, the stub, a mapping for probes. */
#define ATTACH_BYTES (1u << 20)

pid_t xp_follow_probe_pid(const struct xp_targets *targets, pid_t pid)
{
	return targets->plan->all_processes ? 0 : pid;
}

/* Returns whether the process is stopped by xprof, because it is the command that xprof has just started. */
static bool is_held(const struct xp_targets *targets, pid_t pid)
{
	return xp_command_traces(&targets->command, pid) && targets->command.launch.standing;
}

/* Returns NULL if out of memory. */
static char *clean_copy(const char *why)
{
	char text[256];

	xp_clean_text(text, sizeof(text), why);
	return strdup(text);
}

/* Prints, once per process, why calls of its patched sleds are not recorded in memory. */
static void note_no_memory(const struct xp_targets *targets, struct xp_process *process)
{
	const char *all = targets->plan->no_memory;
	const char *why = all ?: xp_patch_no_rings(targets->probes.patch, process->pid);
	struct xp_short_text shown;

	if (process->attaching.patched_why || !why[0])
		return;
	xp_short_text(&shown, why);
	if (all && targets->options->call_mode == XP_CALL_MODE_OPTION_AUTO)
		xp_debug("the sleds of process %d (%s) are patched, but their calls are not recorded in memory: %s",
			 process->pid, process->comm, shown.text);
	else
		xp_info("the sleds of process %d (%s) are patched, but their calls are not recorded in memory: %s",
			process->pid, process->comm, shown.text);
	process->attaching.patched_why = clean_copy(why);
}

/* Returns whether the binary's sleds are patched in any process. */
static bool patched_anywhere(const struct xp_targets *targets, const struct xp_object *object)
{
	for (const struct xp_process *process = targets->processes.first_live; process; process = process->next_live)
		for (size_t i = 0; i < process->functions.range_count; i++)
			if (process->functions.ranges[i].object == object &&
			    process->functions.ranges[i].sleds.mode == XP_SLEDS_PATCHED)
				return true;
	return false;
}

/* Returns whether the process has patched sleds, its own or its parent's. */
static bool is_patched(const struct xp_process *process)
{
	for (size_t i = 0; i < process->functions.range_count; i++)
		if (process->functions.ranges[i].sleds.mode == XP_SLEDS_PATCHED)
			return true;
	return false;
}

/*
 * Returns whether to patch the binary's sleds. With --exec, or for a program that a followed process executes, probes
 * in all processes are better: the next process that executes the program is recorded from its first instruction. But
 * probes are not possible while a process has the binary patched, because they would be in that process, too.
 */
static bool is_to_patch(const struct xp_targets *targets, const struct xp_process *process,
			const struct xp_object *object)
{
	if (!targets->probes.patch || !process)
		return false;
	/* xprof never only probes functions without sleds, except functions of Go programs. */
	if (object->plan)
		return !xp_plan_table_is_go(object->plan);
	if (!targets->plan->all_processes || targets->options->call_mode != XP_CALL_MODE_OPTION_AUTO ||
	    targets->options->max_overhead > 0)
		return true;
	return !targets->run_tsc || is_held(targets, process->pid) || is_patched(process) ||
	       patched_anywhere(targets, object);
}

/* Prints that a program was patched only while it was already running. */
static void say_late(struct xp_targets *targets, const struct xp_process *process, const struct xp_object *object)
{
	if (targets->probes.told_late || !targets->run_tsc || !targets->plan->all_processes ||
	    is_held(targets, process->pid) || is_patched(process))
		return;
	targets->probes.told_late = true;
	xp_info("process %d executed %s: xprof patches its %s some milliseconds later and does not record earlier "
		"calls%s",
		process->pid, object->path, object->plan ? "functions" : "sleds",
		object->plan || targets->options->max_overhead > 0 ? ""
								   : "; with --call-mode probe, it would record them");
}

/* Returns whether a failure to patch ends the recording. It does not for programs that others start. */
static bool must_patch(const struct xp_targets *targets)
{
	return targets->options->call_mode == XP_CALL_MODE_OPTION_PATCH &&
	       !(targets->plan->all_processes && targets->run_tsc);
}

/*
 * Patches the binary's sleds. Returns 0; 1 if they must be probed instead (after printing why); -EOPNOTSUPP if probes
 * are not allowed either, because of a budget; -EKEYREJECTED if the process has forged stubs; or -ESRCH if the process
 * has exited or executed another program. Probes a process that keeps executing programs: the next program has the same
 * probes.
 */
static int patch_object(struct xp_targets *targets, struct xp_process *process, const struct xp_object *object,
			struct xp_sled_result *sleds)
{
	pid_t pid = process->pid;
	const struct xp_patch_place place = { .object = object, .pid = pid, .held = is_held(targets, pid) };
	bool must = must_patch(targets);
	const char *remedy = "--call-mode auto probes them instead", *why;
	int err = xp_why_set(-ESRCH, "it executes programs faster than their sleds can be patched");

	if (must || process->attaching.in_vain < XP_FOLLOW_PATCH_TRIES) {
		err = xp_patch_object(targets->probes.patch, &place, sleds);
		if (!err)
			say_late(targets, process, object);
		if (!err && !process->rings)
			process->rings = xp_patch_rings(targets->probes.patch, pid);
		if (!err && !sleds->memory && (targets->plan->memory || targets->plan->no_memory))
			note_no_memory(targets, process);
		if (!err || err == -ENOMEM || err == -ESRCH || err == -ECANCELED)
			return err;
	}
	if (!xp_target_start_time(pid))
		return err;
	if (object->plan)
		return xp_why_set(err, "the functions of %s in process %d cannot be patched: %s", object->path, pid,
				  xp_why(err));
	why = xp_why(err);
	if (err == -EKEYREJECTED) {
		must = process->attaching.left_out = true;
		remedy = "end that process";
	} else if (targets->options->max_overhead > 0) {
		err = -EOPNOTSUPP;
		must = process->attaching.left_out = true;
		remedy = "omit --max-overhead, which is for patched sleds only";
	}
	if (must)
		return xp_why_set(err, "the sleds of %s in process %d cannot be patched: %s; %s", object->path, pid,
				  why, remedy);
	if (!process->attaching.probed_why)
		xp_info("the sleds of process %d (%s) are probed, not patched: %s", pid, process->comm, why);
	free(process->attaching.probed_why);
	process->attaching.probed_why = clean_copy(why);
	xp_why_clear();
	return 1;
}

/* Returns 0; -ENOBUFS if the binary has more sleds than xprof can probe; or -EREMOTE if the file cannot be probed. */
static int check_room(const struct xp_targets *targets, const struct xp_object *object)
{
	size_t room = xp_attach_max(targets->plan->multi);

	if (object->original)
		return -EREMOTE;
	if (targets->probes.attach)
		room = xp_attach_room(targets->probes.attach);
	return object->selected_count > room ? -ENOBUFS : 0;
}

/* Attaches sleds when there is a budget. */
static int attach_throttled(struct xp_targets *targets, struct xp_object *object, struct xp_process *process,
			    struct xp_sled_result *sleds)
{
	struct xp_throttle *throttle = targets->probes.throttle;
	int err = xp_throttle_add_object(throttle, object);

	if (err)
		return err;
	xp_throttle_wait(throttle);
	err = patch_object(targets, process, object, sleds);
	return err ? err : xp_throttle_attach(throttle, object, process->pid, sleds);
}

/*
 * Conditional tail exits of an object that is patched, in all processes: the children of those that have it patched are
 * to be recorded, too. Once for each object.
 */
static int probe_conditional(struct xp_targets *targets, struct xp_object *object)
{
	const struct xp_sled_choice conditional = { .object = object, .unpatched = true };
	struct xp_sled_result sleds;
	int err;

	if (!targets->probes.attach || object->conditional_probed)
		return 0;
	err = xp_sleds_attach(targets->probes.attach, targets->programs, &conditional, &sleds);
	object->conditional_probed = !err;
	return err;
}

/* Go programs are probed in every call mode except patch. Prints that once per process. */
static int note_go(const struct xp_targets *targets, struct xp_process *process, const struct xp_object *object)
{
	static const char why[] = "it is a Go program, whose runtime inspects its own code";

	if (must_patch(targets))
		return xp_why_set(-EOPNOTSUPP,
				  "the functions of %s cannot be patched: %s; --call-mode auto probes them",
				  object->path, why);
	if (!process || process->attaching.probed_why)
		return 0;
	xp_info("the functions of process %d (%s) are probed, not patched: %s", process->pid, process->comm, why);
	process->attaching.probed_why = strdup(why);
	return 0;
}

static int attach_unthrottled(struct xp_targets *targets, struct xp_object *object, struct xp_process *process,
			      pid_t pid, struct xp_sled_result *sleds)
{
	const struct xp_sled_choice all = { .object = object, .pid = pid, .all_args = targets->options->args };
	int err = is_to_patch(targets, process, object) ? patch_object(targets, process, object, sleds) : 1;

	if (!err && targets->plan->all_processes)
		return probe_conditional(targets, object);
	if (err == 1 && xp_plan_table_is_go(object->plan))
		err = note_go(targets, process, object) ?: 1;
	if (err != 1)
		return err;
	err = check_room(targets, object);
	/* A dry run only patches: it does not try calls through probes, which are too expensive. */
	return err ? err
		   : xp_sleds_attach(targets->options->dry_run ? NULL : targets->probes.attach, targets->programs, &all,
				     sleds);
}

/* Uses the costs per probe from XP_ATTACH_MAX; this machine may be slower. */
static void explain_limit(struct xp_targets *targets, const struct xp_object *object, const char *or_patch)
{
	bool multi = targets->plan->multi;
	size_t sleds = object->selected_count;

	xp_why_set(-ENOBUFS,
		   "%s has %zu sleds to probe, but xprof attaches at most %zu probes: these would take about %.0f s to "
		   "attach, %.0f s to detach, which cannot be interrupted, and %.0f MB of kernel memory; choose "
		   "functions with --functions GLOB (`xprof list` shows their names)%s%s",
		   object->path, sleds, xp_attach_max(multi), 1 + sleds * (multi ? PROBE_ATTACH_S : EVENT_ATTACH_S),
		   1 + sleds * (multi ? PROBE_DETACH_S : EVENT_DETACH_S), 1 + sleds * PROBE_MB,
		   *or_patch ? ", or have up to 2 000 000 patched" : "", or_patch);
}

/* Sets the message for an error of attaching. */
static void explain(struct xp_targets *targets, const struct xp_object *object, pid_t pid, int err)
{
	const char *or_patch = targets->plan->may_patch || targets->plan->all_processes ? "" : ": --call-mode patch";

	if (err == -ESRCH)
		xp_why_set(err, "process %d ended while it was being attached", pid);
	else if (err == -ENOBUFS)
		explain_limit(targets, object, or_patch);
	else if (err == -EREMOTE)
		xp_why_set(
		    err,
		    "%s is on %s, and the kernel would wait for FUSE at each probe: copy the file to a local disk "
		    "and start it there%s%s",
		    object->path, object->original, *or_patch ? ", or have its sleds patched" : "", or_patch);
	else if (err == -EMFILE)
		xp_why_set(err,
			   "too many open files for one probe per sled; raise `ulimit -n`, choose fewer functions with "
			   "--functions, or use a kernel with uprobe_multi (6.6)");
	else
		xp_why_set(err, "the kernel refuses probes on %s: %s; `xprof doctor` shows what is missing",
			   object->path, strerror(-err));
}

/*
 * Checks whether the cgroup of the process has enough memory. Each page of text with a sled becomes a copy, by patching
 * or by probes, and the kernel charges the copy to the process: at the memory limit of its cgroup, the kernel would
 * kill the process (OOM).
 */
static int check_group(const struct xp_object *object, pid_t pid)
{
	uint64_t bytes = xp_object_page_bytes(object);
	int err = bytes ? xp_target_check_group_room(pid, bytes + ATTACH_BYTES) : 0;

	if (!err)
		return 0;
	return xp_why_set(
	    -EDQUOT, "the sleds of %s in process %d cannot be recorded: %s, or choose fewer functions with --functions",
	    object->path, pid, xp_why(err));
}

/* Attaches the sleds, with the budget if there is one. probe_pid: the process to probe; 0: all. */
static int attach_sleds(struct xp_targets *targets, struct xp_object *object, struct xp_process *process,
			pid_t probe_pid, struct xp_sled_result *sleds)
{
	uint64_t begin = xp_clock_now_tsc();
	int err = process ? check_group(object, process->pid) : 0;

	if (err) {
		process->attaching.left_out = true;
		return err;
	}
	err = targets->probes.throttle ? attach_throttled(targets, object, process, sleds)
				       : attach_unthrottled(targets, object, process, probe_pid, sleds);

	targets->probes.attach_ns += xp_clock_ns(targets->clock, xp_clock_now_tsc() - begin);
	return err;
}

/* Returns whether the recording continues without this binary: it was loaded during the recording, or others run it. */
static bool may_be_missing(const struct xp_targets *targets, int err)
{
	if (err == -ENOBUFS)
		return targets->run_tsc;
	if (err == -EKEYREJECTED)
		return true;
	return (err == -EREMOTE || err == -EDQUOT || (err == -EOPNOTSUPP && targets->options->max_overhead > 0)) &&
	       (targets->run_tsc || targets->plan->samples || targets->plan->all_processes);
}

bool xp_follow_may_skip_busy(const struct xp_targets *targets)
{
	return targets->run_tsc || targets->plan->all_processes;
}

/* Continues without a binary in one process if the kernel refused its probes for a second. Prints that once. */
static void give_up_busy(struct xp_targets *targets, pid_t pid)
{
	if (!targets->probes.busy++)
		xp_warn("%s; its sleds are not recorded in process %d; the summary has the number of such processes",
			xp_why(-EBUSY), pid);
	xp_why_clear();
}

int xp_follow_attach_object(struct xp_targets *targets, struct xp_object *object, struct xp_process *process,
			    struct xp_sled_result *sleds)
{
	pid_t pid = process ? process->pid : 0, probe_pid = pid;
	const struct xp_attached *attached = xp_probes_find(&targets->probes, object, pid);
	int err;

	if (attached) {
		*sleds = attached->sleds;
		return 0;
	}
	/* A process that appeared after probes were stopped gets its functions, but no probes. */
	if (targets->probes.stopped)
		return 0;
	if (xp_interrupted())
		return -ECANCELED;
	/* Do not probe all processes while one has the binary patched: the probes would be in that process, too. */
	if (targets->plan->all_processes && !patched_anywhere(targets, object))
		probe_pid = 0;
	xp_why_clear();
	err = attach_sleds(targets, object, process, probe_pid, sleds);
	if (err && !xp_why_has(err))
		explain(targets, object, pid, err);
	if (err == -EBUSY && process && xp_follow_may_skip_busy(targets)) {
		give_up_busy(targets, pid);
		probe_pid = pid;
		*sleds = (struct xp_sled_result){ 0 };
		err = 0;
	} else if (may_be_missing(targets, err)) {
		xp_warn("%s; its sleds are not recorded", xp_why(err));
		xp_why_clear();
		*sleds = (struct xp_sled_result){ 0 };
		err = 0;
	}
	if (sleds->mode == XP_SLEDS_PATCHED)
		probe_pid = pid;
	if (!err)
		err = xp_probes_add(&targets->probes, &(struct xp_attached){ object, probe_pid, *sleds });
	if (err)
		return err;
	xp_debug("%s: %zu sleds %s in process %d, %zu refused", object->path, sleds->attached,
		 sleds->mode == XP_SLEDS_PATCHED ? "patched" : "probed", pid, sleds->patched + sleds->unreadable);
	return 0;
}

/* With --follow and --exec, a process that is not recorded may have patched sleds. */
static void warn_patched(const struct xp_object *object, pid_t pid, const struct xp_sled_result *sleds)
{
	size_t all = object->selected_count + object->patched_in_file;
	pid_t holder;
	int err = sleds->patched_pid ? xp_unpatch_owner(sleds->patched_pid, &holder) : -ENOENT;

	if (err == -EBUSY)
		xp_warn("%s: skipped %zu of %zu sleds: process %d has them patched by another xprof (process %d), and "
			"a probe would crash it; stop that xprof, or run it with --call-mode probe",
			object->path, sleds->patched, all, sleds->patched_pid, holder);
	else if (!err && sleds->patched_pid != pid)
		xp_warn("%s: skipped %zu of %zu sleds: they are patched in process %d, and a probe would crash it; if "
			"a killed xprof left them patched, `xprof restore -p %d` restores them",
			object->path, sleds->patched, all, sleds->patched_pid, sleds->patched_pid);
	else
		xp_warn("%s: skipped %zu of %zu sleds: they are patched in process %d (by XRay's own runtime, or in "
			"the file), and a probe would crash it; run it without XRAY_OPTIONS=patch_premain=true, or let "
			"it call __xray_unpatch()",
			object->path, sleds->patched, all, sleds->patched_pid ?: pid);
}

/* Of an object without sleds. For the next process with these numbers, nothing: a server may have a thousand. */
static void warn_functions(struct xp_object *object, pid_t pid, const struct xp_sled_result *sleds)
{
	bool first = !object->told.any;
	char text[256];

	if (!first && object->told.faulting == sleds->faulting && object->told.patched == sleds->patched)
		return;
	object->told.any = true;
	object->told.faulting = sleds->faulting;
	object->told.patched = sleds->patched;
	xp_plan_table_text(object->plan, object->table->function_count, text, sizeof(text));
	if (first && strchr(text, ';'))
		xp_info("%s: functions that match: %s; `xprof list FILE` lists them", object->path, text);
	if (sleds->faulting)
		xp_info("%s: %zu of %zu entries and exits in process %d are not recorded: instructions of their "
			"functions that may fault would move, and a handler of the process for SIGSEGV, SIGBUS, SIGFPE "
			"or SIGILL may depend on their address",
			object->path, sleds->faulting, object->selected_count, pid);
	if (sleds->patched)
		xp_warn("%s: %zu of %zu entries and exits in process %d are not recorded: their code differs "
			"from the file, or a thread may continue between the instructions to be replaced",
			object->path, sleds->patched, object->selected_count, pid);
}

void xp_follow_warn_refused(struct xp_object *object, pid_t pid, const struct xp_sled_result *sleds)
{
	if (object->plan) {
		warn_functions(object, pid, sleds);
		return;
	}
	if (sleds->patched)
		warn_patched(object, pid, sleds);
	if (sleds->unreadable)
		xp_warn("%s: %zu sleds in process %d cannot be read and are not recorded", object->path,
			sleds->unreadable, pid);
}

/* Patches a binary again that was unloaded and loaded again. (Probes come back automatically.) */
static int patch_again(struct xp_targets *targets, struct xp_process *process, struct xp_object *object,
		       const struct xp_mapping *mapping)
{
	const struct xp_patch_place place = { .object = object,
					      .pid = process->pid,
					      .held = is_held(targets, process->pid) };
	struct xp_sled_result sleds;
	int err;

	if (!targets->probes.attach || targets->probes.stopped ||
	    xp_patch_has(targets->probes.patch, object, process->pid, mapping))
		return 0;
	if (targets->probes.throttle)
		xp_throttle_wait(targets->probes.throttle);
	err = xp_patch_object(targets->probes.patch, &place, &sleds);
	if (!targets->probes.told_again)
		xp_warn("process %d loaded %s again: its calls are not recorded until its sleds are patched (%s); with "
			"--call-mode probe, all are recorded",
			process->pid, object->path,
			!err || err == -ESRCH ? "it is patched some milliseconds after each load" : xp_why(err));
	targets->probes.told_again = true;
	xp_why_clear();
	return err == -ENOMEM ? err : 0;
}

/* Returns 1 if a missing capability prevents examining the sleds, but the process is sampled. Prints that once. */
static int check_privilege(struct xp_targets *targets, struct xp_process *process)
{
	if (process->attaching.denied)
		return 1;
	if (xp_privilege_probe(process->pid) != -EACCES)
		return 0;
	if (!targets->plan->samples)
		return xp_why_set(-EACCES, "process %d (%s): %s; run xprof with sudo", process->pid, process->comm,
				  xp_why(-EACCES));
	process->attaching.denied = true;
	xp_info("process %d (%s) is sampled only; its sleds are not recorded: %s", process->pid, process->comm,
		xp_why(-EACCES));
	return 1;
}

int xp_follow_add_object(struct xp_targets *targets, struct xp_process *process, struct xp_object *object,
			 const struct xp_mapping *mapping, bool main)
{
	struct xp_sled_result sleds = { 0 };
	int err;

	for (size_t i = 0; i < process->functions.range_count; i++) {
		const struct xp_range *range = &process->functions.ranges[i];

		if (range->object == object)
			return range->sleds.mode == XP_SLEDS_PATCHED ? patch_again(targets, process, object, mapping)
								     : 0;
	}
	/* The executable comes first, even if --functions does not select it, so that its IDs match its own map. */
	if (!main && !object->selected_count && !object->patched_in_file)
		return 0;
	err = check_privilege(targets, process);
	if (err)
		return XP_MIN(err, 0);
	err = xp_follow_attach_object(targets, object, process, &sleds);
	if (err)
		return err;
	xp_follow_warn_refused(object, process->pid, &sleds);
	if (sleds.inherited_from)
		process->attaching.inherits_from = sleds.inherited_from;
	if (main)
		process->functions.main_object = object;
	return XP_MIN(xp_functions_add(&process->functions, object, &sleds), 0);
}
