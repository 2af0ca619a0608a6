// SPDX-License-Identifier: BSD-2-Clause
#include "target/remote.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/array.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "target/remote_thread.h"
#include "target/status.h"
#include "target/target.h"

#define LATE_NS (3 * XP_NS_PER_S)
#define HOLD_NS (10 * XP_NS_PER_S) /* a program that xprof started only needs to get a CPU */

static bool is_known(const struct xp_remote *remote, pid_t tid)
{
	for (size_t i = remote->count; i--;)
		if (remote->threads[i].tid == tid)
			return true;
	return false;
}

static int seize(struct xp_remote *remote, pid_t tid)
{
	struct xp_remote_thread *thread;
	int err = 0;

	if (XP_ARRAY_RESERVE(remote->threads, remote->room, remote->count + 1))
		return -ENOMEM;
	thread = &remote->threads[remote->count++];
	*thread = (struct xp_remote_thread){ .tid = tid, .state = XP_REMOTE_GONE };
	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD))
		err = errno;
	else if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0)
		thread->state = XP_REMOTE_RUNS;
	if (!err || err == ESRCH || !xp_target_thread_lives(remote->pid, tid))
		return 0;
	return xp_why_set(
	    -EPERM, "ptrace is refused (%s): is a debugger or strace attached to it, or kernel.yama.ptrace_scope 3?",
	    strerror(err));
}

/* Seizes all threads that are not seized yet. Returns their number, or -errno. */
static int seize_new(struct xp_remote *remote)
{
	DIR *list = xp_target_list(remote->pid);
	int added = 0, err = 0;
	pid_t tid;

	if (!list)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (tid = xp_target_next(list))) {
		if (is_known(remote, tid))
			continue;
		err = seize(remote, tid);
		added++;
	}
	closedir(list);
	return err ? err : added;
}

static int wait_all(struct xp_remote *remote, uint64_t deadline_ns)
{
	for (size_t i = 0; i < remote->count; i++) {
		struct xp_remote_thread *thread = &remote->threads[i];
		int err;

		if (thread->state != XP_REMOTE_RUNS)
			continue;
		err = xp_remote_wait_stop(thread, deadline_ns);
		if (err == -EBUSY)
			xp_why_set(err,
				   "thread %d does not stop in time: it gets no CPU, or waits for a disk or a child "
				   "of vfork()",
				   thread->tid);
		if (err && err != -ESRCH)
			return err;
	}
	return 0;
}

/* Opens the memory through a stopped thread, because the first thread may have ended, and its memory with it. */
static int open_memory(struct xp_remote *remote)
{
	for (size_t i = 0; i < remote->count; i++)
		if (remote->threads[i].state == XP_REMOTE_STANDS) {
			remote->program_tid = remote->threads[i].tid;
			return xp_program_memory_open(&remote->program, remote->pid, remote->program_tid, true);
		}
	return -ESRCH;
}

static struct xp_remote *make(pid_t pid)
{
	struct xp_remote *remote = calloc(1, sizeof(*remote));

	if (!remote)
		return NULL;
	remote->pid = pid;
	remote->program.fd = -1;
	remote->memory = xp_target_memory_own();
	/* Creating a process takes milliseconds: do it before the target is stopped. */
	if (!remote->memory || xp_target_memory_start(remote->memory)) {
		free(remote);
		return NULL;
	}
	remote->begin_ns = xp_now_ns();
	return remote;
}

int xp_remote_stop(struct xp_remote **result, pid_t pid, uint64_t timeout_ns)
{
	struct xp_remote *remote = make(pid);
	int added, err;

	if (!remote)
		return -ENOMEM;
	do {
		added = seize_new(remote);
		err = added < 0 ? added : wait_all(remote, remote->begin_ns + timeout_ns);
	} while (!err && added);
	if (!err)
		err = open_memory(remote);
	if (err == -ESRCH)
		xp_why_set(err, "process %d has ended", pid);
	if (err)
		xp_remote_release(remote);
	else
		*result = remote;
	return err;
}

int xp_remote_hold(struct xp_remote **result, pid_t pid)
{
	struct xp_remote *remote = make(pid);
	struct xp_remote_thread *thread = calloc(1, sizeof(*thread));
	int err = -ENOMEM;

	if (!remote || !thread) {
		free(remote);
		free(thread);
		return err;
	}
	*thread = (struct xp_remote_thread){ .tid = pid, .state = XP_REMOTE_RUNS };
	remote->threads = thread;
	remote->count = 1;
	remote->held = true;
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) || ptrace(PTRACE_CONT, pid, 0, 0))
		err = -errno;
	else
		err = xp_remote_wait_stop(thread, xp_now_ns() + HOLD_NS);
	if (!err)
		err = open_memory(remote);
	if (err) {
		xp_why_set(err, "cannot hold the program that was started: %s", strerror(-err));
		xp_remote_release(remote);
	} else {
		*result = remote;
	}
	return err;
}

/*
 * Returns true for system calls that return EINTR after any interruption, even if no handler runs. These are the calls
 * in the list of signal(7), and socket calls with a timeout. The kernel restarts all other calls.
 */
static bool answers_eintr(uint64_t number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
		return true;
	default:
		return false;
	}
}

/* Returns true if the thread is about to handle a signal: then EINTR is the correct result. */
static bool has_signal(const struct xp_remote *remote, pid_t tid)
{
	struct xp_target_status status;

	xp_thread_status(&status, remote->pid, tid);
	return status.pending & ~status.blocked;
}

static void restart_call(const struct xp_remote *remote, pid_t tid)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, tid, 0, &registers))
		return;
	if ((int64_t)registers.orig_rax < 0 || (int64_t)registers.rax != -EINTR || !answers_eintr(registers.orig_rax) ||
	    has_signal(remote, tid))
		return;
	registers.rax = registers.orig_rax;
	registers.rip -= 2; /* back to the syscall instruction */
	ptrace(PTRACE_SETREGS, tid, 0, &registers);
}

static void let_go(struct xp_remote *remote, const struct xp_remote_thread *thread)
{
	restart_call(remote, thread->tid);
	if (remote->held)
		ptrace(PTRACE_SETOPTIONS, thread->tid, 0, PTRACE_O_TRACEEXEC);
	else
		ptrace(PTRACE_DETACH, thread->tid, 0, 0);
}

/*
 * Releases threads that did not stop in time. Each thread continues its system call as soon as it stops. A thread that
 * still does not stop is in an uninterruptible sleep; the end of this task releases it.
 */
static void let_late_go(struct xp_remote *remote)
{
	const struct timespec pause = { .tv_nsec = XP_REMOTE_POLL_NS };
	uint64_t deadline_ns = xp_now_ns() + LATE_NS;
	bool late = true;

	while (late && xp_now_ns() < deadline_ns && !xp_interrupted()) {
		late = false;
		for (size_t i = 0; i < remote->count; i++) {
			struct xp_remote_thread *thread = &remote->threads[i];

			if (thread->state != XP_REMOTE_RUNS)
				continue;
			if (thread == remote->worker)
				xp_remote_end_calls(remote);
			else
				xp_remote_wait_stop(thread, 0);
			if (thread->state != XP_REMOTE_STANDS) {
				late |= thread->state == XP_REMOTE_RUNS;
				continue;
			}
			let_go(remote, thread);
			thread->state = XP_REMOTE_GONE;
		}
		if (late)
			nanosleep(&pause, NULL);
	}
}

bool xp_remote_is_in(const struct xp_remote *remote, uint64_t start, uint64_t end)
{
	struct user_regs_struct registers;

	for (size_t i = 0; i < remote->count; i++)
		if (remote->threads[i].state == XP_REMOTE_STANDS &&
		    !ptrace(PTRACE_GETREGS, remote->threads[i].tid, 0, &registers) && registers.rip >= start &&
		    registers.rip < end)
			return true;
	return false;
}

uint64_t xp_remote_release(struct xp_remote *remote)
{
	uint64_t stood_ns;

	if (!remote)
		return 0;
	xp_remote_end_calls(remote);
	for (size_t i = 0; i < remote->count; i++)
		if (remote->threads[i].state == XP_REMOTE_STANDS)
			let_go(remote, &remote->threads[i]);
	for (int number = 1; number <= 64; number++)
		if (remote->late_signals >> (number - 1) & 1)
			kill(remote->pid, number);
	stood_ns = xp_now_ns() - remote->begin_ns;
	if (!remote->held)
		let_late_go(remote);
	xp_program_memory_close(&remote->program);
	xp_remote_forget(&remote->code);
	xp_remote_forget(&remote->frame);
	free(remote->threads);
	free(remote);
	return stood_ns;
}
