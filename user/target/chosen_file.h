/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens a file that a target chose: a file that it runs, maps or names. Such a file may be on a file system that a
 * process serves (FUSE, also below an overlayfs of a user namespace). Each stat, open and read can then block forever,
 * and even SIGKILL does not end it. So neither xprof nor the kernel on its behalf touches such files. A child copies
 * the file to memory, and xprof uses the copy. If the child takes too long, xprof abandons it. xprof opens files on
 * other file systems directly.
 *
 * The type of a file system comes from /proc/PID/mountinfo, because statfs(2) sends a request to the server. Files on a
 * disk do not need this check. O_PATH descriptors, /proc links and statx(2) with AT_STATX_DONT_SYNC send no request to
 * a server.
 */
#ifndef XPROF_TARGET_CHOSEN_FILE_H
#define XPROF_TARGET_CHOSEN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Timeout for the file system, per file. */
#define XP_CHOSEN_WAIT_NS 1000000000ull

/*
 * Get device, inode and mode without a request to the file system. place is an O_PATH descriptor, link a /proc link.
 * The values may be outdated, but belong to that file. Return 0 or -errno.
 */
int xp_chosen_stat(int place, struct stat *st);
int xp_chosen_stat_link(const char *link, struct stat *st);

/*
 * Opens the target of a /proc link such as /proc/PID/exe for reading, if it is a regular file and has this inode (0:
 * any). pid is a process that has the file; 0: xprof. Returns a descriptor of the file or of a copy, or -errno:
 * -ENOEXEC if it is not a regular file, -ESTALE if it has another inode, -ETIMEDOUT if its file system did not answer
 * in time, now or recently, -EFBIG if it is too large to copy, or an error of open(2).
 */
int xp_chosen_open_link(const char *link, pid_t pid, ino_t inode);

/*
 * Like xp_chosen_open_link(), for a path below a root directory (O_PATH; -1: xprof's root). The lookup of the path may
 * block, too, so it has the same timeout.
 */
int xp_chosen_open_path(int root, const char *path, pid_t pid, ino_t inode);

/* Returns the O_PATH descriptor of a path, for xp_chosen_stat() and xp_chosen_open_place(), or -errno as above. */
int xp_chosen_find(int root, const char *path);
int xp_chosen_open_place(int place, pid_t pid, ino_t inode);

/*
 * For st from fstat(2) of a descriptor that was opened here: if it is a copy, replaces device and inode with those of
 * the original file, and returns the kind of its file system, for messages. Returns NULL for other files.
 */
const char *xp_chosen_original(struct stat *st);

/*
 * Returns whether xprof's user may read the file of a descriptor opened here, or its original, without xprof's
 * capabilities (CAP_DAC_READ_SEARCH). If not, xprof uses the file only to unwind and to find sleds, and does not show
 * or store its symbols.
 */
bool xp_chosen_user_may_read(int fd);

#endif
