/* SPDX-License-Identifier: BSD-2-Clause */
/* A child process that reads what nobody vouches for, in a library that trusts it: what it may do and take. */
#ifndef XPROF_CHILD_H
#define XPROF_CHILD_H

#include <sys/resource.h>

struct xp_child_limits {
	unsigned int seconds;	  /* of the clock */
	unsigned int cpu_seconds; /* 0: no limit */
	rlim_t address_bytes;
	rlim_t data_bytes; /* of memory of its own; 0: no limit */
};

/* All in the child. Beyond a limit it dies or runs out of memory, without a core file. */
void xp_child_limit(const struct xp_child_limits *limits);
/* None is blocked or handled, as at a program's start. */
void xp_child_reset_signals(void);
/*
 * No capability, not even by exec(2); root becomes nobody; no other user can trace it. Of user
 * namespaces without such a user the user stays. -errno: it still has capabilities and must not go on.
 */
int xp_child_drop_privileges(void);

/*
 * Keeps this descriptor alone, as 3; the first three are /dev/null. -errno: others may still be open.
 */
int xp_child_keep_fd(int fd);

/* The same of several: as 3, 4 and so on. */
#define XP_CHILD_FDS_MAX 8
int xp_child_keep_fds(const int *fds, int count);

#endif
