// SPDX-License-Identifier: BSD-2-Clause
/*
 * Works until it is killed: nested calls in several threads. Most of the time, threads are inside calls. Argument:
 * threads.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "go.h"

static volatile long sink;

TRACED static void leaf(int n)
{
	sink += n;
	if (n % 50 == 0)
		usleep(1000);
}

TRACED static void nest(int n)
{
	if (n)
		nest(n - 1);
	leaf(n);
	sink++;
}

TRACED static void step(int n)
{
	nest(n % 20);
	leaf(n);
	sink++;
}

TRACED static void *forever(void *arg)
{
	for (int n = 0;; n++)
		step(n);
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	int count = atoi(argv[argc - 1]);
	pthread_t thread;

	for (int i = 0; i < count; i++)
		pthread_create(&thread, NULL, forever, NULL);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
