// SPDX-License-Identifier: BSD-2-Clause
#include "trace/thread_stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "trace/thread_run.h"

/* Above this number, stacks without open calls are reused. */
#define STACKS_MANY 64
#define HAND_STEPS 16 /* maximum number of steps per call */
/* Cost of moving a place, in visited frames. */
#define PLACES_PER_FRAME 64
/* A thread's stack is not larger, except that of the main thread: the usual size limit (ulimit -s). */
#define STACK_BYTES_MAX (8ull << 20)
#define GUARD_BYTES_MAX (64ull << 10)

int xp_stack_range_find(char *maps_text, uint32_t slot, struct xp_stack_range *range)
{
	uint64_t guard_end = 0, start, end;
	char *rest = maps_text, *line;
	char access[5], name[16];

	while ((line = strsep(&rest, "\n"))) {
		int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %15s", &start, &end, access, name);
		uint32_t first = (uint32_t)(start >> 3), count = (uint32_t)((end - start) >> 3);
		bool is_main = fields == 4 && !strcmp(name, "[stack]");

		if (fields < 3)
			continue;
		if (slot - first < count && access[1] == 'w') {
			*range = (struct xp_stack_range){ first, count, is_main };
			/* Other memory may follow the stack of a thread directly. */
			if (guard_end == start && end - start <= STACK_BYTES_MAX && !is_main)
				*range = (struct xp_stack_range){ first, slot - first + 1, true };
			return 0;
		}
		/* malloc() reserves larger memory per thread. */
		if (!strncmp(access, "---", 3) && end - start <= GUARD_BYTES_MAX)
			guard_end = end;
	}
	return -ENOENT;
}

/* Returns the first place with a base at or above the slot. */
static size_t find_place(const struct xp_stacks *stacks, uint32_t slot)
{
	size_t low = 0, high = stacks->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (stacks->places[middle].base < slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t place_of(const struct xp_stacks *stacks, const struct xp_thread *stack)
{
	size_t i = find_place(stacks, xp_stack_base(stack));

	while (i < stacks->count && stacks->places[i].stack != stack)
		i++;
	return i;
}

static void move_places(struct xp_thread *thread, size_t to, size_t from, size_t count)
{
	struct xp_stack_place *places = thread->stacks.places;

	memmove(places + to, places + from, count * sizeof(*places));
	thread->search.frames += count / PLACES_PER_FRAME;
}

static void remove_place(struct xp_thread *thread, const struct xp_thread *stack)
{
	struct xp_stacks *stacks = &thread->stacks;
	size_t i = place_of(stacks, stack);

	if (i == stacks->count)
		return;
	move_places(thread, i, i + 1, stacks->count - i - 1);
	stacks->count--;
}

/* The caller has made space for it. */
static void add_place(struct xp_thread *thread, struct xp_thread *stack, uint32_t base)
{
	struct xp_stacks *stacks = &thread->stacks;
	size_t i = find_place(stacks, base);

	move_places(thread, i + 1, i, stacks->count - i);
	stacks->places[i] = (struct xp_stack_place){ base, stack };
	stacks->count++;
}

/* Starts the stack again at this slot: its outermost call will be there. */
static void rebase(struct xp_thread *thread, struct xp_thread *stack, uint32_t base)
{
	struct xp_stacks *stacks = &thread->stacks;
	size_t i = place_of(stacks, stack);

	if (!stacks->count || xp_stack_base(stack) == base)
		return;
	if (i < stacks->count && (!i || stacks->places[i - 1].base <= base) &&
	    (i + 1 == stacks->count || stacks->places[i + 1].base >= base)) {
		stacks->places[i].base = base;
	} else {
		remove_place(thread, stack);
		add_place(thread, stack, base);
	}
	stack->frames[0].slot = base;
}

/* Returns whether another stack has its outermost call in the mapping, which then contains several stacks. */
static bool is_shared(const struct xp_thread *thread, const struct xp_thread *stack)
{
	const struct xp_stack_range *range = &stack->range;
	const struct xp_stacks *stacks = &thread->stacks;

	for (size_t i = find_place(stacks, range->first);
	     i < stacks->count && stacks->places[i].base - range->first < range->count; i++)
		if (stacks->places[i].stack != stack && stacks->places[i].stack->depth)
			return true;
	return false;
}

/* Returns whether a slot that is not near the open calls of a stack is on this stack. */
static bool is_in_range(struct xp_thread *thread, struct xp_thread *stack, uint32_t slot)
{
	const struct xp_thread_options *options = thread->options;
	uint32_t top = stack->frames[stack->depth - 1].slot;

	/* A thread without open calls may continue on another stack. */
	if (top - stack->range.first >= stack->range.count && options->stack_range(options->arg, top, &stack->range))
		stack->range = stack == thread && !thread->stacks.count
				   ? (struct xp_stack_range){ top - XP_STACK_SLOTS, XP_STACK_SLOTS + 1, true }
				   : (struct xp_stack_range){ 0 };
	return stack->range.is_stack && slot - stack->range.first < stack->range.count && !is_shared(thread, stack);
}

static bool has_entry(struct xp_thread *thread, struct xp_thread *stack, uint32_t slot)
{
	uint32_t base = xp_stack_base(stack), top;

	if (!stack->depth)
		return slot - base + XP_STACK_NEAR <= 2 * XP_STACK_NEAR;
	top = stack->frames[stack->depth - 1].slot;
	if (slot - top <= base - top || slot - base <= XP_STACK_NEAR || top - slot <= XP_STACK_NEAR)
		return true;
	return is_in_range(thread, stack, slot);
}

/* Returns the first stack with open calls whose outermost call is at or above the slot. */
static struct xp_thread *find_open(const struct xp_stacks *stacks, uint32_t slot)
{
	size_t first = find_place(stacks, slot);

	for (size_t i = first; i < stacks->count && i - first < HAND_STEPS; i++)
		if (stacks->places[i].stack->depth)
			return stacks->places[i].stack;
	return NULL;
}

/* Returns the stack on which a call begins; NULL: unknown. */
static struct xp_thread *find_entered(struct xp_thread *thread, uint32_t slot)
{
	const struct xp_stacks *stacks = &thread->stacks;
	size_t i = find_place(stacks, slot);
	struct xp_thread *open = find_open(stacks, slot);

	if (!stacks->count)
		return xp_stack_may_begin(thread, slot) || has_entry(thread, thread, slot) ? thread : NULL;
	if (open && has_entry(thread, open, slot))
		return open;
	if (i < stacks->count && has_entry(thread, stacks->places[i].stack, slot))
		return stacks->places[i].stack;
	if (i && has_entry(thread, stacks->places[i - 1].stack, slot))
		return stacks->places[i - 1].stack;
	return xp_stack_may_begin(thread, slot) ? thread : NULL;
}

/* Returns the stack from which a call returns; NULL: unknown. */
static struct xp_thread *find_left(struct xp_thread *thread, uint32_t slot)
{
	struct xp_thread *stack = find_open(&thread->stacks, slot);

	return stack && slot - stack->frames[stack->depth - 1].slot <= XP_STACK_SLOTS ? stack : NULL;
}

/* Returns a further stack without open calls; NULL: none was found. */
static struct xp_thread *find_unused(struct xp_thread *thread)
{
	struct xp_stacks *stacks = &thread->stacks;

	for (size_t i = 0; i < HAND_STEPS && i < stacks->count; i++) {
		struct xp_thread *stack = stacks->places[stacks->hand++ % stacks->count].stack;

		if (!stack->depth && stack != thread)
			return stack;
	}
	return NULL;
}

static struct xp_thread *add_stack(struct xp_thread *thread, uint32_t slot)
{
	struct xp_stacks *stacks = &thread->stacks;
	struct xp_thread *stack;

	if (XP_ARRAY_RESERVE(stacks->places, stacks->room, stacks->count + 2))
		return NULL;
	stack = thread->options->new_stack(thread->options->arg, thread);
	if (!stack)
		return NULL;
	if (!stacks->count)
		add_place(thread, thread, xp_stack_base(thread));
	stack->frames[0].slot = slot;
	add_place(thread, stack, slot);
	return stack;
}

static struct xp_thread *begin_stack(struct xp_thread *thread, uint32_t slot)
{
	struct xp_thread *stack = thread->stacks.count >= STACKS_MANY ? find_unused(thread) : NULL;

	if (!stack)
		return add_stack(thread, slot);
	rebase(thread, stack, slot);
	return stack;
}

void xp_stacks_choose(struct xp_thread *thread, const struct xp_call *call)
{
	struct xp_thread *now = thread->now, *stack;

	if (!thread->frames) /* its first call */
		return;
	if (xp_call_is_entry(call))
		stack = find_entered(thread, call->slot) ?: begin_stack(thread, call->slot);
	else
		stack = call->event ? NULL : find_left(thread, call->slot);
	if (!stack)
		return;
	if (!stack->depth && xp_call_is_entry(call))
		rebase(thread, stack, call->slot);
	if (stack == now)
		return;
	/* Only the running stack has a large chunk. */
	if (now != thread && now->enc.cap > XP_STACK_CHUNK_BYTES)
		xp_thread_flush(now);
	thread->now = stack;
}

void xp_stacks_remove(struct xp_thread *stack)
{
	struct xp_thread *thread = stack->first;

	remove_place(thread, stack);
	thread->stacks.frames -= stack->room;
	if (thread->now == stack)
		thread->now = thread;
}
