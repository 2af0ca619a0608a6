/* SPDX-License-Identifier: BSD-2-Clause */
/* A call ring that wraps: the writer overwrites the oldest records, and the reader comes when it is asked to. */
#include <pthread.h>

#include "call_stub.h"

#define WINDOW (RECORDS - RECORDS / 4) /* what a reader gets of a writer that goes on */

static struct xp_ring_call calls[2 * RECORDS];

static void begin(void)
{
	map_stub(false, false);
	xp_call_ring_wrap(&test.ring);
}

/* The number is the function: what is read must be in their order. */
static void write_calls(uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		call_slot(test.slot, xp_event_word(first + i, XP_EVENT_ENTRY));
}

static size_t read_held(uint64_t head)
{
	const struct xp_call_range range = { .until_tsc = UINT64_MAX, .end = head, .now_tsc = __rdtsc(), .all = true };

	return xp_call_ring_take(&test.ring, &range, calls, XP_ARRAY_SIZE(calls));
}

static size_t read_newest(bool is_over)
{
	size_t count = read_held(xp_call_ring_hold(&test.ring, is_over));

	xp_call_ring_release(&test.ring);
	return count;
}

static void assert_calls(uint32_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(calls[i].word, xp_event_word(first + (uint32_t)i, XP_EVENT_ENTRY));
}

static void test_newest(void **state)
{
	(void)state;
	begin();
	/* Nothing is overwritten yet. */
	write_calls(1, 100);
	assert_int_equal(read_newest(false), 100);
	assert_calls(1, 100);
	assert_int_equal(test.ring.overwritten, 0);
	/* Only what came since, and of that the newest. */
	assert_int_equal(read_newest(false), 0);
	write_calls(101, 10 * RECORDS);
	assert_int_equal(read_newest(false), WINDOW);
	assert_calls(101 + 10 * RECORDS - WINDOW, WINDOW);
	assert_int_equal(test.ring.overwritten, 10 * RECORDS - WINDOW);
	/* All of it where nobody writes any more. */
	write_calls(1, 2 * RECORDS);
	assert_int_equal(read_newest(true), RECORDS);
	assert_calls(1 + RECORDS, RECORDS);
	assert_int_equal(test.ring.lost, 0);
	unmap_stub();
}

/* The writer cannot overwrite what is being read: it finds the ring full after a quarter. */
static void test_held(void **state)
{
	uint64_t head;

	(void)state;
	begin();
	write_calls(1, 5 * RECORDS);
	head = xp_call_ring_hold(&test.ring, false);
	write_calls(1 + 5 * RECORDS, RECORDS);
	assert_in_range(test.mine->head - head, 0, RECORDS / 4);
	assert_int_equal(read_held(head), WINDOW);
	assert_calls(1 + 5 * RECORDS - WINDOW, WINDOW);
	xp_call_ring_release(&test.ring);
	head = test.mine->head;
	write_calls(1, RECORDS);
	assert_int_equal(test.mine->head, head + RECORDS);
	unmap_stub();
}

/* What the process says about its head: bounded by the time that it had. */
static void test_hostile_head(void **state)
{
	uint64_t begin_tsc = __rdtsc();

	(void)state;
	begin();
	for (unsigned int i = 0; i < 64; i++) {
		write_calls(1, 10);
		test.mine->head = (1ull << i) - i % 3;
		assert_in_range(read_newest(i % 2), 0, RECORDS + XP_CALL_RING_HOLES);
	}
	assert_in_range(test.ring.overwritten, 0, (__rdtsc() - begin_tsc) / 4 + XP_CALL_RING_HOLES);
	unmap_stub();
}

/* ---- Read in the middle of a record, at each instruction ---- */

static struct {
	unsigned int steps;
	unsigned int at;
	bool writes; /* the handler records a call, too */
	size_t count;
} stepping;

static void handle_trap(int number, siginfo_t *info, void *context)
{
	uintptr_t rip = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (rip - (uintptr_t)test.slot >= XP_STUB_MEMORY_BYTES || ++stepping.steps != stepping.at)
		return;
	if (stepping.writes)
		call_slot(test.slot, xp_event_word(1, XP_EVENT_EXIT));
	stepping.count = read_newest(false);
}

/* The record of the lap before is in the place of the one that is being written. */
static void test_read_at_each_instruction(void **state)
{
	const struct sigaction action = { .sa_sigaction = handle_trap, .sa_flags = SA_SIGINFO };
	unsigned int steps = 1;

	(void)state;
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	for (int writes = 0; writes < 2; writes++)
		for (unsigned int at = 0; at <= steps; at++) {
			size_t total;

			begin();
			write_calls(1, 3 * RECORDS);
			stepping.steps = 0;
			stepping.at = at;
			stepping.writes = writes;
			step_slot(test.slot, xp_event_word(1 + 3 * RECORDS, XP_EVENT_ENTRY));
			steps = stepping.steps;
			total = at ? stepping.count : 0;
			if (at)
				assert_in_range(total, WINDOW - 1, WINDOW);
			/* In one of the two readings, the record is there once. */
			for (size_t i = 0; i < total; i++)
				assert_true(calls[i].word == xp_event_word(1, XP_EVENT_EXIT) ||
					    calls[i].word > 2 * RECORDS);
			for (size_t i = 1; i < total && !writes; i++)
				assert_true(calls[i].word == calls[i - 1].word + 1 && calls[i].tsc >= calls[i - 1].tsc);
			total += read_newest(false);
			assert_int_equal(total + test.ring.overwritten, 3 * RECORDS + 1 + (writes && at));
			assert_int_equal(test.ring.lost + test.ring.hole_count, 0);
			unmap_stub();
		}
	assert_in_range(steps, 30, 60);
}

/* ---- Read again and again beside a writer at full speed ---- */

static bool is_done;

static void *read_beside(void *arg)
{
	uint64_t *sums = arg; /* records, and those in the wrong order */
	bool done;

	do {
		size_t count;

		done = __atomic_load_n(&is_done, __ATOMIC_ACQUIRE);
		count = read_newest(false);
		sums[0] += count;
		for (size_t i = 1; i < count; i++)
			sums[1] += calls[i].word <= calls[i - 1].word || calls[i].tsc < calls[i - 1].tsc;
		usleep(200);
	} while (!done);
	return NULL;
}

static void test_beside_a_writer(void **state)
{
	uint64_t sums[2] = { 0 };
	pthread_t reader;

	(void)state;
	begin();
	is_done = false;
	assert_int_equal(pthread_create(&reader, NULL, read_beside, sums), 0);
	write_calls(1, 3000000);
	__atomic_store_n(&is_done, true, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	assert_int_equal(sums[1], 0);
	assert_int_equal(sums[0] + test.ring.overwritten, test.mine->head);
	assert_true(sums[0] > RECORDS && test.ring.overwritten > RECORDS);
	unmap_stub();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_newest),		cmocka_unit_test(test_held),
		cmocka_unit_test(test_hostile_head),	cmocka_unit_test(test_read_at_each_instruction),
		cmocka_unit_test(test_beside_a_writer),
	};

	if (!xp_instructions_try().rdfsbase) {
		print_message(XP_NO_RDFSBASE "\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
