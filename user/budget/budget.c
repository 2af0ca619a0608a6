// SPDX-License-Identifier: BSD-2-Clause
#include "budget/budget.h"

#include <errno.h>
#include <math.h> /* INFINITY */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Parts of the budget: above FULL, functions are throttled until the cost is TARGET; up to ROOM, others come back. */
#define FULL 0.9
#define TARGET 0.75
#define ROOM 0.55
/* Maximum parts of the budget for counting one throttled function, and for counting all of them. */
#define COUNT_ONE 0.2
#define COUNT_ALL 0.3
/* The part of the budget that checks of functions that are out may use. */
#define LOOKS 0.1

#define COOL_NS 500000000ull	  /* a function must be cheap enough for this long before it is recorded again */
#define LOOK_NS 200000000ull	  /* duration of a check */
#define LOOK_MIN_NS 1000000000ull /* delay of the first check of a function that is out; later checks are rarer */
#define LOOK_MAX_NS 30000000000ull
#define LOOKS_MAX 16 /* maximum number of checks that begin together */
/* The part of the counters that may be used for longer than a check. */
#define COUNTED_LONG 0.75
/* Calls per tick that make a function a candidate; total calls that make all functions with fewer calls candidates. */
#define CALLS_MIN 8
#define CALLS_MIN_TOGETHER 64
/* If tracing uses nearly all CPU time, only the functions with this part of the tracing time have known rates. */
#define DEAREST 0.9
/* The CPU time over which an excess is compensated, and the minimum part of the budget that remains meanwhile. */
#define LATELY_NS 20e9
#define ALLOWED_MIN 0.5
/* The estimate of a rate rises faster than it falls: a late reaction costs more than an early one. */
#define RISE 0.7
#define FALL 0.3
/*
 * If the target itself gets less than this part of the CPU time, the rates are unknown: the cost of a hit is known only
 * to about 10 %, and on a busy machine the calls and the CPU time of a tick cover slightly different intervals.
 */
#define OWN_MIN 0.25

void xp_budget_init(struct xp_budget *budget, double share, size_t counted_max, double count_ns)
{
	*budget =
	    (struct xp_budget){ .share = share, .allowed = share, .counted_max = counted_max, .count_ns = count_ns };
}

void xp_budget_free(struct xp_budget *budget)
{
	free(budget->functions);
	free(budget->order);
	*budget = (struct xp_budget){ 0 };
}

int xp_budget_add(struct xp_budget *budget, size_t count, size_t *first)
{
	size_t room = budget->count + count;
	struct xp_budget_function *functions = reallocarray(budget->functions, room, sizeof(*functions));
	size_t *order;

	if (!functions)
		return -ENOMEM;
	budget->functions = functions;
	order = reallocarray(budget->order, room, sizeof(*order));
	if (!order)
		return -ENOMEM;
	budget->order = order;
	memset(functions + budget->count, 0, count * sizeof(*functions));
	*first = budget->count;
	budget->count = budget->room = room;
	return 0;
}

void xp_budget_stopped(struct xp_budget *budget, uint64_t stopped_ns, double threads_ns)
{
	budget->change_ns += RISE * ((double)stopped_ns - budget->change_ns);
	budget->lately_ns += threads_ns;
	budget->lately_tracing_ns += threads_ns;
}

void xp_budget_set(struct xp_budget *budget, size_t index, enum xp_budget_state state, uint64_t now_ns)
{
	struct xp_budget_function *function = &budget->functions[index];

	/* A failed check must not delay the checks of other functions. */
	if (function->looking && function->state == XP_BUDGET_OUT && state == XP_BUDGET_OUT)
		function->look_ns = now_ns + LOOK_MIN_NS;
	function->state = state;
	function->since_ns = now_ns;
	function->calls = 0;
	function->cool_since_ns = 0;
	if (state != XP_BUDGET_COUNTED)
		function->looking = false;
	if (state == XP_BUDGET_RECORDED)
		function->looks = 0;
}

static double call_ns(const struct xp_budget *budget, const struct xp_budget_function *function,
		      enum xp_budget_state state)
{
	return state == XP_BUDGET_OUT ? 0 : state == XP_BUDGET_COUNTED ? budget->count_ns : function->record_ns;
}

/* Returns the cost in ns of tracing per ns of the target's own time. */
static double cost_of(const struct xp_budget *budget, const struct xp_budget_function *function,
		      enum xp_budget_state state)
{
	return function->rate * call_ns(budget, function, state);
}

/* Returns the budget in the same unit. */
static double allowance(const struct xp_budget *budget, double part)
{
	return part * budget->allowed / (1 - part * budget->allowed);
}

/* Returns the total cost without checks in progress: checks are short and have their own part of the budget. */
static double total(const struct xp_budget *budget)
{
	double sum = 0;

	for (size_t i = 0; i < budget->count; i++)
		if (!budget->functions[i].looking)
			sum += cost_of(budget, &budget->functions[i], budget->functions[i].state);
	return sum;
}

/* Returns the cost of tracing a function in this tick. */
static double taken_ns(const struct xp_budget *budget, size_t index)
{
	const struct xp_budget_function *function = &budget->functions[index];

	return (double)function->calls * call_ns(budget, function, function->state);
}

/* Returns the expected cost of recording the function. */
static double recorded_cost(const struct xp_budget *budget, size_t index)
{
	return cost_of(budget, &budget->functions[index], XP_BUDGET_RECORDED);
}

struct sorting {
	const struct xp_budget *budget;
	double (*cost)(const struct xp_budget *budget, size_t index);
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct sorting *by = arg;

	double x = by->cost(by->budget, *(const size_t *)a), y = by->cost(by->budget, *(const size_t *)b);

	return (x < y) - (x > y);
}

/* Sorts the first functions of budget->order, the most expensive one first. */
static void sort(struct xp_budget *budget, size_t count, double (*cost)(const struct xp_budget *budget, size_t index))
{
	qsort_r(budget->order, count, sizeof(*budget->order), compare, &(struct sorting){ budget, cost });
}

/* Returns the cost of the cheapest of the functions that together used most of the tracing time. */
static double dearest_ns(struct xp_budget *budget, double tracing_ns)
{
	double sum = 0, least = 0;
	size_t count = 0;

	for (size_t i = 0; i < budget->count; i++)
		if (budget->functions[i].calls)
			budget->order[count++] = i;
	sort(budget, count, taken_ns);
	for (size_t i = 0; i < count && sum < DEAREST * tracing_ns; i++) {
		least = taken_ns(budget, budget->order[i]);
		sum += least;
	}
	return least;
}

static void choose_allowed(struct xp_budget *budget, uint64_t cpu_ns)
{
	double kept = LATELY_NS / (LATELY_NS + (double)cpu_ns), lately;

	budget->lately_ns = kept * budget->lately_ns + (double)cpu_ns;
	budget->lately_tracing_ns = kept * budget->lately_tracing_ns + budget->spent * (double)cpu_ns;
	lately = budget->lately_tracing_ns / budget->lately_ns;
	budget->allowed = budget->share * XP_MIN(1, XP_MAX(budget->share / XP_MAX(lately, 1e-9), ALLOWED_MIN));
}

/*
 * Updates the rates. If tracing leaves almost no time to the target, the target's own time is too inexact to compute
 * rates. Then this updates only the rates of the most expensive functions: they are throttled, and the next tick shows
 * the cost of the others.
 */
static void learn(struct xp_budget *budget, uint64_t cpu_ns)
{
	double own_min = XP_MIN(OWN_MIN, (1 - budget->share) / 2) * (double)cpu_ns;
	double tracing_ns = 0, own_ns, known_ns = 0;

	for (size_t i = 0; i < budget->count; i++)
		tracing_ns += taken_ns(budget, i);
	own_ns = (double)cpu_ns - tracing_ns;
	if (own_ns < own_min) {
		own_ns = own_min;
		known_ns = dearest_ns(budget, tracing_ns);
	}
	budget->spent = tracing_ns / (own_ns + tracing_ns);
	choose_allowed(budget, cpu_ns);
	for (size_t i = 0; i < budget->count; i++) {
		struct xp_budget_function *function = &budget->functions[i];
		double rate = (double)function->calls / own_ns;
		bool unknown = (budget->unread && function->state == XP_BUDGET_COUNTED && rate < function->rate) ||
			       taken_ns(budget, i) < known_ns;
		double calls = (double)function->calls;

		function->calls = 0;
		if (unknown)
			continue;
		function->seen += RISE * (calls - function->seen);
		if (function->looking && function->state == XP_BUDGET_COUNTED)
			function->rate = rate;
		else if (function->state != XP_BUDGET_OUT)
			function->rate += (rate > function->rate ? RISE : FALL) * (rate - function->rate);
	}
	budget->unread = false;
}

/* Puts the functions in this state into budget->order, the most expensive first. Omits functions that cost nothing. */
static size_t sort_state(struct xp_budget *budget, enum xp_budget_state state)
{
	size_t count = 0;

	for (size_t i = 0; i < budget->count; i++)
		if (budget->functions[i].state == state && budget->functions[i].rate > 0)
			budget->order[count++] = i;
	sort(budget, count, recorded_cost);
	return count;
}

struct decisions {
	struct xp_budget_change *changes;
	size_t count;
	size_t max;
	double cost; /* total over all functions, after the changes */
	double counting;
	size_t counted; /* functions */
};

static void change(struct xp_budget *budget, struct decisions *decisions, size_t index, enum xp_budget_state state)
{
	const struct xp_budget_function *function = &budget->functions[index];

	/* The sums do not include functions that are being checked. */
	if (!function->looking)
		decisions->cost += cost_of(budget, function, state) - cost_of(budget, function, function->state);
	if (!function->looking && function->state == XP_BUDGET_COUNTED)
		decisions->counting -= cost_of(budget, function, XP_BUDGET_COUNTED);
	if (!function->looking && state == XP_BUDGET_COUNTED)
		decisions->counting += cost_of(budget, function, XP_BUDGET_COUNTED);
	decisions->counted -= function->state == XP_BUDGET_COUNTED;
	decisions->counted += state == XP_BUDGET_COUNTED;
	decisions->changes[decisions->count++] = (struct xp_budget_change){ index, state };
}

/* Returns whether the budget allows to count this function in addition to the counted ones. */
static bool countable(const struct xp_budget *budget, const struct decisions *decisions,
		      const struct xp_budget_function *function)
{
	double cost = cost_of(budget, function, XP_BUDGET_COUNTED);
	bool included = function->state == XP_BUDGET_COUNTED && !function->looking;
	double others = decisions->counting - (included ? cost : 0);

	return cost <= allowance(budget, COUNT_ONE) && others + cost <= allowance(budget, COUNT_ALL);
}

/* Returns whether a counter is available for longer than a check. */
static bool has_counter(const struct xp_budget *budget, const struct decisions *decisions)
{
	return (double)decisions->counted < COUNTED_LONG * (double)budget->counted_max;
}

static void plan_look(struct xp_budget *budget, struct xp_budget_function *function, uint64_t now_ns)
{
	double dear_ns = cost_of(budget, function, XP_BUDGET_COUNTED) * (double)LOOK_NS / allowance(budget, LOOKS);
	uint64_t wait_ns = LOOK_MIN_NS << XP_MIN(function->looks, 5u);

	wait_ns = XP_MAX(wait_ns, (uint64_t)XP_MIN(dear_ns, (double)LOOK_MAX_NS));
	function->look_ns = now_ns + XP_MIN(wait_ns, LOOK_MAX_NS);
}

/* Throttles functions with at least `least` calls in a tick, and fewer than `below`. */
static void take_out_some(struct xp_budget *budget, struct decisions *decisions, uint64_t now_ns, double least,
			  double below)
{
	size_t count = sort_state(budget, XP_BUDGET_RECORDED);

	for (size_t i = 0; i < count && decisions->count < decisions->max; i++) {
		struct xp_budget_function *function = &budget->functions[budget->order[i]];
		bool counted = countable(budget, decisions, function) && has_counter(budget, decisions);

		if (decisions->cost <= allowance(budget, TARGET))
			return;
		if (function->seen < least || function->seen >= below)
			continue;
		change(budget, decisions, budget->order[i], counted ? XP_BUDGET_COUNTED : XP_BUDGET_OUT);
		if (!counted)
			plan_look(budget, function, now_ns);
	}
}

static void take_out(struct xp_budget *budget, struct decisions *decisions, uint64_t now_ns)
{
	double few = 0;

	take_out_some(budget, decisions, now_ns, CALLS_MIN, INFINITY);
	if (decisions->cost <= allowance(budget, FULL))
		return;
	for (size_t i = 0; i < budget->count; i++)
		if (budget->functions[i].state == XP_BUDGET_RECORDED && budget->functions[i].seen < CALLS_MIN)
			few += budget->functions[i].seen;
	/* A single rate from so few calls is a guess; the sum of these rates is reliable. */
	if (few >= CALLS_MIN_TOGETHER)
		take_out_some(budget, decisions, now_ns, 0, CALLS_MIN);
}

/* Stops counting functions that became too expensive to count, or are still too hot when their check ends. */
static void stop_counting(struct xp_budget *budget, struct decisions *decisions, uint64_t now_ns)
{
	for (size_t i = 0; i < budget->count && decisions->count < decisions->max; i++) {
		struct xp_budget_function *function = &budget->functions[i];
		bool fits;

		if (function->state != XP_BUDGET_COUNTED ||
		    (function->looking && now_ns - function->since_ns < LOOK_NS))
			continue;
		fits = decisions->cost + cost_of(budget, function, XP_BUDGET_RECORDED) <= allowance(budget, ROOM);
		if (countable(budget, decisions, function) &&
		    (!function->looking || fits || has_counter(budget, decisions))) {
			function->looking = false;
			continue;
		}
		change(budget, decisions, i, XP_BUDGET_OUT);
		function->looks++;
		plan_look(budget, function, now_ns);
	}
}

/* Chooses the functions to record again: the cheapest first, until the budget is used. */
static void record_again(struct xp_budget *budget, struct decisions *decisions, uint64_t now_ns)
{
	size_t count = sort_state(budget, XP_BUDGET_COUNTED);

	/* The sorted functions do not include functions without calls: record these, too. */
	for (size_t i = 0; i < budget->count; i++)
		if (budget->functions[i].state == XP_BUDGET_COUNTED && budget->functions[i].rate <= 0)
			budget->order[count++] = i;
	while (count-- && decisions->count < decisions->max) {
		struct xp_budget_function *function = &budget->functions[budget->order[count]];
		double more =
		    cost_of(budget, function, XP_BUDGET_RECORDED) - cost_of(budget, function, XP_BUDGET_COUNTED);

		if (function->looking)
			continue;
		if (decisions->cost + more > allowance(budget, ROOM)) {
			function->cool_since_ns = 0;
			continue;
		}
		if (!function->cool_since_ns)
			function->cool_since_ns = now_ns;
		if (now_ns - function->cool_since_ns >= COOL_NS)
			change(budget, decisions, budget->order[count], XP_BUDGET_RECORDED);
	}
}

static struct xp_budget_function *next_due(struct xp_budget *budget, uint64_t now_ns)
{
	struct xp_budget_function *due = NULL;

	for (size_t i = 0; i < budget->count; i++) {
		struct xp_budget_function *function = &budget->functions[i];

		if (function->state == XP_BUDGET_OUT && !function->looking && function->look_ns <= now_ns &&
		    (!due || function->look_ns < due->look_ns))
			due = function;
	}
	return due;
}

/* Counting is cheap, even for a very hot function. */
static void look(struct xp_budget *budget, struct decisions *decisions, uint64_t now_ns)
{
	size_t looks = 0;

	if (now_ns < budget->next_look_ns)
		return;
	for (size_t i = 0; i < budget->count; i++)
		if (budget->functions[i].looking)
			return;
	while (looks < LOOKS_MAX && decisions->count < decisions->max && decisions->counted < budget->counted_max) {
		struct xp_budget_function *due = next_due(budget, now_ns);

		if (!due)
			return;
		due->looking = true;
		/* A check needs two changes, at its start and at its end. */
		budget->next_look_ns = now_ns + (uint64_t)(2 * budget->change_ns / (LOOKS * budget->share));
		change(budget, decisions, (size_t)(due - budget->functions), XP_BUDGET_COUNTED);
		looks++;
	}
}

size_t xp_budget_tick(struct xp_budget *budget, uint64_t now_ns, uint64_t cpu_ns, struct xp_budget_change *changes,
		      size_t max)
{
	struct decisions decisions = { .changes = changes, .max = max };

	if (cpu_ns >= XP_BUDGET_CPU_MIN_NS)
		learn(budget, cpu_ns);
	decisions.cost = total(budget);
	for (size_t i = 0; i < budget->count; i++) {
		if (budget->functions[i].state != XP_BUDGET_COUNTED)
			continue;
		decisions.counted++;
		if (!budget->functions[i].looking)
			decisions.counting += cost_of(budget, &budget->functions[i], XP_BUDGET_COUNTED);
	}
	stop_counting(budget, &decisions, now_ns);
	if (decisions.cost > allowance(budget, FULL))
		take_out(budget, &decisions, now_ns);
	if (!decisions.count)
		record_again(budget, &decisions, now_ns);
	if (!decisions.count)
		look(budget, &decisions, now_ns);
	return decisions.count;
}
