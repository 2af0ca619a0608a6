// SPDX-License-Identifier: BSD-2-Clause
#include "target/stopped.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/shield.h"
#include "base/util.h"
#include "base/why.h"
#include "target/frozen.h"

#define STOP_TIMEOUT_NS 250000000ull
#define TASK_S 15
#define TRIES 3
#define PATIENCE_NS (10 * XP_NS_PER_S)
#define FROZEN_NS XP_NS_PER_S
#define PAUSE_US 20000 /* doubles after each try, up to PAUSE_MAX_US */
#define PAUSE_MAX_US 320000

struct task {
	struct xp_stopped *stopped;
	int (*work)(void *arg, struct xp_remote *remote);
	void *arg;
	pid_t xprof;
};

static int do_once(struct task *task)
{
	struct xp_stopped *stopped = task->stopped;
	struct xp_remote *remote = NULL;
	int err;

	xp_why_clear();
	err = stopped->held ? xp_remote_hold(&remote, stopped->pid)
			    : xp_remote_stop(&remote, stopped->pid, STOP_TIMEOUT_NS);
	if (err)
		return err;
	err = task->work(task->arg, remote);
	stopped->ns += xp_remote_release(remote);
	return err;
}

static int shielded(void *arg)
{
	struct task *task = arg;
	sigset_t alarms;

	/*
	 * The alarm ends a hang, for example ptrace() on a process that executes a file on a server that does not
	 * answer.
	 */
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(TASK_S);
	return getppid() == task->xprof ? do_once(task) : -ECANCELED;
}

static int try_once(struct task *task)
{
	int err = xp_shielded(shielded, task);

	return err == -ECHILD ? xp_why_set(err, "it cannot be stopped and released within %d s", TASK_S) : err;
}

/* Waits up to FROZEN_NS for a frozen process to be thawed: it does not stop before that, and a try takes seconds. */
static int wait_thawed(const struct xp_stopped *stopped)
{
	uint64_t begin_ns = xp_now_ns();

	while (xp_target_frozen(stopped->pid)) {
		if (stopped->once || xp_interrupted() || xp_now_ns() - begin_ns >= FROZEN_NS)
			return xp_why_set(-EBUSY, "its control group is frozen (cgroup.freeze, docker pause)");
		usleep(PAUSE_US);
	}
	return 0;
}

int xp_stopped_do(struct xp_stopped *stopped, int (*work)(void *arg, struct xp_remote *remote), void *arg)
{
	struct task task = { stopped, work, arg, getpid() };
	uint64_t begin_ns = xp_now_ns();
	unsigned int pause_us = PAUSE_US;

	stopped->ns = 0;
	if (stopped->held)
		return do_once(&task);
	for (int tries = 1;; tries++) {
		int err = wait_thawed(stopped);

		if (err)
			return stopped->patient || !xp_interrupted() ? err : -ECANCELED;
		err = try_once(&task);
		if ((err != -EBUSY && err != -EAGAIN) || stopped->once)
			return err;
		if (!stopped->patient && xp_interrupted())
			return -ECANCELED;
		if (stopped->patient && !xp_interrupted() ? xp_now_ns() - begin_ns >= PATIENCE_NS : tries >= TRIES)
			return err;
		usleep(pause_us);
		pause_us = pause_us < PAUSE_MAX_US ? 2 * pause_us : pause_us;
	}
}
