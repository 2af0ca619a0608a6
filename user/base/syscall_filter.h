/* SPDX-License-Identifier: BSD-2-Clause */
/* Restricts the system calls of a process and its threads (seccomp), for children that process untrusted data. */
#ifndef XPROF_BASE_SYSCALL_FILTER_H
#define XPROF_BASE_SYSCALL_FILTER_H

#include <stddef.h>
#include <stdint.h>

enum xp_syscall_rule_kind {
	XP_SYSCALL_TRAP,	   /* SIGSYS */
	XP_SYSCALL_FAIL,	   /* with the error number `value` */
	XP_SYSCALL_ALLOW_IF_CLEAR, /* if argument `argument` has none of the bits in `value` */
	XP_SYSCALL_ALLOW_IF_SET,   /* if it has one of them */
	XP_SYSCALL_ALLOW_IF_EQUAL, /* if it is `value` */
};

/* Conditions use only the lower 32 bits of an argument. If a condition is false, the next rules apply. */
struct xp_syscall_rule {
	unsigned int number;
	enum xp_syscall_rule_kind kind;
	unsigned int argument;
	uint32_t value;
};

#define XP_SYSCALL_RULES_MAX 16
#define XP_SYSCALLS_MAX 128

struct xp_syscall_list {
	const struct xp_syscall_rule *rules; /* rules for arguments, checked before the list */
	size_t rule_count;
	const unsigned int *allowed; /* numbers */
	size_t allowed_count;
};

/*
 * From now on, system calls that are not listed fail with EPERM, also with the numbers of the x32 ABI; system calls of
 * other ABIs kill the process. Requires no_new_privs. Returns 0 or -errno.
 */
int xp_syscall_filter(const struct xp_syscall_list *list);

#endif
