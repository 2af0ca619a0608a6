/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unwinds user stacks from stack dumps (unwind.h). Requests the unwind tables of the files of running processes
 * (cfi_tables.h), and chooses how much of each thread's stack is copied.
 */
#ifndef XPROF_UNWIND_STACKS_H
#define XPROF_UNWIND_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/unwind.h"
#include "xprof/event.h"

struct xp_stacks_options {
	bool by_frame_pointer; /* for code without tables */
	/* Called when the thread's samples should copy a different size. Errors are not reported. */
	void (*set_size)(void *arg, pid_t tid, const struct xp_stack_size *size);
	void *arg;
};

struct xp_stacks;

/* Starts the process that makes tables. Returns 0, -ENOMEM, or an error of starting a process. */
int xp_stacks_new(struct xp_stacks **stacks, const struct xp_stacks_options *options);
void xp_stacks_free(struct xp_stacks *stacks);

/* Call this in a child process after fork(2), see xp_cfi_tables_forked(). */
void xp_stacks_forked(struct xp_stacks *stacks);

/*
 * Like xp_unwind(). Requests missing tables. Holds the files open whose tables this stack may need next, because the
 * process may exit meanwhile. The caller provides the unwinding data of code without a file. Returns 0 or -ENOMEM.
 */
int xp_stacks_unwind(struct xp_stacks *stacks, const struct xp_address_space *space,
		     const struct xp_unwind_thread *thread, bool has_time, struct xp_frame *frames,
		     struct xp_unwind_result *result);

/* Returns whether the table for this offset of a file is still being made, or cannot be requested yet. */
bool xp_stacks_pending(struct xp_stacks *stacks, const struct xp_file *file, uint64_t offset);
/* Stores finished tables. Returns their number, or -errno. Never blocks. */
int xp_stacks_collect(struct xp_stacks *stacks);
/* Maximum time that a file is held open. */
#define XP_STACKS_HELD_NS 2000000000ull
/* Closes all files that are held open. Call this when no sample waits. */
void xp_stacks_release(struct xp_stacks *stacks);
/* Waits until tables are finished, at most timeout_ms. */
void xp_stacks_wait(struct xp_stacks *stacks, unsigned int timeout_ms);

#endif
