/* SPDX-License-Identifier: BSD-2-Clause */
/* A file's bytes, mapped read-only: a file of any size takes no memory of its own. */
#ifndef XPROF_FILE_VIEW_H
#define XPROF_FILE_VIEW_H

#include <stdint.h>

struct xp_file_view {
	const uint8_t *bytes; /* not NULL even when the file is empty */
	uint64_t size;
};

/*
 * name: relative to dir_fd, which may be AT_FDCWD. -EISDIR of a directory, -EINVAL of what else is no regular file.
 * Should another process cut the file while it is read, xprof says so and ends with 1.
 */
int xp_file_view_open(struct xp_file_view *view, int dir_fd, const char *name);
/* The file itself, for reading; the same errors. */
int xp_file_open_regular(int dir_fd, const char *name);
void xp_file_view_close(struct xp_file_view *view);

#endif
