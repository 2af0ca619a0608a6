// SPDX-License-Identifier: BSD-2-Clause
/* Which tables are evicted when there is not enough room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cfi_hand_made.h"
#include "unwind/cfi_store.h"

enum { GREEDY = 1000, MODEST = 1001, SECOND_NS = 1000000000 };

static struct xp_cfi_store store;

static int start(void **state)
{
	(void)state;
	store = (struct xp_cfi_store){ 0 };
	return 0;
}

static int finish(void **state)
{
	(void)state;
	xp_cfi_store_free(&store);
	assert_int_equal(store.bytes, 0);
	for (size_t i = 0; i < XP_CFI_STORE_SHARES; i++)
		assert_int_equal(store.shares[i].bytes, 0);
	return 0;
}

/* A table of 4 MB; three fit. */
static void put(uint64_t key, pid_t pid, uint64_t now_ns)
{
	struct xp_cfi_row *rows = calloc(XP_CFI_ROWS_MAX, sizeof(*rows));

	assert_non_null(rows);
	for (uint32_t i = 0; i < XP_CFI_ROWS_MAX; i++)
		rows[i].pc = i;
	xp_cfi_store_insert(&store, xp_cfi_store_add(&store, key, pid), make_table(rows, XP_CFI_ROWS_MAX, NULL, 0),
			    now_ns);
	free(rows);
}

static bool has(uint64_t key, uint64_t now_ns)
{
	return xp_cfi_store_find(&store, key, now_ns);
}

/* If all tables are in use, the process with the most loses one and has to wait. */
static void test_greedy(void **state)
{
	(void)state;
	put(1, MODEST, 0);
	for (uint64_t key = 2; key < 8; key++) {
		put(key, GREEDY, SECOND_NS);
		assert_int_equal(xp_cfi_store_is_full(&store, GREEDY, SECOND_NS), key > 3);
	}
	assert_true(has(1, SECOND_NS));
	assert_false(has(5, SECOND_NS));
	assert_true(has(6, SECOND_NS) && has(7, SECOND_NS));
	assert_false(xp_cfi_store_is_full(&store, MODEST, SECOND_NS));
	put(8, MODEST, SECOND_NS + 1);
	assert_true(has(1, SECOND_NS + 1) && has(7, SECOND_NS + 1) && has(8, SECOND_NS + 1));
	assert_false(xp_cfi_store_is_full(&store, GREEDY, SECOND_NS + 1 + XP_CFI_STORE_USED_NS));
}

/* An unused table is evicted, whatever process it belongs to, and no process waits. */
static void test_unused(void **state)
{
	const uint64_t later_ns = XP_CFI_STORE_USED_NS + SECOND_NS;

	(void)state;
	put(1, MODEST, 0);
	put(2, GREEDY, SECOND_NS);
	put(3, GREEDY, SECOND_NS);
	put(4, GREEDY, later_ns - 1);
	assert_false(has(1, later_ns));
	assert_true(has(2, later_ns) && has(3, later_ns) && has(4, later_ns));
	assert_false(xp_cfi_store_is_full(&store, GREEDY, later_ns));
}

/* A new table stays, even if it is the only one of the largest share. */
static void test_new_one_stays(void **state)
{
	(void)state;
	for (pid_t pid = 1; pid <= 4; pid++)
		put((uint64_t)pid, pid, SECOND_NS);
	assert_true(has(4, SECOND_NS));
	assert_int_equal(has(1, SECOND_NS) + has(2, SECOND_NS) + has(3, SECOND_NS), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_greedy, start, finish),
		cmocka_unit_test_setup_teardown(test_unused, start, finish),
		cmocka_unit_test_setup_teardown(test_new_one_stays, start, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
