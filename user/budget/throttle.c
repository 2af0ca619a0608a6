// SPDX-License-Identifier: BSD-2-Clause
#include "budget/throttle.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "budget/cost_watch.h"
#include "budget/throttle_work.h"

#define TICK_NS 100000000ull
/* Interval of ticks at first and while the cost is far above the budget: as short as CPU times can be read. */
#define HURRY_TICK_NS 25000000ull
#define HURRY_NS 1000000000ull
#define HURRY_SPENT 2
#define SETTLED_CPU_MIN_NS 100e6

int xp_throttle_new(struct xp_throttle **result, const struct xp_throttle_options *options)
{
	struct xp_throttle *throttle = calloc(1, sizeof(*throttle));

	if (!throttle)
		return -ENOMEM;
	throttle->options = *options;
	xp_budget_init(&throttle->budget, options->share, XP_THROTTLE_COUNTERS, (double)options->probe_cost.count_ns);
	xp_call_accounts_keep(&options->processes->accounts, (unsigned int)XP_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1),
			      TICK_NS);
	*result = throttle;
	return 0;
}

void xp_throttle_free(struct xp_throttle *throttle)
{
	if (!throttle)
		return;
	for (size_t i = 0; i < throttle->member_count; i++) {
		throttle->members[i].object->budget = NULL;
		free(throttle->members[i].functions);
		free(throttle->members[i].places);
	}
	free(throttle->members);
	free(throttle->all);
	free(throttle->changes);
	xp_budget_free(&throttle->budget);
	free(throttle);
}

void xp_throttle_wait(struct xp_throttle *throttle)
{
	if (throttle->working)
		pthread_join(throttle->thread, NULL);
	throttle->working = false;
}

bool xp_throttle_is_busy(const struct xp_throttle *throttle)
{
	return throttle->busy;
}

void xp_throttle_stop(struct xp_throttle *throttle)
{
	__atomic_store_n(&throttle->stopping, true, __ATOMIC_RELAXED);
	xp_throttle_wait(throttle);
}

/* ---- objects ---- */

static int allocate(struct xp_throttle_member *member)
{
	size_t functions = member->object->table->function_count;

	member->functions = calloc(functions + 1, sizeof(*member->functions));
	if (!member->functions)
		return -ENOMEM;
	for (size_t id = 0; id <= functions; id++)
		member->functions[id].out_tsc = UINT64_MAX;
	member->object->budget = member->functions;
	return 0;
}

/* Sets the cost of a call from the number of calls in each call mode. */
static void set_cost(struct xp_throttle *throttle, const struct xp_throttle_member *member, size_t id,
		     const uint32_t calls[XP_CALL_WAYS])
{
	double sum = 0, record_ns = 0;

	for (int way = 0; way < XP_CALL_WAYS; way++) {
		sum += calls[way];
		record_ns += calls[way] * xp_probe_cost_call_ns(&throttle->options.probe_cost, (enum xp_call_way)way);
	}
	throttle->budget.functions[member->first + id - 1].record_ns = (float)(record_ns / sum);
}

/* Sets the costs before any call is known. */
static void set_costs(struct xp_throttle *throttle, const struct xp_throttle_member *member)
{
	const struct xp_probe_cost *cost = &throttle->options.probe_cost;
	const double record_ns = xp_probe_cost_call_ns(cost, cost->memory_ns ? XP_CALLS_MEMORY : XP_CALLS_STUB);
	const double memory_ns = xp_probe_cost_call_ns(cost, XP_CALLS_MEMORY);

	for (size_t id = 1; id <= member->object->table->function_count; id++) {
		struct xp_budget_function *function = &throttle->budget.functions[member->first + id - 1];

		member->functions[id].memory_ns = (uint32_t)memory_ns;
		function->record_ns = (float)record_ns;
	}
}

int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object)
{
	const size_t functions = object->table->function_count, count = throttle->budget.count + functions;
	struct xp_throttle_member *members, *member;
	struct xp_budget_change *changes;
	struct xp_throttled *all;
	int err;

	if (xp_throttle_member(throttle, object))
		return 0;
	xp_throttle_wait(throttle);
	/* No work is in progress, but changes may wait for their records. */
	changes = reallocarray(throttle->changes, count, sizeof(*changes));
	throttle->changes = changes ?: throttle->changes;
	all = reallocarray(throttle->all, count, sizeof(*all));
	throttle->all = all ?: throttle->all;
	members = reallocarray(throttle->members, throttle->member_count + 1, sizeof(*members));
	throttle->members = members ?: throttle->members;
	if (!changes || !all || !members)
		return -ENOMEM;
	member = &members[throttle->member_count++];
	*member = (struct xp_throttle_member){ .object = object };
	err = allocate(member) ?: xp_budget_add(&throttle->budget, functions, &member->first);
	if (err)
		return err;
	for (size_t i = 0; i < functions; i++)
		all[member->first + i] = (struct xp_throttled){
			.object = object,
			.function_id = (uint32_t)i + 1,
			.counter = XP_NO_COUNTER,
		};
	set_costs(throttle, member);
	return 0;
}

/* ---- functions that are taken out ---- */

/*
 * Gives a function a counter. If none is free, uses the counter of the function that has not needed it for the longest
 * time. The budget counts fewer functions at a time than there are counters.
 */
static bool take_counter(struct xp_throttle *throttle, struct xp_throttled *one)
{
	struct xp_throttle_counter *best = NULL;

	if (one->counter != XP_NO_COUNTER) {
		throttle->counters[one->counter].used = throttle->decisions;
		return true;
	}
	for (size_t i = 0; i < XP_THROTTLE_COUNTERS; i++) {
		struct xp_throttle_counter *counter = &throttle->counters[i];

		if (counter->owner && (counter->used == throttle->decisions ||
				       throttle->all[counter->owner - 1].state == XP_BUDGET_COUNTED))
			continue;
		if (!best || counter->used < best->used)
			best = counter;
	}
	if (!best)
		return false;
	if (best->owner)
		throttle->all[best->owner - 1].counter = XP_NO_COUNTER;
	best->owner = (size_t)(one - throttle->all) + 1;
	best->used = throttle->decisions;
	one->counter = (uint32_t)(best - throttle->counters);
	return true;
}

/* Functions for which there is no counter are out. */
static void add_changed(struct xp_throttle *throttle)
{
	throttle->decisions += throttle->change_count > 0;
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_budget_change *change = &throttle->changes[i];
		struct xp_throttled *one = &throttle->all[change->function];

		one->changed = true;
		if (change->state == XP_BUDGET_COUNTED && !take_counter(throttle, one))
			change->state = XP_BUDGET_OUT;
	}
}

/* ---- work ---- */

static void start_work(struct xp_throttle *throttle)
{
	sigset_t all, before;
	int err;

	throttle->done = false;
	throttle->busy = throttle->working = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&throttle->thread, NULL, xp_throttle_work, throttle);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		throttle->working = false;
		xp_throttle_work(throttle);
	}
}

/*
 * Charges the time of stops. While a process is stopped, its threads cannot run; the number of threads that ran
 * recently gives the lost CPU time. Waiting threads lose nothing. This time is not in any CPU time, so
 * xp_throttle_spent() adds it to both sides of the ratio. No single function causes it, so it only reduces the budget
 * of all functions and the frequency of checks.
 */
static void charge_stops(struct xp_throttle *throttle)
{
	double threads_ns = 0;
	uint64_t longest_ns = 0;

	for (size_t m = 0; m < throttle->member_count; m++)
		for (size_t p = 0; p < throttle->members[m].place_count; p++) {
			struct xp_throttle_place *place = &throttle->members[m].places[p];
			const struct xp_process *process =
			    place->stopped_ns ? xp_processes_find(throttle->options.processes, place->pid) : NULL;

			if (process)
				threads_ns += (double)place->stopped_ns * process->cpu.running;
			longest_ns = XP_MAX(longest_ns, place->stopped_ns);
			place->stopped_ns = 0;
		}
	throttle->stopped_sum_ns += threads_ns;
	if (longest_ns)
		xp_budget_stopped(&throttle->budget, longest_ns, threads_ns);
}

/* Applies the results of work that is done. All records from before its end have arrived. */
static void finish_work(struct xp_throttle *throttle)
{
	uint64_t now_ns = xp_clock_ns(throttle->options.clock, throttle->done_tsc);

	xp_throttle_wait(throttle);
	charge_stops(throttle);
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = &throttle->all[throttle->changes[i].function];

		/* The actual state, even if the change was refused. */
		xp_budget_set(&throttle->budget, throttle->changes[i].function, one->state, now_ns);
		if (one->forget)
			xp_processes_forget(throttle->options.processes, one->object, one->function_id);
		one->forget = false;
		xp_debug("budget: %s of %s is %s",
			 one->object->table->functions[one->function_id - 1].name ?: "a function", one->object->path,
			 (const char *[]){ "recorded", "counted", "out" }[one->state]);
	}
	throttle->change_count = 0;
	throttle->busy = false;
}

/* ---- the loop ---- */

static void add_cpu(struct xp_throttle *throttle, uint64_t ran_ns)
{
	throttle->cpu_sum_ns += (double)ran_ns;
	throttle->cpu_ns += ran_ns;
}

static void gather_recorded(struct xp_throttle *throttle, const struct xp_throttle_member *member)
{
	for (size_t id = 1; id <= member->object->table->function_count; id++) {
		struct xp_budget_function *function = &throttle->budget.functions[member->first + id - 1];
		uint32_t *calls = member->functions[id].calls;
		uint64_t sum = 0;

		for (int way = 0; way < XP_CALL_WAYS; way++)
			sum += calls[way];
		if (!sum)
			continue;
		set_cost(throttle, member, id, calls);
		memset(calls, 0, sizeof(member->functions[id].calls));
		function->calls += sum;
		throttle->tracing_sum_ns += (double)sum * (double)function->record_ns;
	}
}

static void gather_counted(struct xp_throttle *throttle, struct xp_throttled *one, uint64_t calls)
{
	struct xp_budget_function *function = &throttle->budget.functions[one - throttle->all];

	one->counted += calls;
	function->calls += calls;
	throttle->tracing_sum_ns += (double)calls * throttle->budget.count_ns;
}

/*
 * Returns how many of these calls count. The process and its children can write to the counters: count no more calls
 * than they can have made in their CPU time.
 */
static uint64_t draw_calls(struct xp_throttle *throttle, struct xp_process *process, uint64_t calls)
{
	struct xp_processes *processes = throttle->options.processes;
	const uint32_t call_ns = (uint32_t)throttle->options.probe_cost.count_ns;
	uint64_t count = xp_call_account_draw_all(&processes->accounts, &process->account, calls, call_ns);

	for (struct xp_process *child = processes->first_live; child && count < calls; child = child->next_live)
		if (child->attaching.inherits_from == process->pid)
			count +=
			    xp_call_account_draw_all(&processes->accounts, &child->account, calls - count, call_ns);
	return count;
}

/* xprof reads counters by PID. A new process may have that PID before the exit event of this process is read. */
static bool is_itself(const struct xp_process *process)
{
	return !process->start_time || xp_target_start_time(process->pid) == process->start_time;
}

/* Adds the calls that the stubs of a process have counted since the last time. */
static void add_counters(struct xp_throttle *throttle, struct xp_process *process,
			 uint64_t by_stubs[XP_STUB_COUNTERS_MAX])
{
	const struct xp_throttle_options *options = &throttle->options;
	uint64_t told[XP_STUB_COUNTERS_MAX] = { 0 };
	double sum = 0, part;

	if (xp_patch_counts(options->patch, process->pid, told) ||
	    (process->attaching.inherits_from &&
	     xp_patch_counts_left(options->patch, process->attaching.inherits_from, process->pid, told)))
		throttle->budget.unread = true; /* the calls are unknown, not zero */
	if (!is_itself(process))
		return;
	for (size_t i = 0; i < XP_STUB_COUNTERS_MAX; i++)
		sum += (double)told[i];
	if (!(sum > 0))
		return;
	part = (double)draw_calls(throttle, process, (uint64_t)XP_MIN(sum, 0x1p63)) / sum;
	for (size_t i = 0; i < XP_STUB_COUNTERS_MAX; i++)
		by_stubs[i] += part >= 1 ? told[i] : (uint64_t)((double)told[i] * part);
}

static void gather_calls(struct xp_throttle *throttle)
{
	const struct xp_throttle_options *options = &throttle->options;
	uint64_t by_stubs[XP_STUB_COUNTERS_MAX] = { 0 };

	for (size_t m = 0; m < throttle->member_count; m++)
		gather_recorded(throttle, &throttle->members[m]);
	for (struct xp_process *process = options->processes->first_live; process; process = process->next_live)
		if (throttle->decisions)
			add_counters(throttle, process, by_stubs);
	for (size_t i = 0; i < XP_THROTTLE_COUNTERS; i++) {
		struct xp_throttled *one =
		    throttle->counters[i].owner ? &throttle->all[throttle->counters[i].owner - 1] : NULL;

		if (!one)
			continue;
		if (one->state == XP_BUDGET_COUNTED)
			throttle->counters[i].used = throttle->decisions;
		gather_counted(throttle, one, by_stubs[i]);
	}
}

/* Drops earlier calls: they count from when the probes were attached, CPU time only from this mark on. */
static void begin(struct xp_throttle *throttle)
{
	struct xp_processes *processes = throttle->options.processes;

	gather_calls(throttle);
	for (size_t i = 0; i < throttle->budget.count; i++)
		throttle->budget.functions[i].calls = 0;
	throttle->budget.unread = false;
	throttle->tracing_sum_ns = 0;
	throttle->begin_tsc = throttle->mark_tsc;
	for (struct xp_process *process = processes->first_live; process; process = process->next_live)
		xp_call_account_trust(&processes->accounts, &process->account);
	xp_cpu_of_ended(processes);
}

static void tick(struct xp_throttle *throttle, uint64_t now_tsc)
{
	uint64_t cpu_ns;

	gather_calls(throttle);
	add_cpu(throttle, xp_cpu_of_ended(throttle->options.processes));
	if (now_tsc - throttle->begin_tsc < xp_clock_ticks(throttle->options.clock, XP_THROTTLE_FIRST_NS)) {
		throttle->first_cpu_ns = throttle->cpu_sum_ns + throttle->stopped_sum_ns;
		throttle->first_taken_ns = throttle->tracing_sum_ns + throttle->stopped_sum_ns;
	}
	cpu_ns = throttle->cpu_ns >= XP_BUDGET_CPU_MIN_NS ? throttle->cpu_ns : 0;
	throttle->cpu_ns -= cpu_ns;
	throttle->change_count = xp_budget_tick(&throttle->budget, xp_clock_ns(throttle->options.clock, now_tsc),
						cpu_ns, throttle->changes, throttle->budget.count);
	add_changed(throttle);
	if (throttle->change_count || xp_throttle_is_behind(throttle, now_tsc))
		start_work(throttle);
}

/* Returns whether the work is done, and all records from before its end have arrived at this mark. */
static bool work_is_over(const struct xp_throttle *throttle, uint64_t mark_tsc)
{
	return __atomic_load_n(&throttle->done, __ATOMIC_ACQUIRE) && throttle->done_tsc < mark_tsc;
}

static uint64_t tick_ns(const struct xp_throttle *throttle, uint64_t mark_tsc)
{
	bool is_new = mark_tsc - throttle->begin_tsc < xp_clock_ticks(throttle->options.clock, HURRY_NS);

	return is_new || throttle->budget.spent > HURRY_SPENT * throttle->budget.share ? HURRY_TICK_NS : TICK_NS;
}

void xp_throttle_mark(struct xp_throttle *throttle, uint64_t mark_tsc)
{
	const struct xp_clock *clock = throttle->options.clock;
	bool is_late;
	uint64_t ran;

	throttle->mark_tsc = mark_tsc;
	throttle->due = mark_tsc - throttle->last_tick_tsc >= xp_clock_ticks(clock, tick_ns(throttle, mark_tsc)) &&
			(!throttle->busy || work_is_over(throttle, mark_tsc));
	/* If the worker takes longer than a tick, call accounts are still credited in each tick. */
	is_late = throttle->busy && mark_tsc - throttle->cpu_tsc >= xp_clock_ticks(clock, TICK_NS);
	if (!throttle->due && !is_late)
		return;
	/* Since the last tick, or since a mark whose pass was cut short. */
	ran = xp_cpu_since(throttle->options.processes,
			   xp_clock_ns(throttle->options.clock, mark_tsc - throttle->cpu_tsc));
	throttle->cpu_tsc = mark_tsc;
	if (!throttle->last_tick_tsc)
		return; /* CPU time is counted from here on */
	add_cpu(throttle, ran);
}

void xp_throttle_run(struct xp_throttle *throttle, uint64_t done_tsc)
{
	uint64_t mark_tsc = throttle->mark_tsc;

	if (done_tsc < mark_tsc)
		return;
	if (throttle->busy) {
		if (!work_is_over(throttle, mark_tsc))
			return;
		finish_work(throttle);
	}
	if (!throttle->due)
		return;
	xp_throttle_find_children(throttle);
	if (throttle->last_tick_tsc)
		tick(throttle, mark_tsc);
	else
		begin(throttle);
	throttle->last_tick_tsc = mark_tsc;
}

void xp_throttle_end(struct xp_throttle *throttle)
{
	uint64_t now;

	xp_throttle_wait(throttle);
	gather_calls(throttle);
	add_cpu(throttle, xp_cpu_since(throttle->options.processes, 0) + xp_cpu_of_ended(throttle->options.processes));
	now = xp_clock_now_tsc();
	for (size_t i = 0; i < throttle->budget.count; i++) {
		struct xp_throttled *one = &throttle->all[i];

		if (one->state != XP_BUDGET_RECORDED)
			one->out_ticks += now - one->since_tsc;
		if (one->state == XP_BUDGET_COUNTED)
			one->counted_ticks += now - one->since_tsc;
		one->since_tsc = now;
	}
}

void xp_throttle_drained(struct xp_throttle *throttle)
{
	if (throttle->busy)
		finish_work(throttle);
}

const struct xp_throttled *xp_throttle_functions(const struct xp_throttle *throttle, const struct xp_object *object)
{
	const struct xp_throttle_member *member = throttle ? xp_throttle_member(throttle, object) : NULL;

	return member ? &throttle->all[member->first] : NULL;
}

double xp_throttle_settled(const struct xp_throttle *throttle, double *first)
{
	double cpu_ns = throttle->cpu_sum_ns + throttle->stopped_sum_ns - throttle->first_cpu_ns;
	double taken_ns = throttle->tracing_sum_ns + throttle->stopped_sum_ns - throttle->first_taken_ns;

	*first = throttle->first_cpu_ns > 0 ? XP_MIN(throttle->first_taken_ns / throttle->first_cpu_ns, 1.0) : 0;
	return cpu_ns >= SETTLED_CPU_MIN_NS ? XP_MIN(taken_ns / cpu_ns, 1.0) : -1;
}

bool xp_throttle_stuck(const struct xp_throttle *throttle)
{
	return throttle->failed;
}

double xp_throttle_stopped(const struct xp_throttle *throttle)
{
	return throttle->cpu_sum_ns > 0 ? throttle->stopped_sum_ns / (throttle->cpu_sum_ns + throttle->stopped_sum_ns)
					: 0;
}

double xp_throttle_spent(const struct xp_throttle *throttle)
{
	double taken_ns = throttle->tracing_sum_ns + throttle->stopped_sum_ns;

	return throttle->cpu_sum_ns > 0 ? XP_MIN(taken_ns / (throttle->cpu_sum_ns + throttle->stopped_sum_ns), 1.0) : 0;
}
