/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory sym/ of a recording: makes it with the first file, and makes files and links of new names in it. A
 * name is <label>.<number>.<token>.so, the token being the recording's.
 */
#ifndef XPROF_SYM_DIR_H
#define XPROF_SYM_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_SYM_DIR_NAME "sym"
#define XP_SYM_LABEL_BYTES 80

struct xp_sym_dir {
	int parent_fd; /* the caller's */
	int fd;	       /* -1: not made yet */
	char token[8];
};

void xp_sym_dir_init(struct xp_sym_dir *dir, int parent_fd);
void xp_sym_dir_close(struct xp_sym_dir *dir);

/*
 * The last part of a path, as it may stand in a name: without what is strange in one, not too long, and none of jit,
 * kernel, vdso, anon and unknown, which are the labels of what has no file.
 */
void xp_sym_dir_label(char label[XP_SYM_LABEL_BYTES], const char *path);

/*
 * An empty file, open for writing. *path, which the caller frees: what profiles may call it: absolute, unless the
 * recording's own path has what the readers do not take (blanks); then it is relative to the recording.
 * A descriptor or -errno.
 */
int xp_sym_dir_create(struct xp_sym_dir *dir, const char *label, uint32_t number, char **path);
/* A symbolic link to target. 0 or -errno. */
int xp_sym_dir_link(struct xp_sym_dir *dir, const char *label, uint32_t number, const char *target, char **path);
/* Removes a file that was made by xp_sym_dir_create(), and frees path. */
void xp_sym_dir_remove(struct xp_sym_dir *dir, char *path);

/* May readers be given this path? */
bool xp_sym_dir_path_is_plain(const char *path);

#endif
