// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
/*
 * Threads exit, one after the other, after 1, 2, ... calls. Then the first thread makes more calls, and SIGKILL
 * follows.
 */
#include <pthread.h>
#include <unistd.h>

#include "go.h"

#define THREADS 40
#define CALLS_LEFT 100000

static volatile long sink;

TRACED static void work(long n)
{
	sink = n;
}

UNTRACED static void *work_often(void *count)
{
	for (long i = 0; i < (long)count; i++)
		work(i);
	return NULL;
}

UNTRACED int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	for (long i = 1; i <= THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work_often, (void *)i))
			return 1;
		pthread_join(thread, NULL);
	}
	wait_for_go(argc, argv);
	work_often((void *)CALLS_LEFT);
	kill(getpid(), SIGKILL);
	return 1;
}
