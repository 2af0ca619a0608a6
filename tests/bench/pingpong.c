// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two threads on one CPU that wake each other through two pipes. Each line of standard input is "rounds COUNT WORK":
 * COUNT round trips of two context switches, with WORK steps of a loop in between. The answer is the CPU time of both
 * threads in ns. The scheduler charges code that runs in a context switch to one of the two.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static void pass(int from, int to)
{
	char byte = 0;

	if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
		exit(1);
}

static void *echo(void *arg)
{
	for (;;)
		pass(there[0], back[1]);
	return arg;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

__attribute__((noinline)) static void work(unsigned long steps)
{
	for (volatile unsigned long i = 0; i < steps; i++)
		;
}

int main(void)
{
	unsigned long rounds, steps;
	pthread_t thread;
	char byte = 0;

	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, echo, NULL))
		return 1;
	while (scanf(" rounds %lu %lu", &rounds, &steps) == 2) {
		uint64_t began = cpu_ns();

		for (unsigned long i = 0; i < rounds; i++) {
			work(steps);
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				return 1;
		}
		printf("%" PRIu64 "\n", cpu_ns() - began);
		fflush(stdout);
	}
	return 0;
}
