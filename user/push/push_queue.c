// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_lock.h"
#include "base/own_file.h"
#include "base/trusted_dir.h"
#include "base/util.h"

#define LOCK_NS 2000000000ull

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- the directory ---- */

static int open_dir(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char parent[PATH_MAX];
	int parent_fd, fd;

	snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	parent_fd = xp_trusted_dir_open(parent);
	if (parent_fd < 0)
		return parent_fd;
	fd = xp_own_dir_create(parent_fd, name);
	if (fd == -EEXIST) {
		fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	close(parent_fd);
	return fd;
}

/* Another user could read the profiles, or exchange them. */
static int check_dir(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return st.st_nlink ? 0 : -EBUSY; /* another process has just removed it */
}

static DIR *list(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

static void remove_incomplete(int dir_fd)
{
	DIR *dir = list(dir_fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name), suffix = strlen(XP_LOG_PART);

		if (length > suffix && !strcmp(entry->d_name + length - suffix, XP_LOG_PART))
			unlinkat(dir_fd, entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

int xp_push_queue_open(struct xp_push_queue *queue, const char *path, enum xp_push_engine engine)
{
	int err;

	*queue = (struct xp_push_queue){ .fd = open_dir(path), .engine = engine };
	if (queue->fd < 0)
		return queue->fd;
	err = xp_file_lock_within(queue->fd, LOCK_NS, NULL) ?: check_dir(queue->fd);
	if (!err)
		remove_incomplete(queue->fd);
	return err;
}

void xp_push_queue_close(struct xp_push_queue *queue, const char *path)
{
	if (queue->fd >= 0) {
		rmdir(path);
		close(queue->fd);
	}
	free(queue->files);
	*queue = (struct xp_push_queue){ .fd = -1 };
}

/* ---- files ---- */

int xp_push_queue_put(int dir_fd, enum xp_push_engine engine, unsigned int number, int (*write)(void *arg, int fd),
		      void *arg)
{
	char name[XP_PUSH_FILE_BYTES];

	snprintf(name, sizeof(name), "%020" PRIu64 "-%010u-%06u.%s", wall_ns(), (unsigned int)getpid(), number,
		 xp_push_engine_name(engine));
	return xp_log_file_make(dir_fd, name, write, arg);
}

/* Returns false if this is not the name of a queued profile. */
static bool parse_name(const char *name, uint64_t *queued_ns, const char **engine)
{
	static const unsigned int digits[] = { 20, 10, 6 };
	const char *at = name;

	for (size_t i = 0; i < XP_ARRAY_SIZE(digits); i++) {
		if (strspn(at, "0123456789") != digits[i] || at[digits[i]] != (i == 2 ? '.' : '-'))
			return false;
		at += digits[i] + 1;
	}
	errno = 0;
	*queued_ns = strtoull(name, NULL, 10);
	*engine = at;
	return !errno && strlen(name) < XP_PUSH_FILE_BYTES;
}

static int oldest_first(const void *a, const void *b)
{
	return strcmp(((const struct xp_push_file *)a)->name, ((const struct xp_push_file *)b)->name);
}

/* Removes a file. A file that cannot be removed is no longer counted. */
static void drop(const struct xp_push_queue *queue, const char *name, uint64_t *dropped)
{
	unlinkat(queue->fd, name, 0);
	++*dropped;
}

static int note(struct xp_push_queue *queue, const char *name, uint64_t now_ns, uint64_t *dropped)
{
	struct xp_push_file file;
	const char *engine;
	struct stat st;

	if (!parse_name(name, &file.queued_ns, &engine) || fstatat(queue->fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	if (now_ns > file.queued_ns && now_ns - file.queued_ns > XP_PUSH_QUEUE_AGE_MAX_NS) {
		drop(queue, name, dropped);
		return 0;
	}
	if (strcmp(engine, xp_push_engine_name(queue->engine)))
		return 0;
	if (XP_ARRAY_RESERVE(queue->files, queue->room, queue->count + 1))
		return -ENOMEM;
	strcpy(file.name, name);
	file.bytes = (uint64_t)st.st_size;
	queue->files[queue->count++] = file;
	return 0;
}

/* Drops the oldest files until the rest are within the limits. */
static void bound(struct xp_push_queue *queue, uint64_t *dropped)
{
	uint64_t bytes = 0;
	size_t kept = 0;

	while (kept < queue->count && kept < XP_PUSH_QUEUE_COUNT_MAX) {
		bytes += queue->files[queue->count - 1 - kept].bytes;
		if (bytes > XP_PUSH_QUEUE_BYTES_MAX)
			break;
		kept++;
	}
	for (size_t i = 0; i < queue->count - kept; i++)
		drop(queue, queue->files[i].name, dropped);
	memmove(queue->files, queue->files + queue->count - kept, kept * sizeof(*queue->files));
	queue->count = kept;
}

int xp_push_queue_scan(struct xp_push_queue *queue, uint64_t *dropped)
{
	DIR *dir = list(queue->fd);
	uint64_t now_ns = wall_ns();
	const struct dirent *entry;
	int err = dir ? 0 : -errno;

	queue->count = 0;
	while (!err && (entry = readdir(dir)))
		err = note(queue, entry->d_name, now_ns, dropped);
	if (dir)
		closedir(dir);
	if (queue->count) {
		qsort(queue->files, queue->count, sizeof(*queue->files), oldest_first);
		bound(queue, dropped);
	}
	return err;
}

int xp_push_queue_take(const struct xp_push_queue *queue, const char *name)
{
	int fd = openat(queue->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void xp_push_queue_remove(struct xp_push_queue *queue, const char *name)
{
	size_t index = 0;

	unlinkat(queue->fd, name, 0);
	while (index < queue->count && strcmp(queue->files[index].name, name))
		index++;
	if (index == queue->count)
		return;
	queue->count--;
	memmove(queue->files + index, queue->files + index + 1, (queue->count - index) * sizeof(*queue->files));
}
