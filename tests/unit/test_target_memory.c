/* SPDX-License-Identifier: BSD-2-Clause */
/* For how long a process is left alone that makes its reader wait. The clock and the processes are played here. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <cmocka.h>

#include "base/util.h"

static struct {
	uint64_t now_ns;
	pid_t ended;
} machine;

static uint64_t play_now(void)
{
	return machine.now_ns;
}

static int play_kill(pid_t pid, int number)
{
	assert_int_equal(number, 0);
	errno = ESRCH;
	return pid == machine.ended ? -1 : 0;
}

#define xp_now_ns play_now
#define kill play_kill
#include "target/memory.c"

static int set_up(void **state)
{
	struct xp_target_memory *memory;

	stuck_ones.count = 0;
	memset(stuck_ones.list, 0, sizeof(stuck_ones.list));
	machine.now_ns = XP_NS_PER_S;
	machine.ended = 0;
	if (xp_target_memory_new(&memory))
		return -1;
	*state = memory;
	return 0;
}

static int tear_down(void **state)
{
	xp_target_memory_free(*state);
	return 0;
}

static void test_waits_double(void **state)
{
	struct xp_target_memory *memory = *state;
	uint64_t wait_ns = RETRY_NS;

	for (unsigned int times = 0; times < 2 * RETRY_SHIFT_MAX; times++) {
		assert_false(is_stuck(11));
		assert_int_equal(give_up(memory, 11), -ETIMEDOUT);
		machine.now_ns += wait_ns - 1;
		assert_true(is_stuck(11));
		assert_false(is_stuck(12));
		machine.now_ns++;
		if (times < RETRY_SHIFT_MAX)
			wait_ns *= 2;
	}
	assert_false(is_stuck(11));
}

/* While so many are left alone nobody else is read, but one that has ended does not count. */
static void test_many(void **state)
{
	struct xp_target_memory *memory = *state;

	for (pid_t pid = 1; pid <= STUCK_MAX; pid++) {
		assert_false(is_stuck(100));
		give_up(memory, pid);
		machine.now_ns++;
	}
	assert_true(is_stuck(100));
	machine.ended = 5;
	assert_false(is_stuck(100));
	give_up(memory, 100);
	machine.ended = 0;
	assert_true(is_stuck(101));
	assert_true(is_stuck(16));
	/* Its time is as long as that of any. */
	machine.now_ns += RETRY_NS - 1;
	assert_true(is_stuck(100));
	assert_false(is_stuck(16));
}

/* The place of one whose time has come is another's; its waits go on from there: 16 s a time would add up. */
static void test_places_change_hands(void **state)
{
	struct xp_target_memory *memory = *state;

	for (pid_t pid = 1; pid <= STUCK_MAX; pid++)
		give_up(memory, pid);
	machine.now_ns += RETRY_NS;
	for (pid_t pid = 101; pid <= 100 + STUCK_MAX; pid++) {
		assert_false(is_stuck(pid));
		give_up(memory, pid);
	}
	assert_true(is_stuck(1));
	machine.now_ns += 2 * RETRY_NS - 1;
	assert_true(is_stuck(1));
	assert_true(is_stuck(101));
	machine.now_ns++;
	assert_false(is_stuck(1));
	assert_false(is_stuck(101));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_waits_double, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_places_change_hands, set_up, tear_down),
	};

	xp_log_level = XP_LOG_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
