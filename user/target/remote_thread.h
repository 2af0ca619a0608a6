/* SPDX-License-Identifier: BSD-2-Clause */
/* What remote.c (stopping) and remote_call.c (system calls) share; for nobody else. */
#ifndef XPROF_REMOTE_THREAD_H
#define XPROF_REMOTE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "target/memory.h"

enum xp_remote_state {
	XP_REMOTE_RUNS, /* seized, told to stop */
	XP_REMOTE_STANDS,
	XP_REMOTE_GONE,
};

struct xp_remote_thread {
	pid_t tid;
	enum xp_remote_state state;
};

/* Memory of the process that is used for a while. */
struct xp_remote_loan {
	uint64_t address;
	size_t bytes;	 /* 0: nothing is lent */
	uint8_t *before; /* what was there */
};

struct xp_remote {
	pid_t pid;
	bool held; /* by the caller, also after the release */
	struct xp_target_memory *memory;
	struct xp_program_memory program;
	struct xp_remote_thread *threads;
	size_t count;
	size_t room;
	uint64_t begin_ns;

	/* The thread that executes system calls. */
	struct xp_remote_thread *worker;
	struct user_regs_struct registers; /* its own */
	uint64_t mask;			   /* its blocked signals */
	uint64_t late_signals;		   /* that came meanwhile and are to be sent anew: bit n - 1 for signal n */
	uint64_t deadline_ns;		   /* of all of its calls */
	int error;			   /* of its last call: it executes no more */
	struct xp_remote_loan code;
	struct xp_remote_loan frame;
};

/*
 * The next thing that a thread has to tell, waiting until deadline_ns (CLOCK_MONOTONIC): its status as in wait(2).
 * -ESRCH it is gone, and not reaped; -EBUSY the time is over.
 */
int xp_remote_wait(struct xp_remote_thread *thread, uint64_t deadline_ns, int *status);
/* Waits until it stands at the end of a PTRACE_INTERRUPT, letting it take its signals on the way. Errors as above. */
int xp_remote_wait_stop(struct xp_remote_thread *thread, uint64_t deadline_ns);
/* Gives the worker, which stands at the end of a PTRACE_INTERRUPT, its own registers and signal mask back. */
void xp_remote_put_back(struct xp_remote *remote);
/* Frees what was to be given back. */
void xp_remote_forget(struct xp_remote_loan *loan);
/* A line of /proc/PID/task/TID/status as a hexadecimal number, such as "SigBlk"; 0 when it cannot be read. */
uint64_t xp_remote_status_field(const struct xp_remote *remote, pid_t tid, const char *name);

#endif
