// SPDX-License-Identifier: BSD-2-Clause
/* What the servers with faults have in common. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

UNTRACED static void sleep_ms(long ms)
{
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&pause, NULL);
}

UNTRACED static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + now.tv_nsec / 1e9;
}

UNTRACED static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * Uses 0.3 ms of CPU time in three parts. If the thread has the lowest priority, a busy thread on its CPU gets that for
 * some milliseconds after each part: a single part may need no wait at all.
 */
static inline __attribute__((always_inline, unused)) void starve(void)
{
	for (int part = 0; part < 3; part++) {
		double until = seconds(CLOCK_THREAD_CPUTIME_ID) + 0.0001;

		while (seconds(CLOCK_THREAD_CPUTIME_ID) < until)
			;
		sched_yield();
	}
}

UNTRACED static pthread_t start(void *(*what)(void *arg), const char *name)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, what, NULL))
		abort();
	pthread_setname_np(thread, name);
	return thread;
}
