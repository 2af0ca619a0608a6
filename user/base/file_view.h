/* SPDX-License-Identifier: BSD-2-Clause */
/* A file's bytes, mapped read-only, so that even a large file needs no private memory. */
#ifndef XPROF_BASE_FILE_VIEW_H
#define XPROF_BASE_FILE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct xp_file_view {
	const uint8_t *bytes; /* not NULL even if the file is empty */
	uint64_t size;
	bool is_mapped;	   /* private */
	uint64_t released; /* private: pages before this offset were unmapped from the process */
};

/*
 * Maps a file. name is relative to dir_fd, which may be AT_FDCWD. Returns 0 or -errno: -EISDIR for a directory, -EINVAL
 * for anything else that is not a regular file. If another process truncates the file while it is mapped, xprof prints
 * an error and exits with 1.
 */
int xp_file_view_open(struct xp_file_view *view, int dir_fd, const char *name);
/* Returns the message for an error of xp_file_view_open(). */
const char *xp_file_view_error(int err);
/* Opens a regular file for reading. Returns the descriptor or an error as xp_file_view_open(). */
int xp_file_open_regular(int dir_fd, const char *name);
/* Returns whether the file starts with the ELF magic number. */
bool xp_file_is_elf(int fd);
void xp_file_view_close(struct xp_file_view *view);

/* A reader of a large file keeps one or two windows of this size in memory. */
#define XP_FILE_VIEW_WINDOW (4u << 20)

/*
 * Call this when the bytes before this offset have been read: their pages no longer count as memory of the process. The
 * bytes can be read again, which maps the pages again.
 */
void xp_file_view_release(struct xp_file_view *view, uint64_t offset);

#endif
