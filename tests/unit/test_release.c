/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that are closed by tasks that exit. The files are pipes: reading the other end shows whether a descriptor is
 * open.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/release.h"

#define FILES 20

static struct {
	pid_t tasks[FILES];
	unsigned int created, created_max;
	unsigned int held;    /* files that a task had when the caller closed them */
	unsigned int kill_at; /* the caller or the tasks are killed before this file is closed; 0: never */
	bool kills_caller, kills_tasks;
	int ends[FILES], fds[FILES];
} * run;

int __clone(int (*work)(void *arg), void *stack, int flags, void *arg, ...);

/* Replaces libc's clone(). */
int clone(int (*work)(void *arg), void *stack, int flags, void *arg, ...)
{
	pid_t pid;

	if (run->created == run->created_max) {
		errno = EAGAIN;
		return -1;
	}
	pid = __clone(work, stack, flags, arg);
	run->tasks[run->created++] = pid;
	return pid;
}

static bool is_open(unsigned int file, int timeout_ms)
{
	struct pollfd end = { .fd = run->ends[file] };

	return poll(&end, 1, timeout_ms) == 0;
}

static void kill_some(void)
{
	int status;

	run->kill_at = 0; /* descriptors are reused */
	for (unsigned int i = 0; run->kills_tasks && i < run->created; i++) {
		kill(run->tasks[i], SIGKILL);
		waitpid(run->tasks[i], &status, __WCLONE);
	}
	if (run->kills_caller)
		kill(getpid(), SIGKILL);
}

/* Replaces libc's close(). */
int close(int fd)
{
	unsigned int file = 0;
	int err;

	while (file < FILES && run->fds[file] != fd)
		file++;
	if (file < FILES && file + 1 == run->kill_at)
		kill_some();
	err = close_range((unsigned int)fd, (unsigned int)fd, 0);
	run->held += file < FILES && is_open(file, 0);
	return err;
}

static int set_up(void **state)
{
	(void)state;
	run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run == MAP_FAILED)
		return -1;
	run->created_max = FILES;
	for (unsigned int i = 0; i < FILES; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC))
			return -1;
		run->ends[i] = ends[0];
		run->fds[i] = ends[1];
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < FILES; i++)
		close_range((unsigned int)run->ends[i], (unsigned int)run->ends[i], 0);
	return munmap(run, sizeof(*run));
}

static unsigned int open_files(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 2048; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void release_and_check(unsigned int held)
{
	unsigned int files = open_files();
	sigset_t before, after;

	sigprocmask(SIG_SETMASK, NULL, &before);
	xp_release_files(run->fds, FILES);
	sigprocmask(SIG_SETMASK, NULL, &after);
	assert_memory_equal(&before, &after, sizeof(uint64_t));
	for (unsigned int i = 0; i < FILES; i++)
		assert_false(is_open(i, 0));
	assert_int_equal(run->held, held);
	assert_int_equal(open_files(), files - FILES);
	/* No task remains. */
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

TEST_WITH(test_by_exit, set_up, tear_down)
{
	release_and_check(FILES);
	assert_int_equal(run->created, FILES);
}

TEST_WITH(test_no_tasks, set_up, tear_down)
{
	run->created_max = 0;
	release_and_check(0);
}

TEST_WITH(test_one_task, set_up, tear_down)
{
	run->created_max = 1;
	release_and_check(1);
}

/* The caller has closed four files of the second group; these tasks still have them open. */
TEST_WITH(test_tasks_killed, set_up, tear_down)
{
	run->kill_at = 3;
	run->kills_tasks = true;
	release_and_check(2 + FILES - XP_RELEASED_TOGETHER);
}

/* In a forked child: the files are closed without the child, and its tasks end. */
TEST_WITH(test_caller_killed, set_up, tear_down)
{
	int ends[2], status;
	struct pollfd end;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	run->kill_at = 3;
	run->kills_caller = true;
	pid = fork();
	if (!pid) {
		xp_release_files(run->fds, FILES);
		_exit(0);
	}
	for (unsigned int i = 0; i < FILES; i++)
		close_range((unsigned int)run->fds[i], (unsigned int)run->fds[i], 0);
	close_range((unsigned int)ends[1], (unsigned int)ends[1], 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	end = (struct pollfd){ .fd = ends[0] };
	assert_int_equal(poll(&end, 1, 5000), 1);
	for (unsigned int i = 0; i < FILES; i++)
		assert_false(is_open(i, 5000));
	close_range((unsigned int)ends[0], (unsigned int)ends[0], 0);
}
