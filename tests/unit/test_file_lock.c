/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/util.h"

static char path[] = "/tmp/xprof-lock-XXXXXX";
static int file;
static pid_t holder; /* PID of the owner */
static pid_t keeper; /* PID of a process that has the locked file open too, like xprof's helper */

static int set_up(void **state)
{
	static const char template[] = "/tmp/xprof-lock-XXXXXX";

	(void)state;
	memcpy(path, template, sizeof(template));
	file = mkstemp(path);
	holder = keeper = 0;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* PID of the process that keeps the file, whose parent has ended */
	return file < 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (keeper && !kill(keeper, SIGKILL))
		waitpid(keeper, NULL, 0);
	if (holder && !kill(holder, SIGKILL))
		waitpid(holder, NULL, 0);
	close(file);
	return unlink(path);
}

/* Locks the file in a process, which then ends or stays alive. Another process shares the file for keep_ms. */
static void lock_elsewhere(bool lives, unsigned int keep_ms)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	holder = fork();
	if (!holder) {
		pid_t child = 0;
		int own = open(path, O_RDWR | O_CLOEXEC);

		if (own < 0 || flock(own, LOCK_EX))
			_exit(1);
		if (keep_ms)
			child = fork();
		if (keep_ms && !child) {
			usleep(keep_ms * 1000);
			_exit(0);
		}
		if (write(ends[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		while (lives)
			pause();
		_exit(0);
	}
	assert_true(holder > 0);
	assert_int_equal(read(ends[0], &keeper, sizeof(keeper)), sizeof(keeper));
	close(ends[0]);
	close(ends[1]);
	if (lives)
		return;
	assert_int_equal(waitpid(holder, NULL, 0), holder);
	holder = 0;
}

TEST_WITH(free_file_is_locked, set_up, tear_down)
{
	int other = open(path, O_RDWR);

	assert_int_equal(xp_file_lock(file, NULL), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	close(other);
}

TEST_WITH(living_holder_is_named, set_up, tear_down)
{
	uint64_t begin_ns = xp_now_ns();
	pid_t told = 0;

	lock_elsewhere(true, 0);
	assert_int_equal(xp_file_lock(file, &told), -EBUSY);
	assert_int_equal(told, holder);
	/* Immediately: the owner may record for hours. */
	assert_true(xp_now_ns() - begin_ns < XP_FILE_LOCK_PATIENCE_NS / 2);
}

TEST_WITH(killed_holder_is_waited_for, set_up, tear_down)
{
	pid_t told;

	lock_elsewhere(false, 300);
	assert_int_equal(xp_file_lock(file, &told), 0);
}

/* The process has ended, and is not reaped yet. */
TEST_WITH(zombie_is_waited_for, set_up, tear_down)
{
	lock_elsewhere(true, 300);
	kill(holder, SIGKILL);
	assert_int_equal(xp_file_lock(file, NULL), 0);
}

TEST_WITH(signal_ends_the_wait, set_up, tear_down)
{
	uint64_t begin_ns = xp_now_ns();
	sigset_t interrupt, before;
	pid_t told = 1;
	int number, err;

	lock_elsewhere(false, 60000);
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupt, &before);
	raise(SIGINT);
	err = xp_file_lock(file, &told);
	assert_int_equal(sigwait(&interrupt, &number), 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(err, -EBUSY);
	assert_int_equal(told, 0);
	assert_true(xp_now_ns() - begin_ns < XP_FILE_LOCK_PATIENCE_NS / 2);
}
