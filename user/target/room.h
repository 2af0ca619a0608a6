/* SPDX-License-Identifier: BSD-2-Clause */
/* Why the kernel has a process map no more memory: it says ENOMEM for its limits as well as for want of memory. */
#ifndef XPROF_TARGET_ROOM_H
#define XPROF_TARGET_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Whether a limit keeps process pid from mapping so many bytes more in so many mappings. Then why says which one, and
 * the remedy.
 */
bool xp_target_lacks_room(pid_t pid, uint64_t bytes, uint64_t mappings, char *why, size_t why_size);

#endif
