/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory the control groups of this process leave it. Beyond that the kernel does not refuse memory: it kills
 * (OOM), with SIGKILL. Whoever takes much asks before.
 */
#ifndef XPROF_BASE_MEMORY_ROOM_H
#define XPROF_BASE_MEMORY_ROOM_H

#include <stdint.h>

/* Bytes that may still be charged, the cache of files not counted, which makes room; UINT64_MAX: no limit is known. */
uint64_t xp_memory_room(void);
/* The same for a process with these groups, a file as /proc/PID/cgroup, and the hierarchies in this directory. */
uint64_t xp_memory_room_in(const char *groups_file, const char *root);

#endif
