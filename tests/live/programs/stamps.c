// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the TSC around and inside each call of timed(), on each CPU in turn and across CPUs, and prints "stamp BEFORE
 * BEGIN END AFTER", where BEGIN and END are inside. Also prints the duration of slept() by the system's clock.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "go.h"

struct stamp {
	uint64_t before, begin, end, after;
};

UNTRACED static uint64_t tsc(void)
{
	uint64_t value;

	_mm_lfence();
	value = __rdtsc();
	_mm_lfence();
	return value;
}

UNTRACED static void move_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* if this CPU does not exist, the thread stays on its CPU */
}

TRACED static void timed(struct stamp *stamp, uint64_t ticks, int cpu)
{
	stamp->begin = tsc();
	if (cpu >= 0)
		move_to(cpu);
	while (tsc() - stamp->begin < ticks)
		;
	stamp->end = tsc();
}

TRACED static void slept(void)
{
	usleep(300000);
	__asm__ volatile(""); /* no tail call */
}

UNTRACED int main(int argc, char **argv)
{
	struct timespec begin, end;
	struct stamp stamp;
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);

	wait_for_go(argc, argv);
	for (int i = 0; i < 400; i++) {
		if (i % 10 == 0)
			move_to(i / 10 % cpus);
		stamp.before = tsc();
		timed(&stamp, (uint64_t)(i % 20) * 1000, i % 10 == 5 ? (i / 10 + 1) % cpus : -1);
		stamp.after = tsc();
		printf("stamp %lu %lu %lu %lu\n", stamp.before, stamp.begin, stamp.end, stamp.after);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	slept();
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("slept %.9f\n", (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	return 0;
}
