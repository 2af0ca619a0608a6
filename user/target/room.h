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
 * Returns true if process pid lacks room for this many more bytes in this many more mappings, because less than
 * XP_ROOM_BYTES or XP_ROOM_MAPPINGS would remain. Sets why to the limit and the remedy.
 */
bool xp_target_lacks_room(pid_t pid, uint64_t bytes, uint64_t mappings, char *why, size_t why_size);
/*
 * Like xp_target_lacks_room(), for the call rings: `bytes` of address space and of shared memory, which xprof
 * allocates. Returns true if the process has any limit of address space, or if vm.overcommit_memory is 2 and the rings
 * would leave less than a quarter of CommitLimit free.
 */
bool xp_target_lacks_room_for_rings(pid_t pid, uint64_t bytes, char *why, size_t why_size);

/*
 * Returns true if the memory limits of the process's cgroups leave fewer than `bytes` bytes. A cgroup that exceeds its
 * limit gets no error: the kernel kills one of its processes. Sets why to the reason and the remedy.
 */
bool xp_target_group_lacks_room(pid_t pid, uint64_t bytes, char *why, size_t why_size);

#endif
