/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hardening of a child process that reads untrusted data with a library that trusts it: resource limits, privileges and
 * descriptors.
 */
#ifndef XPROF_BASE_CHILD_H
#define XPROF_BASE_CHILD_H

#include <sys/resource.h>

struct xp_child_limits {
	unsigned int seconds;	  /* wall-clock time */
	unsigned int cpu_seconds; /* 0: no limit */
	rlim_t address_bytes;
	rlim_t data_bytes; /* private writable memory (RLIMIT_DATA); 0: no limit */
};

/*
 * The functions below run in the child. A child that exceeds a limit is killed or runs out of memory; it leaves no core
 * file.
 */
void xp_child_limit(const struct xp_child_limits *limits);
/* Unblocks every signal and restores its default action, as at program start. */
void xp_child_reset_signals(void);
/*
 * Drops all capabilities, also those that exec(2) would grant. Root becomes nobody, and no other user can trace the
 * child. The user stays the same in a user namespace that does not map nobody. Returns 0 or -errno: the child may still
 * have capabilities and must not continue.
 */
int xp_child_drop_privileges(void);

/*
 * Keeps only this descriptor, as 3; 0 to 2 become /dev/null. Returns 0 or -errno: other descriptors may still be open.
 */
int xp_child_keep_fd(int fd);

/* Like xp_child_keep_fd() for several descriptors: they become 3, 4, ... */
#define XP_CHILD_FDS_MAX 8
int xp_child_keep_fds(const int *fds, int count);

#endif
