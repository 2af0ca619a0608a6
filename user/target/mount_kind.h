/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Returns whether the kernel itself implements a file's file system, so that reading the file does not wait for a
 * process.
 */
#ifndef XPROF_TARGET_MOUNT_KIND_H
#define XPROF_TARGET_MOUNT_KIND_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * st must contain STATX_MNT_ID. pid is a process whose mount namespace contains the file's mount; 0: xprof. Sends no
 * request to the file system. Returns false if the kind is unknown.
 */
bool xp_mount_is_local(const struct statx *st, pid_t pid);

#endif
