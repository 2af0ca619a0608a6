// SPDX-License-Identifier: BSD-2-Clause
/* Finds the functions that handle requests, and those that do background work: slow_calls.h describes how. */
#include "base/util.h"
#include "explain/slow_calls.h"

#define EXTRA_SHARE 20 /* omit functions with less than 1/20 of the greatest extra time */
#define CALLS_SHARE 10 /* functions with 1/10 of the most calls handle requests, too */

static uint64_t excess(const struct xp_durations *durations)
{
	return durations->max - XP_MIN(durations->max, xp_durations_percentile(durations, 500));
}

static bool is_outermost(const struct xp_call_function *function)
{
	return function->durations.count >= XP_OFTEN_CALLED && function->outermost * 2 >= function->durations.count;
}

/*
 * Estimates how much calls exceed the median: from quantiles of the slower half, or from the sum, which includes the
 * tail beyond the last quantile.
 */
static double all_extra_ns(const struct xp_call_function *function)
{
	double count = (double)function->durations.count, median = (double)function->median_ns;
	double by_sum = function->ns - median * count, by_quantiles = 0;

	for (unsigned int thousandths = 510; thousandths < 1000; thousandths += 20)
		by_quantiles += (double)xp_durations_percentile(&function->durations, thousandths) - median;
	return XP_MAX(XP_MAX(by_sum, by_quantiles * count / 50), (double)excess(&function->durations));
}

/* If no function is outermost: chooses the function whose slowest call exceeds its median most. */
static void choose_slowest(struct xp_slow_calls *calls)
{
	struct xp_call_function *best = NULL;

	for (int enough = 1; !best && enough >= 0; enough--)
		for (size_t i = 0; i < calls->function_count; i++) {
			struct xp_call_function *function = &calls->functions[i];

			if (function->durations.count < (enough ? XP_OFTEN_CALLED : 1))
				continue;
			if (!best || (enough ? excess(&function->durations) > excess(&best->durations)
					     : function->durations.max > best->durations.max))
				best = function;
		}
	if (best)
		best->is_wanted = true;
}

/* Returns the outermost function with the most extra time that is not chosen yet; NULL: none. */
static struct xp_call_function *next_outermost(const struct xp_slow_calls *calls)
{
	struct xp_call_function *best = NULL;

	for (size_t i = 0; i < calls->function_count; i++) {
		struct xp_call_function *function = &calls->functions[i];

		if (!function->is_wanted && is_outermost(function) &&
		    (!best || all_extra_ns(function) > all_extra_ns(best)))
			best = function;
	}
	return best;
}

void xp_slow_calls_choose(struct xp_slow_calls *calls)
{
	struct xp_call_function *chosen[2 * XP_SLOW_FUNCTIONS_MAX], *function;
	uint64_t most_calls = 0;
	size_t count = 0, requests = 0;

	while (count < XP_ARRAY_SIZE(chosen) && (function = next_outermost(calls)) &&
	       (!count || all_extra_ns(function) * EXTRA_SHARE >= all_extra_ns(chosen[0]))) {
		function->is_wanted = true;
		most_calls = XP_MAX(most_calls, function->durations.count);
		chosen[count++] = function;
	}
	calls->is_found = count;
	if (!count)
		choose_slowest(calls);
	for (size_t i = 0; i < count; i++) {
		bool handles = chosen[i]->durations.count * CALLS_SHARE >= most_calls;

		chosen[i]->is_background = !handles || requests == XP_SLOW_FUNCTIONS_MAX;
		requests += !chosen[i]->is_background;
	}
}
