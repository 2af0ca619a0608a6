/* SPDX-License-Identifier: BSD-2-Clause */
#include "stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "stack_sizes.h"
#include "util.h"

struct xp_stacks {
	struct xp_stacks_options options;
	struct xp_unwinder *unwinder;
	struct xp_stack_sizes *sizes;
};

/* None has tables yet. */
static int table_of(void *arg, const struct xp_file *file, const struct xp_cfi_table **table)
{
	(void)arg;
	(void)file;
	*table = NULL;
	return 0;
}

int xp_stacks_new(struct xp_stacks **result, const struct xp_stacks_options *options)
{
	struct xp_stacks *stacks = calloc(1, sizeof(*stacks));
	int err;

	if (!stacks)
		return -ENOMEM;
	stacks->options = *options;
	err = xp_unwinder_new(&stacks->unwinder, table_of, stacks, options->by_frame_pointer);
	if (!err)
		err = xp_stack_sizes_new(&stacks->sizes);
	if (err) {
		xp_stacks_free(stacks);
		return err;
	}
	*result = stacks;
	return 0;
}

void xp_stacks_free(struct xp_stacks *stacks)
{
	if (!stacks)
		return;
	xp_stack_sizes_free(stacks->sizes);
	xp_unwinder_free(stacks->unwinder);
	free(stacks);
}

bool xp_stacks_pending(struct xp_stacks *stacks, const struct xp_file *file)
{
	(void)stacks;
	(void)file;
	return false;
}

int xp_stacks_unwind(struct xp_stacks *stacks, pid_t pid, pid_t tid, const struct xp_space *space,
		     const struct xp_unwind_thread *thread, bool has_time, struct xp_profile_frame *frames,
		     struct xp_unwind_result *result)
{
	struct xp_stack_size size;
	struct xp_stack_walk walk;

	(void)pid;

	xp_unwind(stacks->unwinder, space, thread, has_time, frames, result);
	walk = (struct xp_stack_walk){
		.sp = thread->sp,
		.used_bytes = result->used_bytes,
		.has_end = thread->is_whole || thread->is_to_top,
		.is_complete = result->end == XP_UNWIND_COMPLETE,
		.is_truncated = result->end == XP_UNWIND_TRUNCATED,
	};
	if (xp_stack_sizes_learn(stacks->sizes, tid, &walk, &size))
		stacks->options.set_size(stacks->options.arg, tid, &size);
	return 0;
}

int xp_stacks_collect(struct xp_stacks *stacks)
{
	(void)stacks;
	return 0;
}

void xp_stacks_wait(struct xp_stacks *stacks, unsigned int timeout_ms)
{
	(void)stacks;
	(void)timeout_ms;
}
