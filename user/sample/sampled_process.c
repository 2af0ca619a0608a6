/* SPDX-License-Identifier: BSD-2-Clause */
#include "sample/sampled_process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/util.h"
#include "target/target.h"

static void process_free(struct xp_sampled_process *process)
{
	xp_address_space_release(process->space);
	free(process);
}

static void free_images(struct xp_sampled_processes *processes)
{
	for (size_t i = 0; i < processes->image_count; i++) {
		xp_jit_free(processes->images[i]->jit);
		xp_address_space_release(processes->images[i]->jit_space);
		free(processes->images[i]);
	}
	processes->image_count = 0;
}

void xp_sampled_processes_free(struct xp_sampled_processes *processes)
{
	for (size_t i = 0; i < processes->by_pid.count; i++)
		process_free(processes->by_pid.entries[i].pointer);
	free_images(processes);
	xp_u64_map_free(&processes->by_pid);
	xp_text_pool_free(&processes->cgroups);
	free(processes->images);
	xp_files_free(&processes->files);
}

struct xp_sampled_process *xp_sampled_processes_find(const struct xp_sampled_processes *processes, pid_t pid)
{
	return xp_u64_map_get(&processes->by_pid, (uint32_t)pid);
}

/* Returns the entry of pid, which it creates if new, or NULL if out of memory. */
static struct xp_sampled_process *process_of(struct xp_sampled_processes *processes, pid_t pid)
{
	struct xp_sampled_process *process = xp_sampled_processes_find(processes, pid);

	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->pid = pid;
	process->image_number = 1;
	process->space = xp_address_space_new();
	if (!process->space || xp_u64_map_put(&processes->by_pid, (uint32_t)pid, process)) {
		process_free(process);
		return NULL;
	}
	return process;
}

/*
 * Reads the cgroup of a process. If the process has exited, uses the cgroup of its parent: a child starts in the
 * parent's cgroup.
 */
static void look_at_cgroup(struct xp_sampled_processes *processes, struct xp_sampled_process *process)
{
	const char *now = xp_cgroups_of(&processes->cgroups, process->pid);

	if (now)
		process->cgroup = now;
}

static void set_name(struct xp_sampled_process *process, const char *name)
{
	xp_clean_text(process->comm, sizeof(process->comm), name);
}

/* ---- images ---- */

static int reserve_image(struct xp_sampled_processes *processes)
{
	return XP_ARRAY_RESERVE(processes->images, processes->image_room, processes->image_count + 1);
}

static int need_image(struct xp_sampled_processes *processes, struct xp_sampled_process *process)
{
	struct xp_image *image;
	int err;

	if (process->image)
		return 0;
	err = reserve_image(processes);
	if (err)
		return err;
	image = calloc(1, sizeof(*image));
	if (!image)
		return -ENOMEM;
	image->pid = process->pid;
	image->number = process->image_number;
	look_at_cgroup(processes, process);
	image->cgroup = process->cgroup;
	processes->images[processes->image_count++] = image;
	process->image = image;
	return 0;
}

/* Ends the current image. An empty one (see xp_sampled_processes_expect()) is kept for the next program. */
static void end_image(struct xp_sampled_process *process)
{
	if (!process->image || (!process->image->samples && !process->image->waits))
		return;
	memcpy(process->image->comm, process->comm, sizeof(process->comm));
	process->image->is_over = true;
	process->image = NULL;
	process->image_number++;
}

int xp_sampled_processes_expect(struct xp_sampled_processes *processes, pid_t pid)
{
	struct xp_sampled_process *process = process_of(processes, pid);

	return process ? need_image(processes, process) : -ENOMEM;
}

void xp_sampled_processes_settle(struct xp_sampled_processes *processes)
{
	for (size_t i = 0; i < processes->by_pid.count; i++) {
		struct xp_sampled_process *process = processes->by_pid.entries[i].pointer;

		if (process->image)
			memcpy(process->image->comm, process->comm, sizeof(process->comm));
	}
}

/* ---- mappings ---- */

/* Adds a mapping. Copies *file if it is new. tsc: time of the mapping; 0: unknown. */
static int map(struct xp_sampled_processes *processes, struct xp_sampled_process *process, uint64_t tsc,
	       struct xp_vma vma, const struct xp_file *file)
{
	int err;

	vma.file = xp_files_intern(&processes->files, file);
	if (!vma.file)
		return -ENOMEM;
	if (vma.file->kind == XP_FILE_UNKNOWN && !processes->has_warned) {
		xp_warn("more than %u files with code: code in further files is [unknown]", XP_FILES_MAX);
		processes->has_warned = true;
	}
	err = xp_address_space_own(&process->space);
	if (!err && tsc && xp_file_may_be_jit(vma.file))
		err = xp_address_space_map_jit(process->space, vma.start, vma.end, tsc);
	if (!err)
		err = xp_address_space_map(process->space, &vma);
	process->mapped = true;
	/* ignore these errors: samples in a mapping that is not stored are [unknown] */
	return err == -E2BIG || err == -EINVAL ? 0 : err;
}

/*
 * Returns whether the process runs another program than its stored mappings show. This happens if the exec event was
 * lost.
 */
static bool has_executed(const struct xp_sampled_process *process)
{
	const struct xp_address_space *space = process->space;
	struct stat st;

	if (!space->count || xp_target_stat_exe(process->pid, &st))
		return false;
	for (size_t i = 0; i < space->count; i++) /* ignore the device: /proc and stat() may report different devices */
		if (space->vmas[i].file->inode == st.st_ino)
			return false;
	return true;
}

/* Starts an image without mappings, after an exec. */
static int begin_image(struct xp_sampled_process *process)
{
	struct xp_address_space *space = xp_address_space_new();

	if (!space)
		return -ENOMEM;
	end_image(process);
	xp_address_space_release(process->space);
	process->space = space;
	return 0;
}

/* Reads /proc of a process. anew: discard the stored mappings and name first, because they may be wrong. */
static int scan(struct xp_sampled_processes *processes, pid_t pid, bool anew)
{
	struct xp_sampled_process *process = process_of(processes, pid);
	struct xp_mappings mappings;
	char comm[16] = "";
	int err;

	if (!process)
		return -ENOMEM;
	if (anew && has_executed(process)) {
		err = begin_image(process);
		if (err)
			return err;
	}
	if (!process->comm[0] || anew)
		xp_target_thread_name(pid, pid, comm);
	if (!process->cgroup || anew)
		look_at_cgroup(processes, process);
	if (comm[0])
		set_name(process, comm);
	err = xp_mappings_read_all(&mappings, pid);
	if (err)
		return err == -ENOMEM ? err : 0; /* ignore other errors: the process has exited */
	for (size_t i = 0; i < mappings.count && !err; i++) {
		const struct xp_mapping *mapping = &mappings.list[i];
		const struct xp_vma vma = {
			.start = mapping->start,
			.end = mapping->end,
			.file_offset = mapping->file_offset,
		};
		const struct xp_file file = {
			.kind = xp_file_kind_of(mapping->path),
			.dev = mapping->dev,
			.inode = mapping->inode,
			.path = mapping->path,
		};

		err = map(processes, process, 0, vma, &file);
	}
	xp_mappings_free(&mappings);
	return err;
}

static int scan_all(struct xp_sampled_processes *processes, bool anew)
{
	DIR *list = xp_target_list(0);
	int err = 0;
	pid_t pid;

	if (!list)
		return -errno;
	while (!err && (pid = xp_target_next(list)))
		err = scan(processes, pid, anew);
	closedir(list);
	return err;
}

int xp_sampled_processes_scan(struct xp_sampled_processes *processes, pid_t pid)
{
	return scan(processes, pid, false);
}

int xp_sampled_processes_scan_all(struct xp_sampled_processes *processes)
{
	return scan_all(processes, false);
}

static bool is_gone(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return access(path, F_OK) && errno == ENOENT;
}

/* Marks processes that have exited, because their exit events may be lost. */
static void mark_gone(struct xp_sampled_processes *processes)
{
	for (size_t i = 0; i < processes->by_pid.count; i++) {
		struct xp_sampled_process *process = processes->by_pid.entries[i].pointer;

		if (!process->over && process->pid && process->space->count && is_gone(process->pid))
			process->over = 1;
	}
}

int xp_sampled_processes_repair(struct xp_sampled_processes *processes, uint64_t lost)
{
	if (lost == processes->lost_seen)
		return 0;
	processes->lost_seen = lost;
	mark_gone(processes);
	return scan_all(processes, true);
}

/* ---- events ---- */

static int on_exec(struct xp_sampled_process *process, const char *name)
{
	int err = begin_image(process);

	if (err)
		return err;
	process->mapped = true; /* separate events report its mappings */
	set_name(process, name);
	return 0;
}

/* A process is created: any earlier process with its PID has exited. */
static int on_fork(struct xp_sampled_processes *processes, const struct xp_sideband_event *event)
{
	struct xp_sampled_process *parent, *child;
	struct xp_address_space *space;

	if (event->pid == event->ppid)
		return 0; /* a thread */
	child = process_of(processes, event->pid);
	parent = process_of(processes, event->ppid);
	if (!child || !parent)
		return -ENOMEM;
	end_image(child);
	memcpy(child->comm, parent->comm, sizeof(child->comm));
	child->cgroup = parent->cgroup;
	child->mapped = parent->mapped;
	child->over = 0;
	space = xp_address_space_share(parent->space);
	xp_address_space_release(child->space);
	child->space = space;
	return 0;
}

/*
 * Handles the exit of a process, or at least of its first thread. Removes a process that was never sampled. A process
 * with an image remains: files are named by image number, so the number must not be used again. Its mappings are
 * removed later.
 */
static void on_end(struct xp_sampled_processes *processes, const struct xp_sideband_event *event)
{
	struct xp_sampled_process *process = xp_sampled_processes_find(processes, event->pid);

	if (!process || event->pid != event->tid)
		return;
	if (process->image || process->image_number > 1) {
		process->over = 1;
		return;
	}
	xp_u64_map_remove(&processes->by_pid, event->pid);
	process_free(process);
}

/* Removes the mappings at the second call, because samples of other threads may still arrive after the first. */
static void forget_gone(struct xp_sampled_process *process)
{
	struct xp_address_space *space;

	if (!is_gone(process->pid) || process->over++ == 1)
		return;
	space = xp_address_space_new();
	if (!space)
		return;
	end_image(process);
	xp_address_space_release(process->space);
	process->space = space;
	process->mapped = false; /* read /proc again for the next process with this PID */
	process->cgroup = NULL;
	process->over = 0;
}

void xp_sampled_processes_forget_gone(struct xp_sampled_processes *processes)
{
	for (size_t i = 0; i < processes->by_pid.count; i++) {
		struct xp_sampled_process *process = processes->by_pid.entries[i].pointer;

		if (process->over)
			forget_gone(process);
	}
}

void xp_sampled_processes_begin_part(struct xp_sampled_processes *processes)
{
	free_images(processes);
	for (size_t i = processes->by_pid.count; i--;) {
		struct xp_sampled_process *process = processes->by_pid.entries[i].pointer;

		process->image = NULL;
		/*
		 * The entry only kept the image number, which a new part does not require. Removing an entry moves
		 * another entry to its index.
		 */
		if (process->pid && !process->mapped && !process->space->count) {
			xp_u64_map_remove(&processes->by_pid, (uint32_t)process->pid);
			process_free(process);
		}
	}
}

static int on_map(struct xp_sampled_processes *processes, struct xp_sampled_process *process,
		  const struct xp_sideband_event *event)
{
	const struct xp_vma vma = {
		.start = event->start,
		.end = event->start + event->length,
		.file_offset = event->file_offset,
	};
	const struct xp_file file = {
		.kind = xp_file_kind_of(event->text),
		.dev = event->dev,
		.inode = event->inode,
		.generation = event->generation,
		.path = event->text,
	};

	return map(processes, process, event->tsc, vma, &file);
}

int xp_sampled_processes_event(struct xp_sampled_processes *processes, const struct xp_sideband_event *event)
{
	struct xp_sampled_process *process;

	if (event->kind == XP_SIDEBAND_FORK)
		return on_fork(processes, event);
	if (event->kind == XP_SIDEBAND_EXIT) {
		on_end(processes, event);
		return 0;
	}
	if (event->kind == XP_SIDEBAND_SYMBOL || event->kind == XP_SIDEBAND_BPF)
		return 0; /* not in a process */
	process = process_of(processes, event->pid);
	if (!process)
		return -ENOMEM;
	if (event->kind == XP_SIDEBAND_EXEC)
		return on_exec(process, event->text);
	if (event->kind == XP_SIDEBAND_COMM) {
		if (event->pid == event->tid)
			set_name(process, event->text);
		return 0;
	}
	return on_map(processes, process, event);
}

const struct xp_address_space *xp_sampled_processes_space(const struct xp_sampled_processes *processes, pid_t pid)
{
	const struct xp_sampled_process *process = xp_sampled_processes_find(processes, pid);

	return process ? process->space : NULL;
}

int xp_sampled_processes_sampled(struct xp_sampled_processes *processes, pid_t pid, const char *comm,
				 struct xp_sampled_process **result)
{
	struct xp_sampled_process *process = process_of(processes, pid);
	int err;

	if (!process)
		return -ENOMEM;
	if (!process->comm[0])
		set_name(process, comm);
	if (pid && !process->mapped) {
		err = scan(processes, pid, false);
		if (err)
			return err;
		process->mapped = true; /* set this even if the process has exited: do not try again */
	}
	*result = process;
	return need_image(processes, process);
}

const char *xp_sampled_profile_name(char name[XP_FILE_PROFILE_BYTES], const struct xp_image *image, const char *suffix)
{
	char base[XP_FILE_BASE_BYTES];

	xp_file_base_name(base, sizeof(base), image->comm, image->pid, image->number);
	snprintf(name, XP_FILE_PROFILE_BYTES, "%s%s", base, suffix);
	return name;
}
