/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses how much of a thread's stack its samples copy, according to recent walks. Makes no system calls.
 *
 * A complete walk of a thread always ends at the same address, the end of the outermost frame. If this address is
 * known, samples copy the stack up to the address, however deep the stack is. The address is unknown for threads that
 * switch stacks, as coroutines do, and for threads whose walks do not reach it. Such a thread gets one of the sizes 4,
 * 8, 16, 32 and 64 KiB. If a size was too small, the thread gets 64 KiB immediately. After a number of consecutive
 * samples that would fit in a smaller size, it gets that size. This number doubles each time the smaller size proves
 * too small. After 64 KiB was too small, a thread may get 124 KiB. If there are too many threads, the sizes of the
 * oldest ones are discarded.
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

/* Updates the size of a thread after a walk. Returns whether the size changed; *size is the new size. */
bool xp_stack_sizes_learn(struct xp_stack_sizes *sizes, pid_t tid, const struct xp_stack_walk *walk,
			  struct xp_stack_size *size);

#endif
