/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPU-time accounts: they limit how much of the --max-overhead budget a process can use up with forged calls.
 *
 * Call rings and stub counters are in the memory of the process, so it can forge any number of calls. But a call costs
 * CPU time: the calls of a process cannot cost more than the CPU time that it used. Once per tick, an account is
 * credited with that CPU time; each call debits its cost. A call that the account cannot pay is recorded as usual, but
 * does not count against the budget.
 *
 * The CPU time of a tick is known only at its end, so a process may overdraw its account by the CPU time that it has
 * used so far, at most one tick; the balance has the same limit. New processes get a loan from a common pool and repay
 * it at their first tick or exit, so a process that forks in a loop gains nothing.
 */
#ifndef XPROF_TRACE_CALL_ACCOUNT_H
#define XPROF_TRACE_CALL_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct xp_call_accounts {
	bool kept; /* there is a budget */
	unsigned int cpus;
	uint32_t tick_ns; /* CPU time of all CPUs in a tick, 4 s at most */
	uint32_t lent_ns; /* sum of the open loans to new processes */
};

/* The account of a process. */
struct xp_call_account {
	int64_t left_ns;  /* balance; below 0: the last call cost more than the rest */
	uint32_t owe_ns;  /* overdraft limit, included in left_ns */
	uint32_t loan_ns; /* open loan, included in left_ns */
};

void xp_call_accounts_keep(struct xp_call_accounts *accounts, unsigned int cpus, uint64_t tick_ns);
/* Refills the pool of loans: 1 % of the time of all CPUs in the last ns. */
void xp_call_accounts_pass(struct xp_call_accounts *accounts, uint64_t ns);

/* Opens the account of a new process, with a loan. */
void xp_call_account_open(struct xp_call_accounts *accounts, struct xp_call_account *account);
/* Allows an overdraft of a tick from the start: for processes that the user named, or that existed before. */
void xp_call_account_trust(const struct xp_call_accounts *accounts, struct xp_call_account *account);
/* Credits the account with CPU time that the process used. */
void xp_call_account_earn(struct xp_call_accounts *accounts, struct xp_call_account *account, uint64_t ran_ns);

/* Closes the account of a process that has ended. The process with which it shared counters gets the balance. */
void xp_call_account_leave(struct xp_call_accounts *accounts, struct xp_call_account *account,
			   struct xp_call_account *other);

/* Debits the cost of a call. Returns whether the call counts against the budget. */
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

/* Debits the cost of these calls. Returns the number of calls that count against the budget. */
uint64_t xp_call_account_draw_all(const struct xp_call_accounts *accounts, struct xp_call_account *account,
				  uint64_t calls, uint32_t call_ns);

#endif
