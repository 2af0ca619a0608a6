/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a stopped process create a memfd, and makes it execute system calls. The process creates the memfd itself, so
 * this works with any root directory, mount namespace and privileges.
 *
 * The descriptor number of the new file is untrusted: it comes from the process, and another process that shares its
 * files can put any file there, even one that it cannot write to (opened with O_PATH, or read-only). So xprof opens
 * that number with O_PATH, which has no effect on any file. xprof writes to the file only if it looks like the result
 * of memfd_create(2): on the kernel's own mount for such files, unnamed, empty, unsealed, and owned by the user of the
 * creating thread. xprof reopens the file through the O_PATH descriptor, so no process can replace it in between. The
 * remaining races can only exchange it for another empty memfd of the same user.
 */
#ifndef XPROF_SLED_REMOTE_MEMFD_H
#define XPROF_SLED_REMOTE_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

#include "target/remote.h"

/*
 * Executes a system call in the process, between xp_remote_begin_calls() and xp_remote_end_calls(). Returns its result.
 */
int64_t xp_remote_call(struct xp_remote *remote, long number, const uint64_t args[6]);

/* Calls mmap() at args[0], with MAP_FIXED_NOREPLACE. Returns 0 or -errno; -EEXIST if it is mapped elsewhere. */
int xp_remote_map(struct xp_remote *remote, const uint64_t args[6]);

/*
 * Makes the process create a memfd that can be sealed. name: address of its name in the process. Returns xprof's
 * descriptor, and that of the process in *remote_fd, or -errno. The caller closes both (xp_remote_close()).
 */
int xp_remote_memfd(struct xp_remote *remote, uint64_t name, int *remote_fd);
int xp_remote_close(struct xp_remote *remote, int remote_fd);

/*
 * Opens the regular file of xprof's descriptor for writing; no other process can redirect this. Returns a descriptor or
 * -errno.
 */
int xp_memfd_reopen(int fd);

#endif
