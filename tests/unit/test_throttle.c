/* SPDX-License-Identifier: BSD-2-Clause */
/* The effect of the budget on the patched sleds of several processes, with a simulated kernel. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "budget/throttle_work.h"
#include "sled/patch.h"

#define FUNCTIONS 3
#define STOPS_MAX 256

enum { ODD = 11, PEER = 12, OTHER = 21, CHILD = 31 };

static struct {
	uint64_t now; /* TSC */
	size_t forgotten;
	uint64_t stop_ns;    /* how long a process stops for a change */
	uint64_t stopped_ns; /* the part of the stop so far */
	uint64_t cpu_ns;     /* CPU time of each process */
	size_t stops;
	pid_t stopped[STOPS_MAX];	/* ... of these */
	pid_t odd;			/* this process does not stop */
	struct xp_throttle *stop_after; /* the recording ends while a process is stopped */
	pid_t reused;			/* another process has this PID */
	uint64_t told[2];		/* new calls that the stubs of ODD and PEER have counted */
} kernel;

static uint64_t play_now(void)
{
	return kernel.now;
}

static uint64_t play_ticks(const struct xp_clock *clock, uint64_t ns)
{
	(void)clock;
	return ns;
}

static uint64_t play_ns(const struct xp_clock *clock, uint64_t ticks)
{
	(void)clock;
	return ticks;
}

static void play_forget(struct xp_processes *processes, const struct xp_object *object, uint32_t function_id)
{
	(void)processes;
	(void)object;
	assert_int_equal(function_id, 1);
	kernel.forgotten++;
}

static int play_patch_functions(struct xp_patch *patch, const struct xp_patch_place *place, const uint32_t *ids,
				size_t count)
{
	(void)patch;
	(void)ids;
	kernel.stopped_ns += kernel.stop_ns;
	kernel.now += kernel.stop_ns;
	(void)count;
	assert_true(kernel.stops < STOPS_MAX);
	kernel.stopped[kernel.stops++] = place->pid;
	assert_int_equal(place->inherits, place->pid >= CHILD);
	if (kernel.stop_after)
		xp_throttle_stop(kernel.stop_after);
	return place->pid == kernel.odd ? -EBUSY : 0;
}

static uint64_t play_stopped_ns(const struct xp_patch *patch, uint64_t *longest_ns)
{
	(void)patch;
	*longest_ns = 0;
	return kernel.stopped_ns;
}

static uint64_t play_cpu_ns(pid_t pid)
{
	(void)pid;
	return kernel.cpu_ns;
}

static int play_counts(struct xp_patch *patch, pid_t pid, uint64_t counts[XP_STUB_COUNTERS_MAX])
{
	(void)patch;
	counts[0] += kernel.told[pid == PEER];
	return 0;
}

static int play_counts_left(struct xp_patch *patch, pid_t pid, pid_t child, uint64_t counts[XP_STUB_COUNTERS_MAX])
{
	(void)patch;
	(void)pid;
	(void)child;
	(void)counts;
	return 0;
}

static uint64_t play_start_time(pid_t pid)
{
	return kernel.reused == pid ? 2 : 1;
}

#define xp_target_start_time play_start_time
#define xp_patch_counts play_counts
#define xp_patch_counts_left play_counts_left
#define xp_patch_functions play_patch_functions
#define xp_patch_stopped_ns play_stopped_ns
#define xp_target_cpu_ns play_cpu_ns
#define xp_clock_now_tsc play_now
#define xp_clock_ticks play_ticks
#define xp_clock_ns play_ns
#define xp_processes_forget play_forget
#include "../../user/budget/cost_watch.c"
#include "../../user/budget/throttle.c"
#include "../../user/budget/throttle_places.c"
#include "../../user/budget/throttle_work.c"

/* Two processes of one program, and one of another program. */
struct fixture {
	struct xp_throttle throttle;
	struct xp_throttle_member members[2];
	struct xp_object objects[2];
	struct xp_sled_table table;
	struct xp_function functions[FUNCTIONS];
	struct xp_throttled all[2 * FUNCTIONS];
	struct xp_budget_change changes[2 * FUNCTIONS];
	struct xp_throttle_place places[2][2];
	struct xp_function_budget budgets[2][FUNCTIONS + 1];
	struct xp_processes processes; /* 0: see add_process() */
};

static void set_member(struct fixture *f, size_t m, pid_t first, pid_t second)
{
	struct xp_throttle_member *member = &f->members[m];

	f->objects[m] = (struct xp_object){ .table = &f->table, .budget = f->budgets[m], .path = "program" };
	f->places[m][0].pid = first;
	f->places[m][1].pid = second;
	*member = (struct xp_throttle_member){
		.object = &f->objects[m],
		.functions = f->budgets[m],
		.places = f->places[m],
		.place_count = second ? 2 : 1,
	};
	assert_int_equal(xp_budget_add(&f->throttle.budget, FUNCTIONS, &member->first), 0);
	for (size_t i = 0; i < FUNCTIONS; i++)
		f->all[member->first + i] =
		    (struct xp_throttled){ &f->objects[m], (uint32_t)i + 1, .counter = XP_NO_COUNTER };
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	memset(&kernel, 0, sizeof(kernel));
	kernel.now = 1;
	f->table.function_count = FUNCTIONS;
	f->table.functions = f->functions;
	f->throttle.changes = f->changes;
	f->throttle.all = f->all;
	xp_budget_init(&f->throttle.budget, 0, XP_THROTTLE_COUNTERS, 0);
	f->throttle.members = f->members;
	f->throttle.member_count = 2;
	set_member(f, 0, ODD, PEER);
	set_member(f, 1, OTHER, 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	xp_budget_free(&f->throttle.budget);
	xp_processes_free(&f->processes);
	free(f);
	return 0;
}

static void work(struct fixture *f, enum xp_budget_state state)
{
	struct xp_throttle *throttle = &f->throttle;

	throttle->change_count = 0;
	for (size_t m = 0; m < 2; m++) {
		size_t index = f->members[m].first;

		throttle->changes[throttle->change_count++] = (struct xp_budget_change){ index, state };
	}
	add_changed(throttle);
	xp_throttle_work(throttle);
}

static void assert_is(struct fixture *f, size_t m, enum xp_budget_state state)
{
	const struct xp_throttled *one = &f->throttle.all[f->members[m].first];
	uint32_t excluded = state == XP_BUDGET_RECORDED	 ? XP_EXCLUDED_NOT
			    : state == XP_BUDGET_COUNTED ? one->counter + 1
							 : XP_EXCLUDED_OUT;

	assert_int_equal(one->state, state);
	assert_int_equal(f->budgets[m][1].excluded, excluded);
}

TEST_WITH(test_out_and_back, set_up, tear_down)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		work(f, XP_BUDGET_COUNTED);
		for (size_t m = 0; m < 2; m++)
			assert_is(f, m, XP_BUDGET_COUNTED);
		work(f, XP_BUDGET_OUT);
		assert_is(f, 0, XP_BUDGET_OUT);
		work(f, XP_BUDGET_RECORDED);
		for (size_t m = 0; m < 2; m++)
			assert_is(f, m, XP_BUDGET_RECORDED);
	}
	assert_int_equal(kernel.stops, 2 * 3 * 3);
}

/* Calls of a process that is stopped later than others are recorded until then: they are neither counted nor lost. */
TEST_WITH(test_calls_before_the_last_stop, set_up, tear_down)
{
	struct fixture *f = *state;
	uint64_t out_tsc;

	kernel.stop_ns = 10;
	f->budgets[0][1].out_tsc = f->budgets[1][1].out_tsc = UINT64_MAX;
	work(f, XP_BUDGET_COUNTED);
	out_tsc = kernel.now;
	assert_true(f->budgets[0][1].out_tsc == out_tsc && f->budgets[1][1].out_tsc == out_tsc);
	work(f, XP_BUDGET_OUT);
	assert_true(f->budgets[0][1].out_tsc == out_tsc);
	kernel.odd = OTHER;
	work(f, XP_BUDGET_RECORDED);
	assert_true(f->budgets[0][1].out_tsc == UINT64_MAX);
	/* OTHER stays as it is. */
	assert_int_not_equal(f->budgets[1][1].excluded, XP_EXCLUDED_NOT);
	assert_true(f->budgets[1][1].out_tsc == kernel.now);
}

/* A process that does not stop is tried again later. Functions of the other processes are throttled meanwhile. */
TEST_WITH(test_odd_process, set_up, tear_down)
{
	struct fixture *f = *state;

	kernel.odd = ODD;
	for (unsigned int tries = 1; tries <= RETRY_WARN; tries++) {
		kernel.stops = 0;
		work(f, tries % 2 ? XP_BUDGET_COUNTED : XP_BUDGET_OUT);
		assert_int_equal(kernel.stops, 3);
		assert_is(f, 0, tries % 2 ? XP_BUDGET_COUNTED : XP_BUDGET_OUT);
		assert_is(f, 1, tries % 2 ? XP_BUDGET_COUNTED : XP_BUDGET_OUT);
		assert_int_equal(f->places[0][0].failures, tries);
		assert_int_equal(f->places[0][1].failures, 0);
		assert_int_equal(f->throttle.failed, tries == RETRY_WARN);
		/* No retry before its time. */
		assert_false(xp_throttle_is_behind(&f->throttle, kernel.now));
		kernel.now += RETRY_NS << tries;
		assert_true(xp_throttle_is_behind(&f->throttle, kernel.now));
	}
	kernel.odd = 0;
	work(f, XP_BUDGET_RECORDED);
	assert_int_equal(f->places[0][0].failures, 0);
}

/*
 * The only process of a program: the function is still recorded, and throttled when the process can be stopped again.
 */
TEST_WITH(test_no_process_stops, set_up, tear_down)
{
	struct fixture *f = *state;

	f->members[0].place_count = 1;
	kernel.odd = ODD;
	f->budgets[0][1].out_tsc = UINT64_MAX;
	work(f, XP_BUDGET_OUT);
	assert_is(f, 0, XP_BUDGET_RECORDED);
	assert_true(f->budgets[0][1].out_tsc == UINT64_MAX);
	assert_is(f, 1, XP_BUDGET_OUT);
	kernel.odd = 0;
	kernel.now += RETRY_NS << 1;
	work(f, XP_BUDGET_OUT);
	assert_is(f, 0, XP_BUDGET_OUT);
}

/* The same applies at the end of a recording: exits of open calls must not be synthesized. */
TEST_WITH(test_note_at_the_end, set_up, tear_down)
{
	struct fixture *f = *state;

	work(f, XP_BUDGET_COUNTED);
	f->throttle.busy = true;
	xp_throttle_drained(&f->throttle);
	assert_int_equal(kernel.forgotten, 2);
	assert_false(f->throttle.busy);
	assert_int_equal(f->throttle.budget.functions[0].state, XP_BUDGET_COUNTED);
	xp_throttle_drained(&f->throttle);
	assert_int_equal(kernel.forgotten, 2);
}

/* CPU time that the process uses while the loader reads its records belongs to the next tick, like its calls. */
static void pass(struct fixture *f, uint64_t mark_tsc, uint64_t runs_meanwhile_ns)
{
	xp_throttle_mark(&f->throttle, mark_tsc);
	kernel.cpu_ns += runs_meanwhile_ns;
	xp_throttle_run(&f->throttle, mark_tsc);
}

/* A running process. */
static void add_process(struct fixture *f)
{
	struct xp_target_info info = { 0 };
	struct xp_process *process;

	xp_processes_init(&f->processes);
	assert_int_equal(xp_processes_add(&f->processes, &process, ODD, &info, 0), 0);
	f->throttle.options.processes = &f->processes;
}

TEST_WITH(test_cpu_time_is_that_of_the_mark, set_up, tear_down)
{
	struct fixture *f = *state;

	add_process(f);
	kernel.cpu_ns = 1;
	pass(f, TICK_NS, TICK_NS);
	assert_true(f->throttle.cpu_sum_ns == 0);
	pass(f, 2 * TICK_NS, 5 * TICK_NS);
	assert_true(f->throttle.cpu_sum_ns == TICK_NS);
	/* There is none between ticks. */
	pass(f, 2 * TICK_NS + 1, 0);
	assert_true(f->throttle.cpu_sum_ns == TICK_NS);
	pass(f, 3 * TICK_NS, 0);
	assert_true(f->throttle.cpu_sum_ns == 6 * TICK_NS);
}

/* Records of ended processes report it once, in the pass with their last calls. */
TEST_WITH(test_cpu_time_of_ended_processes, set_up, tear_down)
{
	struct xp_processes processes = { 0 };
	struct fixture *f = *state;

	f->throttle.options.processes = &processes;
	for (uint64_t tick = 1; tick <= 4; tick++) {
		xp_throttle_mark(&f->throttle, tick * TICK_NS);
		if (tick < 3)
			processes.ended_cpu_ns += tick * XP_BUDGET_CPU_MIN_NS / 4;
		xp_throttle_run(&f->throttle, tick * TICK_NS);
		/* The part before the first mark is not counted, and a part that is too small is kept for later. */
		assert_true(f->throttle.cpu_sum_ns == (tick == 1 ? 0 : XP_BUDGET_CPU_MIN_NS / 2));
		assert_int_equal(f->throttle.cpu_ns, tick == 1 ? 0 : XP_BUDGET_CPU_MIN_NS / 2);
	}
	processes.ended_cpu_ns = XP_BUDGET_CPU_MIN_NS;
	pass(f, 5 * TICK_NS, 0);
	assert_true(f->throttle.cpu_sum_ns == 3 * XP_BUDGET_CPU_MIN_NS / 2);
	assert_int_equal(f->throttle.cpu_ns, 0);
	processes.ended_cpu_ns = 1;
	xp_throttle_end(&f->throttle);
	assert_true(f->throttle.cpu_sum_ns == 3 * XP_BUDGET_CPU_MIN_NS / 2 + 1);
}

/* Calls between attaching and the first mark do not belong to the CPU time after that mark. */
TEST_WITH(test_calls_before_the_first_mark, set_up, tear_down)
{
	struct fixture *f = *state;
	uint32_t *calls = f->budgets[0][1].calls;

	add_process(f);
	f->throttle.options.probe_cost.stub_ns = 500;
	f->throttle.options.probe_cost.memory_ns = 20;
	f->throttle.budget.share = 0.5;
	kernel.cpu_ns = 1;
	calls[XP_CALLS_STUB] = calls[XP_CALLS_MEMORY] = 1000000;
	pass(f, TICK_NS, TICK_NS);
	calls[XP_CALLS_STUB] += 200;
	calls[XP_CALLS_MEMORY] += 1000;
	pass(f, 2 * TICK_NS, 0);
	assert_true(f->throttle.cpu_sum_ns == TICK_NS);
	assert_true(f->throttle.tracing_sum_ns == 200 * 1000 + 1000 * 40);
	/* The budget keeps the mean costs of a function as float. */
	assert_true(fabs(f->throttle.budget.spent - 240 * 1000.0 / TICK_NS) < 1e-6);
	assert_int_equal(f->throttle.change_count, 0);
}

/*
 * If a record in progress ends a pass early, a later pass reads its calls, perhaps also calls of functions that were
 * throttled meanwhile.
 */
TEST_WITH(test_pass_that_is_cut_short, set_up, tear_down)
{
	struct fixture *f = *state;

	add_process(f);
	kernel.cpu_ns = 1;
	pass(f, TICK_NS, 0);
	kernel.now = TICK_NS + 1;
	work(f, XP_BUDGET_COUNTED);
	f->throttle.busy = true;
	for (uint64_t mark_tsc = 2 * TICK_NS; mark_tsc < 3 * TICK_NS; mark_tsc += TICK_NS / 4) {
		kernel.cpu_ns += TICK_NS / 2;
		xp_throttle_mark(&f->throttle, mark_tsc);
		xp_throttle_run(&f->throttle, TICK_NS);
	}
	assert_int_equal(kernel.forgotten, 0);
	assert_int_equal(f->throttle.last_tick_tsc, TICK_NS);
	assert_int_equal(f->throttle.cpu_ns, 2 * TICK_NS);
	assert_true(f->processes.first->cpu.running == 2);
	pass(f, 3 * TICK_NS, 0);
	assert_int_equal(kernel.forgotten, 2);
	assert_int_equal(f->throttle.last_tick_tsc, 3 * TICK_NS);
	assert_int_equal(f->throttle.cpu_ns, 0);
	assert_true(f->throttle.cpu_sum_ns == 2 * TICK_NS);
}

/*
 * A process with three busy threads is stopped for 20 ms: that is 60 ms of thread time, in addition to the 300 ms that
 * they ran.
 */
TEST_WITH(test_stops_are_charged, set_up, tear_down)
{
	struct fixture *f = *state;

	add_process(f);
	kernel.cpu_ns = 1;
	pass(f, TICK_NS, 0);
	kernel.cpu_ns += 3 * TICK_NS;
	pass(f, 2 * TICK_NS, 0);
	assert_true(xp_throttle_spent(&f->throttle) == 0);
	/* Earlier stops for patching do not count in the budget. */
	kernel.stopped_ns = 1234567;
	kernel.stop_ns = 20000000;
	work(f, XP_BUDGET_OUT);
	f->throttle.busy = true;
	xp_throttle_drained(&f->throttle);
	assert_true(fabs(xp_throttle_spent(&f->throttle) - 60.0 / 360) < 1e-9);
	f->throttle.busy = true;
	xp_throttle_drained(&f->throttle);
	assert_true(fabs(xp_throttle_spent(&f->throttle) - 60.0 / 360) < 1e-9);
}

/*
 * At the end of the recording, a change is completed. But xprof does not wait again for a process that did not stop
 * before.
 */
TEST_WITH(test_cut_short, set_up, tear_down)
{
	struct fixture *f = *state;

	f->places[0][1].failures = 1;
	kernel.stop_after = &f->throttle;
	work(f, XP_BUDGET_OUT);
	assert_int_equal(kernel.stops, 2);
	assert_int_equal(f->throttle.all[0].state, XP_BUDGET_OUT);
	assert_int_equal(f->throttle.all[f->members[1].first].state, XP_BUDGET_OUT);
	assert_int_equal(f->budgets[1][1].excluded, XP_EXCLUDED_OUT);
	/* No other change is started. */
	work(f, XP_BUDGET_COUNTED);
	assert_int_equal(kernel.stops, 2);
	assert_int_equal(f->throttle.all[0].state, XP_BUDGET_OUT);
}

/*
 * A process that writes arbitrary values into the counters of its stubs cannot claim more calls than its CPU time
 * allows: the other process of the program keeps the function.
 */
TEST_WITH(test_told_counts_are_bounded, set_up, tear_down)
{
	enum { COUNT_NS = 2, HONEST = 1000 };
	struct xp_target_info info = { 0 };
	struct xp_process *process;
	struct fixture *f = *state;
	struct xp_throttled *one;
	uint64_t counted;

	add_process(f);
	assert_int_equal(xp_processes_add(&f->processes, &process, PEER, &info, 0), 0);
	xp_call_accounts_keep(&f->processes.accounts, 1, TICK_NS);
	process->start_time = 1;
	f->throttle.options.probe_cost.count_ns = f->throttle.budget.count_ns = COUNT_NS;
	for (size_t m = 0; m < 2; m++)
		set_costs(&f->throttle, &f->members[m]);
	f->throttle.budget.share = 0.5;
	kernel.cpu_ns = 1;
	work(f, XP_BUDGET_COUNTED);
	one = &f->throttle.all[f->members[0].first];
	pass(f, TICK_NS, 0);
	kernel.told[0] = UINT64_MAX / 2;
	kernel.told[1] = HONEST;
	for (uint64_t tick = 2; tick < 12; tick++)
		pass(f, tick * TICK_NS, TICK_NS / 10);
	/* The CPU time of both, and a tick of overdraft. */
	assert_true(f->throttle.tracing_sum_ns <= 9 * TICK_NS / 10 + 10 * HONEST * COUNT_NS + TICK_NS + COUNT_NS);
	assert_true(one->counted >= 10 * HONEST);
	assert_true(one->counted <= (9 * TICK_NS / 10 + TICK_NS) / COUNT_NS + 10 * HONEST);
	/* What another process with the PID of the second one has there does not count. */
	kernel.told[0] = 0;
	kernel.reused = PEER;
	counted = one->counted;
	pass(f, 12 * TICK_NS, TICK_NS / 10);
	assert_int_equal(one->counted, counted);
}

/*
 * More functions are throttled than there are counters: each counted function has one counter, and releases it
 * afterwards.
 */
TEST(test_counters_are_passed_on)
{
	enum { MANY = XP_THROTTLE_COUNTERS + 40 };
	struct xp_throttle throttle = { 0 };
	struct xp_function_budget budgets[MANY + 1] = { 0 };
	struct xp_throttled all[MANY];
	struct xp_sled_table table = { .function_count = MANY };
	struct xp_object object = { .table = &table, .budget = budgets };
	struct xp_throttle_member member = { .object = &object };
	struct xp_budget_change changes[MANY];
	uint32_t first_counter;

	throttle.members = &member;
	throttle.member_count = 1;
	throttle.changes = changes;
	throttle.all = all;
	for (size_t i = 0; i < MANY; i++) {
		all[i] = (struct xp_throttled){ &object, (uint32_t)i + 1, .counter = XP_NO_COUNTER };
		changes[i] =
		    (struct xp_budget_change){ i, i < XP_THROTTLE_COUNTERS ? XP_BUDGET_COUNTED : XP_BUDGET_OUT };
	}
	throttle.change_count = MANY;
	add_changed(&throttle);
	assert_int_equal(throttle.change_count, MANY);
	for (size_t i = 0; i < MANY; i++) {
		struct xp_throttled *one = &all[i];

		assert_int_equal(one->counter == XP_NO_COUNTER, i >= XP_THROTTLE_COUNTERS);
		for (size_t j = 0; j < i && i < XP_THROTTLE_COUNTERS; j++)
			assert_int_not_equal(all[j].counter, one->counter);
		one->state = changes[i].state;
	}
	/* All counters are in use: one more function cannot be counted. */
	changes[0] = (struct xp_budget_change){ MANY - 1, XP_BUDGET_COUNTED };
	throttle.change_count = 1;
	add_changed(&throttle);
	assert_int_equal(throttle.change_count, 1);
	assert_int_equal(changes[0].state, XP_BUDGET_OUT);
	/* The counter of a function that is no longer counted is assigned to the next one, and then freed. */
	first_counter = all[7].counter;
	all[7].state = XP_BUDGET_RECORDED;
	changes[0].state = XP_BUDGET_COUNTED;
	add_changed(&throttle);
	assert_int_equal(changes[0].state, XP_BUDGET_COUNTED);
	assert_int_equal(all[MANY - 1].counter, first_counter);
	assert_int_equal(all[7].counter, XP_NO_COUNTER);
}

static struct xp_process *add_child_of(struct fixture *f, pid_t parent, pid_t pid, uint64_t tsc)
{
	struct xp_target_info info = { 0 };
	struct xp_process *child;

	assert_int_equal(xp_processes_add(&f->processes, &child, pid, &info, tsc), 0);
	child->functions.ranges = calloc(1, sizeof(*child->functions.ranges));
	assert_non_null(child->functions.ranges);
	child->functions.range_count = 1;
	child->functions.ranges[0].object = &f->objects[0];
	child->functions.ranges[0].sleds.mode = XP_SLEDS_PATCHED;
	child->attaching.inherits_from = child->attaching.parent = parent;
	return child;
}

static bool was_stopped(pid_t pid)
{
	bool was = false;

	for (size_t i = 0; i < kernel.stops; i++)
		was |= kernel.stopped[i] == pid;
	kernel.stops -= was ? 1 : 0;
	return was;
}

/* A parent, the only process. */
static void patch_parent(struct fixture *f)
{
	const struct xp_sled_result result = { .mode = XP_SLEDS_PATCHED };

	f->throttle.options.processes = &f->processes;
	f->throttle.member_count = 1;
	f->throttle.members[0].places = NULL;
	f->throttle.members[0].place_count = 0;
	assert_int_equal(xp_throttle_attach(&f->throttle, &f->objects[0], ODD, &result), 0);
	assert_int_equal(xp_throttle_attach(&f->throttle, &f->objects[0], PEER, &result), 0);
	xp_throttle_drop_process(&f->throttle, PEER);
}

static void change_in_all(struct fixture *f, enum xp_budget_state state)
{
	f->throttle.changes[0] = (struct xp_budget_change){ f->members[0].first, state };
	f->throttle.change_count = 1;
	add_changed(&f->throttle);
	xp_throttle_work(&f->throttle);
	f->throttle.change_count = 0;
}

/*
 * A child that was forked before a change is stopped for the change as soon as xprof knows the child. A child that was
 * forked later is not.
 */
TEST_WITH(test_children, set_up, tear_down)
{
	struct fixture *f = *state;
	struct xp_process *early;

	xp_processes_init(&f->processes);
	patch_parent(f);
	early = add_child_of(f, ODD, CHILD, 5 * TIME_MARGIN_NS);
	kernel.now = 10 * TIME_MARGIN_NS;
	change_in_all(f, XP_BUDGET_OUT);
	assert_true(was_stopped(ODD));
	add_child_of(f, ODD, CHILD + 1, 20 * TIME_MARGIN_NS);
	kernel.now = 30 * TIME_MARGIN_NS;
	xp_throttle_find_children(&f->throttle);
	assert_true(xp_throttle_is_behind(&f->throttle, kernel.now));
	kernel.stops = 0;
	xp_throttle_work(&f->throttle);
	assert_int_equal(kernel.stops, 1);
	assert_true(was_stopped(CHILD));
	assert_false(xp_throttle_is_behind(&f->throttle, kernel.now));
	/* All processes from now on, except those that have ended. */
	kernel.stops = 0;
	kernel.now = 40 * TIME_MARGIN_NS;
	change_in_all(f, XP_BUDGET_RECORDED);
	assert_int_equal(kernel.stops, 3);
	early->live = false;
	xp_u64_map_remove(&f->processes.newest, CHILD);
	xp_throttle_find_children(&f->throttle);
	kernel.stops = 0;
	change_in_all(f, XP_BUDGET_OUT);
	assert_int_equal(kernel.stops, 2);
	assert_false(was_stopped(CHILD));
	/* Meanwhile, no other process may use the stubs. */
	assert_false(xp_throttle_is_busy(&f->throttle));
	start_work(&f->throttle);
	assert_true(xp_throttle_is_busy(&f->throttle));
	xp_throttle_drained(&f->throttle);
	assert_false(xp_throttle_is_busy(&f->throttle));
	free(f->throttle.members[0].places);
}
