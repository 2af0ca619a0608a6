/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System-wide mappings, names, forks and exits, from perf's side-band: one dummy event per CPU (PERF_COUNT_SW_DUMMY)
 * whose mmap'ed buffer is polled. Converts times from CLOCK_MONOTONIC to TSC. Record layouts: linux/perf_event.h, enum
 * perf_event_type.
 */
#ifndef XPROF_KERNEL_SIDEBAND_H
#define XPROF_KERNEL_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

enum xp_sideband_kind {
	XP_SIDEBAND_MMAP, /* an executable mapping was made */
	XP_SIDEBAND_COMM, /* a thread has a new name */
	XP_SIDEBAND_EXEC, /* the same, because its process executed a new program */
	XP_SIDEBAND_FORK, /* a process (tid == pid) or a thread was created */
	XP_SIDEBAND_EXIT,
	XP_SIDEBAND_SYMBOL, /* the kernel added or removed code */
	XP_SIDEBAND_BPF,    /* a BPF program was loaded or unloaded */
};

struct xp_sideband_event {
	uint64_t tsc;
	uint64_t sequence; /* order of reading, which orders events with equal times */
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
	char *text; /* MMAP: the path; COMM, EXEC, SYMBOL: the name */
	/* SYMBOL: start and length, too; the fields are those of the records KSYMBOL and BPF_EVENT. */
	uint16_t type;
	uint16_t flags;
	uint32_t id;
	uint8_t tag[8];
};

struct xp_sideband;

/* buffer_pages: pages per CPU, a power of two. Returns 0 or -errno as for perf_event_open(2). */
int xp_sideband_open(struct xp_sideband **sideband, unsigned int buffer_pages);
void xp_sideband_free(struct xp_sideband *sideband);
/*
 * Adds CPUs that came online since the last call: call it about once a second. Events of these CPUs before the call
 * count as lost. Returns 0 or -errno.
 */
int xp_sideband_add_cpus(struct xp_sideband *sideband);

/*
 * Reads the events from the buffers. Returns 0 or -errno, for example -ENOMEM. If the kernel ran out of space,
 * xp_sideband_lost() increases.
 */
int xp_sideband_read(struct xp_sideband *sideband, const struct xp_clock *clock);
/* Returns the oldest event read so far if it is older than tsc, or NULL. The event is valid until the next call. */
const struct xp_sideband_event *xp_sideband_next(struct xp_sideband *sideband, uint64_t tsc);
uint64_t xp_sideband_lost(const struct xp_sideband *sideband);

#endif
