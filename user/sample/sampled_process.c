/* SPDX-License-Identifier: BSD-2-Clause */
#include "sample/sampled_process.h"

#include <ctype.h>
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

static void task_free(struct xp_sampled_process *task)
{
	xp_address_space_release(task->space);
	free(task);
}

void xp_sampled_processes_free(struct xp_sampled_processes *tasks)
{
	for (size_t i = 0; i < tasks->by_pid.count; i++)
		task_free(tasks->by_pid.entries[i].pointer);
	for (size_t i = 0; i < tasks->image_count; i++) {
		xp_profile_free(tasks->images[i]->profile);
		xp_jit_free(tasks->images[i]->jit);
		xp_address_space_release(tasks->images[i]->jit_space);
		free(tasks->images[i]);
	}
	xp_u64_map_free(&tasks->by_pid);
	free(tasks->images);
	xp_files_free(&tasks->files);
}

struct xp_sampled_process *xp_sampled_processes_find(const struct xp_sampled_processes *tasks, pid_t pid)
{
	return xp_u64_map_get(&tasks->by_pid, (uint32_t)pid);
}

/* Returns the entry of pid, which it creates if new, or NULL if out of memory. */
static struct xp_sampled_process *task_of(struct xp_sampled_processes *tasks, pid_t pid)
{
	struct xp_sampled_process *task = xp_sampled_processes_find(tasks, pid);

	if (task)
		return task;
	task = calloc(1, sizeof(*task));
	if (!task)
		return NULL;
	task->pid = pid;
	task->image_number = 1;
	task->space = xp_address_space_new();
	if (!task->space || xp_u64_map_put(&tasks->by_pid, (uint32_t)pid, task)) {
		task_free(task);
		return NULL;
	}
	return task;
}

static void set_name(struct xp_sampled_process *task, const char *name)
{
	xp_clean_text(task->comm, sizeof(task->comm), name);
}

/* ---- images ---- */

static int reserve_image(struct xp_sampled_processes *tasks)
{
	return XP_ARRAY_RESERVE(tasks->images, tasks->image_room, tasks->image_count + 1);
}

static int need_image(struct xp_sampled_processes *tasks, struct xp_sampled_process *task)
{
	struct xp_image *image;
	int err;

	if (task->image)
		return 0;
	err = reserve_image(tasks);
	if (err)
		return err;
	image = calloc(1, sizeof(*image));
	if (!image)
		return -ENOMEM;
	err = xp_profile_new(&image->profile);
	if (err) {
		free(image);
		return err;
	}
	image->pid = task->pid;
	image->number = task->image_number;
	tasks->images[tasks->image_count++] = image;
	task->image = image;
	return 0;
}

/* Ends the current image. An empty one (see xp_sampled_processes_expect()) is kept for the next program. */
static void end_image(struct xp_sampled_process *task)
{
	if (!task->image || !task->image->samples)
		return;
	memcpy(task->image->comm, task->comm, sizeof(task->comm));
	task->image->is_over = true;
	task->image = NULL;
	task->image_number++;
}

int xp_sampled_processes_expect(struct xp_sampled_processes *tasks, pid_t pid)
{
	struct xp_sampled_process *task = task_of(tasks, pid);

	return task ? need_image(tasks, task) : -ENOMEM;
}

void xp_sampled_processes_settle(struct xp_sampled_processes *tasks)
{
	for (size_t i = 0; i < tasks->by_pid.count; i++) {
		struct xp_sampled_process *task = tasks->by_pid.entries[i].pointer;

		if (task->image)
			memcpy(task->image->comm, task->comm, sizeof(task->comm));
	}
}

/* ---- mappings ---- */

/* vma, file: the mapping and its file, which is copied if it is new. tsc: when it was mapped; 0: unknown. */
static int map(struct xp_sampled_processes *tasks, struct xp_sampled_process *task, uint64_t tsc, struct xp_vma vma,
	       const struct xp_file *file)
{
	int err;

	vma.file = xp_files_intern(&tasks->files, file);
	if (!vma.file)
		return -ENOMEM;
	if (vma.file->kind == XP_FILE_UNKNOWN && !tasks->has_warned) {
		xp_warn("more than %u files of code: code in new ones is [unknown]", XP_FILES_MAX);
		tasks->has_warned = true;
	}
	err = xp_address_space_own(&task->space);
	if (!err && tsc && xp_file_may_be_jit(vma.file))
		err = xp_address_space_map_jit(task->space, vma.start, vma.end, tsc);
	if (!err)
		err = xp_address_space_map(task->space, &vma);
	task->mapped = true;
	return err == -E2BIG || err == -EINVAL ? 0 : err; /* samples in a mapping that is not kept are [unknown] */
}

/* Whether the process runs another program than the one whose mappings are known, because its exec was lost. */
static bool has_executed(const struct xp_sampled_process *task)
{
	const struct xp_address_space *space = task->space;
	struct stat st;

	if (!space->count || xp_target_stat_exe(task->pid, &st))
		return false;
	for (size_t i = 0; i < space->count; i++) /* the device of a mapping is not always stat()'s */
		if (space->vmas[i].file->inode == st.st_ino)
			return false;
	return true;
}

/* A program begins: nothing is mapped. */
static int begin_image(struct xp_sampled_process *task)
{
	struct xp_address_space *space = xp_address_space_new();

	if (!space)
		return -ENOMEM;
	end_image(task);
	xp_address_space_release(task->space);
	task->space = space;
	return 0;
}

/* anew: the known mappings and name of the process may be wrong. */
static int scan(struct xp_sampled_processes *tasks, pid_t pid, bool anew)
{
	struct xp_sampled_process *task = task_of(tasks, pid);
	struct xp_mappings mappings;
	char comm[16] = "";
	int err;

	if (!task)
		return -ENOMEM;
	if (anew && has_executed(task)) {
		err = begin_image(task);
		if (err)
			return err;
	}
	if (!task->comm[0] || anew)
		xp_target_thread_name(pid, pid, comm);
	if (comm[0])
		set_name(task, comm);
	err = xp_mappings_read_all(&mappings, pid);
	if (err)
		return err == -ENOMEM ? err : 0; /* the process is gone */
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

		err = map(tasks, task, 0, vma, &file);
	}
	xp_mappings_free(&mappings);
	return err;
}

static int scan_all(struct xp_sampled_processes *tasks, bool anew)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = scan(tasks, atoi(entry->d_name), anew);
	closedir(dir);
	return err;
}

int xp_sampled_processes_scan(struct xp_sampled_processes *tasks, pid_t pid)
{
	return scan(tasks, pid, false);
}

int xp_sampled_processes_scan_all(struct xp_sampled_processes *tasks)
{
	return scan_all(tasks, false);
}

static bool is_gone(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return access(path, F_OK) && errno == ENOENT;
}

/* Marks the processes that are gone, because their exit events may be lost. */
static void mark_gone(struct xp_sampled_processes *tasks)
{
	for (size_t i = 0; i < tasks->by_pid.count; i++) {
		struct xp_sampled_process *task = tasks->by_pid.entries[i].pointer;

		if (!task->over && task->pid && task->space->count && is_gone(task->pid))
			task->over = 1;
	}
}

int xp_sampled_processes_repair(struct xp_sampled_processes *tasks, uint64_t lost)
{
	if (lost == tasks->lost_seen)
		return 0;
	tasks->lost_seen = lost;
	mark_gone(tasks);
	return scan_all(tasks, true);
}

/* ---- events ---- */

static int on_exec(struct xp_sampled_process *task, const char *name)
{
	int err = begin_image(task);

	if (err)
		return err;
	task->mapped = true; /* separate events report its mappings */
	set_name(task, name);
	return 0;
}

/* A process is born: any earlier process with its pid has ended. */
static int on_fork(struct xp_sampled_processes *tasks, const struct xp_sideband_event *event)
{
	struct xp_sampled_process *parent, *child;
	struct xp_address_space *space;

	if (event->pid == event->ppid)
		return 0; /* a thread */
	child = task_of(tasks, event->pid);
	parent = task_of(tasks, event->ppid);
	if (!child || !parent)
		return -ENOMEM;
	end_image(child);
	memcpy(child->comm, parent->comm, sizeof(child->comm));
	child->mapped = parent->mapped;
	child->over = 0;
	space = xp_address_space_share(parent->space);
	xp_address_space_release(child->space);
	child->space = space;
	return 0;
}

/*
 * A process has ended, or at least its first thread has. A process that was never sampled is removed. A process with an
 * image stays: files are named by image number, so the number must not be used again. Its mappings are dropped later.
 */
static void on_end(struct xp_sampled_processes *tasks, const struct xp_sideband_event *event)
{
	struct xp_sampled_process *task = xp_sampled_processes_find(tasks, event->pid);

	if (!task || event->pid != event->tid)
		return;
	if (task->image || task->image_number > 1) {
		task->over = 1;
		return;
	}
	xp_u64_map_remove(&tasks->by_pid, event->pid);
	task_free(task);
}

/* Waits for the second call, because samples of the other threads may still arrive. */
static void forget_gone(struct xp_sampled_process *task)
{
	struct xp_address_space *space;

	if (!is_gone(task->pid) || task->over++ == 1)
		return;
	space = xp_address_space_new();
	if (!space)
		return;
	end_image(task);
	xp_address_space_release(task->space);
	task->space = space;
	task->mapped = false; /* the next process with this pid is looked up */
	task->over = 0;
}

void xp_sampled_processes_forget_gone(struct xp_sampled_processes *tasks)
{
	for (size_t i = 0; i < tasks->by_pid.count; i++) {
		struct xp_sampled_process *task = tasks->by_pid.entries[i].pointer;

		if (task->over)
			forget_gone(task);
	}
}

static int on_map(struct xp_sampled_processes *tasks, struct xp_sampled_process *task,
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

	return map(tasks, task, event->tsc, vma, &file);
}

int xp_sampled_processes_event(struct xp_sampled_processes *tasks, const struct xp_sideband_event *event)
{
	struct xp_sampled_process *task;

	if (event->kind == XP_SIDEBAND_FORK)
		return on_fork(tasks, event);
	if (event->kind == XP_SIDEBAND_EXIT) {
		on_end(tasks, event);
		return 0;
	}
	task = task_of(tasks, event->pid);
	if (!task)
		return -ENOMEM;
	if (event->kind == XP_SIDEBAND_EXEC)
		return on_exec(task, event->text);
	if (event->kind == XP_SIDEBAND_COMM) {
		if (event->pid == event->tid)
			set_name(task, event->text);
		return 0;
	}
	return on_map(tasks, task, event);
}

const struct xp_address_space *xp_sampled_processes_space(const struct xp_sampled_processes *tasks, pid_t pid)
{
	const struct xp_sampled_process *task = xp_sampled_processes_find(tasks, pid);

	return task ? task->space : NULL;
}

int xp_sampled_processes_sampled(struct xp_sampled_processes *tasks, pid_t pid, const char *comm,
				 struct xp_sampled_process **result)
{
	struct xp_sampled_process *task = task_of(tasks, pid);
	int err;

	if (!task)
		return -ENOMEM;
	if (!task->comm[0])
		set_name(task, comm);
	if (pid && !task->mapped) {
		err = scan(tasks, pid, false);
		if (err)
			return err;
		task->mapped = true; /* even if it is gone: one attempt is enough */
	}
	*result = task;
	return need_image(tasks, task);
}
