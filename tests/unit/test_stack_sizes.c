/* SPDX-License-Identifier: BSD-2-Clause */

#include "unit.h"

#include "unwind/stack_sizes.h"

#define KIB 1024u
#define TOP 0x7ffff7000000ull

/* A walk that found no end, of a copy without an end. */
static struct xp_stack_walk partial(uint32_t used_bytes)
{
	return (struct xp_stack_walk){ .sp = TOP - used_bytes, .used_bytes = used_bytes };
}

static struct xp_stack_walk complete(uint64_t top, uint32_t used_bytes, bool has_end)
{
	return (struct xp_stack_walk){
		.sp = top - used_bytes, .used_bytes = used_bytes, .has_end = has_end, .is_complete = true
	};
}

static const struct xp_stack_walk truncated = { .sp = TOP - 4 * KIB, .used_bytes = 4 * KIB, .is_truncated = true };

/* Adds this many such walks. Returns the last change of the size, or 0. */
static uint32_t learn(struct xp_stack_sizes *sizes, pid_t tid, struct xp_stack_walk walk, unsigned int count)
{
	struct xp_stack_size size;
	uint32_t last = 0;

	while (count--)
		if (xp_stack_sizes_learn(sizes, tid, &walk, &size))
			last = size.bytes;
	return last;
}

static int setup(void **state)
{
	return xp_stack_sizes_new((struct xp_stack_sizes **)state);
}

static int teardown(void **state)
{
	xp_stack_sizes_free(*state);
	return 0;
}

/* The first complete walk shows the end of the stack, which applies to every depth. */
TEST_WITH(test_top, setup, teardown)
{
	struct xp_stack_sizes *sizes = *state;
	struct xp_stack_walk walk = complete(TOP, 3000, false);
	struct xp_stack_size size;

	assert_true(xp_stack_sizes_learn(sizes, 1, &walk, &size));
	assert_int_equal(size.top, TOP);
	assert_int_equal(size.bytes, 64 * KIB);
	assert_int_equal(learn(sizes, 1, complete(TOP, 500, true), 100), 0);
	assert_int_equal(learn(sizes, 1, complete(TOP, 50000, true), 100), 0);
	/* The end is known for the first thread of the process. */
	assert_int_equal(learn(sizes, 2, complete(TOP, 500, true), 100), 0);
}

/* A thread whose walks are always on other stacks gets a size. */
TEST_WITH(test_many_tops, setup, teardown)
{
	struct xp_stack_sizes *sizes = *state;
	struct xp_stack_size size;
	unsigned int changes = 0;

	for (uint64_t i = 0; i < 39; i++) {
		struct xp_stack_walk walk = complete(TOP + (i << 20), 3000, false);

		changes += xp_stack_sizes_learn(sizes, 1, &walk, &size);
	}
	assert_int_equal(changes, 8);
	assert_int_equal(size.top, 0);
	assert_int_equal(learn(sizes, 1, complete(TOP, 3000, false), 1), 4 * KIB);
}

/* Down to the used size plus a quarter, in every class. */
TEST_WITH(test_shrinks, setup, teardown)
{
	static const uint32_t cases[][2] = { { 0, 4 },	    { 3276, 4 },   { 3278, 8 },	      { 6553, 8 },
					     { 6555, 16 },  { 13107, 16 }, { 13110, 32 },     { 26214, 32 },
					     { 26220, 64 }, { 65536, 64 }, { UINT32_MAX, 64 } };
	struct xp_stack_sizes *sizes = *state;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t wanted = cases[i][1] * KIB;

		assert_int_equal(learn(sizes, i + 1, partial(cases[i][0]), 31), 0);
		assert_int_equal(learn(sizes, i + 1, partial(cases[i][0]), 1), wanted == 64 * KIB ? 0 : wanted);
		assert_int_equal(learn(sizes, i + 1, partial(cases[i][0]), 100), 0);
	}
}

/* One deep sample among the 32 keeps the size. */
TEST_WITH(test_most_counts, setup, teardown)
{
	struct xp_stack_sizes *sizes = *state;

	assert_int_equal(learn(sizes, 1, partial(1000), 15), 0);
	assert_int_equal(learn(sizes, 1, partial(12000), 1), 0);
	assert_int_equal(learn(sizes, 1, partial(1000), 16), 16 * KIB);
	assert_int_equal(learn(sizes, 1, partial(1000), 32), 4 * KIB);
}

/* The size was too small: it grows immediately, and needs twice as many samples before it shrinks again. */
TEST_WITH(test_truncated, setup, teardown)
{
	struct xp_stack_sizes *sizes = *state;
	unsigned int run = 32;

	assert_int_equal(learn(sizes, 1, partial(1000), run), 4 * KIB);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(learn(sizes, 1, truncated, 1), 64 * KIB);
		run = run < 32768 ? 2 * run : 32768;
		assert_int_equal(learn(sizes, 1, partial(1000), run - 1), 0);
		assert_int_equal(learn(sizes, 1, partial(1000), 1), 4 * KIB);
	}
	/* The largest depth does not prove that a smaller size would be too small. */
	assert_int_equal(learn(sizes, 2, truncated, 2), 0);
	assert_int_equal(learn(sizes, 2, partial(1000), 32), 4 * KIB);
}

/* A copy of 64 KiB was too small: the same thread gets more, others do not. */
TEST_WITH(test_deep, setup, teardown)
{
	struct xp_stack_walk deep = { .sp = TOP - 90 * KIB, .copied_bytes = 64 * KIB, .used_bytes = 60 * KIB };
	struct xp_stack_sizes *sizes = *state;

	deep.is_truncated = true;
	assert_int_equal(learn(sizes, 1, deep, 1), XP_STACK_BYTES_MAX);
	assert_int_equal(learn(sizes, 1, deep, 10), 0);
	assert_int_equal(learn(sizes, 2, truncated, 10), 0);
	/* Until the thread is less deep. */
	assert_int_equal(learn(sizes, 1, partial(70 * KIB), 96), 0);
	assert_int_equal(learn(sizes, 1, partial(1000), 32), 4 * KIB);
	assert_int_equal(learn(sizes, 1, truncated, 1), XP_STACK_BYTES_MAX);
	assert_int_equal(learn(sizes, 1, complete(TOP, 3000, true), 100), 0);
}

/* Walks that reach the end again need all of the copy. */
TEST_WITH(test_complete_after_all, setup, teardown)
{
	struct xp_stack_sizes *sizes = *state;

	assert_int_equal(learn(sizes, 1, partial(1000), 32), 4 * KIB);
	assert_int_equal(learn(sizes, 1, complete(TOP, 3000, true), 1), 64 * KIB);
	assert_int_equal(learn(sizes, 2, partial(1000), 32), 4 * KIB);
	assert_int_equal(learn(sizes, 2, complete(TOP, 3000, false), 1), 64 * KIB);
}

/* Threads that share a slot start again, and never get the size of another thread. */
TEST_WITH(test_forgotten, setup, teardown)
{
	struct xp_stack_sizes *sizes = *state;
	struct xp_stack_size size;
	struct xp_stack_walk walk = complete(TOP, 3000, false);

	assert_true(xp_stack_sizes_learn(sizes, 7, &walk, &size));
	walk = complete(TOP - 8192 * KIB, 3000, false);
	assert_true(xp_stack_sizes_learn(sizes, 7 + 8192, &walk, &size));
	assert_int_equal(size.top, TOP - 8192 * KIB);
	walk = complete(TOP, 3000, false);
	assert_true(xp_stack_sizes_learn(sizes, 7, &walk, &size));
	assert_int_equal(size.top, TOP);
}
