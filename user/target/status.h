/* SPDX-License-Identifier: BSD-2-Clause */
/* The status of a thread of another process, from /proc/PID/task/TID/status (proc(5)). */
#ifndef XPROF_TARGET_STATUS_H
#define XPROF_TARGET_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_target_status {
	pid_t process;	 /* its thread group */
	pid_t inner_pid; /* its TID in its innermost PID namespace */
	pid_t tracer;	 /* 0: none */
	uid_t euid;	 /* users and groups as this process sees them */
	gid_t egid;
	uid_t fsuid;
	uint64_t address_kib; /* the address space of its process */
	uint64_t data_kib;    /* the part of it that RLIMIT_DATA limits */
	uint64_t locked_kib;  /* the part of address_kib that is locked */
	uint64_t pending;     /* signals of the thread and of its process: bit n - 1 for signal n */
	uint64_t blocked;
	uint64_t caught;       /* signals that have a handler */
	uint64_t capabilities; /* effective ones, in its user namespace: bit n for capability n */
	unsigned int seccomp;  /* SECCOMP_MODE_*; 0: none */
	bool has_shadow_stack;
};

/*
 * Returns 0, or -ESRCH if process pid has no thread tid; then the numbers are 0, and the user and group IDs -1. With
 * pid = tid, tid can be any thread.
 */
int xp_thread_status(struct xp_target_status *status, pid_t pid, pid_t tid);
/*
 * Gets the status of the first thread of a process. Returns 0, or -ESRCH if the process does not exist or is a zombie.
 * start_time (target.h) identifies the process.
 */
int xp_target_status(struct xp_target_status *status, pid_t pid, uint64_t start_time);

#endif
