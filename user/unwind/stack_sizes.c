/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/stack_sizes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

#define THREADS 8192 /* slots for threads, a power of two */
#define SIZE_MIN 4096u
#define SAMPLES_MIN 32u
#define SAMPLES_MAX (1u << 15)
/* A thread with this many different stack ends probably switches stacks. */
#define TOPS_MAX 8

struct thread {
	pid_t tid; /* 0: unused */
	struct xp_stack_size size;
	uint32_t largest;    /* maximum of size.bytes */
	uint32_t tops;	     /* number of different stack ends */
	uint32_t most;	     /* maximum stack use of a sample in this run */
	uint32_t seen;	     /* samples in this run */
	uint32_t run_length; /* samples before the size may shrink */
};

/* Indexed by TID modulo THREADS: threads with the same index evict each other, at the cost of larger copies. */
struct xp_stack_sizes {
	struct thread threads[THREADS];
};

int xp_stack_sizes_new(struct xp_stack_sizes **sizes)
{
	*sizes = calloc(1, sizeof(**sizes));
	return *sizes ? 0 : -ENOMEM;
}

void xp_stack_sizes_free(struct xp_stack_sizes *sizes)
{
	free(sizes);
}

/* Returns a size with a quarter to spare, because the next sample may be a little deeper. */
static uint32_t size_for(uint32_t used_bytes)
{
	uint32_t size = SIZE_MIN;

	while (size < XP_STACK_BYTES_USUAL && size < used_bytes + used_bytes / 4)
		size *= 2;
	return size < used_bytes ? XP_STACK_BYTES_MAX : size;
}

static bool set_bytes(struct thread *thread, uint32_t bytes)
{
	bool is_new = bytes != thread->size.bytes;

	thread->size.bytes = bytes;
	thread->most = 0;
	thread->seen = 0;
	return is_new;
}

static bool set_top(struct thread *thread, uint64_t top)
{
	if (top == thread->size.top || thread->tops == TOPS_MAX)
		return false;
	thread->size.top = ++thread->tops < TOPS_MAX ? top : 0;
	set_bytes(thread, thread->largest);
	return true;
}

static bool learn_bytes(struct thread *thread, const struct xp_stack_walk *walk)
{
	uint32_t used_bytes = XP_MIN(walk->used_bytes, XP_STACK_BYTES_MAX);

	if (walk->is_truncated) {
		if (thread->size.bytes < thread->largest)
			thread->run_length = XP_MIN(2 * thread->run_length, SAMPLES_MAX);
		if (walk->copied_bytes >= XP_STACK_BYTES_USUAL)
			thread->largest = XP_STACK_BYTES_MAX;
		return set_bytes(thread, thread->largest);
	}
	thread->most = XP_MAX(thread->most, used_bytes);
	if (++thread->seen < thread->run_length)
		return false;
	return set_bytes(thread, XP_MIN(size_for(thread->most), thread->size.bytes));
}

bool xp_stack_sizes_learn(struct xp_stack_sizes *sizes, pid_t tid, const struct xp_stack_walk *walk,
			  struct xp_stack_size *size)
{
	struct thread *thread = &sizes->threads[(uint32_t)tid % THREADS];
	bool is_new;

	if (thread->tid != tid)
		*thread = (struct thread){ .tid = tid,
					   .size.bytes = XP_STACK_BYTES_USUAL,
					   .largest = XP_STACK_BYTES_USUAL,
					   .run_length = SAMPLES_MIN };
	if (walk->is_complete && walk->has_end)
		is_new = set_bytes(thread, thread->largest);
	else if (walk->is_complete && thread->tops < TOPS_MAX)
		is_new = set_top(thread, walk->sp + walk->used_bytes);
	else
		is_new = learn_bytes(thread, walk);
	*size = thread->size;
	return is_new;
}
