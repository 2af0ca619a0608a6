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

/* Polling interval, because SIGCHLD is not reliable: the program that started xprof may have set it to be ignored. */
#define XP_REMOTE_POLL_NS 500000

enum xp_remote_state {
	XP_REMOTE_RUNS, /* seized, with a pending request to stop */
	XP_REMOTE_STANDS,
	XP_REMOTE_GONE,
};

struct xp_remote_thread {
	pid_t tid;
	enum xp_remote_state state;
};

/* Memory of the process that xprof uses temporarily. */
struct xp_remote_loan {
	uint64_t address;
	size_t bytes;	 /* 0: nothing is borrowed */
	uint8_t *before; /* previous contents */
};

struct xp_remote {
	pid_t pid;
	bool held; /* the caller holds the process, also after the release */
	struct xp_target_memory *memory;
	struct xp_program_memory program;
	pid_t program_tid; /* the thread through which the memory was opened */
	bool pokes;	   /* the kernel refuses writes to the text through /proc/TID/mem */
	struct xp_remote_thread *threads;
	size_t count;
	size_t room;
	uint64_t begin_ns;

	/* The thread that executes system calls. */
	struct xp_remote_thread *worker;
	struct user_regs_struct registers; /* the worker's own registers */
	uint64_t mask;			   /* the worker's own signal mask */
	uint64_t late_signals;		   /* signals to send again after the calls: bit n - 1 for signal n */
	uint64_t deadline_ns;		   /* deadline for all calls together */
	int error;			   /* error of the last call: no more calls are possible */
	struct xp_remote_loan code;
	struct xp_remote_loan frame;
};

/*
 * Waits until deadline_ns (CLOCK_MONOTONIC) for the next status of a thread, as from wait(2). Returns 0 or -errno:
 * -ESRCH if the thread has ended (it is not reaped), -EBUSY at the deadline.
 */
int xp_remote_wait(struct xp_remote_thread *thread, uint64_t deadline_ns, int *status);
/*
 * Waits until the thread has stopped after a PTRACE_INTERRUPT. Before that stop, delivers the signals of the thread.
 * Returns the same errors as xp_remote_wait().
 */
int xp_remote_wait_stop(struct xp_remote_thread *thread, uint64_t deadline_ns);
/* Frees the saved contents without writing them back. */
void xp_remote_forget(struct xp_remote_loan *loan);

#endif
