/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/mapped_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "target/chosen_file.h"
#include "target/target.h"
#include "target/vdso.h"

int xp_mapped_file_open(pid_t pid, const struct xp_vma *vma)
{
	const struct xp_file *file = vma->file;
	const struct xp_mapping mapping = { .start = vma->start, .end = vma->end, .inode = file->inode };
	char path[128];
	int fd;

	if (file->kind == XP_FILE_VDSO)
		return xp_vdso_open();
	if (file->kind != XP_FILE_DISK || file->path[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, vma->start, vma->end);
	fd = xp_chosen_open_link(path, pid, file->inode);
	if (fd == -ETIMEDOUT)
		return fd;
	if (fd < 0)
		fd = xp_target_open_path(pid, file->path, file->inode);
	if (fd < 0)
		fd = xp_chosen_open_path(-1, file->path, 0, file->inode);
	/* Deleted, and mapped with other bounds by now. */
	return fd < 0 ? xp_mapping_open(pid, &mapping) : fd;
}
