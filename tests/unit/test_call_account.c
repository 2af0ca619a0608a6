// SPDX-License-Identifier: BSD-2-Clause
/* Limits on the calls that a process can charge to the budget: its CPU time, and one tick. */

#include "unit.h"

#include "trace/call_account.h"

#define TICK_NS 100000000ull
#define CPUS 2
#define ALL_NS ((int64_t)(CPUS * TICK_NS))
#define CALL_NS 100u

/* Cost of `count` calls. */
static int64_t draw(struct xp_call_accounts *accounts, struct xp_call_account *account)
{
	int64_t calls = 0;

	while (calls < 100 * ALL_NS / CALL_NS && xp_call_account_draw(accounts, account, CALL_NS))
		calls++;
	return calls * CALL_NS;
}

TEST(test_without_a_budget_all_calls_count)
{
	struct xp_call_accounts accounts = { 0 };
	struct xp_call_account account;

	xp_call_account_open(&accounts, &account);
	for (int i = 0; i < 1000; i++)
		assert_true(xp_call_account_draw(&accounts, &account, UINT32_MAX));
	assert_int_equal(xp_call_account_draw_all(&accounts, &account, UINT64_MAX, 7), UINT64_MAX);
}

TEST(test_a_process_cannot_spend_more_than_it_ran)
{
	struct xp_call_accounts accounts;
	struct xp_call_account account = { 0 };
	int64_t drawn = 0, ran = 0;

	xp_call_accounts_keep(&accounts, CPUS, TICK_NS);
	xp_call_account_trust(&accounts, &account);
	assert_int_equal(drawn = draw(&accounts, &account), ALL_NS);
	for (int tick = 0; tick < 50; tick++) {
		xp_call_account_earn(&accounts, &account, TICK_NS / 10);
		ran += TICK_NS / 10;
		drawn += draw(&accounts, &account);
		assert_in_range(drawn, ran, ran + ALL_NS);
	}
	/* A process does not save credit for more than a tick. */
	for (int tick = 0; tick < 50; tick++)
		xp_call_account_earn(&accounts, &account, ALL_NS);
	assert_int_equal(draw(&accounts, &account), ALL_NS);
	assert_int_equal(xp_call_account_draw_all(&accounts, &account, UINT64_MAX, 7), 0);
	xp_call_account_earn(&accounts, &account, 700);
	assert_int_equal(xp_call_account_draw_all(&accounts, &account, UINT64_MAX, 7), 100);
	xp_call_account_earn(&accounts, &account, UINT64_MAX);
	assert_int_equal(xp_call_account_draw_all(&accounts, &account, 5, UINT32_MAX), 0);
}

/* A process that was idle may use its earlier CPU time: a burst of its calls counts before its CPU time is known. */
TEST(test_a_process_that_ran_may_owe)
{
	struct xp_call_accounts accounts;
	struct xp_call_account account = { 0 };

	xp_call_accounts_keep(&accounts, CPUS, TICK_NS);
	assert_int_equal(draw(&accounts, &account), 0);
	for (int tick = 0; tick < 3; tick++)
		xp_call_account_earn(&accounts, &account, TICK_NS / 4);
	assert_int_equal(draw(&accounts, &account), 6 * TICK_NS / 4);
}

/*
 * Children that report calls and exit immediately: together, they have one tick of credit, and one hundredth of the
 * time after that.
 */
TEST(test_new_processes_share_a_loan)
{
	struct xp_call_accounts accounts;
	int64_t drawn = 0;

	xp_call_accounts_keep(&accounts, CPUS, TICK_NS);
	for (int child = 0; child < 10000; child++) {
		struct xp_call_account account;

		xp_call_account_open(&accounts, &account);
		drawn += draw(&accounts, &account);
		xp_call_account_earn(&accounts, &account, 1000);
		drawn += draw(&accounts, &account);
		if (child % 100 == 0)
			xp_call_accounts_pass(&accounts, TICK_NS);
	}
	assert_true(drawn > ALL_NS / 2);
	assert_true(drawn < ALL_NS + 100 * ALL_NS / 100 + 10000 * (2 * 1000 + 2 * CALL_NS));
}

/* Children that used CPU time for their calls do not use up the loan. */
TEST(test_an_honest_process_pays_back)
{
	struct xp_call_accounts accounts;

	xp_call_accounts_keep(&accounts, CPUS, TICK_NS);
	for (int child = 0; child < 1000; child++) {
		struct xp_call_account account;

		xp_call_account_open(&accounts, &account);
		assert_int_equal(account.left_ns, ALL_NS / 4);
		assert_int_equal(xp_call_account_draw_all(&accounts, &account, 20000, CALL_NS), 20000);
		xp_call_account_earn(&accounts, &account, 3 * 20000 * CALL_NS);
		assert_int_equal(accounts.lent_ns, 0);
		assert_true(account.left_ns >= 2 * 20000 * CALL_NS);
	}
}
