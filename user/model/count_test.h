/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether two counts of samples differ by more than the noise of sampling. A sample hits a function by chance, in
 * proportion to the CPU time of the function. If that time is the same in two recordings, only chance divides the
 * samples of both between them, and its distribution is known exactly for any number of samples:
 *
 *	xp_count_test_rates()	the times in which samples were taken are known: binomial, the conditional test of two
 *				Poisson means (Przyborowski and Wilenski, Biometrika 31, 1940)
 *	xp_count_test_shares()	of two totals of samples: hypergeometric, Fisher's exact test
 *
 * The p of both is two-sided: twice the probability of the smaller tail.
 *
 * Of 1000 functions that did not change, ten have a p below 1 %. So the level is divided by the number of functions
 * (Bonferroni), without those that have too few samples to reach it whatever happens (Tarone, Biometrics 46, 1990).
 * xp_count_test_level() does that: if no function changed, the probability that any is reported as changed is at most
 * the level.
 */
#ifndef XPROF_MODEL_COUNT_TEST_H
#define XPROF_MODEL_COUNT_TEST_H

#include <stddef.h>
#include <stdint.h>

struct xp_count_test {
	double p;
	double least; /* smallest p that is possible with this number of samples */
};

/* exposures: for each recording, its length divided by the time between samples; above 0. */
struct xp_count_test xp_count_test_rates(const uint64_t counts[2], const double exposures[2]);
/* totals: all samples of each recording, at least the counts. */
struct xp_count_test xp_count_test_shares(const uint64_t counts[2], const uint64_t totals[2]);

/* Returns the p below which one of all tests is significant. tested: how many can be, or NULL. Sorts the tests. */
double xp_count_test_level(struct xp_count_test *tests, size_t count, double level, size_t *tested);

#endif
