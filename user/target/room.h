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
 * Checks that process pid has room for this many more bytes in this many more mappings, so that XP_ROOM_BYTES and
 * XP_ROOM_MAPPINGS remain. Returns 0, or -EOPNOTSUPP with a sentence (why.h) that contains the limit and the remedy.
 */
int xp_target_check_room(pid_t pid, uint64_t bytes, uint64_t mappings);
/*
 * Like xp_target_check_room(), for the call rings: `bytes` of address space and of shared memory, which xprof
 * allocates. Also returns -EOPNOTSUPP if the process has any limit of address space, or if vm.overcommit_memory is 2
 * and the rings would leave less than a quarter of CommitLimit free.
 */
int xp_target_check_room_for_rings(pid_t pid, uint64_t bytes);

/*
 * Like xp_target_check_room(), for the memory limits of the process's cgroups. A cgroup that exceeds its limit gets no
 * error: the kernel kills one of its processes.
 */
int xp_target_check_group_room(pid_t pid, uint64_t bytes);

#endif
