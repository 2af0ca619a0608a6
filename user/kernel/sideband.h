/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens to all processes of the machine, from perf's side-band: mappings, names, forks, exits. One dummy event
 * per CPU (PERF_COUNT_SW_DUMMY), read from its mmap'ed buffer by polling. Times are CLOCK_MONOTONIC, converted to TSC.
 * Record layouts: linux/perf_event.h, enum perf_event_type.
 */
#ifndef XPROF_SIDEBAND_H
#define XPROF_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

enum xp_sideband_kind {
	XP_SIDEBAND_MMAP, /* something executable was mapped */
	XP_SIDEBAND_COMM, /* a thread has a new name */
	XP_SIDEBAND_EXEC, /* ... because its process runs a new program */
	XP_SIDEBAND_FORK, /* a process (tid == pid) or thread was made */
	XP_SIDEBAND_EXIT,
};

struct xp_sideband_event {
	uint64_t tsc;
	uint64_t sequence; /* in which they were read: the order of those with the same time */
	enum xp_sideband_kind kind;
	pid_t pid;
	pid_t tid;
	pid_t ppid; /* FORK */
	/* MMAP */
	uint64_t start;
	uint64_t length;
	uint64_t file_offset;
	uint64_t dev; /* makedev() */
	uint64_t inode;
	uint64_t generation;
	char *text; /* MMAP: the path; COMM, EXEC: the name */
};

struct xp_sideband;

/* buffer_pages: of each CPU, a power of two. Errors as of perf_event_open(2). */
int xp_sideband_open(struct xp_sideband **sideband, unsigned int buffer_pages);
void xp_sideband_free(struct xp_sideband *sideband);
/* To be called now and then, for CPUs that came online since; what they did before that counts as lost. -errno. */
int xp_sideband_add_cpus(struct xp_sideband *sideband);

/*
 * Takes what is in the buffers. -ENOMEM. xp_sideband_lost() goes up when the kernel had no room.
 */
int xp_sideband_read(struct xp_sideband *sideband, const struct xp_clock *clock);
/* The oldest event that was read, if it is older than tsc; it is valid until the next call. NULL: none. */
const struct xp_sideband_event *xp_sideband_next(struct xp_sideband *sideband, uint64_t tsc);
uint64_t xp_sideband_lost(const struct xp_sideband *sideband);

#endif
