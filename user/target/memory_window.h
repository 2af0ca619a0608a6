/* SPDX-License-Identifier: BSD-2-Clause */
/* One mapping of a running process after the other, read in large pieces for many small looks at rising addresses. */
#ifndef XPROF_MEMORY_WINDOW_H
#define XPROF_MEMORY_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_memory_window;

/* Reads nothing yet. -ESRCH gone, -EACCES not allowed, -ENOMEM. The caller frees. */
int xp_memory_window_open(struct xp_memory_window **window, pid_t pid);
void xp_memory_window_free(struct xp_memory_window *window);
/*
 * The mapping that is meant: nothing outside [start, end) is read from now on. What lies beside it may be anybody's,
 * and hang who reads it.
 */
void xp_memory_window_set(struct xp_memory_window *window, uint64_t start, uint64_t end);
/* Copies size bytes, a sled's at most; false when they cannot be read, or not in time. */
bool xp_memory_window_read(struct xp_memory_window *window, void *to, uint64_t address, size_t size);
/*
 * Whether the process has ended or executed another program since the window was opened: what could not be read says
 * nothing then. (A process that shares its memory, as by vfork(), keeps that alive.)
 */
bool xp_memory_window_gone(const struct xp_memory_window *window);

#endif
