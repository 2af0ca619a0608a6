/* SPDX-License-Identifier: BSD-2-Clause */
/* The arithmetic of the forecast. */
#include <math.h>

#include "unit.h"

#include "budget/probe_cost.h"

#define SECOND 1000000000ull

static void assert_near(double value, double wanted)
{
	if (fabs(value - wanted) > 1e-3 * wanted)
		fail_msg("%g instead of %g", value, wanted);
}

static struct xp_forecast make(struct xp_forecast_input input)
{
	struct xp_forecast forecast;

	input.probe_cost = (struct xp_probe_cost){ .entry_ns = 500, .counting_ns = 500, .exit_ns = 1500 };
	xp_forecast_make(&forecast, &input);
	return forecast;
}

TEST(with_time_to_spare)
{
	/* 100000 calls at 500 ns took 50 ms of the 250 ms used in half a second; with exits they take 200 ms. */
	struct xp_forecast forecast = make(
	    (struct xp_forecast_input){ .calls = 100000, .wall_ns = SECOND / 2, .cpu_ns = SECOND / 4, .cpus_max = 1 });

	assert_near(forecast.calls_per_s, 200000);
	assert_near(forecast.cost_cores, 0.4);
	assert_near(forecast.cost_share, 0.5);
	assert_near(forecast.slowdown, 1);
}

TEST(without)
{
	/*
	 * Two busy threads. Of 2 s of CPU time 0.5 s went into counting, and recording needs 2 s: 3.5 s where 2 s are
	 * available.
	 */
	struct xp_forecast forecast = make(
	    (struct xp_forecast_input){ .calls = 1000000, .wall_ns = SECOND, .cpu_ns = 2 * SECOND, .cpus_max = 2 });

	assert_near(forecast.cost_share, 2 / 3.5);
	assert_near(forecast.cost_cores, 4 / 3.5);
	assert_near(forecast.slowdown, 1.75);
}

TEST(tail_exits_are_cheap)
{
	struct xp_forecast forecast = make((struct xp_forecast_input){
	    .calls = 1000, .emulated = 400, .wall_ns = SECOND, .cpu_ns = SECOND, .cpus_max = 4 });

	assert_near(forecast.cost_cores, (1000 * 500 + 400 * 500 + 600 * 1500) / 1e9);
}

/* Counted at 500 ns each beforehand; recorded at 200 ns for each entry and each exit. */
TEST(patched_sleds_cost_what_the_stub_does)
{
	struct xp_forecast_input input = { .calls = 1900,
					   .patched = 700,
					   .in_memory = 900,
					   .emulated = 100,
					   .wall_ns = SECOND,
					   .cpu_ns = SECOND,
					   .cpus_max = 4 };
	struct xp_forecast forecast;

	input.probe_cost = (struct xp_probe_cost){
		.entry_ns = 500, .counting_ns = 500, .exit_ns = 1500, .stub_ns = 200, .memory_ns = 20
	};
	xp_forecast_make(&forecast, &input);
	assert_near(forecast.cost_cores, (300 * 500 + 100 * 500 + 200 * 1500 + 700 * 400 + 900 * 40) / 1e9);
}

/*
 * The kernel reads the arguments of an entry, which costs more than another call of the stub. Only the exit is recorded
 * in memory, if that is possible.
 */
TEST(entries_with_arguments_cost_what_the_kernel_does)
{
	struct xp_forecast_input input = {
		.calls = 1000, .in_memory = 1000, .wall_ns = SECOND, .cpu_ns = SECOND, .cpus_max = 4
	};
	struct xp_forecast forecast;

	input.probe_cost = (struct xp_probe_cost){
		.entry_ns = 500, .counting_ns = 500, .exit_ns = 1500, .stub_ns = 1000, .memory_ns = 20, .args_ns = 1300
	};
	xp_forecast_make(&forecast, &input);
	assert_near(forecast.call_ns, 1320);
	assert_near(xp_probe_cost_call_ns(&input.probe_cost, XP_CALLS_MEMORY), 1320);
	assert_near(xp_probe_cost_call_ns(&input.probe_cost, XP_CALLS_STUB), 1320);
	input.probe_cost.memory_ns = 0;
	assert_near(xp_probe_cost_call_ns(&input.probe_cost, XP_CALLS_STUB), 2300);
}

TEST(idle)
{
	struct xp_forecast forecast = make((struct xp_forecast_input){ .wall_ns = SECOND, .cpus_max = 1 });

	assert_true(forecast.calls_per_s == 0 && forecast.cost_cores == 0 && forecast.cost_share == 0);
	assert_true(forecast.slowdown == 1);
}

/* More calls than possible, because some CPU clock is coarse. There is no division by zero. */
TEST(counting_took_longer_than_there_was)
{
	struct xp_forecast forecast =
	    make((struct xp_forecast_input){ .calls = 1000000, .wall_ns = SECOND, .cpu_ns = 1000, .cpus_max = 1 });

	assert_true(forecast.cost_share > 0.99 && forecast.cost_share <= 1);
	assert_true(isfinite(forecast.slowdown) && isfinite(forecast.cost_cores));
}
