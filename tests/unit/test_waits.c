// SPDX-License-Identifier: BSD-2-Clause
/* Sums of the waits of threads. */

#include "unit.h"

#include "arrivals.h"
#include "record/off_cpu.h"
#include "sample/waits.h"

#define PROCESSES (4 * XP_WAIT_SUMS_MAX)

TEST(test_sums_are_bounded)
{
	struct xp_waits waits = { 0 };
	uint64_t waited = 0, ns = 0;

	for (uint32_t pid = 1; pid <= PROCESSES; pid++) {
		const struct xp_event_wait_sum sum = {
			.head = { .pid = pid, .tid = pid, .word = xp_event_word(0, XP_EVENT_WAIT_SUM) },
			.blocked_ns = 3,
			.waits = 2,
		};

		assert_int_equal(xp_waits_sum(&waits, ARRIVAL(sum, 0)), 0);
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

TEST(test_pace)
{
	/* One step would need seven checks. */
	assert_int_equal(xp_off_cpu_pace(0, 100 * XP_OFF_CPU_WAITS_PER_S_MAX), 7);
	assert_int_equal(xp_off_cpu_pace(2, 100 * XP_OFF_CPU_WAITS_PER_S_MAX), 9);
	assert_int_equal(xp_off_cpu_pace(2, UINT64_MAX), XP_WAIT_SLOW_MAX);
	/* Records made then keep their weight. */
	for (uint64_t rate = XP_OFF_CPU_WAITS_PER_S_MAX / 4; rate <= XP_OFF_CPU_WAITS_PER_S_MAX; rate++)
		assert_int_equal(xp_off_cpu_pace(7, rate), 7);
	/* Back, but not beyond the maximum. */
	assert_int_equal(xp_off_cpu_pace(7, XP_OFF_CPU_WAITS_PER_S_MAX / 10), 5);
	assert_int_equal(xp_off_cpu_pace(7, 0), 0);
	assert_int_equal(xp_off_cpu_pace(0, 0), 0);
}
