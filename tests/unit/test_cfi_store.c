// SPDX-License-Identifier: BSD-2-Clause
/* Tests which tables are evicted when there is not enough space. */
#include <stdlib.h>

#include "unit.h"

#include "cfi_hand_made.h"
#include "unwind/cfi_store.h"

enum { SECOND_NS = 1000000000 };

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
	return 0;
}

/* A table of 4 MB; three fit. */
static void put(uint64_t key, uint64_t now_ns)
{
	struct xp_cfi_row *rows = calloc(XP_CFI_ROWS_MAX, sizeof(*rows));

	assert_non_null(rows);
	for (uint32_t i = 0; i < XP_CFI_ROWS_MAX; i++)
		rows[i].pc = i;
	xp_cfi_store_insert(&store, xp_cfi_store_add(&store, key), make_table(rows, XP_CFI_ROWS_MAX, NULL, 0), now_ns);
	free(rows);
}

static bool has(uint64_t key, uint64_t now_ns)
{
	return xp_cfi_store_find(&store, key, now_ns);
}

/* If all tables are in use, the oldest one is evicted, and no new table is built for a while. */
TEST_WITH(test_in_use, start, finish)
{
	for (uint64_t key = 1; key <= 3; key++)
		put(key, SECOND_NS);
	assert_false(xp_cfi_store_is_full(&store, SECOND_NS));
	assert_true(has(1, SECOND_NS + 1));
	put(4, SECOND_NS + 1);
	assert_true(has(1, SECOND_NS + 1) && has(3, SECOND_NS + 1) && has(4, SECOND_NS + 1));
	assert_false(has(2, SECOND_NS + 1));
	assert_true(xp_cfi_store_is_full(&store, SECOND_NS + XP_CFI_STORE_USED_NS));
	assert_false(xp_cfi_store_is_full(&store, SECOND_NS + 1 + XP_CFI_STORE_USED_NS));
	assert_true(store.bytes <= XP_CFI_STORE_BYTES_MAX);
}

/* Four tables are in use where three fit: one is rebuilt at most every XP_CFI_STORE_USED_NS. */
TEST_WITH(test_no_circle, start, finish)
{
	const uint64_t step_ns = XP_CFI_STORE_USED_NS / 1000;
	size_t built = 0;

	for (uint64_t i = 0; i < 2500; i++) {
		const uint64_t key = 1 + i % 4, now_ns = SECOND_NS + i * step_ns;

		if (has(key, now_ns) || xp_cfi_store_is_full(&store, now_ns))
			continue;
		put(key, now_ns);
		built++;
	}
	assert_int_equal(built, 4 + 2);
}

/* An unused table is evicted, and no request waits. */
TEST_WITH(test_unused, start, finish)
{
	const uint64_t later_ns = XP_CFI_STORE_USED_NS + SECOND_NS;

	put(1, 0);
	put(2, SECOND_NS);
	put(3, SECOND_NS);
	put(4, later_ns - 1);
	assert_false(has(1, later_ns));
	assert_true(has(2, later_ns) && has(3, later_ns) && has(4, later_ns));
	assert_false(xp_cfi_store_is_full(&store, later_ns));
}

/* A new table stays, even if many tables are in use. */
TEST_WITH(test_new_one_stays, start, finish)
{
	for (uint64_t key = 1; key <= 8; key++) {
		put(key, SECOND_NS);
		assert_true(has(key, SECOND_NS));
	}
	assert_true(has(6, SECOND_NS) && has(7, SECOND_NS));
	assert_false(has(5, SECOND_NS));
}
