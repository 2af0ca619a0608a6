/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a running process, read in large pieces for many small looks at rising addresses. */
#ifndef XPROF_MEMORY_WINDOW_H
#define XPROF_MEMORY_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_memory_window;

/* -ESRCH gone, -EACCES not allowed, -ENOMEM. The caller frees. */
int xp_memory_window_open(struct xp_memory_window **window, pid_t pid);
void xp_memory_window_free(struct xp_memory_window *window);
/* Copies size bytes, a sled's at most; false when they cannot be read. */
bool xp_memory_window_read(struct xp_memory_window *window, void *to, uint64_t address, size_t size);
/*
 * Whether the process has ended or executed another program since the window was opened: what could not be read says
 * nothing then. (A process that shares its memory, as by vfork(), keeps that alive.)
 */
bool xp_memory_window_gone(const struct xp_memory_window *window);

#endif
