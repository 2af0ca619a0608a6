/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the kernel itself provides a file's file system, so that its files can be read without waiting for a process.
 */
#ifndef XPROF_TARGET_MOUNT_KIND_H
#define XPROF_TARGET_MOUNT_KIND_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * st must have STATX_MNT_ID. pid is a process whose mount namespace contains the file's mount; 0: xprof. Sends no
 * request to the file system. Returns false if the kind is unknown.
 */
bool xp_mount_is_local(const struct statx *st, pid_t pid);

#endif
