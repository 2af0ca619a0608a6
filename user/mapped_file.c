/* SPDX-License-Identifier: BSD-2-Clause */
#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target.h"
#include "vdso.h"

/*
 * The regular file that a path leads to, if it is the one that was mapped, which may be another one by now: the inode
 * must do, for the device in a mapping is not always stat()'s (btrfs, overlayfs).
 */
static int open_same(const char *path, const struct xp_file *file)
{
	int place = open(path, O_PATH | O_CLOEXEC), fd = -ESTALE;
	char again[64];
	struct stat st;

	if (place < 0)
		return -errno;
	if (!fstat(place, &st) && S_ISREG(st.st_mode) && st.st_ino == file->inode) {
		snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
		fd = open(again, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	close(place);
	return fd;
}

int xp_mapped_file_open(pid_t pid, const struct xp_vma *vma)
{
	const struct xp_file *file = vma->file;
	const struct xp_mapping mapping = { .start = vma->start, .end = vma->end, .inode = file->inode };
	char path[PATH_MAX];
	int fd;

	if (file->kind == XP_FILE_VDSO)
		return xp_vdso_open();
	if (file->kind != XP_FILE_DISK || file->path[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, vma->start, vma->end);
	fd = open_same(path, file);
	if (fd < 0 && (size_t)snprintf(path, sizeof(path), "/proc/%d/root%s", pid, file->path) < sizeof(path))
		fd = open_same(path, file);
	if (fd < 0)
		fd = open_same(file->path, file);
	/* Deleted, and mapped with other bounds by now. */
	return fd < 0 ? xp_mapping_open(pid, &mapping) : fd;
}
