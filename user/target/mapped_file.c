/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/mapped_file.h"

#include <errno.h>

#include "target/chosen_file.h"
#include "target/target.h"
#include "target/vdso.h"

int xp_mapped_file_open(pid_t pid, const struct xp_vma *vma)
{
	const struct xp_file *file = vma->file;
	const struct xp_mapping mapping = { .start = vma->start, .end = vma->end, .inode = file->inode };
	int fd;

	if (file->kind == XP_FILE_VDSO)
		return xp_vdso_open();
	if (file->kind != XP_FILE_DISK || file->path[0] != '/')
		return -ENOENT;
	fd = xp_mapping_open_exact(pid, vma->start, vma->end, file->inode);
	if (fd == -ETIMEDOUT)
		return fd;
	if (fd < 0)
		fd = xp_target_open_path(pid, file->path, file->inode);
	if (fd < 0)
		fd = xp_chosen_open_path(-1, file->path, 0, file->inode);
	/* The file was deleted, and the bounds of its mapping have changed. */
	return fd < 0 ? xp_mapping_open(pid, &mapping) : fd;
}
