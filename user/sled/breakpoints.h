/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Removes breakpoints that the kernel left in a process because it cannot remove them in a task that is being killed
 * (shield.h). xprof attaches a probe at each breakpoint and detaches it again: the kernel then restores the byte of the
 * file, unless another tool has a probe there.
 */
#ifndef XPROF_SLED_BREAKPOINTS_H
#define XPROF_SLED_BREAKPOINTS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Checks all places where xprof attaches probes: sleds, its stubs and the dynamic linker. Returns 0 or -errno with a
 * message (why.h): -EACCES if a privilege is missing. *removed: the number of breakpoints.
 */
int xp_breakpoints_remove(pid_t pid, size_t *removed);

#endif
