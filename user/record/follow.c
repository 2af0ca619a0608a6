/* SPDX-License-Identifier: BSD-2-Clause */
/* What is attached when a traced process appears or changes. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/chosen_file.h"
#include "base/file_view.h"
#include "base/interrupt.h"
#include "target/link_map.h"
#include "target/memory_window.h"
#include "kernel/privilege.h"
#include "record/recording.h"
#include "sled/unpatch.h"
#include "base/util.h"

/* How long a started program without sleds is held on to, in case it executes one that has some. */
#define LAUNCH_PATIENCE_NS XP_NS_PER_S
/* Programs that a process executes one after the other, each before its sleds are patched, or so soon after that. */
#define PATCH_TRIES 5
#define SHORT_LIFE_NS 50000000u
/* Files that are opened before it is asked whether to go on. */
#define MAPPINGS_PER_LOOK 256
/* What a probe takes, in s: see XP_ATTACH_MAX. */
#define PROBE_ATTACH_S 6e-6
#define PROBE_DETACH_S 5e-6
#define EVENT_ATTACH_S 1e-3
#define EVENT_DETACH_S 3e-2
#define PROBE_MB 3e-4
/* More than records may be off in time: what happened so long before a look was there when it began. */
#define LOOK_MARGIN_NS 1000000u

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

static pid_t probe_pid(const struct xp_recording *rec, pid_t pid)
{
	return rec->all_processes ? 0 : pid;
}

static struct xp_attached *find_attached(struct xp_recording *rec, const struct xp_object *object, pid_t pid)
{
	for (size_t i = 0; i < rec->attached_count; i++)
		if (rec->attached[i].object == object && rec->attached[i].pid == pid)
			return &rec->attached[i];
	return NULL;
}

/* Whether it stands still and is ours already, as a program that was just started. */
static bool is_held(const struct xp_recording *rec, pid_t pid)
{
	return rec->launch.traced && rec->launch.standing && rec->launch.pid == pid;
}

/*
 * Patches the object's sleds; 1: they are to be probed instead, and it is told why. -ESRCH: it has ended, or executed
 * something. A process that does so all the time is probed: what is executed next has the same probes.
 */
static int patch_object(struct xp_recording *rec, struct xp_process *process, const struct xp_object *object,
			struct xp_sled_result *sleds)
{
	pid_t pid = process->pid;
	bool must = rec->options->sled_way == XP_SLED_WAY_PATCH;
	char why[512] = "it executes programs faster than their sleds can be patched";
	int err = -ESRCH;

	if (must || process->in_vain < PATCH_TRIES) {
		err = xp_patch_object(rec->patch, object, pid, is_held(rec, pid), sleds, why, sizeof(why));
		if (!err || err == -ENOMEM || err == -ESRCH || err == -ECANCELED)
			return err;
	}
	if (!xp_target_start_time(pid))
		return err;
	if (must) {
		snprintf(rec->why, sizeof(rec->why),
			 "the sleds of %s in process %d cannot be patched: %s; --sled-mode auto probes them instead",
			 object->path, pid, why);
		return err;
	}
	if (!process->probed_why[0])
		xp_info("the sleds of process %d (%s) are probed, not patched: %s", pid, process->comm, why);
	xp_clean_text(process->probed_why, sizeof(process->probed_why), why);
	return 1;
}

/* -ENOBUFS: it has more sleds than can be probed; -EREMOTE: it cannot be probed where it is. */
static int check_room(const struct xp_recording *rec, const struct xp_object *object)
{
	size_t room;

	if (object->is_copy)
		return -EREMOTE;
	room = rec->attach ? xp_attach_room(rec->attach) : xp_attach_max(rec->multi);

	return object->selected_count > room ? -ENOBUFS : 0;
}

/* With a budget: what it leaves out by what is known of the calls depends on what they cost, and so on how. */
static int attach_throttled(struct xp_recording *rec, struct xp_object *object, struct xp_process *process, pid_t pid,
			    struct xp_sled_result *sleds)
{
	int err = xp_throttle_add_object(rec->throttle, object, NULL, 0);

	if (err)
		return err;
	err = 1;
	if (rec->patch && process) {
		xp_throttle_wait(rec->throttle);
		xp_throttle_expect(rec->throttle, object, XP_SLEDS_PATCHED);
		err = patch_object(rec, process, object, sleds);
	}
	if (err == 1) {
		sleds->mode = XP_SLEDS_PROBED;
		err = check_room(rec, object);
		if (!err)
			xp_throttle_expect(rec->throttle, object, XP_SLEDS_PROBED);
	}
	if (err)
		return err;
	return xp_throttle_attach(rec->throttle, object, pid, sleds);
}

static int attach_unthrottled(struct xp_recording *rec, struct xp_object *object, struct xp_process *process, pid_t pid,
			      struct xp_sled_result *sleds)
{
	int err = rec->patch && process ? patch_object(rec, process, object, sleds) : 1;

	if (err != 1)
		return err;
	err = check_room(rec, object);
	return err ? err : xp_sleds_attach(rec->attach, &rec->programs, object, pid, rec->options->args, sleds);
}

/* By what XP_ATTACH_MAX says of each probe; this machine may be slower. */
static void explain_limit(struct xp_recording *rec, const struct xp_object *object)
{
	size_t sleds = object->selected_count;

	snprintf(rec->why, sizeof(rec->why),
		 "%s has %zu sleds to probe, and xprof attaches %zu probes in all: these would take about %.0f s to "
		 "attach, %.0f s to take away, which nothing can stop, and %.0f MB of the kernel's memory; choose "
		 "functions with --functions GLOB (`xprof list` shows their names)%s",
		 object->path, sleds, xp_attach_max(rec->multi),
		 1 + (double)sleds * (rec->multi ? PROBE_ATTACH_S : EVENT_ATTACH_S),
		 1 + (double)sleds * (rec->multi ? PROBE_DETACH_S : EVENT_DETACH_S), 1 + (double)sleds * PROBE_MB,
		 rec->may_patch || rec->all_processes ? "" : ", or have up to 2 000 000 patched: --sled-mode patch");
}

/* Makes an error of attaching a sentence. */
static void explain(struct xp_recording *rec, const struct xp_object *object, pid_t pid, int err)
{
	if (err == -ESRCH)
		snprintf(rec->why, sizeof(rec->why), "process %d ended while it was being attached", pid);
	else if (err == -ENOBUFS)
		explain_limit(rec, object);
	else if (err == -EREMOTE)
		snprintf(rec->why, sizeof(rec->why),
			 "%s is on a file system that a process serves (FUSE), which the kernel would wait for with "
			 "each probe: copy it to a disk of this machine and start it there%s",
			 object->path,
			 rec->may_patch || rec->all_processes ? "" : ", or have its sleds patched: --sled-mode patch");
	else if (err == -EMFILE)
		snprintf(rec->why, sizeof(rec->why),
			 "too many open files for one probe a sled; raise `ulimit -n`, choose fewer functions with "
			 "--functions, or use a kernel with uprobe_multi (6.6)");
	else if (err)
		snprintf(rec->why, sizeof(rec->why),
			 "the kernel refuses probes on %s: %s; `xprof doctor` tells what "
			 "is missing",
			 object->path, strerror(-err));
}

static int attach_object(struct xp_recording *rec, struct xp_object *object, struct xp_process *process,
			 struct xp_sled_result *sleds)
{
	pid_t pid = process ? process->pid : 0;
	struct xp_attached *attached = find_attached(rec, object, probe_pid(rec, pid));
	uint64_t begin = xp_clock_now_tsc();
	int err;

	if (attached) {
		*sleds = attached->sleds;
		return 0;
	}
	/* What ran in the last moment still gets its functions, but no probes. */
	if (rec->stopped)
		return 0;
	if (xp_interrupted())
		return -ECANCELED;
	attached = realloc(rec->attached, (rec->attached_count + 1) * sizeof(*attached));
	if (!attached)
		return -ENOMEM;
	rec->attached = attached;
	err = rec->throttle ? attach_throttled(rec, object, process, probe_pid(rec, pid), sleds)
			    : attach_unthrottled(rec, object, process, probe_pid(rec, pid), sleds);
	rec->attach_ns += xp_clock_ns(rec->clock, xp_clock_now_tsc() - begin);
	if (err && !rec->why[0])
		explain(rec, object, pid, err);
	/* What is loaded when the recording runs does not end it, nor what others may run. */
	if ((err == -ENOBUFS && rec->run_tsc) ||
	    (err == -EREMOTE && (rec->run_tsc || rec->with_samples || rec->all_processes))) {
		xp_warn("%s; its sleds are left alone", rec->why);
		rec->why[0] = 0;
		*sleds = (struct xp_sled_result){ 0 };
		err = 0;
	}
	if (err)
		return err;
	rec->attached[rec->attached_count++] = (struct xp_attached){ object, probe_pid(rec, pid), *sleds };
	xp_debug("%s: %zu sleds %s in process %d, %zu refused", object->path, sleds->attached,
		 sleds->mode == XP_SLEDS_PATCHED ? "patched" : "probed", pid, sleds->patched + sleds->unreadable);
	return 0;
}

static void warn_refused(const struct xp_object *object, pid_t pid, const struct xp_sled_result *sleds)
{
	if (sleds->patched)
		xp_warn("%s: %zu of %zu sleds in process %d are patched already (by XRay's own runtime, or in the file)"
			" and are left alone, since a probe there would crash it; run the program without "
			"XRAY_OPTIONS=patch_premain=true, or let it call __xray_unpatch()",
			object->path, sleds->patched, object->selected_count + object->patched_in_file, pid);
	if (sleds->unreadable)
		xp_warn("%s: %zu sleds in process %d cannot be read and are left alone", object->path,
			sleds->unreadable, pid);
}

/* A patched object may have been unloaded and loaded again; a probe would have come back by itself. */
static int patch_again(struct xp_recording *rec, struct xp_process *process, struct xp_object *object,
		       const struct xp_mapping *mapping)
{
	struct xp_sled_result sleds;
	char why[512];
	int err;

	if (!rec->attach || rec->stopped || xp_patch_has(rec->patch, object, process->pid, mapping))
		return 0;
	if (rec->throttle)
		xp_throttle_wait(rec->throttle);
	err = xp_patch_object(rec->patch, object, process->pid, is_held(rec, process->pid), &sleds, why, sizeof(why));
	if (err && err != -ESRCH)
		xp_warn("%s was loaded again by process %d and cannot be patched: %s; its events are missing from "
			"now on",
			object->path, process->pid, why);
	return err == -ENOMEM ? err : 0;
}

/* 1: its sleds cannot be looked at for lack of a capability, but it is sampled. Said once. */
static int check_privilege(struct xp_recording *rec, struct xp_process *process)
{
	char why[256];

	if (process->denied)
		return 1;
	if (xp_privilege_probe(process->pid, why, sizeof(why)) != -EACCES)
		return 0;
	if (!rec->with_samples) {
		snprintf(rec->why, sizeof(rec->why), "process %d (%s): %s; run xprof with sudo", process->pid,
			 process->comm, why);
		return -EACCES;
	}
	process->denied = true;
	xp_info("process %d (%s) is sampled only, its sleds are left alone: %s", process->pid, process->comm, why);
	return 1;
}

static int add_object(struct xp_recording *rec, struct xp_process *process, struct xp_object *object,
		      const struct xp_mapping *mapping, bool main)
{
	struct xp_sled_result sleds = { 0 };
	int err;

	for (size_t i = 0; i < process->range_count; i++) {
		const struct xp_range *range = &process->ranges[i];

		if (range->object == object)
			return range->sleds.mode == XP_SLEDS_PATCHED ? patch_again(rec, process, object, mapping) : 0;
	}
	/* The executable comes first, whatever --functions says, so that its ids are those of its own map. */
	if (!main && !object->selected_count && !object->patched_in_file)
		return 0;
	err = check_privilege(rec, process);
	if (err)
		return XP_MIN(err, 0);
	err = attach_object(rec, object, process, &sleds);
	if (err)
		return err;
	warn_refused(object, process->pid, &sleds);
	if (main)
		process->main_object = object;
	return XP_MIN(xp_process_add_object(process, object, &sleds), 0);
}

/* Puts the probe on a dynamic linker that tells of changes. Without it, objects loaded later are not noticed. */
static int add_linker(struct xp_recording *rec, const struct stat *st, int fd, pid_t pid)
{
	struct xp_uprobe probe = { 0 };
	struct xp_linker *linkers;

	pid = probe_pid(rec, pid);
	for (size_t i = 0; i < rec->linker_count; i++)
		if (rec->linkers[i].inode == st->st_ino && rec->linkers[i].dev == st->st_dev &&
		    rec->linkers[i].pid == pid)
			return 0;
	if (!rec->attach || rec->stopped || xp_link_map_offset(fd, &probe.offset))
		return 0;
	linkers = realloc(rec->linkers, (rec->linker_count + 1) * sizeof(*linkers));
	if (!linkers)
		return -ENOMEM;
	rec->linkers = linkers;
	linkers[rec->linker_count++] = (struct xp_linker){ st->st_dev, st->st_ino, pid };
	return xp_attach_uprobes(rec->attach, xp_programs_link_map_fd(&rec->programs), fd, pid, &probe, 1);
}

static int watch_linker(struct xp_recording *rec, struct xp_process *process, const struct xp_mapping *mapping)
{
	struct stat st;
	int fd, err = 0;

	if (rec->options->exec_path || !xp_link_map_is_linker(mapping->path))
		return 0;
	fd = xp_mapping_open(process->pid, mapping);
	if (fd < 0) /* unmapped meanwhile */
		return 0;
	if (!fstat(fd, &st) && !xp_chosen_original(&st)) {
		process->stops_when_loaded = strstr(mapping->path, "musl") ? 1 : 2;
		err = add_linker(rec, &st, fd, process->pid);
	}
	close(fd);
	return err;
}

/*
 * Before anything else is attached, which takes long enough for the process to load another object: the linker tells of
 * each that comes after the mappings as they are read then.
 */
static int watch_linkers(struct xp_recording *rec, struct xp_process *process, struct xp_mappings *mappings)
{
	size_t linkers = rec->linker_count;
	int err = 0;

	for (size_t i = 0; !err && i < mappings->count; i++)
		err = watch_linker(rec, process, &mappings->list[i]);
	if (err || linkers == rec->linker_count)
		return err;
	xp_mappings_free(mappings);
	return xp_mappings_read(mappings, process->pid);
}

static int look_at(struct xp_recording *rec, struct xp_process *process, const struct xp_mapping *mapping,
		   const struct stat *exe, bool main)
{
	struct xp_object *object;
	bool malformed;
	struct stat st;
	int fd = xp_mapping_open(process->pid, mapping);
	int err = 0;

	if (fd < 0) /* unmapped meanwhile */
		return 0;
	if (fstat(fd, &st))
		goto out;
	xp_chosen_original(&st);
	if (same_file(&st, exe) != main)
		goto out;
	if (rec->options->exec_path && !same_file(&st, &rec->exec_file))
		goto out;
	err = xp_objects_add(&rec->objects, &object, fd, mapping->path, &malformed, rec->why, sizeof(rec->why));
	if (err == -ENOSPC)
		snprintf(rec->why, sizeof(rec->why), "more than %u functions in all: choose fewer objects",
			 XP_FN_MAX / 2);
	if (err)
		goto out;
	if (malformed)
		xp_warn("%s: %s; its sleds are left alone", mapping->path, rec->why);
	if (object->table)
		err = add_object(rec, process, object, mapping, main);
out:
	close(fd);
	return err;
}

/* -ESRCH of one mapping is about that alone, which was unloaded meanwhile, while the program is the same. */
static int look_at_all(struct xp_recording *rec, struct xp_process *process, const struct xp_mappings *mappings,
		       const struct xp_memory_window *memory)
{
	struct stat exe;

	(void)xp_target_stat_exe(process->pid, &exe);
	for (int main = 1; main >= 0; main--)
		for (size_t i = 0; i < mappings->count; i++) {
			bool look = i % MAPPINGS_PER_LOOK == MAPPINGS_PER_LOOK - 1;
			int err = look && xp_interrupted() ? -ECANCELED
							   : look_at(rec, process, &mappings->list[i], &exe, main);

			if (err && (err != -ESRCH || !memory || xp_memory_window_gone(memory)))
				return err;
			if (err)
				rec->why[0] = 0;
		}
	return 0;
}

/* -ESRCH: it ended, or executed another program meanwhile, or is about to: then there is no code yet. */
static int scan(struct xp_recording *rec, struct xp_process *process)
{
	struct xp_memory_window *memory = NULL;
	struct xp_mappings mappings;
	int err;

	if (xp_memory_window_open(&memory, process->pid) == -ESRCH)
		return -ESRCH;
	err = xp_mappings_read(&mappings, process->pid);
	if (err) {
		snprintf(rec->why, sizeof(rec->why), "cannot read the mappings of process %d: %s", process->pid,
			 strerror(-err));
		goto out;
	}
	err = watch_linkers(rec, process, &mappings);
	if (!err)
		err = look_at_all(rec, process, &mappings, memory);
	/* Then some of them could not be looked at. */
	if (!err && (!mappings.count || (memory && xp_memory_window_gone(memory))))
		err = -ESRCH;
	xp_mappings_free(&mappings);
out:
	xp_memory_window_free(memory);
	return err;
}

int xp_follow_scan(struct xp_recording *rec, struct xp_process *process)
{
	int err;

	process->looked_tsc = xp_clock_now_tsc();
	err = rec->with_sleds ? scan(rec, process) : 0;
	if (err == -ESRCH)
		process->in_vain++;
	if (process->range_count || !err)
		process->flees = 0;
	else if (err == -ESRCH)
		process->flees++;
	if (err != -ESRCH)
		return err;
	/* Records tell of its end, and of what it has executed. */
	rec->why[0] = 0;
	return 0;
}

/* Sleds that a killed xprof has left patched: a probe there would be refused. */
static int put_back_leftovers(struct xp_recording *rec, pid_t pid)
{
	struct xp_unpatched unpatched;
	int err;

	if (!rec->with_sleds || !rec->attach || rec->stopped)
		return 0;
	err = xp_unpatch_process(pid, false, &unpatched, rec->why, sizeof(rec->why));
	if (!err && unpatched.sleds)
		xp_info("process %d had %zu sleds that an xprof which was killed had left patched: put back", pid,
			unpatched.sleds);
	return err;
}

int xp_follow_add(struct xp_recording *rec, struct xp_process **process, pid_t pid, uint64_t tsc)
{
	struct xp_target_info info;
	int err = xp_target_check(pid, &info, rec->why, sizeof(rec->why));

	if (err)
		return err;
	err = put_back_leftovers(rec, pid);
	if (!err)
		err = xp_processes_add(&rec->processes, process, pid, &info, tsc);
	/* First of all: what happens to the process while it is looked at must not go unnoticed. */
	if (!err && rec->attach)
		err = xp_programs_add_target(&rec->programs, pid);
	if (!err && rec->attach)
		(*process)->execs = xp_programs_execs(&rec->programs, pid);
	if (!err)
		err = xp_follow_scan(rec, *process);
	return err;
}

int xp_follow_adopt(struct xp_recording *rec, const struct xp_rec *record, const char *comm, uint64_t tsc)
{
	struct xp_process *process = xp_processes_find(&rec->processes, record->pid);
	struct xp_object *object = xp_objects_find(&rec->objects, xp_rec_fn(record));
	const struct xp_attached *attached = object ? find_attached(rec, object, probe_pid(rec, record->pid)) : NULL;
	struct xp_target_info info = { 0 };
	int err = 0;

	if (!process) {
		snprintf(info.comm, sizeof(info.comm), "%s", comm);
		err = xp_processes_add(&rec->processes, &process, record->pid, &info, tsc);
	}
	if (!err && attached)
		err = xp_process_add_object(process, object, &attached->sleds);
	return XP_MIN(err, 0);
}

/*
 * The probes of a process belong to its first thread. When another one executes a program, it takes over the number of
 * the process, and the first is gone: the kernel arms its probes no more, but runs those of uprobe_multi beside new
 * ones in the same place. (Perf events end with their thread, and to close many takes seconds.)
 */
static void drop_probes(struct xp_recording *rec, pid_t pid)
{
	size_t kept = 0;

	if (rec->throttle)
		xp_throttle_drop_process(rec->throttle, pid);
	if (rec->patch)
		xp_patch_forget(rec->patch, pid);
	if (rec->attach && (rec->multi || rec->patch))
		xp_attach_detach_process(rec->attach, pid);
	for (size_t i = 0; i < rec->attached_count; i++)
		if (rec->attached[i].pid != pid)
			rec->attached[kept++] = rec->attached[i];
	rec->attached_count = kept;
	kept = 0;
	for (size_t i = 0; i < rec->linker_count; i++)
		if (rec->linkers[i].pid != pid)
			rec->linkers[kept++] = rec->linkers[i];
	rec->linker_count = kept;
}

int xp_follow_again(struct xp_recording *rec, struct xp_process *process)
{
	uint64_t tsc = xp_clock_now_tsc();
	struct xp_target_info info;
	int err = xp_target_check(process->pid, &info, rec->why, sizeof(rec->why));

	if (err == -ESRCH)
		snprintf(rec->why, sizeof(rec->why), "process %d ended while it was being attached", process->pid);
	if (err)
		return err;
	rec->why[0] = 0;
	if (process->flees)
		drop_probes(rec, process->pid);
	err = xp_process_rename(process, &info, tsc);
	if (err)
		return err;
	if (rec->attach)
		process->execs = xp_programs_execs(&rec->programs, process->pid);
	return xp_follow_scan(rec, process);
}

/* As xp_patch_since(). */
static uint64_t patched_since(const struct xp_recording *rec, pid_t pid)
{
	return rec->patch ? xp_patch_since(rec->patch, pid) : 0;
}

static int add_past_program(struct xp_recording *rec, const struct xp_rec_task *task, uint64_t tsc)
{
	struct xp_target_info info = { .start_time = xp_target_start_time(task->rec.pid) };
	struct xp_process *process;
	int err;

	memcpy(info.comm, task->comm, sizeof(info.comm));
	xp_debug("process %d (%s) has executed another program since", task->rec.pid, info.comm);
	err = xp_processes_add(&rec->processes, &process, task->rec.pid, &info, tsc);
	if (!err)
		process->execs = task->execs;
	return err;
}

/*
 * Looks at what the process runs now, in place of what it ran before. -ESRCH: it is gone already; what cannot be traced
 * is no error.
 */
static int begin_image(struct xp_recording *rec, pid_t pid, uint64_t tsc)
{
	struct xp_process *process = xp_processes_find(&rec->processes, pid);
	int err = process ? xp_process_end(process) : 0;

	if (err)
		return err;
	err = xp_follow_add(rec, &process, pid, tsc);
	if (err == -ENOEXEC || err == -EINVAL) {
		xp_warn("%s", rec->why);
		return 0;
	}
	return err == -EACCES ? -ESRCH : err;
}

/*
 * It executes another program at this TSC: how long it has been recorded tells whether that was worth while. True when
 * it was probed since it was not, and is to be patched again.
 */
static bool count_in_vain(const struct xp_recording *rec, struct xp_process *process, uint64_t patched, uint64_t tsc)
{
	bool probed = rec->patch && process->in_vain >= PATCH_TRIES;

	if (!process->range_count)
		return false;
	if (tsc - XP_MAX(process->begin_tsc, patched) > xp_clock_ticks(rec->clock, SHORT_LIFE_NS))
		process->in_vain = 0;
	else if (patched)
		process->in_vain++;
	return probed && !process->in_vain;
}

/* A followed process runs a new program. */
static int on_exec(struct xp_recording *rec, const struct xp_rec_task *task, uint64_t tsc)
{
	pid_t pid = task->rec.pid;
	struct xp_process *process = xp_processes_find(&rec->processes, pid);
	uint64_t patched = patched_since(rec, pid);
	bool drop;
	int err;

	if (rec->launch.traced && pid == rec->launch.pid) {
		/* It stands still at this exec, see xp_follow_launch_event(), or did. */
		if ((pid_t)task->rec.tid == pid)
			return 0;
		/* Another thread has taken the place of the first one, and nobody holds that. */
		xp_launch_lose(&rec->launch);
	}
	/* The image was made, or patched, when the program was already there: this is the record of its start. */
	if (process && (process->begin_tsc > tsc || patched > tsc)) {
		process->execs = XP_MAX(process->execs, task->execs);
		return 0;
	}
	drop = ((pid_t)task->rec.tid != pid && !rec->all_processes) || patched;
	if (process && count_in_vain(rec, process, patched, tsc))
		drop = true;
	if (drop)
		drop_probes(rec, pid);
	if (process) {
		err = xp_process_end(process);
		if (err)
			return err;
	}
	/*
	 * Of a program that has been followed by another there is nothing to look at. To look at what runs now for each
	 * of them would take longer than the process for the next ones, and the recording would not come to its end.
	 */
	if (xp_programs_execs(&rec->programs, pid) != task->execs)
		return add_past_program(rec, task, tsc);
	err = begin_image(rec, pid, tsc);
	/* Its records are here all the same. */
	return err == -ESRCH ? xp_follow_adopt(rec, &task->rec, task->comm, tsc) : err;
}

static int on_fork(struct xp_recording *rec, const struct xp_rec_task *task, uint64_t tsc)
{
	struct xp_process *parent = xp_processes_find(&rec->processes, task->ppid);
	struct xp_target_info info = { 0 };
	struct xp_process *child;
	int err;

	child = xp_processes_find(&rec->processes, task->rec.pid);
	info.start_time = xp_target_start_time(task->rec.pid);
	/* It is known already where a record of a call came first, which a ring that was waited for in vain has kept.
	 */
	if (!parent || (child && info.start_time && child->start_time == info.start_time))
		return 0;
	memcpy(info.comm, parent->comm, sizeof(info.comm));
	snprintf(info.exe, sizeof(info.exe), "%s", parent->exe);
	err = xp_processes_add(&rec->processes, &child, task->rec.pid, &info, tsc);
	if (err)
		return err;
	child->main_object = parent->main_object;
	child->cpu_ns = 1; /* next to nothing, and that is known */
	return xp_process_copy_objects(child, parent);
}

/* Its list of objects has changed: that of what runs now, unless the process has executed something else since. */
static int on_link_map(struct xp_recording *rec, struct xp_process *process, uint64_t tsc)
{
	if (process->execs != xp_programs_execs(&rec->programs, process->pid) ||
	    process->looked_tsc > tsc + xp_clock_ticks(rec->clock, LOOK_MARGIN_NS))
		return 0;
	return xp_follow_scan(rec, process);
}

int xp_follow_task(struct xp_recording *rec, const struct xp_rec *record, uint64_t tsc)
{
	const struct xp_rec_task *task = (const struct xp_rec_task *)record;
	enum xp_rec_kind kind = xp_rec_kind(record);
	struct xp_process *process;

	process = xp_processes_find(&rec->processes, record->pid);
	switch (kind) {
	case XP_REC_EXEC:
		return on_exec(rec, task, tsc);
	case XP_REC_FORK:
		return on_fork(rec, task, tsc);
	case XP_REC_EXIT_THREAD:
		return xp_processes_end_thread(&rec->processes, record->tid);
	case XP_REC_EXIT_PROCESS:
		if (!process)
			return 0;
		process->signal = task->exit_code & 0x7f; /* as WTERMSIG() */
		xp_process_ran(process, task->cpu_ns);
		return xp_process_end(process);
	case XP_REC_LINK_MAP:
		/* One that is held stands still at it, and is looked at then: xp_follow_launch_event(). */
		if (rec->launch.traced && record->pid == (__u32)rec->launch.pid && record->tid == record->pid)
			return 0;
		return process ? on_link_map(rec, process, tsc) : 0;
	default:
		return -EBADMSG;
	}
}

/* The probes of --exec are there before any process, so that one that starts later is recorded from its beginning. */
static int attach_exec_file(struct xp_recording *rec)
{
	const char *path = rec->options->exec_path;
	int fd = xp_file_open_regular(AT_FDCWD, path);
	struct xp_sled_result sleds = { 0 };
	struct xp_short_text shown;
	struct xp_object *object;
	bool malformed;
	int err;

	if (fd < 0) {
		err = fd;
		snprintf(rec->why, sizeof(rec->why), "--exec %s: %s", xp_short_text(&shown, path),
			 err == -EINVAL ? "not a regular file" : strerror(-err));
		return err;
	}
	err = fstat(fd, &rec->exec_file)
		  ? -errno
		  : xp_objects_add(&rec->objects, &object, fd, path, &malformed, rec->why, sizeof(rec->why));
	close(fd);
	if (err)
		return err;
	if (!object->table)
		return -ENOENT;
	err = attach_object(rec, object, NULL, &sleds);
	if (!err)
		warn_refused(object, 0, &sleds);
	return err;
}

int xp_follow_exec_file(struct xp_recording *rec)
{
	struct dirent *entry;
	DIR *dir;
	int err = attach_exec_file(rec);

	if (err)
		return err;
	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		struct xp_process *process;
		struct stat st;

		if (!isdigit((unsigned char)entry->d_name[0]) || xp_target_stat_exe(atoi(entry->d_name), &st) ||
		    !same_file(&st, &rec->exec_file))
			continue;
		err = xp_follow_add(rec, &process, atoi(entry->d_name), xp_clock_now_tsc());
		if (err == -ESRCH)
			err = 0;
	}
	closedir(dir);
	return err;
}

int xp_follow_rescan(struct xp_recording *rec)
{
	uint64_t begin_tsc = xp_clock_now_tsc();
	int err = 0;

	for (struct xp_process *process = rec->processes.first_live; process && !err; process = process->next_live) {
		uint32_t execs = xp_programs_execs(&rec->programs, process->pid);

		/* From here on they are those that have just been looked at. */
		if (process->begin_tsc > begin_tsc)
			break;
		/* What it stands at tells of it, see xp_follow_launch_event(). */
		if (rec->launch.traced && process->pid == rec->launch.pid)
			continue;
		if (!execs || execs == process->execs) {
			err = xp_follow_scan(rec, process);
			continue;
		}
		/* Records of its execs that are yet to come are of before the new image begins. */
		drop_probes(rec, process->pid);
		err = begin_image(rec, process->pid, xp_clock_now_tsc());
		if (err == -ESRCH)
			err = 0;
	}
	return err;
}

void xp_follow_check(struct xp_recording *rec)
{
	for (struct xp_process *process = rec->processes.first_live; process; process = process->next_live) {
		uint64_t start_time = xp_target_start_time(process->pid);
		bool gone = !start_time || start_time != process->start_time;

		/* Its last records may be on their way still: they have until the next look. */
		if (gone && process->missing) {
			process->vanished = true;
			xp_process_end(process);
		}
		process->missing = gone;
	}
}

/*
 * Whether the started program can be let go. glibc calls _dl_debug_state() before and after it maps the objects, musl
 * only after. A wrapper (env, nice, a shell) without sleds is held on to, for a while, for the program that it
 * executes: so that one is recorded from its first instruction.
 */
static bool launched(struct xp_recording *rec)
{
	const struct xp_process *process = rec->launched;

	if (rec->launch.stops < process->stops_when_loaded)
		return false;
	if (process->range_count || rec->options->follow || !rec->with_sleds)
		return true;
	if (!rec->launch_deadline)
		rec->launch_deadline = xp_clock_now_tsc() + xp_clock_ticks(rec->clock, LAUNCH_PATIENCE_NS);
	return xp_clock_now_tsc() >= rec->launch_deadline;
}

int xp_follow_release(struct xp_recording *rec)
{
	if (!rec->launch.traced)
		return 0;
	/* First of all: a signal to stop that finds no tracer stops it for good. */
	xp_programs_stop_at_link_map(&rec->programs, 0);
	return xp_launch_release(&rec->launch);
}

static int release_or_continue(struct xp_recording *rec)
{
	return launched(rec) ? xp_follow_release(rec) : xp_launch_continue(&rec->launch);
}

int xp_follow_launch(struct xp_recording *rec)
{
	int err;

	xp_programs_stop_at_link_map(&rec->programs, rec->launch.pid);
	err = xp_follow_add(rec, &rec->launched, rec->launch.pid, xp_clock_now_tsc());
	return err ? err : release_or_continue(rec);
}

/* It has waited long enough. What it does while it is stopped for this is not seen, nor told by records until then. */
static int release_running(struct xp_recording *rec)
{
	struct xp_process *process = rec->launched;
	int err = xp_follow_release(rec);

	if (err || !xp_target_start_time(rec->launch.pid))
		return err;
	if (process->execs == xp_programs_execs(&rec->programs, process->pid))
		return xp_follow_scan(rec, process);
	if (rec->patch)
		drop_probes(rec, process->pid);
	err = begin_image(rec, process->pid, xp_clock_now_tsc());
	return err == -ESRCH ? 0 : err;
}

int xp_follow_launch_event(struct xp_recording *rec)
{
	int err = 0;

	switch (xp_launch_poll_event(&rec->launch)) {
	case XP_LAUNCH_NONE:
		return rec->launch.traced && rec->launch_deadline && launched(rec) ? release_running(rec) : 0;
	case XP_LAUNCH_EXEC:
		rec->launch_deadline = 0;
		if (rec->patch)
			drop_probes(rec, rec->launch.pid);
		err = xp_follow_add(rec, &rec->launched, rec->launch.pid, xp_clock_now_tsc());
		break;
	case XP_LAUNCH_LOADED:
		err = xp_follow_scan(rec, rec->launched);
		break;
	}
	return err ? err : release_or_continue(rec);
}
