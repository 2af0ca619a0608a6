/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The user stacks of threads that began to wait before the recording. BPF can read a user stack only in its own thread,
 * which may never run again. So a thread of xprof reads these stacks, through target/memory.h, which can wait for a
 * hostile target. A stack is used if it was read before the thread ran again; the record of the end of the wait has
 * that time. Memory is bounded, and divided between threads if there are many.
 */
#ifndef XPROF_SAMPLE_FIRST_STACKS_H
#define XPROF_SAMPLE_FIRST_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "xprof/event.h"

/* Beyond, the waits of further threads have no stack. */
#define XP_FIRST_STACKS_MAX 16384u
#define XP_FIRST_STACKS_BYTES_MAX (8u << 20)

struct xp_first_stacks;

/* The begin of a wait. */
struct xp_wait_begin {
	size_t size;
	struct xp_event_sample record; /* size bytes in all */
};

/* Returns 0 or -ENOMEM. */
int xp_first_stacks_new(struct xp_first_stacks **stacks, enum xp_sample_stacks kind);
/* Waits for a read that is under way, as long as target/memory.h has patience. NULL: nothing. */
void xp_first_stacks_free(struct xp_first_stacks *stacks);

/* begin: as xp_wait_programs_scan() gives it. Returns 0 or -ENOMEM. */
int xp_first_stacks_add(struct xp_first_stacks *stacks, const struct xp_event_sample *begin);
/* Begins to read those that were added. */
void xp_first_stacks_read(struct xp_first_stacks *stacks);
/*
 * Takes the begin of a wait that began at this time, if its stack was read before it was over. The caller frees it.
 * Returns NULL if there is none, and then or later has none of this thread. stacks may be NULL.
 */
struct xp_wait_begin *xp_first_stacks_take(struct xp_first_stacks *stacks, uint32_t tid, uint64_t began,
					   uint64_t over_ns);

#endif
