/* SPDX-License-Identifier: BSD-2-Clause */
/* Work that several tasks share. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/shield.h"
#include "base/util.h"

#define COUNT 100
#define TASKS 16

static struct {
	unsigned int calls[COUNT];
	unsigned int tasks, tasks_max; /* that were created, that may be created */
	unsigned int ready;
	unsigned int open_to_signals;
	pid_t caller;
} * run;

int __clone(int (*work)(void *arg), void *stack, int flags, void *arg, ...);

/* Replaces libc's clone(). */
int clone(int (*work)(void *arg), void *stack, int flags, void *arg, ...)
{
	if (run->tasks == run->tasks_max) {
		errno = EAGAIN;
		return -1;
	}
	run->tasks++;
	return __clone(work, stack, flags, arg);
}

static pid_t this_task(void)
{
	return (pid_t)syscall(SYS_getpid);
}

static int set_up(void **state)
{
	(void)state;
	run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run == MAP_FAILED)
		return -1;
	run->tasks_max = UINT32_MAX;
	run->caller = this_task();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return munmap(run, sizeof(*run));
}

static void check_calls(size_t count)
{
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(run->calls[i], i < count);
	/* No task is left. */
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

/* Notes the call, and whether a signal could interrupt it. */
static void note(void *arg, size_t i)
{
	sigset_t blocked;

	(void)arg;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &blocked, sizeof(uint64_t));
	if (!sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGCHLD))
		__atomic_add_fetch(&run->open_to_signals, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&run->calls[i], 1, __ATOMIC_SEQ_CST);
}

/* The first calls wait for each other, up to 5 s, so that as many tasks take part. */
static void meet(void *arg, size_t i)
{
	uint64_t until_ns = xp_now_ns() + 5 * XP_NS_PER_S;

	if (i < TASKS)
		__atomic_add_fetch(&run->ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&run->ready, __ATOMIC_SEQ_CST) < TASKS && xp_now_ns() < until_ns)
		sched_yield();
	note(arg, i);
}

static void test_each_once(void **state)
{
	(void)state;
	xp_shielded_each(meet, NULL, COUNT);
	check_calls(COUNT);
	assert_int_equal(run->ready, TASKS);
	assert_int_equal(run->tasks, TASKS - 1);
	assert_int_equal(run->open_to_signals, 0);
}

static void test_few(void **state)
{
	(void)state;
	xp_shielded_each(note, NULL, 0);
	check_calls(0);
	xp_shielded_each(note, NULL, 1);
	check_calls(1);
	assert_int_equal(run->tasks, 0);
	memset(run->calls, 0, sizeof(run->calls));
	xp_shielded_each(note, NULL, 3);
	check_calls(3);
	assert_int_equal(run->tasks, 2);
}

static void test_no_tasks(void **state)
{
	(void)state;
	for (run->tasks_max = 0; run->tasks_max < 2; run->tasks_max++) {
		memset(run->calls, 0, sizeof(run->calls));
		run->tasks = 0;
		xp_shielded_each(note, NULL, COUNT);
		check_calls(COUNT);
		assert_int_equal(run->tasks, run->tasks_max);
	}
}

/* All helpers are killed at work. */
static void die_as_helper(void *arg, size_t i)
{
	meet(arg, i);
	if (this_task() != run->caller)
		kill(this_task(), SIGKILL);
}

static void test_helpers_killed(void **state)
{
	(void)state;
	xp_shielded_each(die_as_helper, NULL, COUNT);
	check_calls(COUNT);
	assert_int_equal(run->tasks, TASKS - 1);
}

/* Only the caller is killed at work. */
static void die_as_caller(void *arg, size_t i)
{
	meet(arg, i);
	if (this_task() == run->caller) {
		/* The memory of its stack does not survive it. */
		memset((char *)__builtin_frame_address(0) + 64, 0xff, 1024);
		kill(this_task(), SIGKILL);
	}
	/* Other helpers may be at work longer than the caller. */
	usleep(1000);
}

static void test_caller_killed(void **state)
{
	int ends[2], status;
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		run->caller = this_task();
		xp_shielded_each(die_as_caller, NULL, COUNT);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* The end of the last helper. */
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	check_calls(COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_few, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_tasks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_helpers_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_caller_killed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
