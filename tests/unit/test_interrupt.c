/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/interrupt.h"
#include "base/shield.h"
#include "base/util.h"

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static int ask(void *unused)
{
	(void)unused;
	return xp_interrupted();
}

/* Runs each check in a separate process, because signals stay pending. */
static int in_child(int (*check)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		block_all();
		_exit(check());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int by_signal(int number, bool with_sigint)
{
	xp_interrupt_init(with_sigint, true);
	if (xp_interrupted())
		return 2;
	kill(getpid(), number);
	/* Runs in this process, and in a separate task, which has other pending signals. */
	return xp_interrupted() + 4 * xp_shielded(ask, NULL);
}

static int by_sigterm(void)
{
	return by_signal(SIGTERM, false);
}

static int by_sigint(void)
{
	return by_signal(SIGINT, true);
}

static int sigint_of_command(void)
{
	return by_signal(SIGINT, false);
}

static int by_sigusr1(void)
{
	return by_signal(SIGUSR1, true);
}

TEST(signals)
{
	assert_int_equal(in_child(by_sigterm), 5);
	assert_int_equal(in_child(by_sigint), 5);
	assert_int_equal(in_child(sigint_of_command), 0);
	assert_int_equal(in_child(by_sigusr1), 0);
}

static int by_deadline(void)
{
	xp_interrupt_init(true, true);
	xp_interrupt_set_deadline(xp_now_ns() + 3600 * XP_NS_PER_S);
	if (xp_interrupted())
		return 2;
	xp_interrupt_set_deadline(xp_now_ns());
	return xp_interrupted();
}

TEST(deadline)
{
	assert_int_equal(in_child(by_deadline), 1);
}

static int pipe_fds[2];

/* A task that outlives its killed xprof. */
static int outlive(void *unused)
{
	char answer;

	(void)unused;
	kill(getppid(), SIGKILL);
	for (int tries = 0; tries < 1000 && !xp_interrupted(); tries++)
		usleep(1000);
	answer = xp_interrupted() ? 'y' : 'n';
	return write(pipe_fds[1], &answer, 1) == 1 ? 0 : -1;
}

static int killed(void)
{
	xp_interrupt_init(true, true);
	return xp_shielded(outlive, NULL);
}

TEST(death)
{
	char answer = 0;

	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(in_child(killed), -SIGKILL);
	assert_int_equal(read(pipe_fds[0], &answer, 1), 1);
	assert_int_equal(answer, 'y');
}

/* ---- after the end of the recording ---- */

enum then { NOTHING, ABORT, TELL };

/* Returns whether the thread has the signal: it may not have handled the signal yet. */
static bool is_pending(int number)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, number);
}

/* A signal arrives this long after one that ended the recording; 0: there was none. Returns whether xprof ends. */
static int signal_after(uint64_t since_ns, enum then then)
{
	xp_interrupt_init(true, true);
	xp_interrupt_watch(since_ns ? xp_now_ns() - since_ns : 0);
	if (then != NOTHING)
		xp_interrupt_abort_by_next();
	if (then == TELL)
		xp_interrupt_tell_next();
	kill(getpid(), SIGTERM);
	while (is_pending(SIGTERM))
		usleep(1000);
	for (int tries = 0; tries < 200 && !xp_interrupted(); tries++)
		usleep(1000);
	return xp_interrupted();
}

static int is_first(void)
{
	return signal_after(0, ABORT);
}

static int is_the_same(void)
{
	uint64_t begin_ns = xp_now_ns();
	int ends = signal_after(1, ABORT);

	return xp_now_ns() - begin_ns < XP_INTERRUPT_APART_NS ? ends : 0;
}

static int is_second(void)
{
	return signal_after(XP_INTERRUPT_APART_NS, ABORT);
}

/* The signal arrives before it may end xprof. */
static int waits(void)
{
	if (signal_after(XP_INTERRUPT_APART_NS, NOTHING) != 1)
		return 2;
	xp_interrupt_abort_by_next();
	return 3;
}

static int tells(void)
{
	return signal_after(0, TELL);
}

TEST(further)
{
	assert_int_equal(in_child(is_first), 0);
	assert_int_equal(in_child(is_the_same), 0);
	assert_int_equal(in_child(is_second), -SIGTERM);
	assert_int_equal(in_child(waits), -SIGTERM);
	assert_int_equal(in_child(tells), 1);
}
