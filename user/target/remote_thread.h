/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to remote.c (stopping) and remote_call.c (system calls): the threads and the memory of the process. */
#ifndef XPROF_TARGET_REMOTE_THREAD_H
#define XPROF_TARGET_REMOTE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "target/memory.h"

/* SIGCHLD reports a stop, unless the program that started xprof has set it to be ignored. */
#define XP_REMOTE_POLL_NS 500000

enum xp_remote_state {
	XP_REMOTE_RUNS, /* seized, and requested to stop */
	XP_REMOTE_STANDS,
	XP_REMOTE_GONE,
};

struct xp_remote_thread {
	pid_t tid;
	enum xp_remote_state state;
};

/* Borrowed memory of the process. */
struct xp_remote_loan {
	uint64_t address;
	size_t bytes;	 /* 0: nothing is borrowed */
	uint8_t *before; /* previous contents */
};

struct xp_remote {
	pid_t pid;
	bool held; /* by the caller, also after the release */
	struct xp_target_memory *memory;
	struct xp_program_memory program;
	pid_t program_tid; /* the thread through which it was opened */
	bool pokes;	   /* the kernel does not allow writes to the text through that file */
	struct xp_remote_thread *threads;
	size_t count;
	size_t room;
	uint64_t begin_ns;

	/* The thread that executes system calls. */
	struct xp_remote_thread *worker;
	struct user_regs_struct registers; /* its saved registers */
	uint64_t mask;			   /* its blocked signals */
	uint64_t late_signals; /* signals that arrived meanwhile and are sent again later: bit n - 1 for signal n */
	uint64_t deadline_ns;  /* of all of its calls */
	int error;	       /* of its last call: no more calls are possible */
	struct xp_remote_loan code;
	struct xp_remote_loan frame;
};

/*
 * Waits until deadline_ns (CLOCK_MONOTONIC) for a thread's next status, as in wait(2). Returns 0 or -errno: -ESRCH if
 * it has ended (it is not reaped), -EBUSY at the deadline.
 */
int xp_remote_wait(struct xp_remote_thread *thread, uint64_t deadline_ns, int *status);
/*
 * Waits until the thread has stopped after a PTRACE_INTERRUPT. Lets it take its signals on the way. Returns errors as
 * above.
 */
int xp_remote_wait_stop(struct xp_remote_thread *thread, uint64_t deadline_ns);
/* Frees the saved contents without writing them back. */
void xp_remote_forget(struct xp_remote_loan *loan);

#endif
