/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of a thread: the slot of a call shows which stack it is on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "trace/thread_run.h"
#include "trace/thread_stacks.h"

#define STACKS 16
#define HEAP 0x100000u /* slots */
#define APART 0x800u   /* stacks of 16 KiB, one after the other */
#define MAIN 0x40000000u

struct world {
	struct xp_thread_options options;
	struct xp_thread *thread;
	struct xp_thread *stacks[STACKS];
	unsigned int count;
	unsigned int limit;
	int found; /* result of stack_range() */
	struct xp_stack_range range;
	uint64_t tsc;
	uint64_t exits; /* synthesized */
};

static int sink(void *arg, struct xp_thread *thread)
{
	(void)arg;
	(void)thread;
	return 0;
}

static void synthesized(void *arg, uint32_t fn_id)
{
	(void)fn_id;
	((struct world *)arg)->exits++;
}

static struct xp_thread *new_stack(void *arg, struct xp_thread *first)
{
	struct world *world = arg;

	if (world->count == world->limit)
		return NULL;
	assert_int_equal(xp_thread_new_stack(&world->stacks[world->count], first, XP_STACK_TID + (int)world->count), 0);
	return world->stacks[world->count++];
}

static int stack_range(void *arg, uint32_t slot, struct xp_stack_range *range)
{
	(void)slot;
	*range = ((struct world *)arg)->range;
	return ((struct world *)arg)->found;
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	world->limit = STACKS;
	world->options = (struct xp_thread_options){ .sink = sink,
						     .arg = world,
						     .synthesized = synthesized,
						     .new_stack = new_stack,
						     .stack_range = stack_range };
	assert_int_equal(xp_thread_new(&world->thread, &world->options, 7), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	for (unsigned int i = 0; i < world->count; i++) {
		xp_stacks_remove(world->stacks[i]);
		xp_thread_free(world->stacks[i]);
	}
	assert_int_equal(world->thread->stacks.frames, 0);
	xp_thread_free(world->thread);
	free(world);
	return 0;
}

static void put(struct world *world, enum xp_event_kind kind, uint32_t fn, uint32_t slot)
{
	const struct xp_call call = { world->tsc += 10, xp_event_word(fn, kind), slot, .cpu = 0 };

	assert_int_equal(xp_thread_put(world->thread, &call), 0);
}

static void enter(struct world *world, uint32_t fn, uint32_t slot)
{
	put(world, XP_EVENT_ENTRY, fn, slot);
}

static void leave(struct world *world, uint32_t fn, uint32_t slot)
{
	put(world, XP_EVENT_EXIT, fn, slot);
}

static void assert_all_written(const struct world *world)
{
	struct xp_counts sum = world->thread->counts;

	for (unsigned int i = 0; i < world->count; i++)
		xp_counts_add(&sum, &world->stacks[i]->counts);
	assert_int_equal(sum.written, sum.seen);
	assert_int_equal(world->exits, 0);
}

/* The main stack resumes three fibers in varying order. Their stacks are adjacent. */
TEST_WITH(tells_stacks_of_a_heap_apart, setup, teardown)
{
	struct world *world = *state;

	enter(world, 1, MAIN);
	for (uint32_t i = 0; i < 3; i++) {
		enter(world, 2, HEAP + i * APART);
		enter(world, 3, HEAP + i * APART - 20);
	}
	for (uint32_t n = 0; n < 9; n++) {
		uint32_t base = HEAP + n * 2 % 3 * APART;

		enter(world, 4, MAIN - 30);
		leave(world, 3, base - 20);
		enter(world, 3, base - 40);
		enter(world, 3, base - 50);
		leave(world, 4, MAIN - 30);
		leave(world, 3, base - 50);
		leave(world, 3, base - 40);
		enter(world, 3, base - 20);
	}
	assert_int_equal(world->count, 3);
	assert_int_equal(world->thread->depth, 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(world->stacks[i]->depth, 2);
		leave(world, 3, HEAP + i * APART - 20);
		leave(world, 2, HEAP + i * APART);
	}
	leave(world, 1, MAIN);
	assert_all_written(world);
}

/* On a thread's stack, a call far below is on the same stack. A fiber may have its stack below that. */
TEST_WITH(calls_far_below_on_the_stack_of_a_thread, setup, teardown)
{
	struct world *world = *state;

	world->range = (struct xp_stack_range){ MAIN - 0x10000, 0x20000, true };
	enter(world, 1, MAIN);
	enter(world, 2, MAIN - 0xf000);
	assert_int_equal(world->thread->depth, 2);
	enter(world, 3, MAIN - 0x10100);
	assert_int_equal(world->count, 1);
	leave(world, 2, MAIN - 0xf000);
	leave(world, 3, MAIN - 0x10100);
	leave(world, 1, MAIN);
	assert_all_written(world);
}

/* If the mappings cannot be read, a call far below is on the same stack, as for a thread without fibers. */
TEST_WITH(keeps_one_stack_where_nothing_is_known, setup, teardown)
{
	struct world *world = *state;

	world->found = -ESRCH;
	enter(world, 1, MAIN);
	enter(world, 2, MAIN - 0xf000);
	leave(world, 2, MAIN - 0xf000);
	leave(world, 1, MAIN);
	assert_int_equal(world->count, 0);
	assert_all_written(world);
}

/*
 * A recording may start in a fiber: its stack counts as the thread's stack, and later, without open calls, another one
 * does.
 */
TEST_WITH(begins_in_a_fiber, setup, teardown)
{
	struct world *world = *state;

	world->range = (struct xp_stack_range){ HEAP - APART, APART + 1, true };
	enter(world, 1, HEAP);
	enter(world, 2, HEAP - 0x700);
	leave(world, 2, HEAP - 0x700);
	leave(world, 1, HEAP);
	world->range = (struct xp_stack_range){ HEAP + APART, APART + 1, true };
	enter(world, 1, HEAP + 2 * APART);
	enter(world, 2, HEAP);
	leave(world, 1, HEAP + 2 * APART);
	leave(world, 2, HEAP);
	assert_int_equal(world->count, 1);
	assert_all_written(world);
}

/* More fibers than stacks that xprof keeps: they share one, and each record is accounted for. */
TEST_WITH(is_bounded, setup, teardown)
{
	struct world *world = *state;
	struct xp_counts sum;

	world->limit = 2;
	enter(world, 1, MAIN);
	for (uint32_t i = 0; i < 8; i++)
		enter(world, 2, HEAP + i * APART);
	for (uint32_t i = 0; i < 8; i++)
		leave(world, 2, HEAP + i * APART);
	leave(world, 1, MAIN);
	sum = world->thread->counts;
	for (unsigned int i = 0; i < world->count; i++)
		xp_counts_add(&sum, &world->stacks[i]->counts);
	assert_int_equal(sum.seen, 18);
	assert_int_equal(sum.seen, sum.written + xp_counts_filtered(&sum));
	assert_int_equal(world->count, 2);
}

static const char maps[] = "00400000-00500000 rw-p 00000000 00:00 0                          [heap]\n"
			   "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
			   "7f0000001000-7f0000101000 rw-p 00000000 00:00 0 \n"
			   "7f0000200000-7f0000201000 ---p 00000000 00:00 0 \n"
			   "7f0000201000-7f0001201000 rw-p 00000000 00:00 0 \n"
			   "7f1000000000-7f1002000000 ---p 00000000 00:00 0 \n"
			   "7f1002000000-7f1002100000 rw-p 00000000 00:00 0 \n"
			   "7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0                          [stack]\n";

static int range_of(uint64_t address, struct xp_stack_range *range)
{
	char text[sizeof(maps)];

	memcpy(text, maps, sizeof(maps));
	return xp_stack_range_find(text, (uint32_t)(address >> 3), range);
}

TEST(finds_the_stacks_of_threads)
{
	struct xp_stack_range range;

	assert_int_equal(range_of(0x401000, &range), 0);
	assert_false(range.is_stack);
	assert_int_equal(range_of(0x7f0000081000, &range), 0);
	assert_true(range.is_stack);
	assert_int_equal(range.first, 0x7f0000001000 >> 3 & UINT32_MAX);
	assert_int_equal(range.count, (0x80000 >> 3) + 1); /* the memory above may belong to another stack */
	assert_int_equal(range_of(0x7f0000500000, &range), 0);
	assert_false(range.is_stack); /* too large for one stack */
	assert_int_equal(range_of(0x7f1002000000, &range), 0);
	assert_false(range.is_stack); /* the gap below is too large for a guard page */
	assert_int_equal(range_of(0x7ffc000ff000, &range), 0);
	assert_true(range.is_stack);
	assert_int_equal(range.count, 0x100000 >> 3);
	assert_int_equal(range_of(0x7f0000150000, &range), -ENOENT);
	assert_int_equal(xp_stack_range_find((char[]){ "" }, 1, &range), -ENOENT); /* a process that has ended */
}
