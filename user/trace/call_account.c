// SPDX-License-Identifier: BSD-2-Clause
#include "trace/call_account.h"

#include "base/util.h"

#define LOAN_SHARE 4 /* share of the pool that a loan gets */
#define LENT_AGAIN_SHARE 100

void xp_call_accounts_keep(struct xp_call_accounts *accounts, unsigned int cpus, uint64_t tick_ns)
{
	*accounts = (struct xp_call_accounts){
		.kept = true,
		.cpus = cpus,
		.tick_ns = (uint32_t)XP_MIN(tick_ns * cpus, UINT32_MAX),
	};
}

void xp_call_accounts_pass(struct xp_call_accounts *accounts, uint64_t ns)
{
	const uint64_t again_ns = XP_MIN(ns, XP_NS_PER_S) * accounts->cpus / LENT_AGAIN_SHARE;

	accounts->lent_ns -= (uint32_t)XP_MIN(again_ns, accounts->lent_ns);
}

void xp_call_account_open(struct xp_call_accounts *accounts, struct xp_call_account *account)
{
	const uint32_t loan_ns = (accounts->tick_ns - accounts->lent_ns) / LOAN_SHARE;

	*account = (struct xp_call_account){ .left_ns = loan_ns, .loan_ns = loan_ns };
	accounts->lent_ns += loan_ns;
}

void xp_call_account_trust(const struct xp_call_accounts *accounts, struct xp_call_account *account)
{
	account->left_ns += accounts->tick_ns - account->owe_ns;
	account->owe_ns = accounts->tick_ns;
}

static void pay_back(struct xp_call_accounts *accounts, struct xp_call_account *account)
{
	const uint32_t back_ns = (uint32_t)XP_MIN((int64_t)account->loan_ns, XP_MAX(account->left_ns, 0));

	account->left_ns -= back_ns;
	account->loan_ns -= back_ns;
	accounts->lent_ns -= XP_MIN(back_ns, accounts->lent_ns);
}

void xp_call_account_earn(struct xp_call_accounts *accounts, struct xp_call_account *account, uint64_t ran_ns)
{
	const uint64_t more_ns = XP_MIN(ran_ns, accounts->tick_ns - account->owe_ns);

	if (!accounts->kept)
		return;
	account->owe_ns += (uint32_t)more_ns;
	account->left_ns += (int64_t)(XP_MIN(ran_ns, (uint64_t)INT64_MAX / 4) + more_ns);
	pay_back(accounts, account);
	account->left_ns = XP_MIN(account->left_ns, (int64_t)accounts->tick_ns);
}

void xp_call_account_leave(struct xp_call_accounts *accounts, struct xp_call_account *account,
			   struct xp_call_account *other)
{
	const int64_t unused_ns = account->left_ns - account->owe_ns;

	if (unused_ns <= 0)
		return;
	account->left_ns -= unused_ns;
	xp_call_account_earn(accounts, other, (uint64_t)unused_ns);
}

uint64_t xp_call_account_draw_all(const struct xp_call_accounts *accounts, struct xp_call_account *account,
				  uint64_t calls, uint32_t call_ns)
{
	uint64_t most;

	if (!accounts->kept || !call_ns)
		return calls;
	most = (uint64_t)XP_MAX(account->left_ns, 0) / call_ns;
	calls = XP_MIN(calls, most);
	account->left_ns -= (int64_t)(calls * call_ns);
	return calls;
}
