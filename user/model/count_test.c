// SPDX-License-Identifier: BSD-2-Clause
#include "model/count_test.h"

#include <math.h>
#include <stdlib.h>

#define EXACT_MAX 1e7 /* with more samples, use the normal distribution: its error is negligible */

/* The distribution of the first of two counts with a given sum: between min and max. */
struct law {
	double min, max;
	double (*log_of)(const struct law *law, double first);
	/* probability of first + 1 / probability of first */
	double (*ratio)(const struct law *law, double first);
	double sum;
	double odds;	  /* binomial: p / (1 - p) */
	double totals[2]; /* hypergeometric */
};

/* lgamma() stores the sign in a global variable. */
static double log_factorial(double n)
{
	int sign;

	return lgamma_r(n + 1, &sign);
}

static double log_choose(double n, double k)
{
	return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

static double binomial_log(const struct law *law, double first)
{
	return log_choose(law->sum, first) + first * log(law->odds) - law->sum * log1p(law->odds);
}

static double binomial_ratio(const struct law *law, double first)
{
	return (law->sum - first) / (first + 1) * law->odds;
}

static double hypergeometric_log(const struct law *law, double first)
{
	return log_choose(law->totals[0], first) + log_choose(law->totals[1], law->sum - first) -
	       log_choose(law->totals[0] + law->totals[1], law->sum);
}

static double hypergeometric_ratio(const struct law *law, double first)
{
	return (law->totals[0] - first) / (first + 1) * (law->sum - first) / (law->totals[1] - law->sum + first + 1);
}

/*
 * Returns the probability of `first` and all values beyond it, away from the mean. The terms decrease ever faster, so
 * only those within a multiple of the standard deviation matter.
 */
static double tail(const struct law *law, double first, int step)
{
	double sum = 1, term = 1;

	for (double at = first; step < 0 ? at > law->min : at < law->max; at += step) {
		term *= step < 0 ? 1 / law->ratio(law, at - 1) : law->ratio(law, at);
		sum += term;
		if (term < sum * 1e-17)
			break;
	}
	return exp(law->log_of(law, first) + log(sum));
}

static struct xp_count_test test(const struct law *law, double first, double mean, double variance)
{
	double least = fmin(law->log_of(law, law->min), law->log_of(law, law->max)), p;

	if (law->min >= law->max)
		return (struct xp_count_test){ .p = 1, .least = 1 };
	if (law->sum > EXACT_MAX)
		p = erfc(fabs(first - mean) / sqrt(2 * variance));
	else
		p = 2 * tail(law, first, first < mean ? -1 : 1);
	return (struct xp_count_test){ .p = fmin(1, p), .least = fmin(1, 2 * exp(least)) };
}

struct xp_count_test xp_count_test_rates(const uint64_t counts[2], const double exposures[2])
{
	const struct law law = {
		.max = (double)counts[0] + (double)counts[1],
		.sum = (double)counts[0] + (double)counts[1],
		.odds = exposures[0] / exposures[1],
		.log_of = binomial_log,
		.ratio = binomial_ratio,
	};

	double mean = law.sum * law.odds / (1 + law.odds);

	return test(&law, (double)counts[0], mean, mean / (1 + law.odds));
}

struct xp_count_test xp_count_test_shares(const uint64_t counts[2], const uint64_t totals[2])
{
	struct law law = {
		.sum = (double)counts[0] + (double)counts[1],
		.totals = { (double)totals[0], (double)totals[1] },
		.log_of = hypergeometric_log,
		.ratio = hypergeometric_ratio,
	};

	double all = law.totals[0] + law.totals[1];
	double mean = all > 0 ? law.sum * law.totals[0] / all : 0;

	law.min = fmax(0, law.sum - law.totals[1]);
	law.max = fmin(law.sum, law.totals[0]);
	return test(&law, (double)counts[0], mean, mean * (law.totals[1] / all) * ((all - law.sum) / fmax(all - 1, 1)));
}

static int compare_least(const void *a, const void *b)
{
	const struct xp_count_test *x = a, *y = b;

	return (x->least > y->least) - (x->least < y->least);
}

double xp_count_test_level(struct xp_count_test *tests, size_t count, double level, size_t *tested)
{
	size_t able = count, divisor = 0;

	if (count)
		qsort(tests, count, sizeof(*tests), compare_least);
	/* Finds the smallest divisor d such that at most d tests can reach the level that d gives. */
	do {
		divisor++;
		while (able && !(tests[able - 1].least <= level / (double)divisor))
			able--;
	} while (able > divisor && divisor < count);
	if (tested)
		*tested = able;
	return level / (double)divisor;
}
