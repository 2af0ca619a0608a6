/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stacks of a thread: coroutines, fibers and signal handlers may have their own stack. A call on one stack may
 * return while calls on another stack are open, so one log for both would not be nested. So each further stack is a
 * struct xp_thread of its own, with a thread ID that no task has, and its own log.
 *
 * The only hint is the slot of a call. A stack extends from the innermost open call to the outermost one. A call is on
 * a stack if its slot is in this range, or slightly below (XP_STACK_NEAR). A function with large variables calls
 * farther below: on the stack of a thread, which has a guard page below it and no other stack in its mapping, any
 * distance is near. Elsewhere, such as in memory of malloc(), a call that is not near any stack starts a new stack. If
 * that is wrong, the call has no caller in the log, but all counts are correct.
 *
 * If there are many stacks, a stack without open calls is reused.
 */
#ifndef XPROF_TRACE_THREAD_STACKS_H
#define XPROF_TRACE_THREAD_STACKS_H

#include "trace/thread.h"

/* First thread ID of further stacks, above those of tasks (PID_MAX_LIMIT in include/linux/threads.h). */
#define XP_STACK_TID (1 << 22)
/* Limit on the further stacks of a process: each needs a chunk of 1 KiB, and another 1 KiB. */
#define XP_STACKS_MAX 16384u

/* A stack, sorted by the slots of the outermost calls. */
struct xp_stack_place {
	uint32_t base; /* slot of the outermost call */
	struct xp_thread *stack;
};

/* Sets thread->now to the stack of this call. thread: the first stack. */
void xp_stacks_choose(struct xp_thread *thread, const struct xp_call *call);
/* Removes a further stack; call it before freeing the stack. */
void xp_stacks_remove(struct xp_thread *stack);

/* Finds the mapping of a slot in the text of /proc/PID/maps. Returns 0, or -ENOENT: the process may have exited. */
int xp_stack_range_find(char *maps_text, uint32_t slot, struct xp_stack_range *range);

#endif
