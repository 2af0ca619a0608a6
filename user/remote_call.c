// SPDX-License-Identifier: BSD-2-Clause
/* System calls that a stopped thread of another process executes. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "remote.h"
#include "remote_thread.h"

/* Requests that Debian 12's headers may not have: Linux 5.13 and 6.4 (include/uapi/linux/ptrace.h). */
#define GET_RSEQ_CONFIGURATION 0x420f
#define GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211

#define USER_CODE_64 0x33 /* the code segment of 64-bit programs, __USER_CS */
#define SYSCALL_STOP (SIGTRAP | 0x80)

struct rseq_configuration {
	uint64_t area;
	uint32_t area_bytes;
	uint32_t signature;
	uint32_t flags;
	uint32_t pad;
};

struct dispatch_configuration {
	uint64_t mode;
	uint64_t selector;
	uint64_t offset;
	uint64_t size;
};

/*
 * Whether the thread may be in a restartable sequence, which must be aborted when it goes on: the kernel would look at
 * the borrowed registers and forget about it.
 */
static bool in_sequence(struct xp_remote *remote, pid_t tid)
{
	struct rseq_configuration rseq = { 0 };
	uint64_t sequence = 0;

	if (ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, tid, sizeof(rseq), &rseq) < 0 || !rseq.area)
		return false;
	/* struct rseq: cpu_id_start, cpu_id, then rseq_cs. */
	return xp_remote_read(remote, rseq.area + 8, &sequence, sizeof(sequence)) || sequence;
}

static bool redirects_calls(pid_t tid)
{
	struct dispatch_configuration dispatch = { 0 };

	return ptrace((enum __ptrace_request)GET_SYSCALL_USER_DISPATCH_CONFIG, tid, sizeof(dispatch), &dispatch) == 0 &&
	       dispatch.mode;
}

/* A thread in user code is preferred; one in a system call goes on with that, for its registers say so. */
static int choose(struct xp_remote *remote)
{
	struct xp_remote_thread *chosen = NULL;

	for (size_t i = 0; i < remote->count; i++) {
		struct xp_remote_thread *thread = &remote->threads[i];
		struct user_regs_struct registers;
		bool in_call;

		if (thread->state != XP_REMOTE_STANDS || ptrace(PTRACE_GETREGS, thread->tid, 0, &registers))
			continue;
		in_call = (int64_t)registers.orig_rax >= 0;
		if (registers.cs != USER_CODE_64 || (in_call && chosen) || in_sequence(remote, thread->tid))
			continue;
		chosen = thread;
		remote->registers = registers;
		if (!in_call)
			break;
	}
	if (!chosen)
		return -EAGAIN;
	if (redirects_calls(chosen->tid))
		return -EOPNOTSUPP;
	remote->worker = chosen;
	return 0;
}

static int begin_calls(struct xp_remote *remote)
{
	const uint64_t all = ~0ull;
	int err = choose(remote);

	if (err)
		return err;
	/* No signal may come between, for its handler would run on borrowed registers. */
	if (ptrace(PTRACE_GETSIGMASK, remote->worker->tid, sizeof(remote->mask), &remote->mask) ||
	    ptrace(PTRACE_SETSIGMASK, remote->worker->tid, sizeof(all), &all)) {
		err = -errno;
		remote->worker = NULL;
	}
	return err;
}

/* SIGSTOP cannot be blocked: it has to wait otherwise. */
static void put_off(struct xp_remote *remote, int status)
{
	if (!(status >> 16) && WSTOPSIG(status) == SIGSTOP)
		remote->stop_signal = true;
}

/*
 * Lets the worker run to the beginning or the end of a system call. Without a limit of time: a thread in the middle of
 * a call cannot be given its registers back, and none of the calls waits for anything but memory.
 */
static int run_to_call(struct xp_remote *remote)
{
	struct xp_remote_thread *worker = remote->worker;
	int status, err;

	do {
		if (ptrace(PTRACE_SYSCALL, worker->tid, 0, 0))
			return -errno;
		err = xp_remote_wait(worker, UINT64_MAX, &status);
		if (!err)
			put_off(remote, status);
	} while (!err && (status >> 16 || WSTOPSIG(status) != SYSCALL_STOP));
	return err;
}

int xp_remote_syscall(struct xp_remote *remote, uint64_t at, long number, const uint64_t args[6], int64_t *result)
{
	struct user_regs_struct registers;
	int err = remote->worker ? 0 : begin_calls(remote);

	if (err)
		return err;
	registers = remote->registers;
	registers.rip = at;
	registers.rax = number;
	registers.orig_rax = -1; /* no call that is to be restarted */
	registers.rdi = args[0];
	registers.rsi = args[1];
	registers.rdx = args[2];
	registers.r10 = args[3];
	registers.r8 = args[4];
	registers.r9 = args[5];
	if (ptrace(PTRACE_SETREGS, remote->worker->tid, 0, &registers))
		return -errno;
	err = run_to_call(remote);
	if (!err)
		err = run_to_call(remote);
	if (!err && ptrace(PTRACE_GETREGS, remote->worker->tid, 0, &registers))
		err = -errno;
	if (!err)
		*result = registers.rax;
	return err;
}

pid_t xp_remote_caller(const struct xp_remote *remote)
{
	return remote->worker->tid;
}

/* From the end of its last call to the stop of an interrupt, where the kernel looks for calls to restart. */
int xp_remote_end_calls(struct xp_remote *remote)
{
	struct xp_remote_thread *worker = remote->worker;
	int status, err = 0;

	if (!worker)
		return 0;
	remote->worker = NULL;
	do {
		if (ptrace(PTRACE_INTERRUPT, worker->tid, 0, 0) || ptrace(PTRACE_CONT, worker->tid, 0, 0))
			return -errno;
		err = xp_remote_wait(worker, UINT64_MAX, &status);
		if (!err)
			put_off(remote, status);
	} while (!err && status >> 16 != PTRACE_EVENT_STOP);
	if (err)
		return err;
	if (ptrace(PTRACE_SETREGS, worker->tid, 0, &remote->registers) ||
	    ptrace(PTRACE_SETSIGMASK, worker->tid, sizeof(remote->mask), &remote->mask))
		return -errno;
	return 0;
}
