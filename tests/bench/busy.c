// SPDX-License-Identifier: BSD-2-Clause
/*
 * The program to sample: busy THREADS runs this many threads of each of two kinds, 16 calls deep with frame pointers.
 * One kind stays in user space, the other makes system calls all the time. Each reads the clock: a round that took
 * longer than usual was interrupted. So this shows the cost of a sample for the interrupted thread, without steal time
 * and other load.
 *
 * Answers each line of standard input with a line of numbers, all since the start: the threads' CPU time in ns, and for
 * each kind the number of interruptions of n to n + 1 quarters of a microsecond, for n from 0 to BINS - 1.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 13 /* plus three calls of the thread start, in libc and here */
#define BINS 400
#define BIN_NS 250
#define ROUND_NS_MAX 1000 /* longer than any round without interruption */
#define NS_PER_S 1000000000ull

enum kind {
	USER,
	SYSTEM,
	KINDS,
};

static _Atomic uint64_t interruptions[KINDS][BINS];

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void watch(enum kind kind)
{
	uint64_t last = now_ns(CLOCK_MONOTONIC);

	for (;;) {
		uint64_t now, took;

		if (kind == SYSTEM)
			syscall(SYS_getppid);
		now = now_ns(CLOCK_MONOTONIC);
		took = now - last;
		last = now;
		if (took > ROUND_NS_MAX && took < BINS * BIN_NS)
			interruptions[kind][took / BIN_NS]++;
	}
}

__attribute__((noinline)) static void deep(unsigned int depth, enum kind kind)
{
	if (depth)
		deep(depth - 1, kind);
	else
		watch(kind);
	__asm__ volatile(""); /* no tail call */
}

static void *thread(void *arg)
{
	deep(DEPTH, (enum kind)(intptr_t)arg);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc == 2 ? atoi(argv[1]) : 0;
	char line[16];

	for (int i = 0; i < KINDS * count; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, thread, (void *)(intptr_t)(i % KINDS)))
			return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		printf("%" PRIu64, now_ns(CLOCK_PROCESS_CPUTIME_ID));
		for (int i = 0; i < KINDS * BINS; i++)
			printf(" %" PRIu64, atomic_load(&interruptions[i / BINS][i % BINS]));
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
