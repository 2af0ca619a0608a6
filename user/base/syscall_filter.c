// SPDX-License-Identifier: BSD-2-Clause
#include "base/syscall_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "base/util.h"

#define LOAD(offset) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset)))
#define JUMP(test, value, yes, no) ((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, value, yes, no))
#define RETURN(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action))

#define RULE_STEPS 5

static uint32_t action_of(const struct xp_syscall_rule *rule)
{
	switch (rule->kind) {
	case XP_SYSCALL_TRAP:
		return SECCOMP_RET_TRAP;
	case XP_SYSCALL_FAIL:
		return SECCOMP_RET_ERRNO | rule->value;
	default:
		return SECCOMP_RET_ALLOW;
	}
}

/* Appends one rule. A false condition continues after the rule. */
static struct sock_filter *put_rule(struct sock_filter *at, const struct xp_syscall_rule *rule)
{
	bool has_condition = rule->kind >= XP_SYSCALL_ALLOW_IF_CLEAR;

	*at++ = LOAD(offsetof(struct seccomp_data, nr));
	*at++ = JUMP(BPF_JEQ, rule->number, 0, has_condition ? 3 : 1);
	if (has_condition) {
		*at++ = LOAD(offsetof(struct seccomp_data, args) + rule->argument * sizeof(uint64_t));
		if (rule->kind == XP_SYSCALL_ALLOW_IF_CLEAR)
			*at++ = JUMP(BPF_JSET, rule->value, 1, 0);
		else
			*at++ = JUMP(rule->kind == XP_SYSCALL_ALLOW_IF_SET ? BPF_JSET : BPF_JEQ, rule->value, 0, 1);
	}
	*at++ = RETURN(action_of(rule));
	return at;
}

int xp_syscall_filter(const struct xp_syscall_list *list)
{
	struct sock_filter filter[5 + XP_SYSCALL_RULES_MAX * RULE_STEPS + XP_SYSCALLS_MAX * 2], *at = filter;
	struct sock_fprog program = { .filter = filter };

	if (list->rule_count > XP_SYSCALL_RULES_MAX || list->allowed_count > XP_SYSCALLS_MAX)
		return -E2BIG;
	*at++ = LOAD(offsetof(struct seccomp_data, arch));
	*at++ = JUMP(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
	*at++ = RETURN(SECCOMP_RET_KILL_PROCESS);
	for (size_t i = 0; i < list->rule_count; i++)
		at = put_rule(at, &list->rules[i]);
	*at++ = LOAD(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < list->allowed_count; i++) {
		*at++ = JUMP(BPF_JEQ, list->allowed[i], 0, 1);
		*at++ = RETURN(SECCOMP_RET_ALLOW);
	}
	*at++ = RETURN(SECCOMP_RET_ERRNO | EPERM);
	program.len = (unsigned short)(at - filter);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? -errno : 0;
}
