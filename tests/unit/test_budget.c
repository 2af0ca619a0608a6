/* SPDX-License-Identifier: BSD-2-Clause */
/* The policy of --max-overhead under simulated loads. */
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/util.h"
#include "budget/budget.h"

#define TICK_NS 100000000ull
#define FUNCTIONS 6
#define SHARE 0.05
#define RECORD_NS 18000 /* an exit that is single-stepped in a nested virtual machine */
#define COUNT_NS 500

/* A program with one busy thread; rates are calls per second of its own time. */
struct world {
	struct xp_budget budget;
	double rates[FUNCTIONS];
	uint64_t now_ns;
	double tracing_ns; /* total since reset() */
	double cpu_ns;
	unsigned int changes[FUNCTIONS];
	unsigned int delay; /* ticks until a change takes effect */
	struct {
		struct xp_budget_change change;
		unsigned int wait;
	} pending[FUNCTIONS];
};

static int make(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	size_t first;

	xp_budget_init(&world->budget, SHARE, FUNCTIONS, COUNT_NS);
	assert_int_equal(xp_budget_add(&world->budget, FUNCTIONS, &first), 0);
	assert_int_equal(first, 0);
	for (int i = 0; i < FUNCTIONS; i++)
		world->budget.functions[i].record_ns = RECORD_NS;
	world->now_ns = 1000 * TICK_NS;
	*state = world;
	return 0;
}

static int drop(void **state)
{
	struct world *world = *state;

	xp_budget_free(&world->budget);
	free(world);
	return 0;
}

static void reset(struct world *world)
{
	world->tracing_ns = world->cpu_ns = 0;
	memset(world->changes, 0, sizeof(world->changes));
}

static enum xp_budget_state state_of(const struct world *world, int function)
{
	return world->budget.functions[function].state;
}

/* One tick of CPU time. The program makes its calls in the time that tracing leaves. */
static void run_tick(struct world *world)
{
	double cost = 0, own_ns;

	for (int i = 0; i < FUNCTIONS; i++) {
		double ns = state_of(world, i) == XP_BUDGET_RECORDED  ? RECORD_NS
			    : state_of(world, i) == XP_BUDGET_COUNTED ? COUNT_NS
								      : 0;

		cost += world->rates[i] / 1e9 * ns;
	}
	own_ns = TICK_NS / (1 + cost);
	for (int i = 0; i < FUNCTIONS; i++)
		if (state_of(world, i) != XP_BUDGET_OUT)
			world->budget.functions[i].calls = (uint64_t)(world->rates[i] / 1e9 * own_ns);
	world->tracing_ns += TICK_NS - own_ns;
	world->cpu_ns += TICK_NS;
	world->now_ns += TICK_NS;
}

static void step(struct world *world)
{
	struct xp_budget_change changes[FUNCTIONS];
	bool busy = false;
	size_t count;

	run_tick(world);
	for (int i = 0; i < FUNCTIONS; i++) {
		if (world->pending[i].wait && !--world->pending[i].wait)
			xp_budget_set(&world->budget, i, world->pending[i].change.state, world->now_ns);
		busy |= world->pending[i].wait;
	}
	if (busy)
		return;
	count = xp_budget_tick(&world->budget, world->now_ns, TICK_NS, changes, FUNCTIONS);
	for (size_t i = 0; i < count; i++) {
		assert_true(changes[i].state != state_of(world, (int)changes[i].function));
		world->changes[changes[i].function]++;
		world->pending[changes[i].function].change = changes[i];
		world->pending[changes[i].function].wait = world->delay + 1;
		if (!world->delay) {
			world->pending[changes[i].function].wait = 0;
			xp_budget_set(&world->budget, changes[i].function, changes[i].state, world->now_ns);
		}
	}
}

static void run(struct world *world, double seconds)
{
	for (int i = 0; i < seconds * 10; i++)
		step(world);
}

static double share(const struct world *world)
{
	return world->tracing_ns / world->cpu_ns;
}

TEST_WITH(cheap_ones_are_left_alone, make, drop)
{
	struct world *world = *state;

	world->rates[0] = 1000; /* 1.8 % */
	world->rates[1] = 800;
	run(world, 60);
	for (int i = 0; i < FUNCTIONS; i++)
		assert_int_equal(world->changes[i], 0);
}

TEST_WITH(the_hottest_goes_and_no_other, make, drop)
{
	struct world *world = *state;

	world->rates[0] = 1000;
	world->rates[1] = 100000; /* 180 % */
	world->rates[2] = 500;
	run(world, 2);
	reset(world);
	run(world, 120);
	assert_int_equal(state_of(world, 0), XP_BUDGET_RECORDED);
	assert_int_equal(state_of(world, 2), XP_BUDGET_RECORDED);
	assert_int_not_equal(state_of(world, 1), XP_BUDGET_RECORDED);
	assert_int_equal(world->changes[0] + world->changes[2], 0);
	assert_true(share(world) < SHARE && share(world) > 0.02);
}

/* 10 million calls per second: even counting the entries costs too much, so checks are rare. */
TEST_WITH(too_hot_to_count, make, drop)
{
	struct world *world = *state;

	world->rates[0] = 10e6;
	world->rates[1] = 1000;
	run(world, 3);
	assert_int_equal(state_of(world, 0), XP_BUDGET_OUT);
	reset(world);
	run(world, 300);
	assert_true(share(world) < SHARE);
	assert_true(world->changes[0] >= 4); /* checks and their consequences */
	assert_int_equal(state_of(world, 1), XP_BUDGET_RECORDED);
}

TEST_WITH(a_cool_one_comes_back, make, drop)
{
	struct world *world = *state;

	world->rates[0] = 5000; /* 9 %; 0.25 % to count it */
	run(world, 3);
	assert_int_equal(state_of(world, 0), XP_BUDGET_COUNTED);
	world->rates[0] = 500;
	run(world, 5);
	assert_int_equal(state_of(world, 0), XP_BUDGET_RECORDED);
	world->rates[0] = 1e6;
	run(world, 5);
	assert_int_equal(state_of(world, 0), XP_BUDGET_OUT);
	world->rates[0] = 0;
	run(world, 40);
	assert_int_equal(state_of(world, 0), XP_BUDGET_RECORDED);
}

/* The budget does not oscillate at its limit. */
TEST_WITH(hysteresis, make, drop)
{
	struct world *world = *state;

	for (int rate = 1000; rate < 6000; rate += 100) {
		memset(world->rates, 0, sizeof(world->rates));
		world->rates[0] = rate;
		run(world, 5);
		reset(world);
		run(world, 20);
		assert_true(world->changes[0] <= 1);
		assert_true(share(world) < SHARE);
	}
}

/* Bursts of 2 s in every 6 s, and changes that take 200 ms: the average stays within the budget. */
TEST_WITH(bursts, make, drop)
{
	struct world *world = *state;

	world->delay = 2;
	world->rates[1] = 800;
	reset(world);
	for (int i = 0; i < 30; i++) {
		world->rates[0] = 20000;
		run(world, 2);
		world->rates[0] = 10;
		run(world, 4);
	}
	assert_true(share(world) < 1.2 * SHARE);
	assert_int_equal(world->changes[1], 0);
}

TEST_WITH(many_of_a_kind, make, drop)
{
	struct world *world = *state;

	for (int i = 0; i < FUNCTIONS; i++)
		world->rates[i] = 1000; /* 1.8 % each */
	run(world, 5);
	reset(world);
	run(world, 60);
	assert_true(share(world) < SHARE && share(world) > 0.3 * SHARE);
}

/*
 * When almost no time is left for the program, the most expensive functions are throttled. Functions that only seem
 * expensive in comparison remain.
 */
TEST_WITH(several_hot_ones, make, drop)
{
	struct world *world = *state;

	for (int i = 0; i < 4; i++)
		world->rates[i] = 50000 * (i + 1);
	world->rates[4] = 500;
	run(world, 2);
	reset(world);
	run(world, 60);
	for (int i = 0; i < 4; i++)
		assert_int_not_equal(state_of(world, i), XP_BUDGET_RECORDED);
	assert_int_equal(state_of(world, 4), XP_BUDGET_RECORDED);
	assert_int_equal(world->changes[4], 0);
	assert_true(share(world) < SHARE);
}

/* A late loader reads the calls of a longer time than its measured CPU time. */
TEST_WITH(more_calls_than_time, make, drop)
{
	struct world *world = *state;
	struct xp_budget_change changes[FUNCTIONS];

	world->rates[0] = 1000;
	world->rates[2] = 500;
	run(world, 2);
	world->rates[1] = 100000;
	run_tick(world);
	for (int i = 0; i < FUNCTIONS; i++)
		world->budget.functions[i].calls *= 3;
	assert_int_equal(xp_budget_tick(&world->budget, world->now_ns, TICK_NS, changes, FUNCTIONS), 1);
	assert_int_equal(changes[0].function, 1);
	xp_budget_set(&world->budget, 1, changes[0].state, world->now_ns);
	run(world, 5);
	assert_int_equal(world->changes[0] + world->changes[2], 0);
}

/* A budget that leaves the target only a small share is still valid. */
TEST_WITH(a_great_share, make, drop)
{
	struct world *world = *state;

	world->budget.share = 0.9;
	world->rates[0] = 100000; /* 64 % */
	world->rates[1] = 2000;
	run(world, 10);
	assert_int_equal(state_of(world, 0), XP_BUDGET_RECORDED);
	world->rates[0] = 2e6;
	run(world, 10);
	assert_int_not_equal(state_of(world, 0), XP_BUDGET_RECORDED);
	assert_int_equal(world->changes[1], 0);
}

/*
 * Each function is called once in a tick with little CPU time: the calls are expensive, but throttling does not help.
 */
TEST_WITH(rare_calls_are_no_reason, make, drop)
{
	struct world *world = *state;
	struct xp_budget_change changes[FUNCTIONS];

	for (int i = 0; i < FUNCTIONS; i++)
		world->budget.functions[i].record_ns = 1e6;
	for (int tick = 0; tick < 100; tick++) {
		world->budget.functions[tick % FUNCTIONS].calls = 5;
		assert_int_equal(
		    xp_budget_tick(&world->budget, world->now_ns += TICK_NS, XP_BUDGET_CPU_MIN_NS, changes, FUNCTIONS),
		    0);
	}
	assert_true(world->budget.spent > SHARE);
}

TEST_WITH(an_idle_target_changes_nothing, make, drop)
{
	struct world *world = *state;
	struct xp_budget_change changes[FUNCTIONS];

	world->rates[0] = 1000;
	run(world, 1);
	for (int i = 0; i < 100; i++)
		assert_int_equal(xp_budget_tick(&world->budget, world->now_ns += TICK_NS, 0, changes, FUNCTIONS), 0);
}

TEST_WITH(no_more_than_asked_for, make, drop)
{
	struct world *world = *state;
	struct xp_budget_change changes[2];

	for (int i = 0; i < FUNCTIONS; i++) {
		world->budget.functions[i].rate = 1e-3 * (i + 1);
		world->budget.functions[i].seen = 1000 * (i + 1);
	}
	assert_int_equal(xp_budget_tick(&world->budget, world->now_ns, 0, changes, 2), 2);
	assert_int_equal(changes[0].function, FUNCTIONS - 1);
	assert_int_equal(changes[1].function, FUNCTIONS - 2);
}

/* Unreadable counters do not mean that the function is no longer called. */
TEST_WITH(unread_counters, make, drop)
{
	struct world *world = *state;
	struct xp_budget_function *function = &world->budget.functions[0];
	struct xp_budget_change change = { .function = FUNCTIONS };
	double rate;

	function->rate = 1e-5;
	function->seen = 10000;
	xp_budget_set(&world->budget, 0, XP_BUDGET_COUNTED, world->now_ns);
	rate = function->rate;
	for (int tick = 0; tick < 50; tick++) {
		world->budget.unread = true;
		world->now_ns += TICK_NS;
		assert_int_equal(xp_budget_tick(&world->budget, world->now_ns, TICK_NS, &change, 1), 0);
	}
	assert_true(function->rate == rate);
	/* When the counters are readable again, the function has visibly cooled down. */
	for (int tick = 0; tick < 50; tick++) {
		world->now_ns += TICK_NS;
		if (xp_budget_tick(&world->budget, world->now_ns, TICK_NS, &change, 1))
			break;
	}
	assert_int_equal(change.function, 0);
	assert_int_equal(change.state, XP_BUDGET_RECORDED);
}

/* A function that cannot be checked does not block the next one. */
TEST_WITH(refused_look, make, drop)
{
	struct world *world = *state;
	struct xp_budget_change change;

	for (size_t i = 0; i < 2; i++) {
		xp_budget_set(&world->budget, i, XP_BUDGET_OUT, world->now_ns);
		world->budget.functions[i].look_ns = world->now_ns + i;
	}
	world->now_ns += TICK_NS;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(xp_budget_tick(&world->budget, world->now_ns, 0, &change, 1), 1);
		assert_int_equal(change.function, i);
		assert_int_equal(change.state, XP_BUDGET_COUNTED);
		xp_budget_set(&world->budget, i, XP_BUDGET_OUT, world->now_ns);
	}
	assert_int_equal(xp_budget_tick(&world->budget, world->now_ns, 0, &change, 1), 0);
}

/* If each change stops the program for a long time, changes are rare. */
TEST_WITH(checks_are_rare_where_changes_cost, make, drop)
{
	unsigned int changes[2];
	struct world *world = *state;

	world->rates[0] = 10e6;
	for (int i = 0; i < 2; i++) {
		if (i)
			xp_budget_stopped(&world->budget, 1000000000, 1e8);
		run(world, 3);
		reset(world);
		run(world, 600);
		changes[i] = world->changes[0];
	}
	assert_true(changes[0] > 30);
	/* 0.7 s per change, two changes per check, at most a tenth of 5 % for changes: one check per 280 s. */
	assert_true(changes[1] > 0 && changes[1] <= 6);
}

#define MANY 13000
#define MANY_COUNTERS 128

/*
 * A program of thousands of functions with 10 million calls per second together, like a database server. Its probes
 * would take 99 % of its time. One in 1000 calls goes to one of equally many other functions.
 */
struct crowd {
	struct xp_budget budget;
	struct xp_budget_change changes[MANY];
	size_t counted;
	double tracing_ns;
	double cpu_ns;
	uint64_t now_ns;
	uint32_t chance;
};

static double rate_of(size_t function, size_t hot)
{
	return function < hot ? 10e6 / (double)hot : function < 2 * hot ? 10e3 / (double)hot : 0;
}

static void run_crowd_tick(struct crowd *crowd, uint64_t tick_ns, size_t hot)
{
	double cost = 0, own_ns;

	for (size_t i = 0; i < 2 * hot; i++) {
		const struct xp_budget_function *function = &crowd->budget.functions[i];

		cost += rate_of(i, hot) / 1e9 *
			(double)(function->state == XP_BUDGET_RECORDED	? function->record_ns
				 : function->state == XP_BUDGET_COUNTED ? crowd->budget.count_ns
									: 0);
	}
	own_ns = (double)tick_ns / (1 + cost);
	for (size_t i = 0; i < 2 * hot; i++) {
		double calls = rate_of(i, hot) / 1e9 * own_ns;

		crowd->chance = crowd->chance * 1664525 + 1013904223;
		if (crowd->budget.functions[i].state != XP_BUDGET_OUT)
			crowd->budget.functions[i].calls += (uint64_t)(calls + crowd->chance / 4294967296.0);
	}
	crowd->tracing_ns += (double)tick_ns - own_ns;
	crowd->cpu_ns += (double)tick_ns;
	crowd->now_ns += tick_ns;
}

static void decide_for_crowd(struct crowd *crowd, uint64_t cpu_ns)
{
	size_t counted = 0, count = xp_budget_tick(&crowd->budget, crowd->now_ns, cpu_ns, crowd->changes, MANY);

	for (size_t i = 0; i < count; i++)
		xp_budget_set(&crowd->budget, crowd->changes[i].function, crowd->changes[i].state, crowd->now_ns);
	for (size_t i = 0; i < MANY; i++)
		counted += crowd->budget.functions[i].state == XP_BUDGET_COUNTED;
	assert_true(counted <= MANY_COUNTERS);
}

TEST(many_functions)
{
	static const size_t hot[] = { 3000, 300, 6000 };
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	size_t first;

	assert_non_null(crowd);
	for (size_t round = 0; round < 2 * XP_ARRAY_SIZE(hot); round++) {
		bool cheap = round % 2;

		*crowd = (struct crowd){ .now_ns = 1 };
		xp_budget_init(&crowd->budget, SHARE, MANY_COUNTERS, 10);
		assert_int_equal(xp_budget_add(&crowd->budget, MANY, &first), 0);
		for (size_t i = 0; i < MANY; i++)
			crowd->budget.functions[i].record_ns = cheap ? 1400 : 6000;
		for (int tick = 0; tick < 8; tick++) {
			run_crowd_tick(crowd, TICK_NS / 4, hot[round / 2]);
			decide_for_crowd(crowd, TICK_NS / 4);
		}
		/* The first 200 ms. A decision takes 25 of them, and probes leave time for few calls meanwhile. */
		assert_true(crowd->tracing_ns < (cheap ? 0.2 : 0.8) * crowd->cpu_ns);
		crowd->tracing_ns = crowd->cpu_ns = 0;
		for (int tick = 0; tick < 100; tick++) {
			run_crowd_tick(crowd, TICK_NS, hot[round / 2]);
			decide_for_crowd(crowd, TICK_NS);
		}
		assert_true(crowd->tracing_ns < SHARE * crowd->cpu_ns);
		xp_budget_free(&crowd->budget);
	}
	free(crowd);
}

/* When the load ends, the functions are resumed: many more than can be counted at a time. */
TEST(the_crowd_comes_back)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	size_t first, recorded = 0;

	assert_non_null(crowd);
	crowd->now_ns = 1;
	xp_budget_init(&crowd->budget, SHARE, MANY_COUNTERS, 10);
	assert_int_equal(xp_budget_add(&crowd->budget, MANY, &first), 0);
	for (size_t i = 0; i < MANY; i++)
		crowd->budget.functions[i] = (struct xp_budget_function){ .record_ns = 1400 };
	for (int tick = 0; tick < 20; tick++) {
		run_crowd_tick(crowd, TICK_NS, 500);
		decide_for_crowd(crowd, TICK_NS);
	}
	for (size_t i = 0; i < 500; i++)
		recorded += crowd->budget.functions[i].state == XP_BUDGET_RECORDED;
	assert_true(recorded < 50);
	for (int tick = 0; tick < 600; tick++) {
		crowd->now_ns += TICK_NS;
		decide_for_crowd(crowd, TICK_NS);
	}
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(crowd->budget.functions[i].state, XP_BUDGET_RECORDED);
	xp_budget_free(&crowd->budget);
	free(crowd);
}
