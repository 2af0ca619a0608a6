/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory the cgroups of this process allow it to use. Beyond that, the kernel does not refuse memory, but
 * kills a process of the cgroup (OOM). Code that needs much memory checks this before.
 */
#ifndef XPROF_BASE_MEMORY_ROOM_H
#define XPROF_BASE_MEMORY_ROOM_H

#include <stdint.h>

/* Returns the bytes that can still be charged; the page cache does not count. UINT64_MAX: no limit is known. */
uint64_t xp_memory_room(void);
/* Like xp_memory_room(), for the cgroups in a file like /proc/PID/cgroup, and the hierarchies in the directory root. */
uint64_t xp_memory_room_in(const char *groups_file, const char *root);

#endif
