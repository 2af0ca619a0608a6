/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A window on one mapping of a running process at a time: reads large pieces for many small accesses at rising
 * addresses.
 */
#ifndef XPROF_TARGET_MEMORY_WINDOW_H
#define XPROF_TARGET_MEMORY_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_memory_window;

/*
 * Opens a window without reading. Returns 0 or -errno: -ESRCH if the process has ended, -EACCES if not allowed,
 * -ENOMEM. The caller frees it.
 */
int xp_memory_window_open(struct xp_memory_window **window, pid_t pid);
void xp_memory_window_free(struct xp_memory_window *window);
/*
 * Selects a mapping: nothing outside [start, end) is read from now on. A neighbouring mapping may belong to anything
 * and hang its reader.
 */
void xp_memory_window_set(struct xp_memory_window *window, uint64_t start, uint64_t end);
/* Copies size bytes, at most a sled's. Returns false if they cannot be read, or not in time. */
bool xp_memory_window_read(struct xp_memory_window *window, void *to, uint64_t address, size_t size);
/*
 * True if the process has ended or executed another program since the window was opened: a failed read means nothing
 * then. (A process that shares its memory, as by vfork(), keeps it alive.)
 */
bool xp_memory_window_gone(const struct xp_memory_window *window);

#endif
