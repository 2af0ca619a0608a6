// SPDX-License-Identifier: BSD-2-Clause
/* Sums of the waits of threads. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "sample/waits.h"

#define PROCESSES (4 * XP_WAIT_SUMS_MAX)

static void test_sums_are_bounded(void **state)
{
	struct xp_waits waits = { 0 };
	uint64_t waited = 0, ns = 0;

	(void)state;
	for (uint32_t pid = 1; pid <= PROCESSES; pid++) {
		const struct xp_event_wait_sum sum = {
			.head = { .pid = pid, .tid = pid, .word = xp_event_word(XP_SAMPLE_WAIT_SUM, XP_EVENT_SAMPLE) },
			.blocked_ns = 3,
			.waits = 2,
		};

		assert_int_equal(xp_waits_take(&waits, &sum.head, 0, 0), 0);
	}
	assert_int_equal(waits.sum_count, 2 * XP_WAIT_SUMS_MAX + 1);
	for (size_t i = 0; i < waits.sum_count; i++) {
		waited += waits.sums[i].waits;
		ns += waits.sums[i].blocked_ns;
	}
	assert_int_equal(waited, 2ull * PROCESSES);
	assert_int_equal(ns, 3ull * PROCESSES);
	xp_waits_free(&waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
