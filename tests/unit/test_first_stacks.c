// SPDX-License-Identifier: BSD-2-Clause
/* Stacks of threads that waited before the recording. Here, the stacks are buffers of this process. */

#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "sample/first_stacks.h"

#define THREADS 200
#define BEGAN 77
#define PAUSE_US 20000
#define IP 0x1234

static uint8_t stack[XP_STACK_BYTES_MAX];

static struct xp_first_stacks *reading(enum xp_sample_stacks kind, uint64_t bp)
{
	struct xp_first_stacks *stacks;

	assert_int_equal(xp_first_stacks_new(&stacks, kind), 0);
	for (uint32_t tid = 1; tid <= THREADS; tid++) {
		const struct xp_event_sample begin = {
			.head = { .time = BEGAN,
				  .pid = (uint32_t)getpid(),
				  .tid = tid,
				  .word = xp_event_word(XP_SAMPLE_WHOLE, XP_EVENT_WAIT_BEGIN) },
			.ip = IP,
			.sp = (uintptr_t)stack,
			.bp = bp,
			.stack_bytes = sizeof(stack),
		};

		assert_int_equal(xp_first_stacks_add(stacks, &begin), 0);
	}
	xp_first_stacks_read(stacks);
	return stacks;
}

/* Returns the first thread from *tid on whose stack has been read. Each can be requested once. */
static struct xp_wait_begin *take(struct xp_first_stacks *stacks, uint32_t *tid)
{
	struct xp_wait_begin *begin = NULL;

	while (!begin && ++*tid <= THREADS) {
		usleep(PAUSE_US);
		begin = xp_first_stacks_take(stacks, *tid, BEGAN, xp_now_ns());
	}
	assert_non_null(begin);
	return begin;
}

TEST(test_stack)
{
	struct xp_first_stacks *stacks;
	struct xp_wait_begin *begin;
	uint32_t tid = 0;

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = (uint8_t)(i * 7);
	stacks = reading(XP_STACKS_DUMP, 0);
	begin = take(stacks, &tid);
	assert_int_equal(begin->record.head.tid, tid);
	assert_int_equal(begin->record.ip, IP);
	assert_true(begin->record.stack_bytes > 0 && begin->record.stack_bytes <= sizeof(stack));
	assert_int_equal(begin->size, sizeof(begin->record) + begin->record.stack_bytes);
	assert_memory_equal(begin + 1, stack, begin->record.stack_bytes);
	assert_int_equal(!!(xp_event_fn(&begin->record.head) & XP_SAMPLE_WHOLE),
			 begin->record.stack_bytes == sizeof(stack));
	free(begin);
	xp_first_stacks_free(stacks);
}

/* Another wait, a wait that was over when its stack was read, and a wait that was already returned. */
TEST(test_not_of_this_wait)
{
	uint64_t before_ns = xp_now_ns();
	struct xp_first_stacks *stacks = reading(XP_STACKS_DUMP, 0);
	uint32_t tid = 2;

	free(take(stacks, &tid));
	assert_null(xp_first_stacks_take(stacks, tid, BEGAN, UINT64_MAX));
	assert_null(xp_first_stacks_take(stacks, 1, BEGAN + 1, UINT64_MAX));
	assert_null(xp_first_stacks_take(stacks, 2, BEGAN, before_ns));
	assert_null(xp_first_stacks_take(stacks, THREADS + 1, BEGAN, UINT64_MAX));
	assert_null(xp_first_stacks_take(NULL, 1, BEGAN, UINT64_MAX));
	xp_first_stacks_free(stacks);
}

TEST(test_memory_is_bounded)
{
	struct xp_first_stacks *stacks = reading(XP_STACKS_DUMP, 0);
	struct xp_wait_begin *begin = NULL;
	uint32_t last = THREADS;
	size_t bytes = 0;

	_Static_assert(THREADS * sizeof(stack) > 2 * XP_FIRST_STACKS_BYTES_MAX, "more than there is room for");
	/* When the stack of a thread is read, the stacks of all threads before it are. */
	for (; !begin && last > THREADS / 2; last--) {
		usleep(PAUSE_US);
		begin = xp_first_stacks_take(stacks, last, BEGAN, UINT64_MAX);
	}
	free(begin);
	for (uint32_t tid = 1; tid <= last; tid++) {
		begin = xp_first_stacks_take(stacks, tid, BEGAN, UINT64_MAX);
		assert_non_null(begin);
		assert_true(begin->record.stack_bytes > 4096);
		bytes += begin->size;
		free(begin);
	}
	assert_true(bytes <= XP_FIRST_STACKS_BYTES_MAX + THREADS * sizeof(struct xp_wait_begin));
	xp_first_stacks_free(stacks);
}

/* Walks by frame pointers, which the target controls. */
TEST(test_frames)
{
	uint64_t *words = (uint64_t *)stack, base = (uintptr_t)stack;
	const struct {
		uint64_t bp;
		uint32_t frames;
	} cases[] = { { base + 16, 3 }, { base - 16, 1 }, { base + 17, 1 }, { base + sizeof(stack), 1 }, { ~7ull, 1 } };

	memset(stack, 0, sizeof(stack));
	words[2] = base + 64;
	words[3] = 0x1001;
	words[8] = base + 16; /* a loop */
	words[9] = 0x1002;
	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		struct xp_first_stacks *stacks = reading(XP_STACKS_FRAMES, cases[i].bp);
		uint32_t tid = 0;
		struct xp_wait_begin *begin = take(stacks, &tid);
		const uint64_t expected[] = { IP, 0x1001, 0x1002 };

		assert_int_equal(begin->record.user_frames, cases[i].frames);
		assert_int_equal(begin->record.stack_bytes, 0);
		assert_int_equal(begin->size, sizeof(begin->record) + cases[i].frames * sizeof(uint64_t));
		assert_memory_equal(begin + 1, expected, cases[i].frames * sizeof(uint64_t));
		free(begin);
		xp_first_stacks_free(stacks);
	}
}
