// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program without frame pointers, to be built so: deep THREADS works in so many threads, each 30 calls deep above
 * libc's qsort, without a pause. Each line of standard input is answered with the rounds done since the start.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBERS 100
#define THREADS_MAX 256

static _Atomic unsigned long rounds;
static _Atomic unsigned long sink;

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* The parameter that nobody can foresee keeps it from being one loop. */
__attribute__((noinline)) static int descend(int depth, volatile int *seed)
{
	int numbers[NUMBERS];

	if (depth)
		return descend(depth - 1, seed) + *seed % 2;
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = (i * 7919 + ++*seed) % 1000;
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
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, work, NULL))
			return 1;
	while (fgets(line, sizeof(line), stdin)) {
		printf("%lu\n", rounds);
		fflush(stdout);
	}
	return 0;
}
