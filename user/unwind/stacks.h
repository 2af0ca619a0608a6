/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * User stacks: walks snapshots (unwind.h), gets the tables that this takes, made from the files of the processes while
 * those live (cfi_tables.h), and chooses how much of each thread's stack is copied.
 */
#ifndef XPROF_STACKS_H
#define XPROF_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/unwind.h"
#include "xprof/event.h"

struct xp_stacks_options {
	bool by_frame_pointer; /* code without tables */
	/* So much of this thread's stack is to be copied from now on. Errors are not heard of. */
	void (*set_size)(void *arg, pid_t tid, const struct xp_stack_size *size);
	void *arg;
};

struct xp_stacks;

/* Starts the process that makes tables. -ENOMEM and those of making a process. */
int xp_stacks_new(struct xp_stacks **stacks, const struct xp_stacks_options *options);
void xp_stacks_free(struct xp_stacks *stacks);

/*
 * As xp_unwind(), of a thread of process pid. When a table is missing it is asked for, as are those that this stack
 * will probably need. -ENOMEM.
 */
int xp_stacks_unwind(struct xp_stacks *stacks, pid_t pid, const struct xp_space *space,
		     const struct xp_unwind_thread *thread, bool has_time, struct xp_profile_frame *frames,
		     struct xp_unwind_result *result);

/* Whether the table for this place in a file is still being made, or cannot be asked for yet for this process. */
bool xp_stacks_pending(struct xp_stacks *stacks, pid_t pid, const struct xp_file *file, uint64_t offset);
/* Takes the tables that were made since. Returns their number, or a negative errno. Never blocks. */
int xp_stacks_collect(struct xp_stacks *stacks);
/* Waits for some, so long at most. */
void xp_stacks_wait(struct xp_stacks *stacks, unsigned int timeout_ms);

#endif
