// SPDX-License-Identifier: BSD-2-Clause
/*
 * Processes of 10 ms of CPU time each, one after the other: each forks the next one, and exits. Arguments: wait or run,
 * and the number of processes after the first, which does nothing else. The others call warm() once, and hot()
 * repeatedly; the last one prints the calls of all.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "go.h"

enum { CPU_NS = 10000000 };

struct calls {
	long hot, warm;
};

static struct calls *calls;

UNTRACED static long cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000 + used.tv_nsec;
}

TRACED static void hot(void)
{
	__asm__ volatile("");
}

TRACED static void warm(void)
{
	__asm__ volatile("nop");
}

UNTRACED static void work(void)
{
	long begin = cpu_ns();

	warm();
	calls->warm++;
	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		for (int i = 0; i < 200; i++)
			hot();
		calls->hot += 200;
	} while (cpu_ns() - begin < CPU_NS);
}

UNTRACED int main(int argc, char **argv)
{
	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (calls == MAP_FAILED)
		return 1;
	wait_for_go(argc, argv);
	for (int i = atoi(argv[2]); i > 0; i--) {
		if (fork())
			return 0;
		work();
	}
	printf("calls hot %ld\ncalls warm %ld\n", calls->hot, calls->warm);
	return 0;
}
