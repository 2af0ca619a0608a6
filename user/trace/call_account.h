/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process may report of its own calls, if there is a budget. The records in its call rings and the counters of
 * its stubs are in its memory: it can make up any number, and would use up the budget that other processes share with
 * it. But calls cost CPU time, so those of a process cannot have cost more than it ran. Its account earns the CPU time
 * that the kernel tells, once a tick, and each call that counts draws what it costs. Calls that do not count are
 * recorded like all others.
 *
 * A tick's calls come before its CPU time is known. So a process may owe what it has run so far, up to the time of one
 * tick, which also is the most that an account holds. A new process has run nothing: it gets a loan out of what there
 * is for all new ones, and pays it back with what it has left at its first tick, or at its end. One that forks all the
 * time gets no more.
 */
#ifndef XPROF_TRACE_CALL_ACCOUNT_H
#define XPROF_TRACE_CALL_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct xp_call_accounts {
	bool kept; /* there is a budget */
	unsigned int cpus;
	uint32_t tick_ns; /* CPU time of all CPUs in a tick, 4 s at most */
	uint32_t lent_ns; /* to new processes, and not paid back */
};

/* Of a process. */
struct xp_call_account {
	int64_t left_ns;  /* below 0: the last call cost more than there was */
	uint32_t owe_ns;  /* what it may owe, which is part of that */
	uint32_t loan_ns; /* not paid back, which is, too */
};

void xp_call_accounts_keep(struct xp_call_accounts *accounts, unsigned int cpus, uint64_t tick_ns);
/* So much time has passed: a hundredth of what all CPUs can do in it may be lent again. */
void xp_call_accounts_pass(struct xp_call_accounts *accounts, uint64_t ns);

/* Of a new process. */
void xp_call_account_open(struct xp_call_accounts *accounts, struct xp_call_account *account);
/* The process was named by the user, or is there when the recording begins: it may owe a tick from the start. */
void xp_call_account_trust(const struct xp_call_accounts *accounts, struct xp_call_account *account);
/* The process has taken CPU time. */
void xp_call_account_earn(struct xp_call_accounts *accounts, struct xp_call_account *account, uint64_t ran_ns);

/* The process has ended, and its calls are counted together with those of another: that one gets what it has not used.
 */
void xp_call_account_leave(struct xp_call_accounts *accounts, struct xp_call_account *account,
			   struct xp_call_account *other);

/* Whether a call counts. */
static inline bool xp_call_account_draw(const struct xp_call_accounts *accounts, struct xp_call_account *account,
					uint32_t call_ns)
{
	if (!accounts->kept)
		return true;
	if (account->left_ns <= 0)
		return false;
	account->left_ns -= call_ns;
	return true;
}

/* How many of these calls count. */
uint64_t xp_call_account_draw_all(const struct xp_call_accounts *accounts, struct xp_call_account *account,
				  uint64_t calls, uint32_t call_ns);

#endif
