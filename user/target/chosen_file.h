/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that a target chose: what it runs, maps, or names. Whoever may mount a file system that a process serves
 * (FUSE, also below an overlayfs of a user namespace) can have each stat, open and read of such a file wait for good,
 * in a way that even SIGKILL does not end. Such files are never touched by xprof itself, nor by the kernel in its name:
 * a child copies them to memory, which is given up when it takes too long, and the copy takes the file's place. Files
 * of other file systems are opened as they are.
 *
 * The kind of a file system is told by /proc/PID/mountinfo, since statfs(2) asks the server too; a file on a disk needs
 * no look at that. Descriptors of O_PATH, links of /proc and statx(2) with AT_STATX_DONT_SYNC ask no server.
 */
#ifndef XPROF_CHOSEN_FILE_H
#define XPROF_CHOSEN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What is waited for the file system at most, for one file. */
#define XP_CHOSEN_WAIT_NS 1000000000ull

/*
 * Device, inode and mode without a question to the file system: of place, an O_PATH descriptor, or of a link of /proc.
 * They may be old, but they are of that file. -errno.
 */
int xp_chosen_stat(int place, struct stat *st);
int xp_chosen_stat_link(const char *link, struct stat *st);

/*
 * Opens for reading what a link of /proc leads to, such as /proc/PID/exe, if it is a regular file and has this inode
 * (0: any). pid: a process that has the file, 0: this one. A descriptor of the file or of a copy; -ENOEXEC: no regular
 * file; -ESTALE: another inode; -ETIMEDOUT: its file system did not answer in time, now or a while ago; -EFBIG: too
 * large to be copied; those of open(2).
 */
int xp_chosen_open_link(const char *link, pid_t pid, ino_t inode);

/* The same by a path, as seen from a root directory (O_PATH; -1: that of xprof). The way there may wait as well. */
int xp_chosen_open_path(int root, const char *path, pid_t pid, ino_t inode);

/* The O_PATH descriptor of a path, for xp_chosen_stat() and xp_chosen_open_place(). -errno as above. */
int xp_chosen_find(int root, const char *path);
int xp_chosen_open_place(int place, pid_t pid, ino_t inode);

/* Whether st, by fstat(2) of a descriptor from here, is that of a copy; it gets device and inode of the file then. */
bool xp_chosen_original(struct stat *st);

#endif
