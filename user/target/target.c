/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/target.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/small_file.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "base/why.h"
#include "target/address_space.h"
#include "target/chosen_file.h"
#include "target/memory.h"
#include "target/status.h"

#define MAPS_TEXT_MAX (64u << 20) /* maximum size of /proc/PID/maps: 65 530 mappings with paths of 1000 characters */
#define KERNEL_THREAD 0x00200000  /* PF_KTHREAD, linux/sched.h */

struct stat_line {
	char state;
	unsigned int flags;
	unsigned int threads;
	uint64_t start_time;
};

/* Fields of /proc/PID/stat after the name, which may contain spaces and parentheses. */
static int parse_stat(const char *text, struct stat_line *line)
{
	const char *p = strrchr(text, ')');

	if (!p)
		return -EINVAL;
	/* state ppid pgrp session tty tpgid flags, 10 more, num_threads itrealvalue starttime: proc(5). */
	if (sscanf(p + 1, " %c %*d %*d %*d %*d %*d %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %u %*s %" SCNu64,
		   &line->state, &line->flags, &line->threads, &line->start_time) != 4)
		return -EINVAL;
	return 0;
}

static int read_stat(pid_t pid, pid_t tid, struct stat_line *line)
{
	char text[1024];
	ssize_t n = xp_small_file_read(text, sizeof(text), "/proc/%d/task/%d/stat", pid, tid);

	if (n < 0 && n != -ENOENT && n != -ESRCH)
		return (int)n;
	return n > 0 ? parse_stat(text, line) : -ESRCH;
}

uint64_t xp_target_start_time(pid_t pid)
{
	struct stat_line line;

	/* A zombie process has ended, too. A zombie with several threads has not: only its first thread has ended. */
	if (read_stat(pid, pid, &line) || (line.state == 'Z' && line.threads <= 1))
		return 0;
	return line.start_time;
}

uint64_t xp_target_start_time_ago(pid_t pid, uint64_t ago_ns)
{
	const uint64_t tick_ns = XP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t start_time = xp_target_start_time(pid);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	now.tv_sec -= (time_t)(ago_ns / XP_NS_PER_S);
	/* The start time is rounded down, and times are exact to less than a tick. */
	return (start_time - 1) * tick_ns <=
		       (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec - ago_ns % XP_NS_PER_S
		   ? start_time
		   : 0;
}

#define PF_EXITING 0x4 /* include/linux/sched.h */

bool xp_target_thread_lives(pid_t pid, pid_t tid)
{
	struct stat_line line;

	return !read_stat(pid, tid, &line) && !(line.flags & PF_EXITING);
}

bool xp_target_has_thread(pid_t pid, char state)
{
	DIR *threads = xp_target_list(pid);
	bool found = false;
	pid_t tid;

	while (threads && !found && (tid = xp_target_next(threads))) {
		struct stat_line line;

		found = !read_stat(pid, tid, &line) && line.state == state;
	}
	if (threads)
		closedir(threads);
	return found;
}

uint64_t xp_target_cpu_ns(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

unsigned int xp_target_threads(pid_t pid)
{
	struct stat_line line;

	return read_stat(pid, pid, &line) ? 0 : (unsigned int)line.threads;
}

void xp_target_thread_name(pid_t pid, pid_t tid, char name[16])
{
	char text[64];
	ssize_t n = xp_small_file_read(text, sizeof(text), "/proc/%d/task/%d/comm", pid, tid);

	if (n > 0 && text[n - 1] == '\n') /* remove only the newline after the name; a newline in the name stays */
		text[n - 1] = 0;
	xp_clean_text(name, 16, text);
}

DIR *xp_target_list(pid_t pid)
{
	char path[64] = "/proc";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return opendir(path);
}

pid_t xp_target_next(DIR *list)
{
	const struct dirent *entry = readdir(list);

	while (entry && !isdigit((unsigned char)entry->d_name[0]))
		entry = readdir(list);
	return entry ? atoi(entry->d_name) : 0;
}

pid_t xp_target_process(pid_t tid)
{
	struct xp_target_status status;

	return xp_thread_status(&status, tid, tid) ? 0 : status.process;
}

/*
 * Checks whether the kernel lets xprof access the process. Reading this link requires only ptrace's permissions, no
 * permission of a file or file system. If root is denied, a container or security module is the reason, not the
 * process.
 */
static int check_access(pid_t pid)
{
	char path[64], exe[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (readlink(path, exe, sizeof(exe)) >= 0 || (errno != EACCES && errno != EPERM))
		return 0;
	if (geteuid())
		return xp_why_set(-EACCES, "cannot access process %d: %s; run xprof as root", pid, strerror(errno));
	return xp_why_set(
	    -EACCES,
	    "the kernel denies access to process %d even to root: xprof runs in a sandbox or container that "
	    "keeps it from the processes outside (Landlock, SELinux, AppArmor, a user namespace, or no "
	    "CAP_SYS_PTRACE); run xprof outside of it",
	    pid);
}

/* Opens the executable of the process, if it has this inode (0: any). */
static int open_exe(pid_t pid, uint64_t inode)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return xp_chosen_open_link(path, pid, inode);
}

/* Checks the ELF class of the running program: 32-bit programs have other sleds, registers and breakpoints. */
static int check_class(pid_t pid)
{
	unsigned char ident[EI_NIDENT];
	int fd = open_exe(pid, 0);
	ssize_t n;

	/*
	 * If root cannot open the file, its file system does not answer, or answers only its owner. Do not fail then.
	 */
	if (fd < 0 && fd != -ENOENT && fd != -ESRCH && geteuid() == 0)
		return 0;
	if (fd < 0)
		return xp_why_set(fd == -ENOENT ? -ESRCH : -EACCES,
				  "cannot open the program of process %d: %s; run xprof as root", pid, strerror(-fd));
	n = read(fd, ident, sizeof(ident));
	close(fd);
	if (n == sizeof(ident) && !memcmp(ident, ELFMAG, SELFMAG) && ident[EI_CLASS] != ELFCLASS64)
		return xp_why_set(-ENOEXEC,
				  "process %d is a 32-bit program; xprof traces x86-64 programs only: build it "
				  "for x86-64 (without -m32)",
				  pid);
	return 0;
}

/*
 * Checks that the process's mappings can be read in time. Otherwise attaching a probe to a mapped file would wait for
 * the lock of the mappings, and meanwhile no process on the machine could fork. Nothing is mapped at address 0, but the
 * lookup takes the lock.
 */
static int check_mappings(pid_t pid)
{
	int place = xp_target_memory_map_file(xp_target_memory_own(), pid, 0, 1);

	if (place >= 0)
		close(place);
	if (place != -ETIMEDOUT)
		return 0;
	if (!xp_target_has_thread(pid, 'D'))
		return xp_why_set(-ETIMEDOUT, "cannot read the mappings of process %d in time; try again", pid);
	return xp_why_set(
	    -ETIMEDOUT,
	    "cannot read the mappings of process %d: one of its threads holds their lock and waits for a file "
	    "system that does not respond (cat /proc/%d/task/*/wchan); try again when it does, or end the process",
	    pid, pid);
}

int xp_target_check(pid_t pid, struct xp_target_info *info)
{
	struct stat_line line;
	char path[64];
	pid_t group;
	ssize_t n;
	int err;

	if (pid == getpid())
		return xp_why_set(-EINVAL, "process %d is xprof itself, which cannot trace itself: give another -p",
				  pid);
	err = read_stat(pid, pid, &line);
	if (err == -ESRCH || (!err && (line.state == 'Z' || line.state == 'X')))
		return xp_why_set(-ESRCH, "no process %d%s; `pgrep -l NAME` finds the pid of a program", pid,
				  err ? "" : " any more (it has ended and waits for its parent)");
	if (err)
		return xp_why_set(-EACCES,
				  "cannot read /proc/%d/stat: %s; is /proc mounted with hidepid? Run xprof as root",
				  pid, strerror(-err));
	if (line.flags & KERNEL_THREAD)
		return xp_why_set(-EINVAL, "process %d is a kernel thread and has no user code to trace", pid);
	group = xp_target_process(pid);
	if (group && group != pid)
		return xp_why_set(-EINVAL, "%d is a thread of process %d: use -p %d", pid, group, group);
	err = check_access(pid);
	if (!err)
		err = check_class(pid);
	if (!err)
		err = check_mappings(pid);
	if (err)
		return err;

	info->start_time = line.start_time;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, info->exe, sizeof(info->exe) - 1);
	info->exe[n > 0 ? n : 0] = 0;
	xp_target_thread_name(pid, pid, info->comm);
	return 0;
}

/* Undoes the kernel's escape of a newline, the only escape in /proc/PID/maps. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		if (!strncmp(from, "\\012", 4)) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
}

/* Returns whether the line describes a mapping. */
static bool parse_line(struct xp_mapping *mapping, char *line, bool *executable)
{
	unsigned int major_nr, minor_nr;
	char perms[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &mapping->start, &mapping->end,
		   perms, &mapping->file_offset, &major_nr, &minor_nr, &mapping->inode, &path) != 7)
		return false;
	if (!path || mapping->start >= mapping->end)
		return false;
	*executable = perms[2] == 'x';
	mapping->moved = false;
	mapping->dev = makedev(major_nr, minor_nr);
	mapping->shared = perms[3] != 'p';
	mapping->path = line + path;
	unescape(mapping->path);
	return true;
}

static bool has_file(const struct xp_mapping *mapping)
{
	return mapping->inode && xp_file_kind_of(mapping->path) == XP_FILE_DISK;
}

/*
 * Treats the mappings from index first on as parts of the file that is mapped before and after them. Does nothing if
 * before and after are not parts of the same file with the same load address. Returns 0 or -ENOMEM.
 */
static int mark_moved(struct xp_mappings *mappings, size_t first, const struct xp_mapping *before,
		      const struct xp_mapping *after)
{
	const uint64_t base = before->start - before->file_offset;

	if (before->inode != after->inode || before->dev != after->dev || base != after->start - after->file_offset)
		return 0;
	for (size_t i = first; i < mappings->count; i++) {
		struct xp_mapping *mapping = &mappings->list[i];
		char *path;

		if (xp_file_kind_of(mapping->path) != XP_FILE_ANON)
			continue;
		path = strdup(before->path);
		if (!path)
			return -ENOMEM;
		free(mapping->path);
		*mapping = (struct xp_mapping){ .start = mapping->start,
						.end = mapping->end,
						.file_offset = mapping->start - base,
						.dev = before->dev,
						.inode = before->inode,
						.moved = true,
						.path = path };
	}
	return 0;
}

static void find_first_of_files(struct xp_mappings *mappings)
{
	struct xp_u64_map files = { 0 };

	for (size_t i = 0; i < mappings->count; i++) {
		struct xp_mapping *mapping = &mappings->list[i];
		const uint32_t *first = NULL;

		if (mapping->inode)
			first = xp_u64_map_add(&files, xp_hash_mix(mapping->dev, mapping->inode), (uint32_t)i);
		mapping->first = first ? *first : i;
	}
	xp_u64_map_free(&files);
}

int xp_mappings_parse(struct xp_mappings *mappings, char *text, bool all)
{
	struct xp_mapping before = { 0 }; /* the last mapping of a file, and the number of mappings up to it */
	size_t room = 0, kept = 0;
	char *line, *rest = text;

	memset(mappings, 0, sizeof(*mappings));
	while ((line = strsep(&rest, "\n"))) {
		struct xp_mapping mapping;
		bool executable;

		if (!parse_line(&mapping, line, &executable))
			continue;
		if (all && has_file(&mapping)) {
			if (before.inode && mark_moved(mappings, kept, &before, &mapping))
				goto no_memory;
			before = mapping;
			kept = mappings->count + executable;
		}
		if (!executable || (!all && (!mapping.inode || mapping.path[0] != '/')))
			continue;
		if (mappings->count == XP_MAPPINGS_MAX) {
			xp_mappings_free(mappings);
			return -E2BIG;
		}
		if (XP_ARRAY_RESERVE(mappings->list, room, mappings->count + 1))
			goto no_memory;
		mapping.path = strdup(mapping.path);
		if (!mapping.path)
			goto no_memory;
		mappings->list[mappings->count++] = mapping;
	}
	find_first_of_files(mappings);
	return 0;

no_memory:
	xp_mappings_free(mappings);
	return -ENOMEM;
}

int xp_mappings_text(char **text, pid_t pid)
{
	int err = xp_target_memory_maps(xp_target_memory_own(), pid, text, MAPS_TEXT_MAX);

	return err == -ENOENT ? -ESRCH : err;
}

static int read_mappings(struct xp_mappings *mappings, pid_t pid, bool all)
{
	char *text;
	int err = xp_mappings_text(&text, pid);

	memset(mappings, 0, sizeof(*mappings));
	if (err)
		return err;
	err = xp_mappings_parse(mappings, text, all);
	free(text);
	return err;
}

int xp_mappings_read(struct xp_mappings *mappings, pid_t pid)
{
	return read_mappings(mappings, pid, false);
}

int xp_mappings_read_all(struct xp_mappings *mappings, pid_t pid)
{
	return read_mappings(mappings, pid, true);
}

void xp_mappings_free(struct xp_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++)
		free(mappings->list[i].path);
	free(mappings->list);
	memset(mappings, 0, sizeof(*mappings));
}

int xp_mapping_open_exact(pid_t pid, uint64_t start, uint64_t end, uint64_t inode)
{
	int place = xp_target_memory_map_file(xp_target_memory_own(), pid, start, end), fd;

	if (place < 0)
		return place;
	fd = xp_chosen_open_place(place, pid, inode);
	close(place);
	return fd;
}

/* Opens the file through any executable mapping with this inode. */
static int open_by_inode(pid_t pid, uint64_t inode)
{
	struct xp_mappings mappings;
	int fd = -ENOENT, err = xp_mappings_read(&mappings, pid);

	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && fd < 0; i++)
		if (mappings.list[i].inode == inode)
			fd = xp_mapping_open_exact(pid, mappings.list[i].start, mappings.list[i].end, inode);
	xp_mappings_free(&mappings);
	return fd;
}

int xp_target_stat_exe(pid_t pid, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return xp_chosen_stat_link(path, st);
}

int xp_target_open_path(pid_t pid, const char *path, uint64_t inode)
{
	int root = xp_open_format(O_PATH | O_DIRECTORY, "/proc/%d/root", pid), fd;

	if (root < 0)
		return root;
	fd = xp_chosen_open_path(root, path, pid, inode);
	close(root);
	return fd;
}

/*
 * Opens the file by its path, or if it is the executable, through /proc/PID/exe: xprof may lack permission for the
 * directories of the path.
 */
static int open_by_path(pid_t pid, const struct xp_mapping *mapping)
{
	int fd = open_exe(pid, mapping->inode);

	return fd == -ESTALE ? xp_target_open_path(pid, mapping->path, mapping->inode) : fd;
}

int xp_mapping_open(pid_t pid, const struct xp_mapping *mapping)
{
	int fd = xp_mapping_open_exact(pid, mapping->start, mapping->end, 0);

	/* The kernel looks up exact bounds. mprotect(2) or munmap(2) of a part of the mapping may have changed them. */
	if (fd == -ENOENT && mapping->inode)
		fd = open_by_inode(pid, mapping->inode);
	/*
	 * map_files/ of another user's process requires CAP_DAC_READ_SEARCH, and opening its links
	 * CAP_CHECKPOINT_RESTORE.
	 */
	if ((fd == -EACCES || fd == -EPERM) && mapping->inode && mapping->path) {
		int by_path = open_by_path(pid, mapping);

		fd = by_path < 0 ? fd : by_path;
	}
	return fd;
}

#define THREADS_MAX 64 /* each is a file to read */

/* The file contains three numbers: time on a CPU, time waiting for a CPU, number of time slices. */
static uint64_t slices_of(pid_t pid, pid_t tid)
{
	uint64_t slices;
	char text[96];

	xp_small_file_read(text, sizeof(text), "/proc/%d/task/%d/schedstat", pid, tid);
	return sscanf(text, "%*u %*u %" SCNu64, &slices) == 1 ? slices : 0;
}

uint64_t xp_time_slices(pid_t pid)
{
	uint64_t threads = 0, looked = 0, sum = 0;
	DIR *list = xp_target_list(pid);
	pid_t tid;

	if (!list)
		return 0;
	while ((tid = xp_target_next(list))) {
		if (threads++ >= THREADS_MAX)
			continue;
		sum += slices_of(pid, tid);
		looked++;
	}
	closedir(list);
	return looked ? sum * threads / looked : 0;
}
