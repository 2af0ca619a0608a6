/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- arithmetic ---- */

TEST(frequencies)
{
	assert_int_equal(xp_clock_frequency(2600000000, 1000000000), 2600000000);
	assert_int_equal(xp_clock_frequency(26000001, 10000000), 2600000100);
	assert_int_equal(xp_clock_frequency(2, 3), 666666667);
	assert_int_equal(xp_clock_frequency(UINT64_MAX, 1000000000), UINT64_MAX);
	assert_int_equal(xp_clock_frequency(UINT64_MAX, 999999999), 0);
	assert_int_equal(xp_clock_frequency(1, 0), 0);
	/* clocks_calc_mult_shift() of 2 GHz: ns = ticks * 2^30 >> 31. */
	assert_int_equal(xp_clock_frequency_perf(1u << 30, 31), 2000000000);
	assert_int_equal(xp_clock_frequency_perf(0, 31), 0);
	assert_int_equal(xp_clock_frequency_perf(1, 64), 0);
}

TEST(record_times)
{
	struct xp_clock clock = {
		.hz = 3000000000,
		.mono_hz = 3000000000,
		.mono = { .tsc = 900000000000, .ns = 200000000000 },
		.real = { .tsc = 900000000000, .ns = 1700000000000000000 },
	};

	assert_int_equal(xp_clock_tsc(&clock, 200000000000), 900000000000);
	assert_int_equal(xp_clock_tsc(&clock, 200000000007), 900000000021);
	/* Also before the pair. */
	assert_int_equal(xp_clock_tsc(&clock, 199999999993), 899999999979);
	/* 100 years of ns: the product does not fit into 64 bits. */
	assert_int_equal(xp_clock_tsc(&clock, 200000000000 + 3155760000000000000), 900000000000 + 9467280000000000000u);
	assert_int_equal(xp_clock_wall_ns(&clock, 900000000003), 1700000000000000001);
	assert_int_equal(xp_clock_wall_ns(&clock, 899999999997), 1699999999999999999);
	assert_int_equal(xp_clock_ns(&clock, 3000000000), 1000000000);
	assert_int_equal(xp_clock_ns(&clock, UINT64_MAX), 6148914691236517205);
	assert_int_equal(xp_clock_ticks(&clock, 5000), 15000);
	assert_int_equal(xp_clock_ticks(&clock, UINT64_MAX), UINT64_MAX);
}

/* ---- on this machine ---- */

static struct xp_clock *open_clock(void)
{
	struct xp_clock *clock = NULL;

	assert_int_equal(xp_clock_open(&clock), 0);
	return clock;
}

static uint64_t ktime_now(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
}

/*
 * An event that is stamped after a mark is not older than the mark, even if the clock's frequency is wrong by the
 * maximum of NTP's slewing. Near a mark, times are exact.
 */
TEST(marks_are_in_order)
{
	struct xp_clock *clock = open_clock();
	uint64_t error_ticks = xp_clock_ticks(clock, 2000);
	unsigned int far = 0;

	clock->mono_hz += clock->mono_hz / 2000;
	for (int round = 0; round < 200; round++) {
		uint64_t first = ktime_now(), mark = xp_clock_mark(clock), second = ktime_now();
		uint64_t now = xp_clock_now_tsc(), tsc = xp_clock_tsc(clock, second);

		assert_true(mark <= now);
		assert_true(tsc >= mark);
		far += tsc > now || now - tsc > error_ticks || xp_clock_tsc(clock, first) > mark + error_ticks;
		usleep(1000);
	}
	/* Another process may have had the CPU between the two readings. */
	assert_true(far < 50);
	xp_clock_free(clock);
}

TEST(ktime_agrees)
{
	struct xp_clock *clock = open_clock();

	for (int round = 0; round < 4; round++) {
		struct timespec now;
		uint64_t before, after, tsc, slack;

		usleep(150000);
		assert_int_equal(xp_clock_update(clock), 0);
		before = xp_clock_now_tsc();
		clock_gettime(CLOCK_MONOTONIC, &now);
		after = xp_clock_now_tsc();
		slack = xp_clock_ticks(clock, clock->error_ns + 1000);
		tsc = xp_clock_tsc(clock, now.tv_sec * XP_NS_PER_S + now.tv_nsec);
		assert_true(tsc >= before - slack && tsc <= after + slack);
		clock_gettime(CLOCK_REALTIME, &now);
		tsc = xp_clock_now_tsc();
		assert_true(xp_clock_wall_ns(clock, tsc) - (now.tv_sec * XP_NS_PER_S + now.tv_nsec) + 10000000 <
			    20000000);
	}
	assert_true(clock->error_ns < 1000000);
	xp_clock_free(clock);
}
