/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a file's file system is the kernel's own, so that its files can be read without waiting for a process. */
#ifndef XPROF_MOUNT_KIND_H
#define XPROF_MOUNT_KIND_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * st: with STATX_MNT_ID; pid: a process in whose mount namespace the file's mount is, 0: xprof's own. Asks no file
 * system. False when it cannot be told.
 */
bool xp_mount_is_local(const struct statx *st, pid_t pid);

#endif
