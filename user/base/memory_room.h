/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that this process can still use within the limits of its cgroups. If a cgroup exceeds its limit, the
 * kernel kills one of its processes (OOM). Code that needs much memory checks this first.
 */
#ifndef XPROF_BASE_MEMORY_ROOM_H
#define XPROF_BASE_MEMORY_ROOM_H

#include <stdint.h>

/* Returns the bytes that can still be charged; the page cache does not count. UINT64_MAX: no limit is known. */
uint64_t xp_memory_room(void);
/* Like xp_memory_room(), for the cgroups in a file like /proc/PID/cgroup, and the hierarchies in the directory root. */
uint64_t xp_memory_room_in(const char *groups_file, const char *root);

#endif
