/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/text.h"
#include "base/why.h"

/* maximum number of pending signals that are checked */
#define PENDING_MAX 64

/* the exit codes of the shell and env(1) */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

/*
 * Runs in the new process. It is not a child of base/child.h, because the program keeps the descriptors, the terminal
 * and the limits of the user, and may outlive xprof.
 */
static void child(char **argv, int go_fd, int error_fd)
{
	sigset_t none;
	int err;
	char byte;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* read() returns when xprof has seized this process, or has ended. */
	if (read(go_fd, &byte, 1) != 1)
		_exit(EXIT_NOT_FOUND);
	execvp(argv[0], argv);
	err = errno;
	(void)!write(error_fd, &err, sizeof(err)); /* if this fails, the exit code still contains the reason */
	_exit(err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/*
 * Waits for the next stop of the process. Returns the stop, 0 if the process has ended, or -ECANCELED if xprof must
 * stop. ^C goes to the process, too.
 */
static int wait_stop(struct xp_launch *launch)
{
	sigset_t signals;
	int status = 0, number = 0;
	pid_t pid;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	while ((pid = waitpid(launch->pid, &status, WNOHANG)) != launch->pid) {
		if (pid < 0 && errno != EINTR)
			return -errno;
		if (!pid)
			number = sigwaitinfo(&signals, NULL);
		if (number == SIGTERM || number == SIGHUP)
			return -ECANCELED;
	}
	if (WIFSTOPPED(status))
		return status;
	launch->status = status;
	launch->ended = true;
	launch->traced = false;
	return 0;
}

static const char *exec_remedy(int err)
{
	switch (err) {
	case ENOENT:
		return "; give a path or a name in $PATH";
	case EACCES:
		return "; is it an executable file (chmod +x)?";
	default:
		return "";
	}
}

/* Waits until the new program has stopped at its start, or execvp() has reported why it cannot run. */
static int reach_exec(struct xp_launch *launch, int error_fd, const char *name)
{
	for (;;) {
		int status = wait_stop(launch);
		struct xp_short_text shown;
		int err;

		if (status < 0)
			return status;
		if (!status) {
			if (xp_interrupted()) /* ^C also ended the new process */
				return -ECANCELED;
			if (read(error_fd, &err, sizeof(err)) != sizeof(err))
				err = ECHILD;
			launch->not_executed = err != ECHILD;
			return xp_why_set(-err, "cannot run %s: %s%s", xp_short_text(&shown, name), strerror(err),
					  exec_remedy(err));
		}
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
			launch->standing = true;
			return 0;
		}
		if (ptrace(PTRACE_CONT, launch->pid, 0, status >> 16 ? 0 : WSTOPSIG(status)))
			return -errno;
	}
}

int xp_launch_start(struct xp_launch *launch, char **argv)
{
	int go[2], error[2];
	int err = 0;

	memset(launch, 0, sizeof(*launch));
	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(error, O_CLOEXEC)) {
		err = -errno;
		close(go[0]);
		close(go[1]);
		return err;
	}
	launch->pid = fork();
	if (!launch->pid) {
		close(go[1]);
		child(argv, go[0], error[1]);
	}
	if (launch->pid < 0)
		err = -errno;
	close(go[0]);
	close(error[1]);
	if (!err && ptrace(PTRACE_SEIZE, launch->pid, 0, PTRACE_O_TRACEEXEC))
		err = xp_why_set(-errno, "cannot hold the new process with ptrace: %s; is kernel.yama.ptrace_scope 3?",
				 strerror(errno));
	if (!err) {
		launch->traced = true;
		if (write(go[1], "", 1) != 1)
			err = -errno;
	}
	close(go[1]);
	if (!err)
		err = reach_exec(launch, error[0], argv[0]);
	close(error[0]);
	return err;
}

int xp_launch_continue(struct xp_launch *launch)
{
	launch->standing = false;
	return ptrace(PTRACE_CONT, launch->pid, 0, 0) && errno != ESRCH ? -errno : 0;
}

/* Classifies a stop. After any other stop, the program continues with its signal. */
static enum xp_launch_event event_of(struct xp_launch *launch, int status)
{
	int event = status >> 16;

	if (event == PTRACE_EVENT_EXEC) {
		launch->stops = 0;
		return XP_LAUNCH_EXEC;
	}
	if (!event && WSTOPSIG(status) == SIGSTOP) {
		launch->stops++;
		return XP_LAUNCH_LOADED;
	}
	/* A terminal or shell stopped the program: it stays stopped until SIGCONT. */
	if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP)
		ptrace(PTRACE_LISTEN, launch->pid, 0, 0);
	else
		ptrace(PTRACE_CONT, launch->pid, 0, event ? 0 : WSTOPSIG(status));
	return XP_LAUNCH_NONE;
}

enum xp_launch_event xp_launch_poll_event(struct xp_launch *launch)
{
	enum xp_launch_event event = XP_LAUNCH_NONE;
	int status;

	while (event == XP_LAUNCH_NONE && waitpid(launch->pid, &status, WNOHANG) == launch->pid) {
		if (!WIFSTOPPED(status)) {
			launch->status = status;
			launch->ended = true;
			launch->traced = false;
			return XP_LAUNCH_NONE;
		}
		event = event_of(launch, status);
	}
	launch->standing = event != XP_LAUNCH_NONE;
	return event;
}

/* Waits for the next stop like wait(2). Returns -ESRCH if the program has ended. */
static int wait_for_stop(struct xp_launch *launch)
{
	int status;

	while (waitpid(launch->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFSTOPPED(status))
		return status;
	launch->status = status;
	launch->ended = true;
	return -ESRCH;
}

/* Returns true if a SIGSTOP is pending: after the release it would stop the program permanently. */
static bool stop_is_pending(const struct xp_launch *launch)
{
	static const bool of_process[] = { false, true };
	siginfo_t pending[PENDING_MAX];

	for (size_t i = 0; i < 2; i++) {
		struct __ptrace_peeksiginfo_args from = {
			.flags = of_process[i] ? PTRACE_PEEKSIGINFO_SHARED : 0,
			.nr = PENDING_MAX,
		};
		long count = ptrace(PTRACE_PEEKSIGINFO, launch->pid, &from, pending);

		for (long k = 0; k < count; k++)
			if (pending[k].si_signo == SIGSTOP)
				return true;
	}
	return false;
}

/*
 * Stops a running tracee. Returns the signal that stopped it, which the caller must pass on, or -errno; -ESRCH if it
 * has ended.
 */
static int interrupt(struct xp_launch *launch)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, launch->pid, 0, 0))
		return -errno;
	status = wait_for_stop(launch);
	while (status >= 0 && (status >> 16 || WSTOPSIG(status) != SIGSTOP) && stop_is_pending(launch)) {
		if (ptrace(PTRACE_CONT, launch->pid, 0, status >> 16 ? 0 : WSTOPSIG(status)))
			return -errno;
		status = wait_for_stop(launch);
	}
	if (status < 0)
		return status;
	/* A SIGSTOP without an event comes from a changed link map. */
	return status >> 16 || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
}

int xp_launch_release(struct xp_launch *launch)
{
	int deliver = 0;

	if (!launch->traced)
		return 0;
	launch->traced = false;
	if (!launch->standing)
		deliver = interrupt(launch);
	if (deliver >= 0 && ptrace(PTRACE_DETACH, launch->pid, 0, deliver))
		deliver = -errno;
	return deliver < 0 && deliver != -ESRCH ? deliver : 0;
}

void xp_launch_lose(struct xp_launch *launch)
{
	launch->traced = launch->standing = false;
}

void xp_launch_poll(struct xp_launch *launch)
{
	if (!launch->ended && waitpid(launch->pid, &launch->status, WNOHANG) == launch->pid)
		launch->ended = true;
}

void xp_launch_wait(struct xp_launch *launch)
{
	while (!launch->ended) {
		if (waitpid(launch->pid, &launch->status, 0) == launch->pid)
			launch->ended = !WIFSTOPPED(launch->status);
		else if (errno != EINTR)
			return;
	}
}

int xp_launch_exit_code(const struct xp_launch *launch)
{
	if (WIFSIGNALED(launch->status))
		return 128 + WTERMSIG(launch->status);
	return WEXITSTATUS(launch->status);
}
