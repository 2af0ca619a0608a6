// SPDX-License-Identifier: BSD-2-Clause
#include "target/remote_thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "base/util.h"
#include "target/remote.h"

/* Checks for a new status of the thread. Does not reap it: its parent must see its end. */
static int poll_status(struct xp_remote_thread *thread, int *status)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, thread->tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
		return errno == ECHILD ? -ESRCH : -errno;
	if (!info.si_pid)
		return 0;
	if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
		return -ESRCH;
	return waitpid(thread->tid, status, WNOHANG | __WALL) == thread->tid;
}

int xp_remote_wait(struct xp_remote_thread *thread, uint64_t deadline_ns, int *status)
{
	const struct timespec pause = { .tv_nsec = XP_REMOTE_POLL_NS };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		int told = poll_status(thread, status);

		if (told == -ESRCH)
			thread->state = XP_REMOTE_GONE;
		if (told)
			return XP_MIN(told, 0);
		if (xp_now_ns() >= deadline_ns)
			return -EBUSY;
		sigtimedwait(&child, NULL, &pause);
	}
}

static bool is_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

int xp_remote_wait_stop(struct xp_remote_thread *thread, uint64_t deadline_ns)
{
	int status, err;

	while (!(err = xp_remote_wait(thread, deadline_ns, &status))) {
		if (is_stop(status)) {
			thread->state = XP_REMOTE_STANDS;
			return 0;
		}
		/* It is about to take a signal. Any stop consumes the interrupt, so it needs another one. */
		if (ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0) ||
		    ptrace(PTRACE_CONT, thread->tid, 0, status >> 16 ? 0 : WSTOPSIG(status)))
			return -errno;
	}
	return err;
}

int xp_remote_read(struct xp_remote *remote, uint64_t address, void *to, size_t size)
{
	ssize_t n = xp_program_memory_read(remote->memory, &remote->program, address, to, size);

	return n < 0 ? (int)n : n == (ssize_t)size ? 0 : -EIO;
}

int xp_remote_write(struct xp_remote *remote, uint64_t address, const void *from, size_t size)
{
	return xp_program_memory_write(remote->memory, &remote->program, address, from, size);
}
