/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creates all files and directories of a recording. They are new, private to their owner from the start with any umask,
 * and never created through a symbolic link. A recording contains addresses, arguments and file names of other users,
 * which must stay private.
 */
#ifndef XPROF_BASE_OWN_FILE_H
#define XPROF_BASE_OWN_FILE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Creates a new file in a directory. access: O_WRONLY or O_RDWR. Returns a descriptor, -errno of openat(2), such as
 * -EEXIST, or -EOPNOTSUPP if the file system has no modes and lets others read the file.
 */
int xp_own_file_create(int dir_fd, const char *name, int access);

#define XP_LOG_SUFFIX ".fdr"
#define XP_LOG_PART ".part" /* suffix of the temporary name */
#define XP_LOG_NAME_MAX 240 /* keeps the temporary name within NAME_MAX */

/*
 * Creates the log NAME in a directory. The name appears when the log is complete. write(arg, fd) fills an empty file
 * that is open for reading and writing. On an error of write() or another -errno, no file remains.
 */
int xp_log_file_make(int dir_fd, const char *name, int (*write)(void *arg, int fd), void *arg);

/*
 * Creates a new directory and opens it for reading. Returns -EEXIST also if the new directory belongs to another user:
 * that user has replaced it, or the file system chooses the owners.
 */
int xp_own_dir_create(int dir_fd, const char *name);

/* Calls visit for each entry until one returns non-zero, and returns that, or -errno. */
int xp_dir_each(int dir_fd, int (*visit)(int dir_fd, const char *name, void *arg), void *arg);

/* Gets the user who ran sudo: SUDO_UID and SUDO_GID if xprof runs as root. Returns false if there is none. */
bool xp_own_file_user(uid_t *uid, gid_t *gid);

#endif
