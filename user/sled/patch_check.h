/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks whether the sleds of a process can be patched from outside. Does not check for obstacles that only an attempt
 * can find.
 */
#ifndef XPROF_SLED_PATCH_CHECK_H
#define XPROF_SLED_PATCH_CHECK_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Returns 0 or -errno, with a message (why.h): -EOPNOTSUPP if a thread is under seccomp (the filter does not allow our
 * system calls, and may kill), is traced by a process other than `tracer` (0: by any), or is frozen; -EBUSY if another
 * process shares its memory (vfork()), which may end soon; -ESRCH if it has exited; -EACCES if xprof lacks a
 * capability.
 */
int xp_patch_check(pid_t pid, pid_t tracer);
/*
 * Checks sharing only: a vfork() child, or another process with the same memory, does not stop with the process. While
 * it is stopped, the process cannot create such a process.
 */
int xp_patch_check_sharing(pid_t pid);

#endif
