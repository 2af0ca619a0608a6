// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server with 20 000 functions that forks a child for each connection. Each child calls many of them before it is
 * ready. For each line "COUNT CALLS" on standard input: COUNT connections, one after the other, with CALLS calls each.
 * Answers with the median CPU time of a child in ns, and the median time until a child is ready.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "many.h"

#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))
#define COUNT_MAX 10000
/* Work of each call: 90 ns, as in functions of a server. */
#define WORK 60

static volatile int work;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void serve(int ready, int calls)
{
	int sum = 0;

	for (int i = 0; i < calls; i++) {
		sum += functions[(size_t)i * 7 % FUNCTIONS](i);
		for (int j = 0; j < WORK; j++)
			work = j;
	}
	if (write(ready, &sum, sizeof(sum)) != sizeof(sum))
		_exit(1);
	_exit(0);
}

/* Returns the CPU time of the child. */
static long long connect_once(int calls, long long *took_ns)
{
	long long begin = now_ns();
	struct rusage usage;
	int ready[2], sum, status;
	pid_t child;

	if (pipe(ready))
		exit(1);
	child = fork();
	if (child == 0)
		serve(ready[1], calls);
	if (child < 0 || read(ready[0], &sum, sizeof(sum)) != sizeof(sum))
		exit(1);
	*took_ns = now_ns() - begin;
	close(ready[0]);
	close(ready[1]);
	if (wait4(child, &status, 0, &usage) != child || status)
		exit(1);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

static int compare(const void *a, const void *b)
{
	long long left = *(const long long *)a, right = *(const long long *)b;

	return (left > right) - (left < right);
}

int main(void)
{
	static long long cpu[COUNT_MAX], took[COUNT_MAX];
	int count, calls;

	while (scanf("%d %d", &count, &calls) == 2 && count > 0 && count <= COUNT_MAX) {
		for (int i = 0; i < count; i++)
			cpu[i] = connect_once(calls, &took[i]);
		qsort(cpu, (size_t)count, sizeof(cpu[0]), compare);
		qsort(took, (size_t)count, sizeof(took[0]), compare);
		printf("%lld %lld\n", cpu[count / 2], took[count / 2]);
		fflush(stdout);
	}
	return 0;
}
