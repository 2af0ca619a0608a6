// SPDX-License-Identifier: BSD-2-Clause
/*
 * graded THREADS CALLS FILE: threads at full speed until the program is killed. Each has FUNCTIONS functions that are
 * called from CALLS times per round (2 ms of work) down to once in hundreds of rounds, each four fifths as often as the
 * previous one. FILE contains the number of rounds, and the CPU time in ns that all threads spent in these calls, as
 * 64-bit numbers. So it shows the cost of calls, even if other virtual machines change the speed of the work.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((xray_always_instrument, noinline))

#define WORK_TURNS 2000000

/* All functions differ, so that the linker does not merge them. */
#define FUNCTION(number)                                                                                               \
	TRACED static void function_##number(void)                                                                     \
	{                                                                                                              \
		__asm__ volatile("mov $" #number ", %%eax" : : : "eax");                                               \
	}
#define NAME(number) function_##number,
#define TEN(what, tens)                                                                                                \
	what(tens##0) what(tens##1) what(tens##2) what(tens##3) what(tens##4) what(tens##5) what(tens##6)              \
	    what(tens##7) what(tens##8) what(tens##9)
#define ALL(what) TEN(what, 1) TEN(what, 2) TEN(what, 3) TEN(what, 4)

ALL(FUNCTION)

static void (*const functions[])(void) = { ALL(NAME) };
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static double most_calls;
static struct {
	uint64_t rounds;
	uint64_t calls_ns;
} * counters;

UNTRACED static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

UNTRACED static void *thread(void *arg)
{
	double due[FUNCTIONS] = { 0 };

	for (;;) {
		double calls = most_calls;
		uint64_t begin;

		for (volatile long i = 0; i < WORK_TURNS; i++)
			;
		begin = cpu_ns();
		for (size_t i = 0; i < FUNCTIONS; i++, calls *= 0.8)
			for (due[i] += calls; due[i] >= 1; due[i]--)
				functions[i]();
		__atomic_fetch_add(&counters->calls_ns, cpu_ns() - begin, __ATOMIC_RELAXED);
		__atomic_fetch_add(&counters->rounds, 1, __ATOMIC_RELAXED);
	}
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[3], O_RDWR | O_CREAT, 0600) : -1;
	pthread_t id;

	if (fd < 0 || ftruncate(fd, sizeof(*counters)))
		return 1;
	most_calls = atof(argv[2]);
	counters = mmap(NULL, sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (int i = 1; i < atoi(argv[1]); i++)
		pthread_create(&id, NULL, thread, NULL);
	thread(NULL);
}
