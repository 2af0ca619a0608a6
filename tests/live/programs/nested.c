// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls within long calls, for SECONDS, in two threads. Prints the number of calls of each function, and the time of
 * those of outer().
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "go.h"

static long calls_of_inner, calls_of_middle, calls_of_outer, calls_of_all, outer_ns;
static double seconds;

UNTRACED static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

TRACED static void inner(void)
{
	long end_ns = now_ns() + 50000;

	COUNT(inner);
	while (now_ns() < end_ns)
		;
}

TRACED static void middle(void)
{
	COUNT(middle);
	for (int i = 0; i < 20; i++)
		inner();
	usleep(500);
}

TRACED static void outer(long end_ns)
{
	COUNT(outer);
	while (now_ns() < end_ns)
		middle();
}

TRACED static void *all(void *unused)
{
	long end_ns = now_ns() + (long)(seconds * 1e9);

	COUNT(all);
	while (now_ns() < end_ns) {
		long begin_ns = now_ns();

		outer(begin_ns + 130000000);
		__atomic_fetch_add(&outer_ns, now_ns() - begin_ns, __ATOMIC_RELAXED);
	}
	return unused;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t thread;

	seconds = argc > 1 ? atof(argv[1]) : 1;
	pthread_create(&thread, NULL, all, NULL);
	all(NULL);
	pthread_join(thread, NULL);
	PRINT_COUNT(inner);
	PRINT_COUNT(middle);
	PRINT_COUNT(outer);
	PRINT_COUNT(all);
	printf("outer_ns %ld\n", outer_ns);
	return 0;
}
