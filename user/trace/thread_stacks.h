/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stacks of a thread: coroutines, fibers and signal handlers may run on a stack of their own. A call on one stack
 * returns while calls on another stack are still open, and a log of both would not be nested. So each further stack is
 * a struct xp_thread of its own, with a thread ID that no task has, and a log of its own.
 *
 * A record has only the slot of its call, so the slot says which stack this is. A stack extends from the innermost open
 * call to the outermost one. A call is on a stack if its slot is between these, or a little below (XP_STACK_NEAR). A
 * function with large variables calls farther below: on the stack of a thread, which has a guard page below it and no
 * other stack in its mapping, any distance is near. Elsewhere, for example in memory of malloc(), a call that is not
 * near any stack begins another one. If that was not true, the call has no caller in the log, but all counts are right.
 * If there are many stacks, one without open calls is used again for the next stack.
 */
#ifndef XPROF_TRACE_THREAD_STACKS_H
#define XPROF_TRACE_THREAD_STACKS_H

#include "trace/thread.h"

/* Thread IDs of further stacks, from here on: above those of tasks (PID_MAX_LIMIT in include/linux/threads.h). */
#define XP_STACK_TID (1 << 22)
/* Limit on the further stacks of a process: 1 KiB of chunk, and as much else, for each. */
#define XP_STACKS_MAX 16384u

/* A stack, in the order of their outermost calls. */
struct xp_stack_place {
	uint32_t base; /* slot of that call */
	struct xp_thread *stack;
};

/* Chooses the stack of this call, which is thread->now from then on. thread: the first stack. */
void xp_stacks_choose(struct xp_thread *thread, const struct xp_call *call);
/* Removes a further stack, before it is freed. */
void xp_stacks_remove(struct xp_thread *stack);

/* Finds the mapping of a slot in the text of /proc/PID/maps. Returns 0, or -ENOENT: the process may have ended. */
int xp_stack_range_find(char *maps_text, uint32_t slot, struct xp_stack_range *range);

#endif
