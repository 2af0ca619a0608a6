/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that a waiting sample may need, held open: its process may have ended when it is known which ones it does need.
 * An open file keeps its file system mounted, so it is held only for a short time.
 */
#ifndef XPROF_UNWIND_HELD_FILES_H
#define XPROF_UNWIND_HELD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_HELD_FILES_MAX 64
#define XP_HELD_FILES_NS 2000000000ull

struct xp_held_file {
	size_t index; /* struct xp_file.index */
	int fd;
	uint64_t since_ns;
};

/* Empty if zeroed. */
struct xp_held_files {
	struct xp_held_file all[XP_HELD_FILES_MAX]; /* the oldest first */
	size_t count;
};

bool xp_held_files_has(const struct xp_held_files *held, size_t index);
/* Takes ownership of fd. If there are too many, the oldest one is closed. now_ns: CLOCK_MONOTONIC. */
void xp_held_files_add(struct xp_held_files *held, size_t index, int fd, uint64_t now_ns);
/* Returns the descriptor, which the caller then owns, or -1. */
int xp_held_files_take(struct xp_held_files *held, size_t index);
/* Closes those that are older than XP_HELD_FILES_NS. */
void xp_held_files_expire(struct xp_held_files *held, uint64_t now_ns);
void xp_held_files_close(struct xp_held_files *held);

#endif
