// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads at full speed, whose work can be measured from outside. Arguments: wait or run, threads, rounds of each (0:
 * until killed), calls of hot() per round, and a file. A round is 2 ms of work, one call of cold(), two of warm() and
 * the calls of hot(). The file contains the rounds, the calls of hot(), warm() and cold(), and the rounds of each
 * thread, as 64-bit numbers.
 *
 * At SIGUSR2, rounds have no calls of hot() from then on; at the next SIGUSR2, they have them again. At SIGHUP, a
 * process that shares the memory, and is not a thread, calls hot(), too; at the next SIGHUP, it exits. At SIGTERM, all
 * threads exit after their round.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "go.h"

enum { ROUNDS, HOT, WARM, COLD, OF_THREADS };

static uint64_t *counters;
static volatile long rounds;
static long hot_calls;
static volatile sig_atomic_t quiet, sharing;

UNTRACED static void work(long turns)
{
	for (volatile long i = 0; i < turns; i++)
		;
}

UNTRACED static void count(int which, uint64_t by)
{
	__atomic_fetch_add(&counters[which], by, __ATOMIC_RELAXED);
}

TRACED static void hot(void)
{
	__asm__ volatile("");
}

TRACED static void warm(void)
{
	__asm__ volatile("nop");
}

TRACED static void cold(void)
{
	warm();
	__asm__ volatile("");
}

UNTRACED static void *thread(void *arg)
{
	int number = (int)(intptr_t)arg;

	for (long i = 0; !rounds || i < rounds; i++) {
		long calls = quiet ? 0 : hot_calls;

		work(2000000);
		cold();
		warm();
		for (long call = 0; call < calls; call++)
			hot();
		count(HOT, calls);
		count(WARM, 2);
		count(COLD, 1);
		count(ROUNDS, 1);
		count(OF_THREADS + number, 1);
	}
	return arg;
}

UNTRACED static void toggle(int number)
{
	(void)number;
	quiet = !quiet;
}

UNTRACED static void end(int number)
{
	(void)number;
	rounds = 1;
}

UNTRACED static int share(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (sharing) {
		work(10000);
		hot();
	}
	return arg != NULL;
}

UNTRACED static void toggle_sharing(int number)
{
	static char stack[1 << 16] __attribute__((aligned(16)));

	(void)number;
	sharing = !sharing;
	if (sharing)
		clone(share, stack + sizeof(stack), CLONE_VM | CLONE_UNTRACED, NULL);
}

UNTRACED int main(int argc, char **argv)
{
	int count_of_threads = atoi(argv[2]);
	pthread_t *threads = calloc((size_t)count_of_threads, sizeof(*threads));
	size_t bytes = (OF_THREADS + (size_t)count_of_threads) * sizeof(*counters);
	int fd = open(argv[5], O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		return 1;
	counters = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	rounds = atol(argv[3]);
	hot_calls = atol(argv[4]);
	signal(SIGUSR2, toggle);
	signal(SIGHUP, toggle_sharing);
	signal(SIGTERM, end);
	wait_for_go(argc, argv);
	for (int i = 0; i < count_of_threads; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(intptr_t)i);
	for (int i = 0; i < count_of_threads; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return 0;
}
