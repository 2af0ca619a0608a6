// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
/* Two threads that make calls and must not read the TSC: rdtsc would kill them. Prints the number of calls. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "go.h"

static long calls_of_work;
static volatile long sink;

TRACED static void work(long n)
{
	sink += n;
	COUNT(work);
}

UNTRACED static void *work_often(void *count)
{
	for (long i = 0; i < (long)count; i++)
		work(i);
	return NULL;
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[2]) : 1000;
	pthread_t thread;

	/* The other thread inherits it. */
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
		return 1;
	wait_for_go(argc, argv);
	pthread_create(&thread, NULL, work_often, (void *)count);
	pthread_join(thread, NULL);
	work_often((void *)count);
	PRINT_COUNT(work);
	return 0;
}
