/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens, as root, files whose path, kind, owner and content a target controls. Does not follow a link of the target,
 * does not open a FIFO, a device or another user's file, and never blocks.
 */
#ifndef XPROF_TARGET_UNTRUSTED_FILE_H
#define XPROF_TARGET_UNTRUSTED_FILE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Looks up an absolute path in the root and the mount namespace of the process. Returns an O_PATH descriptor or -errno:
 * -ELOOP if a symbolic link is on the path. The caller must check the process and the file.
 */
int xp_target_path_find(pid_t pid, const char *path);

/*
 * Opens a file for reading by its absolute path in the root and the mount namespace of the process. Returns a
 * descriptor or -errno:
 * - -ESRCH if the process has ended;
 * - -ENOENT if the file does not exist;
 * - -ELOOP for a symbolic link, at the end or on the path;
 * - -EINVAL if it is not a regular file, or a process provides its content (FUSE);
 * - -EPERM if it does not belong to the process's effective user (or to root, and is readable by all), or has other
 *   links;
 * - -EACCES if xprof's user may not read it without xprof's capabilities;
 * - -EFBIG if it is larger than bytes_max;
 * - other errors of openat2(2).
 */
int xp_target_file_open(pid_t pid, uint64_t start_time, const char *path, uint64_t bytes_max);

#endif
