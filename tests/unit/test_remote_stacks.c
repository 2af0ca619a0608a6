/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the places where threads of a stopped process may continue: also below signal handlers, and in coroutines that
 * a timer preempts.
 */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "target/remote.h"
#include "target/remote_stacks.h"

#define STOP_NS (5ull * 1000 * 1000 * 1000)
#define LARGE_BYTES (1ull << 33)
#define WORDS_BYTES (1u << 20)

enum { STARTED = 1, IN_FIRST, IN_SECOND };

static atomic_int *progress;

/* It calls no function, so only a signal frame contains an address in it. */
__attribute__((noinline)) static void spin(void)
{
	for (;;)
		__asm__ volatile("pause; pause; pause; pause" ::: "memory");
}
#define SPIN_BYTES 16

static void first(int number)
{
	(void)number;
	atomic_store(progress, IN_FIRST);
	for (;;)
		;
}

static void second(int number)
{
	(void)number;
	atomic_store(progress, IN_SECOND);
	for (;;)
		pause();
}

static void be_interrupted(void)
{
	stack_t other = { .ss_sp = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			  .ss_size = 65536 };

	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = first }, NULL);
	sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = second, .sa_flags = SA_ONSTACK }, NULL);
	atomic_store(progress, STARTED);
	spin();
}

/* Stores registers as a preempted coroutine does, in memory that is not a thread's stack. */
static void preempt(int timer)
{
	uintptr_t *words = mmap(NULL, WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	words[WORDS_BYTES / sizeof(*words) - 1] = (uintptr_t)spin + 1;
	if (timer)
		signal(timer, first);
	atomic_store(progress, STARTED);
	for (;;)
		pause();
}

static void wait_for(int wanted)
{
	while (atomic_load(progress) != wanted)
		usleep(1000);
}

static pid_t begin(void)
{
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(progress, MAP_FAILED);
	return fork();
}

/* Returns the number of pointers to spin(), or -errno, and ends the process. */
static bool is_restoring;

static int find(pid_t pid, uint64_t bytes_max)
{
	struct xp_code_pointers pointers = { .start = (uintptr_t)spin,
					     .end = (uintptr_t)spin + SPIN_BYTES,
					     .is_restoring = is_restoring,
					     .bytes_max = bytes_max };
	struct xp_remote *remote;
	int err = xp_remote_stop(&remote, pid, STOP_NS);

	assert_int_equal(err, 0);
	err = xp_code_pointers_find(&pointers, remote);
	xp_remote_release(remote);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(pointers.list);
	munmap(progress, sizeof(*progress));
	return err ? err : (int)pointers.count;
}

TEST(stack_below_that_of_a_handler)
{
	pid_t pid = begin();

	if (!pid)
		be_interrupted();
	wait_for(STARTED);
	usleep(10000);
	kill(pid, SIGUSR1);
	wait_for(IN_FIRST);
	kill(pid, SIGUSR2);
	wait_for(IN_SECOND);
	assert_true(find(pid, 0) > 0);
}

static int find_preempted(int timer, uint64_t bytes_max)
{
	pid_t pid = begin();

	if (!pid)
		preempt(timer);
	wait_for(STARTED);
	return find(pid, bytes_max);
}

TEST(memory_of_a_process_that_handles_timers)
{
	assert_true(find_preempted(SIGALRM, 0) > 0);
	assert_true(find_preempted(SIGRTMIN + 3, 0) > 0);
	assert_int_equal(find_preempted(0, 0), 0);
	assert_int_equal(find_preempted(SIGPROF, 65536), -E2BIG);
}

TEST(interruption_ends_no_search_before_restoring)
{
	xp_interrupt_init(false, false);
	xp_interrupt_set_deadline(1);
	assert_int_equal(find_preempted(SIGPROF, 0), -ECANCELED);
	is_restoring = true;
	assert_true(find_preempted(SIGPROF, 0) > 0);
	is_restoring = false;
	xp_interrupt_set_deadline(0);
}
