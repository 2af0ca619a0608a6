/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory sym/ of a recording. xprof creates it with its first file. The file names are
 * <label>.<number>.<token>.so and <label>.<number>.<key>.so: the token identifies the recording, the key identifies the
 * contents.
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
	int shared_fd; /* directory that parts share (sym_shared.h), owned by the caller; -1: none */
	int fd;	       /* -1: not created yet */
	char token[8];
};

void xp_sym_dir_init(struct xp_sym_dir *dir, int parent_fd);
void xp_sym_dir_close(struct xp_sym_dir *dir);

/* Creates or opens the directory, unless it is open. Returns 0 or -errno. */
int xp_sym_dir_open(struct xp_sym_dir *dir);

/*
 * Makes a label from the last part of a path. Replaces unusual characters, and limits the length. Changes the labels
 * jit, kernel, vdso, anon and unknown, which are reserved for code without a file.
 */
void xp_sym_dir_label(char label[XP_SYM_LABEL_BYTES], const char *path);

/*
 * Creates an empty file and opens it for writing. Sets *path to its path for profiles, which the caller frees. The path
 * is absolute, unless it has characters that readers reject, such as blanks: then it is relative to the recording.
 * Returns a descriptor or -errno.
 */
int xp_sym_dir_create(struct xp_sym_dir *dir, const char *label, uint32_t number, char **path);
/* Returns the path of an existing file in the directory. NULL: out of memory, or there is no such directory. */
char *xp_sym_dir_path(struct xp_sym_dir *dir, const char *name);
/*
 * Closes the file. err: an error of writing the file. After an error, removes the file and sets *path to NULL. Returns
 * err, or the error of close(2).
 */
int xp_sym_dir_finish(struct xp_sym_dir *dir, int fd, char **path, int err);
/* Replaces the token in the name of a file by a key. Returns 0 or -errno. */
int xp_sym_dir_rename(struct xp_sym_dir *dir, const char *label, uint32_t number, const char *key, char **path);
/* Creates a hard link to a shared file, with a name that has this key. Sets *path like xp_sym_dir_create(). Returns 0
 * or -errno. */
int xp_sym_dir_link(struct xp_sym_dir *dir, const char *shared, const char *label, uint32_t number, const char *key,
		    char **path);
/* Removes a file of xp_sym_dir_create(), and frees path. */
void xp_sym_dir_remove(struct xp_sym_dir *dir, char *path);

/* Returns a copy of the path without " (deleted)", which the caller frees. NULL: out of memory. */
char *xp_sym_dir_original(const char *path);

#endif
