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
	fd = xp_open_inode(path, file->inode);
	if (fd < 0 && (size_t)snprintf(path, sizeof(path), "/proc/%d/root%s", pid, file->path) < sizeof(path))
		fd = xp_open_inode(path, file->inode);
	if (fd < 0)
		fd = xp_open_inode(file->path, file->inode);
	/* Deleted, and mapped with other bounds by now. */
	return fd < 0 ? xp_mapping_open(pid, &mapping) : fd;
}
