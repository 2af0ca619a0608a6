/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses how much of a thread's stack its samples copy, from the use of recent walks. Does no I/O.
 *
 * A complete walk of a thread always ends at the same address, the end of the outermost frame. If that address is
 * known, samples copy the stack up to it, however deep it is. For some threads it is unknown: they switch stacks, as
 * coroutines do, or their walks do not reach it. Such a thread gets one of the sizes 4, 8, 16, 32 and 64 KiB. It gets
 * the largest as soon as one was too small, and a smaller one after a number of consecutive samples that would have
 * fit. That number doubles each time the smaller size proves too small. A thread for which 64 KiB was too little may
 * get 124 KiB afterwards. If there are too many threads, the oldest ones are forgotten and start over.
 */
#ifndef XPROF_UNWIND_STACK_SIZES_H
#define XPROF_UNWIND_STACK_SIZES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "xprof/event.h"

struct xp_stack_sizes;

/* A finished walk. */
struct xp_stack_walk {
	uint64_t sp;
	uint32_t copied_bytes; /* size of the copy, which starts at sp */
	uint32_t used_bytes;
	bool has_end; /* the copy reached the start of the stack, or struct xp_stack_size.top */
	bool is_complete;
	bool is_truncated; /* the walk ended at the end of the copy */
};

/* Returns 0 or -ENOMEM. */
int xp_stack_sizes_new(struct xp_stack_sizes **sizes);
void xp_stack_sizes_free(struct xp_stack_sizes *sizes);

/* Learns from a walk. Returns whether the thread's size changed; *size is the new size. */
bool xp_stack_sizes_learn(struct xp_stack_sizes *sizes, pid_t tid, const struct xp_stack_walk *walk,
			  struct xp_stack_size *size);

#endif
