/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of a thread's stack its samples are to copy, from what the walks of the last ones used. Pure.
 *
 * A whole walk ends at the same address each time, the outermost frame's: from then on what is below that is copied,
 * however deep the thread goes. A thread whose stack has no such end (it changes stacks, as coroutines do) or whose
 * walks do not get there has one of the sizes 4, 8, 16, 32 and 64 KiB: the largest as soon as one was too small, and
 * less again when a number of samples in a row did with it; that number doubles each time that it proves too small. A
 * thread for which 64 KiB were too little may get 124 from then on. Of too many threads the oldest are forgotten, and
 * begin anew.
 */
#ifndef XPROF_STACK_SIZES_H
#define XPROF_STACK_SIZES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "xprof/event.h"

struct xp_stack_sizes;

/* A walk that is over. */
struct xp_stack_walk {
	uint64_t sp;
	uint32_t copied_bytes; /* from sp on, and so much of it was used */
	uint32_t used_bytes;
	bool has_end;	     /* the copy went up to the start of the stack, or to struct xp_stack_size.top */
	bool is_complete;
	bool is_truncated; /* it was ended by the end of the copy */
};

/* -ENOMEM. */
int xp_stack_sizes_new(struct xp_stack_sizes **sizes);
void xp_stack_sizes_free(struct xp_stack_sizes *sizes);

/* Whether the thread's size is another from now on: *size. */
bool xp_stack_sizes_learn(struct xp_stack_sizes *sizes, pid_t tid, const struct xp_stack_walk *walk,
			  struct xp_stack_size *size);

#endif
