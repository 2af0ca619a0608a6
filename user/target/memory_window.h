/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A window on one mapping of a running process. It reads large pieces, so that many small accesses at ascending
 * addresses are cheap.
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
 * Selects a mapping: later reads outside [start, end) fail. Other mappings may be on any file, and reading them could
 * block forever.
 */
void xp_memory_window_set(struct xp_memory_window *window, uint64_t start, uint64_t end);
/* Copies size bytes, at most the size of a sled. Returns false if they cannot be read in time. */
bool xp_memory_window_read(struct xp_memory_window *window, void *to, uint64_t address, size_t size);
/*
 * Returns true if the process has ended or executed another program since the window was opened: ignore failed reads
 * then. If another process shares the memory, as after vfork(), the memory still exists.
 */
bool xp_memory_window_gone(const struct xp_memory_window *window);

#endif
