/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks whether a process has memory to spare, so that the mappings of a recording do not exhaust one of its limits.
 */
#ifndef XPROF_TARGET_ROOM_H
#define XPROF_TARGET_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that a limit must leave to the process in addition to the mappings of a recording. */
#define XP_ROOM_BYTES (4ull << 20)
#define XP_ROOM_MAPPINGS 1000u

/*
 * Returns true if process pid cannot spare this many more bytes in this many more mappings: then less than
 * XP_ROOM_BYTES or XP_ROOM_MAPPINGS would be left. why then has the limit and the remedy.
 */
bool xp_target_lacks_room(pid_t pid, uint64_t bytes, uint64_t mappings, char *why, size_t why_size);
/*
 * Like xp_target_lacks_room(), for the call rings: this many bytes of address space, and shared memory that xprof
 * takes. They are too much for any limit of the address space, and for a machine that grants no more memory than it
 * has, unless a quarter of that is free.
 */
bool xp_target_lacks_room_for_rings(pid_t pid, uint64_t bytes, char *why, size_t why_size);

/*
 * True if the memory limits of the process's cgroups leave less than that. Beyond them the kernel does not
 * refuse memory: it kills the process, or another one of the group. why then has the reason and the remedy.
 */
bool xp_target_group_lacks_room(pid_t pid, uint64_t bytes, char *why, size_t why_size);

#endif
