/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the user stacks of threads that were already waiting when the recording started. A BPF program can read a user
 * stack only in its own thread, and a waiting thread may never run again. So a thread of xprof reads these stacks
 * through target/memory.h, which can wait for a hostile target.
 *
 * A stack is valid if it was read before its thread ran again. The record of the end of the wait contains that time.
 * The memory for stacks is bounded and divided between the threads.
 */
#ifndef XPROF_SAMPLE_FIRST_STACKS_H
#define XPROF_SAMPLE_FIRST_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "xprof/event.h"

/* Maximum number of stacks. The waits of further threads have no stack. */
#define XP_FIRST_STACKS_MAX 16384u
#define XP_FIRST_STACKS_BYTES_MAX (8u << 20)

struct xp_first_stacks;

/* The start of a wait. */
struct xp_wait_begin {
	size_t size;
	struct xp_event_sample record; /* size bytes in all */
};

/* Creates an empty list. Returns 0 or -ENOMEM. */
int xp_first_stacks_new(struct xp_first_stacks **stacks, enum xp_sample_stacks kind);
/* Frees the list. Waits for the current read to end, at most as long as target/memory.h waits. stacks may be NULL. */
void xp_first_stacks_free(struct xp_first_stacks *stacks);

/* Adds a stack to be read. begin: as passed by xp_wait_programs_scan(). Returns 0 or -ENOMEM. */
int xp_first_stacks_add(struct xp_first_stacks *stacks, const struct xp_event_sample *begin);
/* Starts to read the added stacks, in a thread. */
void xp_first_stacks_read(struct xp_first_stacks *stacks);
/*
 * Returns the start record of a wait that started at `began`, if its stack was read before the wait was over. The
 * caller frees the record. Returns NULL if there is none, and discards any record of this thread. stacks may be NULL.
 */
struct xp_wait_begin *xp_first_stacks_take(struct xp_first_stacks *stacks, uint32_t tid, uint64_t began,
					   uint64_t over_ns);

#endif
