// SPDX-License-Identifier: BSD-2-Clause
#include "record/left_recording.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/file_lock.h"
#include "base/file_name.h"
#include "base/trusted_dir.h"
#include "record/messages.h"
#include "sled/call_rings.h"
#include "sled/left_rings.h"
#include "trace/ring_recovery.h"

#define OPEN_SECONDS 5
#define END_MS 1000
#define OLDER_SUFFIX ".old" /* a later recording has taken the name: outdir.h */

bool xp_left_recording_is_ours(const struct stat *dir)
{
	return dir->st_uid == geteuid() && !(dir->st_mode & (S_IWGRP | S_IWOTH));
}

/* ---- the directory, by the path that the process tells ---- */

static int open_in_child(void *arg)
{
	const char *path = arg;
	int fd = path[0] == '/' ? xp_own_links_dir_open(path) : -1;
	struct statfs system;

	if (fd < 0 || fstatfs(fd, &system) || system.f_type == FUSE_SUPER_MAGIC)
		return 1;
	return xp_fd_message_send(XP_CHILD_CHANNEL, "", 1, fd) == 1 ? 0 : 1;
}

/* A file system may never answer. Returns a descriptor, or -1. */
static int open_path(char *path)
{
	const struct xp_child_options options = {
		.name = "xprof-file",
		.channel = XP_CHILD_SOCKET,
		.limits = { .seconds = OPEN_SECONDS, .no_children = true },
	};
	struct xp_child child;
	struct pollfd ready = { .events = POLLIN };
	int fd = -1;
	char answer;

	if (xp_child_start(&child, &options, open_in_child, path))
		return -1;
	ready.fd = child.fd;
	if (poll(&ready, 1, OPEN_SECONDS * 1000) > 0)
		xp_fd_message_receive(child.fd, &answer, sizeof(answer), &fd);
	xp_child_kill(&child, END_MS);
	return fd;
}

/* ---- what is in it ---- */

static int is_spool(const struct dirent *entry)
{
	return xp_file_is_spool(entry->d_name);
}

static bool has_spool(int dir_fd, pid_t pid, const uint64_t number[2])
{
	struct dirent **entries = NULL;
	int count = scandirat(dir_fd, ".", &entries, is_spool, alphasort);
	bool found = false;

	for (int i = 0; i < count; i++) {
		found =
		    found || xp_ring_recovery_is_of(dir_fd, entries[i]->d_name, XP_FILE_LOCK_PATIENCE_NS, pid, number);
		free(entries[i]);
	}
	free(entries);
	return found;
}

/* The path is shown and told to the user: not the one that the process tells. */
static bool has_path(struct xp_left_recording *recording)
{
	char link[32];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", recording->dir_fd);
	length = readlink(link, recording->path, sizeof(recording->path) - 1);
	recording->path[length > 0 ? length : 0] = 0;
	return length > 0;
}

static bool open_recording(struct xp_left_recording *recording, char *path, pid_t pid, const uint64_t number[2])
{
	struct stat dir;

	recording->dir_fd = open_path(path);
	if (recording->dir_fd < 0)
		return false;
	if (!fstat(recording->dir_fd, &dir) && xp_left_recording_is_ours(&dir) &&
	    has_spool(recording->dir_fd, pid, number) && has_path(recording)) {
		recording->dev = dir.st_dev;
		recording->inode = dir.st_ino;
		return true;
	}
	close(recording->dir_fd);
	return false;
}

int xp_left_recording_find(struct xp_left_recording *recording, pid_t pid, char *why, size_t why_size)
{
	char path[XP_RING_DIRECTORY_BYTES + sizeof(OLDER_SUFFIX)];
	struct xp_left_rings *left;
	uint64_t number[2];
	int err = xp_left_rings_open(&left, pid, NULL, why, why_size);

	if (err)
		return err;
	xp_left_rings_recording(left, number, path);
	xp_left_rings_free(left);
	if (!path[0])
		return xp_refuse(why, why_size, -ENODATA,
				 "process %d: xprof was killed before it had stored which functions the process calls: "
				 "the calls in its memory cannot be recovered",
				 pid);
	if (open_recording(recording, path, pid, number))
		return 0;
	strcat(path, OLDER_SUFFIX);
	if (open_recording(recording, path, pid, number))
		return 0;
	path[strlen(path) - strlen(OLDER_SUFFIX)] = 0;
	return xp_refuse(why, why_size, -ENOENT,
			 "process %d: the recording that was cut off is not in %s, or that directory is not yours "
			 "alone; find it, and run `xprof recover DIR`",
			 pid, path);
}
