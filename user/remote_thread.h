/* SPDX-License-Identifier: BSD-2-Clause */
/* What remote.c (stopping) and remote_call.c (system calls) share; for nobody else. */
#ifndef XPROF_REMOTE_THREAD_H
#define XPROF_REMOTE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

enum xp_remote_state {
	XP_REMOTE_RUNS, /* seized, told to stop */
	XP_REMOTE_STANDS,
	XP_REMOTE_GONE,
};

struct xp_remote_thread {
	pid_t tid;
	enum xp_remote_state state;
};

struct xp_remote {
	pid_t pid;
	bool held; /* by the caller, also after the release */
	int memory_fd;
	struct xp_remote_thread *threads;
	size_t count;
	size_t room;
	uint64_t begin_ns;

	/* The thread that executes system calls, once there was one. */
	struct xp_remote_thread *worker;
	struct user_regs_struct registers; /* its own */
	uint64_t mask;			   /* its blocked signals */
	bool stop_signal;		   /* a SIGSTOP came meanwhile, to be sent anew */
};

/*
 * The next thing that a thread has to tell, waiting until deadline_ns (CLOCK_MONOTONIC): its status as in wait(2).
 * -ESRCH it is gone, and not reaped; -EBUSY the time is over.
 */
int xp_remote_wait(struct xp_remote_thread *thread, uint64_t deadline_ns, int *status);
/* Waits until it stands at the end of a PTRACE_INTERRUPT, letting it take its signals on the way. Errors as above. */
int xp_remote_wait_stop(struct xp_remote_thread *thread, uint64_t deadline_ns);
/* Gives the worker its own registers and signal mask back; it stands then as any other. */
int xp_remote_end_calls(struct xp_remote *remote);
/* A line of /proc/PID/task/TID/status as a hexadecimal number, such as "SigBlk"; 0 when it cannot be read. */
uint64_t xp_remote_status_field(const struct xp_remote *remote, pid_t tid, const char *name);

#endif
