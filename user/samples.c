/* SPDX-License-Identifier: BSD-2-Clause */
#include "samples.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_name.h"
#include "target.h"
#include "util.h"

#define TASK_ROOM 4096
#define KALLSYMS_READ_BYTES 65536

int xp_samples_init(struct xp_samples *samples)
{
	samples->task_room = TASK_ROOM;
	samples->tasks = calloc(samples->task_room, sizeof(*samples->tasks));
	if (!samples->tasks)
		return -ENOMEM;
	return xp_sym_files_new(&samples->sym_files, samples->dir_fd);
}

static void task_free(struct xp_task *task)
{
	xp_space_free(&task->space);
	xp_profile_free(task->profile);
	free(task);
}

void xp_samples_free(struct xp_samples *samples)
{
	for (size_t i = 0; i < samples->task_room && samples->tasks; i++) {
		struct xp_task *task, *next;

		for (task = samples->tasks[i]; task; task = next) {
			next = task->next;
			task_free(task);
		}
	}
	for (size_t i = 0; i < samples->done_count; i++)
		xp_profile_free(samples->done[i].profile);
	free(samples->tasks);
	free(samples->done);
	xp_sym_files_free(samples->sym_files);
	xp_files_free(&samples->files);
}

static struct xp_task **slot_of(struct xp_samples *samples, pid_t pid)
{
	struct xp_task **slot = &samples->tasks[(uint32_t)pid % samples->task_room];

	while (*slot && (*slot)->pid != pid)
		slot = &(*slot)->next;
	return slot;
}

/* The task of pid, made when it is new. NULL: out of memory. */
static struct xp_task *task_of(struct xp_samples *samples, pid_t pid)
{
	struct xp_task **slot = slot_of(samples, pid);

	if (*slot)
		return *slot;
	*slot = calloc(1, sizeof(**slot));
	if (*slot) {
		(*slot)->pid = pid;
		(*slot)->image = 1;
	}
	return *slot;
}

/* Puts the task's profile with the finished ones: its image is over. */
static int put_aside(struct xp_samples *samples, struct xp_task *task, unsigned int image)
{
	struct xp_profile_file *done;

	if (!task->profile)
		return 0;
	done = realloc(samples->done, (samples->done_count + 1) * sizeof(*done));
	if (!done)
		return -ENOMEM;
	samples->done = done;
	done[samples->done_count] = (struct xp_profile_file){
		.pid = task->pid,
		.image = image,
		.profile = task->profile,
		.samples = xp_profile_samples(task->profile),
	};
	memcpy(done[samples->done_count++].comm, task->comm, sizeof(task->comm));
	task->profile = NULL;
	return 0;
}

/* What /proc and the side-band print in place of a path when there is no file to open. */
static enum xp_file_kind kind_of(const char *path)
{
	static const char *const no_files[] = { "/dev/zero", "/SYSV", "/anon_hugepage", "//" };

	if (!strcmp(path, "[vdso]"))
		return XP_FILE_VDSO;
	for (size_t i = 0; i < XP_ARRAY_SIZE(no_files); i++)
		if (!strncmp(path, no_files[i], strlen(no_files[i])))
			return XP_FILE_ANON;
	return path[0] == '/' ? XP_FILE_DISK : XP_FILE_ANON;
}

static int map(struct xp_samples *samples, struct xp_task *task, uint64_t start, uint64_t end, uint64_t file_offset,
	       uint64_t dev, uint64_t inode, uint64_t generation, char *path)
{
	struct xp_file file = {
		.kind = kind_of(path),
		.dev = dev,
		.inode = inode,
		.generation = generation,
		.path = path,
	};
	struct xp_vma vma = { start, end, file_offset, xp_files_intern(&samples->files, &file) };
	int err;

	if (!vma.file)
		return -ENOMEM;
	err = xp_space_map(&task->space, &vma);
	task->mapped = true;
	return err == -E2BIG || err == -EINVAL ? 0 : err; /* what is not kept is [unknown] in the profile */
}

static void set_name(struct xp_task *task, const char *name)
{
	xp_clean_text(task->comm, sizeof(task->comm), name);
}

/* The task's image is over. A profile that is still empty (see xp_samples_expect()) is for the next one. */
static int end_image(struct xp_samples *samples, struct xp_task *task)
{
	if (!task->profile || !xp_profile_samples(task->profile))
		return 0;
	return put_aside(samples, task, task->image++);
}

/* Whether the process runs another program than the one whose mappings are known: its exec was lost. */
static bool has_executed(const struct xp_task *task)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", task->pid);
	if (!task->space.count || stat(path, &st))
		return false;
	for (size_t i = 0; i < task->space.count; i++) /* the device of a mapping is not always stat()'s */
		if (task->space.vmas[i].file->inode == st.st_ino)
			return false;
	return true;
}

/* anew: what is known of a process may be wrong, its name too. */
static int scan(struct xp_samples *samples, pid_t pid, bool anew)
{
	struct xp_task *task = task_of(samples, pid);
	struct xp_mappings mappings;
	char comm[16] = "";
	int err;

	if (!task)
		return -ENOMEM;
	if (anew && has_executed(task)) {
		err = end_image(samples, task);
		if (err)
			return err;
		xp_space_clear(&task->space);
	}
	if (!task->comm[0] || anew)
		xp_target_thread_name(pid, pid, comm);
	if (comm[0])
		set_name(task, comm);
	err = xp_mappings_read_all(&mappings, pid);
	if (err)
		return err == -ENOMEM ? err : 0; /* gone */
	for (size_t i = 0; i < mappings.count && !err; i++) {
		const struct xp_mapping *m = &mappings.list[i];

		err = map(samples, task, m->start, m->end, m->file_offset, m->dev, m->inode, 0, m->path);
	}
	xp_mappings_free(&mappings);
	return err;
}

static int scan_all(struct xp_samples *samples, bool anew)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = scan(samples, atoi(entry->d_name), anew);
	closedir(dir);
	return err;
}

int xp_samples_scan(struct xp_samples *samples, pid_t pid)
{
	return scan(samples, pid, false);
}

int xp_samples_scan_all(struct xp_samples *samples)
{
	return scan_all(samples, false);
}

int xp_samples_expect(struct xp_samples *samples, pid_t pid)
{
	struct xp_task *task = task_of(samples, pid);

	if (!task)
		return -ENOMEM;
	return task->profile ? 0 : xp_profile_new(&task->profile);
}

int xp_samples_repair(struct xp_samples *samples, uint64_t lost)
{
	if (lost == samples->lost_seen)
		return 0;
	samples->lost_seen = lost;
	return scan_all(samples, true);
}

static int on_exec(struct xp_samples *samples, struct xp_task *task, const char *name)
{
	int err = end_image(samples, task);

	if (err)
		return err;
	xp_space_clear(&task->space);
	task->mapped = true; /* its mappings follow as events of their own */
	set_name(task, name);
	return 0;
}

/* A process is born: whoever had its pid is over. */
static int on_fork(struct xp_samples *samples, const struct xp_sideband_event *event)
{
	struct xp_task *parent, *child;
	int err;

	if (event->pid == event->ppid)
		return 0; /* a thread */
	child = task_of(samples, event->pid);
	parent = task_of(samples, event->ppid);
	if (!child || !parent)
		return -ENOMEM;
	err = end_image(samples, child);
	if (err)
		return err;
	memcpy(child->comm, parent->comm, sizeof(child->comm));
	child->mapped = parent->mapped;
	return xp_space_copy(&child->space, &parent->space);
}

/*
 * A process is over, as far as its first thread tells: what was never sampled is forgotten. Where an image was, its
 * number must not be given again, since files are called by it.
 */
static void on_end(struct xp_samples *samples, const struct xp_sideband_event *event)
{
	struct xp_task **slot = slot_of(samples, event->pid);
	struct xp_task *task = *slot;

	if (!task || event->pid != event->tid || task->profile || task->image > 1)
		return;
	*slot = task->next;
	task_free(task);
}

int xp_samples_event(struct xp_samples *samples, const struct xp_sideband_event *event)
{
	struct xp_task *task;

	if (event->kind == XP_SIDEBAND_FORK)
		return on_fork(samples, event);
	if (event->kind == XP_SIDEBAND_EXIT) {
		on_end(samples, event);
		return 0;
	}
	task = task_of(samples, event->pid);
	if (!task)
		return -ENOMEM;
	if (event->kind == XP_SIDEBAND_EXEC)
		return on_exec(samples, task, event->text);
	if (event->kind == XP_SIDEBAND_COMM) {
		if (event->pid == event->tid)
			set_name(task, event->text);
		return 0;
	}
	return map(samples, task, event->start, event->start + event->length, event->file_offset, event->dev,
		   event->inode, event->generation, event->text);
}

/* Binaries that the readers cannot open by their path are taken hold of while the process lives. */
static int keep_file(struct xp_samples *samples, const struct xp_task *task, const struct xp_vma *vma)
{
	struct xp_mapping mapping = { .start = vma->start, .end = vma->end, .inode = vma->file->inode };
	int fd, err;

	if (!xp_sym_files_wants(samples->sym_files, vma->file))
		return 0;
	fd = xp_mapping_open(task->pid, &mapping);
	err = xp_sym_files_keep(samples->sym_files, fd, vma->file);
	if (fd >= 0)
		close(fd);
	return err == -ENOMEM ? err : 0;
}

/* Of the frames next to each other, most are in the same mapping. */
static int find_vma(struct xp_samples *samples, const struct xp_task *task, uint64_t address, const struct xp_vma **vma)
{
	if (*vma && (*vma)->start <= address && address < (*vma)->end)
		return 0;
	*vma = xp_space_find(&task->space, address);
	return *vma ? keep_file(samples, task, *vma) : 0;
}

static int sum(struct xp_samples *samples, struct xp_task *task, const struct xp_rec_sample *sample,
	       const uint64_t *addresses)
{
	struct xp_profile_frame frames[2 * XP_SAMPLE_FRAMES_MAX];
	uint32_t kernel = sample->kernel_frames, user = sample->user_frames;
	const struct xp_vma *vma = NULL;
	size_t count = 0;
	int err = 0;

	for (uint32_t i = 0; i < kernel; i++)
		frames[count++] = (struct xp_profile_frame){ .address = addresses[i] };
	for (uint32_t i = 0; i < user && !err; i++) {
		err = find_vma(samples, task, addresses[kernel + i], &vma);
		frames[count++] = (struct xp_profile_frame){
			.address = addresses[kernel + i],
			.vma = vma,
			/* Behind a syscall instruction the ip is a return address; a fault stops at its instruction. */
			.interrupted = !i && kernel && !(xp_rec_fn(&sample->rec) & XP_SAMPLE_SYSCALL),
		};
	}
	if (!task->profile && !err)
		err = xp_profile_new(&task->profile);
	return err ? err : xp_profile_add(task->profile, frames, count);
}

int xp_samples_record(struct xp_samples *samples, const struct xp_rec *record, size_t size)
{
	const struct xp_rec_sample *sample = (const struct xp_rec_sample *)record;
	bool kernel_thread = xp_rec_fn(record) & XP_SAMPLE_KTHREAD;
	uint64_t addresses[2 * XP_SAMPLE_FRAMES_MAX];
	struct xp_task *task;
	size_t count;
	int err;

	if (size < sizeof(*sample) || sample->kernel_frames > XP_SAMPLE_FRAMES_MAX ||
	    sample->user_frames > XP_SAMPLE_FRAMES_MAX)
		return -EBADMSG;
	count = sample->kernel_frames + sample->user_frames;
	if (size < sizeof(*sample) + count * sizeof(*addresses))
		return -EBADMSG;
	memcpy(addresses, sample + 1, count * sizeof(*addresses));
	task = task_of(samples, kernel_thread ? 0 : (pid_t)record->pid);
	if (!task)
		return -ENOMEM;
	if (kernel_thread)
		set_name(task, "kernel-threads");
	else if (!task->comm[0])
		set_name(task, sample->comm);
	if (!kernel_thread && !task->mapped) {
		err = xp_samples_scan(samples, record->pid);
		if (err)
			return err;
		task->mapped = true; /* also when it is gone: once is enough */
	}
	samples->samples++;
	samples->kernel_samples += sample->kernel_frames > 0;
	return sum(samples, task, sample, addresses);
}

static int write_profile(struct xp_samples *samples, struct xp_profile_file *file, uint64_t period_us)
{
	struct xp_profile_files files = { xp_sym_files_find, samples->sym_files };
	char base[48], name[64];
	struct stat st;
	int fd, err;

	xp_file_base_name(base, sizeof(base), file->comm, file->pid, file->image);
	snprintf(name, sizeof(name), "%s.prof", base);
	fd = openat(samples->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	err = xp_profile_write(file->profile, fd, period_us, &files);
	if (!err && fstat(fd, &st))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (err) {
		unlinkat(samples->dir_fd, name, 0);
		return err;
	}
	file->bytes = st.st_size;
	snprintf(file->name, sizeof(file->name), "%s", name);
	return 0;
}

int xp_samples_finish(struct xp_samples *samples, uint64_t period_ns)
{
	uint64_t period_us = XP_MAX((period_ns + 500) / 1000, (uint64_t)1);
	FILE *kallsyms;
	int first = 0;

	for (size_t i = 0; i < samples->task_room; i++)
		for (struct xp_task *task = samples->tasks[i]; task; task = task->next)
			first = put_aside(samples, task, task->image) ?: first;
	for (size_t i = 0; i < samples->done_count; i++)
		first = xp_sym_files_add(samples->sym_files, samples->done[i].profile) ?: first;
	kallsyms = fopen("/proc/kallsyms", "re");
	if (kallsyms) /* by itself it reads 1 KiB at a time, of megabytes */
		setvbuf(kallsyms, NULL, _IOFBF, KALLSYMS_READ_BYTES);
	first = xp_sym_files_write(samples->sym_files, kallsyms) ?: first;
	if (kallsyms)
		fclose(kallsyms);
	for (size_t i = 0; i < samples->done_count; i++) {
		int err = write_profile(samples, &samples->done[i], period_us);

		if (err)
			samples->unstored += samples->done[i].samples;
		first = first ?: err;
	}
	return first;
}
