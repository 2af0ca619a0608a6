/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spends known CPU time in hot() and in rest(), in turn: two_parts HOT_MS REST_MS SECONDS, where SECONDS is the total
 * CPU time.
 */
#include <stdlib.h>
#include <time.h>

/* Some tenths of it are usual. */
#define ROUND_MAX_MS 5

/* Returns the CPU time without the excess time of rounds: pauses that no sampler sees, as in shares.c. */
static double cpu_ms(void)
{
	static double last, paused;
	struct timespec now;
	double ms;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	ms = now.tv_sec * 1e3 + now.tv_nsec / 1e6;
	if (ms - last > ROUND_MAX_MS)
		paused += ms - last - ROUND_MAX_MS;
	last = ms;
	return ms - paused;
}

static volatile unsigned long sum;

__attribute__((noinline)) static void hot(double end_ms)
{
	do
		for (int i = 0; i < 100000; i++)
			sum += i;
	while (cpu_ms() < end_ms);
}

__attribute__((noinline)) static void rest(double end_ms)
{
	do
		for (int i = 0; i < 100000; i++)
			sum -= i;
	while (cpu_ms() < end_ms);
}

int main(int argc, char **argv)
{
	double hot_ms = atof(argv[1]), rest_ms = atof(argv[2]), end_ms = 1e3 * atof(argv[3]), due = cpu_ms();

	(void)argc;
	while (due < end_ms) {
		/* If one turn takes too long, the next one is shorter. */
		due += hot_ms;
		hot(due);
		due += rest_ms;
		rest(due);
	}
	return 0;
}
