/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Removes breakpoints that the kernel left in a process because it cannot remove them in a task that is being killed
 * (shield.h). A probe is attached to the place of a breakpoint and detached again: the kernel then restores the byte of
 * the file, unless another tool has a probe there.
 */
#ifndef XPROF_SLED_BREAKPOINTS_H
#define XPROF_SLED_BREAKPOINTS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Looks where xprof attaches probes: at sleds, in its stubs and in the dynamic linker. Returns 0 or -errno with a
 * sentence (why.h): -EACCES if a privilege is missing. *removed: the number of breakpoints.
 */
int xp_breakpoints_remove(pid_t pid, size_t *removed);

#endif
