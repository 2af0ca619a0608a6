/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Child processes of xprof: for jobs that may hang, that read untrusted data with a library that trusts its input, or
 * that need other privileges. Each child keeps only the descriptors that it is given (except with keeps_fds), handles
 * no signal, ignores signals of the terminal, leaves no core file, and dies with the thread that started it. The
 * options add limits. xprof does not start programs that the user names (launch.h, pager.h), or tasks that share its
 * memory (shield.h), in this way.
 */
#ifndef XPROF_BASE_CHILD_H
#define XPROF_BASE_CHILD_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* A child that exceeds a limit is killed, or its system calls fail. 0: no limit. */
struct xp_child_limits {
	unsigned int seconds; /* wall-clock time */
	unsigned int cpu_seconds;
	rlim_t address_bytes; /* in addition to the address space of the parent */
	rlim_t data_bytes;    /* private writable memory (RLIMIT_DATA) */
	rlim_t file_bytes;    /* maximum size of a file that the child writes */
	bool no_children;
};

/* The connection between parent and child. */
enum xp_child_channel {
	XP_CHILD_NO_CHANNEL,
	XP_CHILD_SOCKET, /* SOCK_SEQPACKET, see fd_message.h */
	XP_CHILD_PIPE,	 /* from the child */
};

#define XP_CHILD_FDS_MAX 2

struct xp_child_options {
	const char *name; /* as in /proc/PID/comm; NULL: the parent's */
	enum xp_child_channel channel;
	int fds[XP_CHILD_FDS_MAX]; /* descriptors to keep; the child gets /dev/null for a closed one */
	int fd_count;
	/*
	 * Drops all capabilities, and prevents exec(2) from granting any. Root becomes nobody, except in a user
	 * namespace that does not map nobody. Other users cannot trace the child.
	 */
	bool drops_privileges;
	bool keeps_fds;	    /* keep all descriptors, including 0 to 2: for a child that continues its parent's work */
	bool is_oom_victim; /* the OOM killer's first choice */
	bool outlives_parent;
	struct xp_child_limits limits;
};

/* The descriptors of a child. 0 to 2 are /dev/null. */
enum {
	XP_CHILD_CHANNEL = 3,
	XP_CHILD_FDS = 4, /* options.fds[0], and so on */
};

struct xp_child {
	pid_t pid; /* 0: not started */
	int fd;	   /* the parent's end of the channel; -1: none */
};

/* Runs in the child. Returns its exit code. */
typedef int xp_child_main(void *arg);

/* Starts a child. Returns 0 or -errno. If an option cannot be applied, the child exits immediately with code 1. */
int xp_child_start(struct xp_child *child, const struct xp_child_options *options, xp_child_main *run, void *arg);
/*
 * Waits up to timeout_ms for a child to end; -1: forever. Returns its exit code, -EAGAIN if the child is still running,
 * -EIO if a signal killed it, or an error of waitpid(2). -ECHILD: a task of shield.h created the child, and the child
 * is not known to run.
 */
int xp_child_wait(pid_t pid, int timeout_ms);
/*
 * Kills a child that has not been waited for, closes the parent's end of the channel, and waits up to timeout_ms.
 * Returns false if the child is still running: it may be blocked in the kernel, where SIGKILL has no effect yet.
 */
bool xp_child_kill(struct xp_child *child, int timeout_ms);

/*
 * Call this in a child after it changes its user: the kernel then clears the parent-death signal, and this sets it
 * again. Exits if the parent has died meanwhile.
 */
void xp_child_die_with(pid_t parent);

#endif
