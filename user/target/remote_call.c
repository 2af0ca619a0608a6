// SPDX-License-Identifier: BSD-2-Clause
/* Makes a stopped thread of another process execute system calls. */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "arch/x86_64/sigframe.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "target/remote.h"
#include "target/remote_thread.h"
#include "target/status.h"

/* Requests that Debian 12's headers may lack: Linux 5.13 and 6.4 (include/uapi/linux/ptrace.h). */
#define GET_RSEQ_CONFIGURATION 0x420f
#define GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211

#define USER_CODE_64 0x33 /* the code segment of 64-bit programs, __USER_CS */
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define TRAP_FLAG 0x100ull
#define RED_ZONE_BYTES 128 /* below the stack pointer, may be in use: System V ABI, AMD64, 3.2.2 */

#define CALLS_NS (2 * XP_NS_PER_S)  /* for all calls together; one call takes microseconds */
#define SETTLE_NS (1 * XP_NS_PER_S) /* timeout for stopping the worker thread */
#define INTERRUPT_LOOK_NS 20000000ull

/* Executes the system call that the registers specify, then rt_sigreturn(2). */
static const uint8_t call_code[XP_REMOTE_SCRATCH_BYTES] = {
	0x0f, 0x05,	     /* syscall */
	0xb8, 15,   0, 0, 0, /* mov $__NR_rt_sigreturn,%eax */
	0x0f, 0x05,	     /* syscall */
};
#define CALL_END 2 /* offset after the first syscall instruction */

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
 * Returns true if the thread may be in a restartable sequence, which must be aborted when the thread continues. The
 * kernel would check the borrowed registers instead, and forget the sequence.
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

/* Returns true if the thread has a shadow stack: rt_sigreturn(2) would need a token on that stack. */
static bool has_shadow_stack(const struct xp_remote *remote, pid_t tid)
{
	struct xp_target_status status;

	xp_thread_status(&status, remote->pid, tid);
	return status.has_shadow_stack;
}

/* ---- borrowed memory ---- */

static int lend(struct xp_remote *remote, struct xp_remote_loan *loan, uint64_t address, const void *bytes, size_t size)
{
	int err;

	loan->before = malloc(size);
	if (!loan->before)
		return -ENOMEM;
	err = xp_remote_read(remote, address, loan->before, size);
	if (!err)
		err = xp_remote_write(remote, address, bytes, size);
	if (err) {
		free(loan->before);
		loan->before = NULL;
		return err;
	}
	loan->address = address;
	loan->bytes = size;
	return 0;
}

static void give_back(struct xp_remote *remote, struct xp_remote_loan *loan)
{
	if (loan->bytes)
		xp_remote_write(remote, loan->address, loan->before, loan->bytes);
	xp_remote_forget(loan);
}

void xp_remote_forget(struct xp_remote_loan *loan)
{
	free(loan->before);
	*loan = (struct xp_remote_loan){ 0 };
}

/* ---- the worker thread ---- */

static uint64_t bit(int number)
{
	return 1ull << (number - 1);
}

/* The signals that must stay unblocked: if a fault raises a blocked signal, the kernel resets the program's handler. */
static uint64_t fault_signals(void)
{
	return bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS);
}

static int read_state(struct xp_sigframe_state *state, pid_t tid)
{
	struct iovec extended = { state->extended, sizeof(state->extended) };

	if (ptrace(PTRACE_GETREGS, tid, 0, &state->registers) ||
	    ptrace(PTRACE_GETSIGMASK, tid, sizeof(state->mask), &state->mask) ||
	    ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &extended))
		return -errno;
	state->extended_bytes = extended.iov_len;
	return xp_sigframe_bytes(state) ? 0 : -EOPNOTSUPP;
}

/* Writes the frame to the thread's stack, at the address of a signal frame, and the text below it. */
static int lend_frame(struct xp_remote *remote, const struct xp_sigframe_state *state, const char *text)
{
	uint8_t bytes[XP_SIGFRAME_ALIGN + XP_SIGFRAME_BYTES_MAX] = { 0 };
	size_t size = XP_SIGFRAME_ALIGN + xp_sigframe_bytes(state);
	uint64_t top = state->registers.rsp - RED_ZONE_BYTES;
	uint64_t address = (top - size) & ~(uint64_t)(XP_SIGFRAME_ALIGN - 1);

	_Static_assert(XP_REMOTE_TEXT_BYTES <= XP_SIGFRAME_ALIGN, "room for the text");
	if (top < size + XP_SIGFRAME_ALIGN || state->registers.rsp < RED_ZONE_BYTES)
		return -EIO;
	snprintf((char *)bytes, XP_REMOTE_TEXT_BYTES, "%s", text);
	xp_sigframe_make(bytes + XP_SIGFRAME_ALIGN, address + XP_SIGFRAME_ALIGN, state);
	return lend(remote, &remote->frame, address, bytes, size);
}

/*
 * Makes this thread the worker if it can execute calls now. A thread that is in a system call continues that call
 * later.
 */
static int try_thread(struct xp_remote *remote, struct xp_remote_thread *thread, bool in_call, const char *text)
{
	struct xp_sigframe_state state;
	int err;

	if (thread->state != XP_REMOTE_STANDS || ptrace(PTRACE_GETREGS, thread->tid, 0, &state.registers) ||
	    state.registers.cs != USER_CODE_64 || ((int64_t)state.registers.orig_rax >= 0) != in_call ||
	    in_sequence(remote, thread->tid))
		return -EAGAIN;
	if (redirects_calls(thread->tid) || has_shadow_stack(remote, thread->tid))
		return -EOPNOTSUPP;
	err = read_state(&state, thread->tid);
	if (!err)
		err = lend_frame(remote, &state, text);
	if (err)
		return err == -EIO ? -EAGAIN : err;
	remote->registers = state.registers;
	remote->mask = state.mask;
	remote->worker = thread;
	return 0;
}

/* Chooses the worker. Prefers a thread in user code. */
static int choose(struct xp_remote *remote, const char *text)
{
	for (int in_call = 0; in_call < 2; in_call++)
		for (size_t i = 0; i < remote->count; i++) {
			int err = try_thread(remote, &remote->threads[i], in_call, text);

			if (err != -EAGAIN)
				return err;
		}
	return -EAGAIN;
}

/*
 * Returns the registers between two calls. If the thread continues with them, rt_sigreturn(2) restores its own
 * registers.
 */
static struct user_regs_struct resting(const struct xp_remote *remote)
{
	struct user_regs_struct registers = remote->registers;

	registers.rip = remote->code.address + CALL_END;
	registers.rsp = remote->frame.address + XP_SIGFRAME_ALIGN + XP_SIGFRAME_SP;
	registers.orig_rax = -1; /* no call to start or restart */
	registers.rax = 0;
	registers.eflags &= ~TRAP_FLAG;
	return registers;
}

int xp_remote_begin_calls(struct xp_remote *remote, uint64_t scratch, const char *text, uint64_t *text_address)
{
	const uint64_t mask = ~fault_signals();
	struct user_regs_struct registers;
	int err = choose(remote, text);

	if (!err) {
		err = lend(remote, &remote->code, scratch, call_code, sizeof(call_code));
		if (err) {
			give_back(remote, &remote->frame);
			remote->worker = NULL;
		}
	}
	if (err)
		return xp_why_set(err == -EIO ? -EOPNOTSUPP : err, "none of its threads can map the stub: %s",
				  err == -EOPNOTSUPP ? "it redirects its system calls, or has a shadow stack"
				  : err == -EAGAIN   ? "none is in a suitable state now"
				  : err == -EIO	     ? XP_REMOTE_NO_WRITES
						     : strerror(-err));
	*text_address = remote->frame.address;
	remote->deadline_ns = xp_now_ns() + CALLS_NS;
	remote->error = 0;
	registers = resting(remote);
	/*
	 * After this, the thread continues by itself if any task dies. The mask blocks signals, because a handler must
	 * not run in between.
	 */
	if (ptrace(PTRACE_SETREGS, remote->worker->tid, 0, &registers) ||
	    ptrace(PTRACE_SETSIGMASK, remote->worker->tid, sizeof(mask), &mask))
		remote->error = xp_why_set(-errno, "its registers cannot be set: %s", strerror(errno));
	return remote->error;
}

/*
 * Postpones a signal from outside: xprof sends it again later. Returns false for other stops, also for a signal that
 * the borrowed code caused because another process made its page unreadable.
 */
static bool put_off(struct xp_remote *remote, int status)
{
	siginfo_t info;

	if (status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ||
	    ptrace(PTRACE_GETSIGINFO, remote->worker->tid, 0, &info) || info.si_code > 0)
		return false;
	remote->late_signals |= bit(WSTOPSIG(status));
	return true;
}

/* Waits for the worker's next stop. After -ETIMEDOUT and -ECANCELED the worker still runs. */
static int wait_worker(struct xp_remote *remote, int *status)
{
	struct xp_remote_thread *worker = remote->worker;

	worker->state = XP_REMOTE_RUNS;
	for (;;) {
		uint64_t look_ns = XP_MIN(xp_now_ns() + INTERRUPT_LOOK_NS, remote->deadline_ns);
		int err = xp_remote_wait(worker, look_ns, status);

		if (!err)
			worker->state = XP_REMOTE_STANDS;
		if (err != -EBUSY)
			return err;
		if (xp_now_ns() >= remote->deadline_ns)
			return -ETIMEDOUT;
		if (xp_interrupted())
			return -ECANCELED;
	}
}

/*
 * Lets the worker run to the start or the end of a system call. Ignores reports of an earlier interrupt or of a stop of
 * the whole process.
 */
static int run_to_call(struct xp_remote *remote)
{
	int status, err;

	do {
		if (ptrace(PTRACE_SYSCALL, remote->worker->tid, 0, 0))
			return -errno;
		err = wait_worker(remote, &status);
	} while (!err && (status >> 16 == PTRACE_EVENT_STOP || put_off(remote, status)));
	if (!err && (status >> 16 || WSTOPSIG(status) != SYSCALL_STOP))
		err = -EPROTO;
	return err;
}

/* Checks that the worker has stopped at the first system call of the code. */
static int read_call(const struct xp_remote *remote, struct user_regs_struct *registers)
{
	if (ptrace(PTRACE_GETREGS, remote->worker->tid, 0, registers))
		return -errno;
	return registers->rip == remote->code.address + CALL_END ? 0 : -EPROTO;
}

static int execute(struct xp_remote *remote, long number, const uint64_t args[6], int64_t *result)
{
	struct user_regs_struct registers = resting(remote);
	int err;

	registers.rip = remote->code.address;
	registers.rax = number;
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
		err = read_call(remote, &registers);
	if (!err && registers.orig_rax != (uint64_t)number)
		err = -EPROTO;
	if (!err)
		err = run_to_call(remote);
	if (!err)
		err = read_call(remote, &registers);
	*result = err ? err : (int64_t)registers.rax;
	return err;
}

int xp_remote_syscall(struct xp_remote *remote, long number, const uint64_t args[6], int64_t *result)
{
	if (!remote->error)
		remote->error = execute(remote, number, args, result);
	return remote->error;
}

pid_t xp_remote_caller(const struct xp_remote *remote)
{
	return remote->worker->tid;
}

/*
 * Brings the worker from any state to the stop of an interrupt, where the kernel checks whether a call must be
 * restarted. Discards a signal that the borrowed code caused. Returns -EBUSY if the worker does not stop because it is
 * frozen.
 */
static int settle(struct xp_remote *remote)
{
	struct xp_remote_thread *worker = remote->worker;
	const struct user_regs_struct registers = resting(remote);
	uint64_t deadline_ns = xp_now_ns() + SETTLE_NS;
	int status, err;

	do {
		/* If the worker is at the start of a call, these registers cancel the call. */
		if (worker->state == XP_REMOTE_STANDS)
			ptrace(PTRACE_SETREGS, worker->tid, 0, &registers);
		if (ptrace(PTRACE_INTERRUPT, worker->tid, 0, 0) ||
		    (worker->state == XP_REMOTE_STANDS && ptrace(PTRACE_CONT, worker->tid, 0, 0)))
			return -errno;
		worker->state = XP_REMOTE_RUNS;
		err = xp_remote_wait(worker, deadline_ns, &status);
		if (!err) {
			worker->state = XP_REMOTE_STANDS;
			put_off(remote, status);
		}
	} while (!err && status >> 16 != PTRACE_EVENT_STOP);
	return err;
}

/*
 * Restores the registers and the signal mask of the worker, which PTRACE_INTERRUPT has stopped. The order matters: if
 * this task dies in between, the thread must continue through the frame or with its own registers.
 */
static void put_back(struct xp_remote *remote)
{
	struct xp_remote_thread *worker = remote->worker;

	if (!ptrace(PTRACE_SETSIGMASK, worker->tid, sizeof(remote->mask), &remote->mask) &&
	    !ptrace(PTRACE_SETREGS, worker->tid, 0, &remote->registers)) {
		give_back(remote, &remote->frame);
		give_back(remote, &remote->code);
	}
	remote->worker = NULL;
}

void xp_remote_end_calls(struct xp_remote *remote)
{
	/* A worker that does not stop stays traced until this task ends. Then the worker continues by itself. */
	if (remote->worker && !settle(remote))
		put_back(remote);
}
