/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the kernel refuses to map more memory in a process: it returns ENOMEM for limits as well as for lack of memory.
 */
#ifndef XPROF_TARGET_ROOM_H
#define XPROF_TARGET_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * True if a limit keeps process pid from mapping this many more bytes in this many more mappings. why then has the
 * limit and the remedy.
 */
bool xp_target_lacks_room(pid_t pid, uint64_t bytes, uint64_t mappings, char *why, size_t why_size);

/*
 * True if the memory limits of the process's control groups leave less than that. Beyond them the kernel does not
 * refuse memory: it kills the process, or another one of the group. why then has the reason and the remedy.
 */
bool xp_target_group_lacks_room(pid_t pid, uint64_t bytes, char *why, size_t why_size);

#endif
