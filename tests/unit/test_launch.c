/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts a command that does not reach execve(): see read(). */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/why.h"
#include "target/launch.h"

static pid_t test_pid;

/* Replaces libc's read(): the new process waits forever for the message to continue. */
ssize_t read(int fd, void *data, size_t size)
{
	while (getpid() != test_pid)
		pause();
	return syscall(SYS_read, fd, data, size);
}

/* xprof gets a request to end. */
static void check_stopped(int number)
{
	char *argv[] = { "true", NULL };
	struct xp_launch launch;
	sigset_t pending;

	assert_int_equal(raise(number), 0);
	alarm(10);
	assert_int_equal(xp_launch_start(&launch, argv), -ECANCELED);
	alarm(0);
	assert_false(xp_why_has(-ECANCELED));
	assert_int_equal(sigpending(&pending), 0);
	assert_int_equal(sigismember(&pending, number), 0);
	assert_int_equal(kill(launch.pid, SIGKILL), 0);
	xp_launch_wait(&launch);
	assert_true(launch.ended && WIFSIGNALED(launch.status));
}

TEST(test_stopped)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	assert_int_equal(sigprocmask(SIG_BLOCK, &signals, NULL), 0);
	test_pid = getpid();
	check_stopped(SIGTERM);
	check_stopped(SIGHUP);
}
