// SPDX-License-Identifier: BSD-2-Clause
/*
 * Compile this program without frame pointers. deep THREADS works in this many threads, each 30 calls deep above libc's
 * qsort, without a pause. The innermost function reads the TSC: a step that took longer than usual was interrupted, as
 * in busy.c.
 *
 * Answers each line of standard input with a line of numbers, all since the start: the rounds, the threads' CPU time in
 * ns, and the number of interruptions of n to n + 1 quarters of a microsecond, for n from 0 to BINS - 1.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define NUMBERS 100
#define THREADS_MAX 256
#define BINS 400
#define BIN_NS 250
#define COMPARE_NS_MAX 1000 /* longer than any comparison without interruption */
#define NS_PER_S 1000000000ull

static _Atomic unsigned long rounds;
static _Atomic unsigned long sink;
static _Atomic uint64_t interruptions[BINS];
static _Thread_local uint64_t last_tsc;
static double ns_per_tick;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Uses only the TSC: a call of clock_gettime() would add other stacks. */
static double measure_ns_per_tick(void)
{
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), begin = __rdtsc(), took_ns;

	do
		took_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
	while (took_ns < NS_PER_S / 20);
	return (double)took_ns / (double)(__rdtsc() - begin);
}

static int compare(const void *a, const void *b)
{
	uint64_t now = __rdtsc();
	double took_ns = (double)(now - last_tsc) * ns_per_tick;

	last_tsc = now;
	if (took_ns > COMPARE_NS_MAX && took_ns < BINS * BIN_NS)
		interruptions[(int)took_ns / BIN_NS]++;
	return *(const int *)a - *(const int *)b;
}

/* The unpredictable parameter prevents the compiler from making one loop of the calls. */
__attribute__((noinline)) static int descend(int depth, volatile int *seed)
{
	int numbers[NUMBERS];

	if (depth)
		return descend(depth - 1, seed) + *seed % 2;
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = (i * 7919 + ++*seed) % 1000;
	last_tsc = __rdtsc();
	qsort(numbers, NUMBERS, sizeof(*numbers), compare);
	return numbers[NUMBERS / 2];
}

static void *work(void *arg)
{
	volatile int seed = 0;

	for (;;) {
		for (int i = 0; i < 100; i++)
			sink += descend(30, &seed);
		rounds++;
	}
	return arg;
}

int main(int argc, char **argv)
{
	int threads = argc == 2 ? atoi(argv[1]) : 0;
	pthread_t thread;
	char line[16];

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	ns_per_tick = measure_ns_per_tick();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, work, NULL))
			return 1;
	while (fgets(line, sizeof(line), stdin)) {
		printf("%lu %" PRIu64, rounds, now_ns(CLOCK_PROCESS_CPUTIME_ID));
		for (int i = 0; i < BINS; i++)
			printf(" %" PRIu64, atomic_load(&interruptions[i]));
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
