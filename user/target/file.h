/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files whose path, kind, owner and content a target controls, opened by root: neither a link that it puts there, nor a
 * FIFO or a device, nor somebody else's file is opened, and nothing here waits.
 */
#ifndef XPROF_TARGET_FILE_H
#define XPROF_TARGET_FILE_H

#include <stdint.h>
#include <sys/types.h>

/* Of a process, from /proc/PID/status. */
struct xp_target_status {
	pid_t inner_pid; /* its number in its innermost pid namespace */
	uid_t euid;	 /* as this process sees it */
	gid_t egid;
	uint64_t caught; /* signals with a handler: bit n - 1 for signal n */
};

/* -ESRCH: there is no such process, or only its zombie; start_time (target.h) names which one is meant. */
int xp_target_status(struct xp_target_status *status, pid_t pid, uint64_t start_time);

/*
 * An O_PATH descriptor of what is at an absolute path in the root and the mount namespace of the process, or -errno;
 * -ELOOP: a symbolic link is on the way. Whose process it is, and what was found, is left to be judged.
 */
int xp_target_path_find(pid_t pid, const char *path);

/*
 * Opens a file by its absolute path in the root and the mount namespace of the process, to read. A descriptor, or
 * -ESRCH    the process is not there (any more);
 * -ENOENT   no such file;
 * -ELOOP    a symbolic link, at the end or on the way;
 * -EINVAL   no regular file, or one whose content another process makes up (FUSE);
 * -EPERM    it does not belong to the process's effective user (or to root, and is readable by all), or has other
 * names; -EFBIG    larger than bytes_max; and others of openat2(2).
 */
int xp_target_file_open(pid_t pid, uint64_t start_time, const char *path, uint64_t bytes_max);

#endif
