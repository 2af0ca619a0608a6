/* SPDX-License-Identifier: BSD-2-Clause */
/* How long xprof skips a process that blocks its reader. The clock and the processes are simulated. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

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
#define kill(pid, number) play_kill(pid, number)
#include "../../user/target/memory.c"

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

TEST_WITH(test_waits_double, set_up, tear_down)
{
	struct xp_target_memory *memory = *state;
	uint64_t wait_ns = RETRY_NS;

	for (unsigned int times = 0; times < 2 * RETRY_SHIFT_MAX; times++) {
		assert_false(is_stuck(11, ITS_MEMORY));
		assert_int_equal(give_up(memory, 11, ITS_MEMORY), -ETIMEDOUT);
		machine.now_ns += wait_ns - 1;
		assert_true(is_stuck(11, ITS_MEMORY));
		assert_false(is_stuck(12, ITS_MEMORY));
		assert_false(is_stuck(11, ITS_MAPPINGS));
		machine.now_ns++;
		if (times < RETRY_SHIFT_MAX)
			wait_ns *= 2;
	}
	assert_false(is_stuck(11, ITS_MEMORY));
}

/* While this many processes are skipped, no other process is read. A process that has ended does not count. */
TEST_WITH(test_many, set_up, tear_down)
{
	struct xp_target_memory *memory = *state;

	for (pid_t pid = 1; pid <= STUCK_MAX; pid++) {
		assert_false(is_stuck(100, ITS_MEMORY));
		give_up(memory, pid, ITS_MEMORY);
		machine.now_ns++;
	}
	assert_true(is_stuck(100, ITS_MEMORY));
	machine.ended = 5;
	assert_false(is_stuck(100, ITS_MEMORY));
	give_up(memory, 100, ITS_MEMORY);
	machine.ended = 0;
	assert_true(is_stuck(101, ITS_MEMORY));
	assert_true(is_stuck(16, ITS_MEMORY));
	/* The process waits as long as any other. */
	machine.now_ns += RETRY_NS - 1;
	assert_true(is_stuck(100, ITS_MEMORY));
	assert_false(is_stuck(16, ITS_MEMORY));
}

/*
 * When a process's time is over, its slot may go to another process, which continues its waits: the sum would be 16 s
 * each.
 */
TEST_WITH(test_places_change_hands, set_up, tear_down)
{
	struct xp_target_memory *memory = *state;

	for (pid_t pid = 1; pid <= STUCK_MAX; pid++)
		give_up(memory, pid, ITS_MEMORY);
	machine.now_ns += RETRY_NS;
	for (pid_t pid = 101; pid <= 100 + STUCK_MAX; pid++) {
		assert_false(is_stuck(pid, ITS_MEMORY));
		give_up(memory, pid, ITS_MEMORY);
	}
	assert_true(is_stuck(1, ITS_MEMORY));
	machine.now_ns += 2 * RETRY_NS - 1;
	assert_true(is_stuck(1, ITS_MEMORY));
	assert_true(is_stuck(101, ITS_MEMORY));
	machine.now_ns++;
	assert_false(is_stuck(1, ITS_MEMORY));
	assert_false(is_stuck(101, ITS_MEMORY));
}

/* Any number of processes keep the reader from others for at most half as long as they are then skipped. */
TEST_WITH(test_patience, set_up, tear_down)
{
	const int expected[] = { 1000, 500, 250, 125, 100, 100 };
	struct xp_target_memory *memory = *state;
	int waited_ms = 0;

	for (pid_t pid = 0; pid < STUCK_MAX; pid++) {
		assert_int_equal(patience_ms(), expected[XP_MIN((size_t)pid, XP_ARRAY_SIZE(expected) - 1)]);
		waited_ms += patience_ms();
		give_up(memory, pid + 1, ITS_MEMORY);
	}
	assert_true(is_stuck(STUCK_MAX + 1, ITS_MEMORY));
	assert_in_range(waited_ms, 1, RETRY_NS / 2 / 1000000);
	machine.now_ns += RETRY_NS;
	assert_int_equal(patience_ms(), 1000);
}

/* The child sleeps: a thread of the process that it reads may hold the lock that the child waits for. */
TEST(test_slow_machine)
{
	struct xp_target_memory memory = { .child.pid = fork() };
	pid_t busy;

	if (!memory.child.pid)
		for (;;)
			pause();
	busy = fork();
	if (!busy)
		for (;;)
			;
	for (int i = 0; i < 1000 && xp_target_has_thread(memory.child.pid, 'R'); i++)
		usleep(10000);
	assert_true(is_machine_slow(&memory, busy, PATIENCE_MS));
	assert_false(is_machine_slow(&memory, busy, PATIENCE_MS / 2));
	assert_false(is_machine_slow(&memory, memory.child.pid, PATIENCE_MS));
	assert_int_equal((kill)(busy, SIGKILL) | (kill)(memory.child.pid, SIGKILL), 0);
	assert_int_equal(waitpid(busy, NULL, 0), busy);
	assert_int_equal(waitpid(memory.child.pid, NULL, 0), memory.child.pid);
}

int unit_set_up(void **state)
{
	(void)state;
	xp_log_level = XP_LOG_QUIET;
	return 0;
}
