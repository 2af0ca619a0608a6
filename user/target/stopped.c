// SPDX-License-Identifier: BSD-2-Clause
#include "target/stopped.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/shield.h"

#define STOP_TIMEOUT_NS 250000000ull
#define TASK_S 15
#define TRIES 3
#define PATIENT_TRIES 20
#define PAUSE_US 20000 /* doubles after each try, up to: */
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

	stopped->why[0] = 0;
	err = stopped->held ? xp_remote_hold(&remote, stopped->pid, stopped->why, stopped->why_size)
			    : xp_remote_stop(&remote, stopped->pid, STOP_TIMEOUT_NS, stopped->why, stopped->why_size);
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

	/* Limits any hang, such as ptrace() on a process that executes a file whose server does not answer. */
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(TASK_S);
	return getppid() == task->xprof ? do_once(task) : -ECANCELED;
}

int xp_stopped_do(struct xp_stopped *stopped, int (*work)(void *arg, struct xp_remote *remote), void *arg)
{
	struct task task = { stopped, work, arg, getpid() };
	unsigned int pause_us = PAUSE_US;
	int err;

	stopped->ns = 0;
	if (stopped->held)
		return do_once(&task);
	for (int tries = stopped->once ? 1 : stopped->patient ? PATIENT_TRIES : TRIES;;) {
		err = xp_shielded(shielded, &task);
		if (err == -ECHILD)
			snprintf(stopped->why, stopped->why_size, "it cannot be stopped and released within %d s",
				 TASK_S);
		if ((err != -EBUSY && err != -EAGAIN) || --tries == 0)
			return err;
		if (!stopped->patient && xp_interrupted())
			return -ECANCELED;
		usleep(pause_us);
		pause_us = pause_us < PAUSE_MAX_US ? 2 * pause_us : pause_us;
	}
}
