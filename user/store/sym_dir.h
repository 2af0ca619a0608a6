/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory sym/ of a recording. It is created with its first file, unless it exists; files in it get new names. A
 * name is <label>.<number>.<token>.so; the token identifies the recording, or a key the contents.
 */
#ifndef XPROF_STORE_SYM_DIR_H
#define XPROF_STORE_SYM_DIR_H

#include <stdbool.h>
#include <stdint.h>

#define XP_SYM_DIR_NAME "sym"
#define XP_SYM_LABEL_BYTES 80
#define XP_SYM_KEY_BYTES 64

struct xp_sym_dir {
	int parent_fd; /* owned by the caller */
	int shared_fd; /* likewise: what parts share, see sym_shared.h; -1: nothing, as set by xp_sym_dir_init() */
	int fd;	       /* -1: not created yet */
	char token[8];
};

void xp_sym_dir_init(struct xp_sym_dir *dir, int parent_fd);
void xp_sym_dir_close(struct xp_sym_dir *dir);

/* Creates or opens the directory, unless it is open. Returns 0 or -errno. */
int xp_sym_dir_open(struct xp_sym_dir *dir);

/*
 * Makes a label of the last part of a path: without unusual characters, limited in length, and none of jit, kernel,
 * vdso, anon and unknown, the labels of code without a file.
 */
void xp_sym_dir_label(char label[XP_SYM_LABEL_BYTES], const char *path);

/*
 * Creates an empty file, open for writing. *path, which the caller frees, is the path for profiles: absolute, but
 * relative to the recording if the recording's path has characters that readers reject (blanks). Returns a descriptor
 * or -errno.
 */
int xp_sym_dir_create(struct xp_sym_dir *dir, const char *label, uint32_t number, char **path);
/* Returns the path of an existing file in the directory. NULL: out of memory, or there is no such directory. */
char *xp_sym_dir_path(struct xp_sym_dir *dir, const char *name);
/*
 * Closes the file. err: an error of writing it; the file is then removed, and *path is NULL. Returns err, or the error
 * of close(2).
 */
int xp_sym_dir_finish(struct xp_sym_dir *dir, int fd, char **path, int err);
/* Gives a file made by xp_sym_dir_create() a key in place of the token. Returns 0 or -errno. */
int xp_sym_dir_rename(struct xp_sym_dir *dir, const char *label, uint32_t number, const char *key, char **path);
/* Makes a link to a shared file, as if it was made by xp_sym_dir_create() and had this key. Returns 0 or -errno. */
int xp_sym_dir_link(struct xp_sym_dir *dir, const char *shared, const char *label, uint32_t number, const char *key,
		    char **path);
/* Removes a file made by xp_sym_dir_create(), and frees path. */
void xp_sym_dir_remove(struct xp_sym_dir *dir, char *path);

/* Returns the path that a file had before it was deleted; the caller frees it. NULL: out of memory. */
char *xp_sym_dir_original(const char *path);

#endif
