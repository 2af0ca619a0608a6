/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the sleds of a process can be patched from outside; what shows only when it is tried is not asked here. */
#ifndef XPROF_PATCH_CHECK_H
#define XPROF_PATCH_CHECK_H

#include <stddef.h>
#include <sys/types.h>

/*
 * 0, or with a sentence in why:
 * -EOPNOTSUPP a thread is under seccomp (its filter knows nothing of our system calls, and may kill), or traced by
 * another process than tracer (0: by any), or it is frozen; -EBUSY another process shares its memory (vfork()), which
 * may be over soon; -ESRCH; -EACCES xprof lacks a capability.
 */
int xp_patch_check(pid_t pid, pid_t tracer, char *why, size_t why_size);
/*
 * The last of these alone: a child of vfork(), or another process that has its memory, does not stand still with it.
 * While it does stand still, it makes no new one either.
 */
int xp_patch_check_sharing(pid_t pid, char *why, size_t why_size);

#endif
