// SPDX-License-Identifier: BSD-2-Clause
/*
 * Passes requests to a pool of workers and waits for the answers. Every 100th request takes longer. Prints how many us
 * each request was in the worker, then "done", and waits. Arguments: wait, requests.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "go.h"

#define WORKERS 2
#define EVERY 100
#define SHORT_US 20
#define LONG_US 15000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static long wanted_us, took_us; /* durations of the request; 0: none */
static int idle;		/* workers that wait for a request */

UNTRACED static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

/* Half of the time is on a CPU. */
TRACED long work_on(long us)
{
	int64_t start = now_us();

	usleep((useconds_t)us / 2);
	while (now_us() - start < us)
		;
	return now_us() - start;
}

UNTRACED static void *worker(void *arg)
{
	pthread_setname_np(pthread_self(), "pool");
	for (;;) {
		long us, took;

		pthread_mutex_lock(&lock);
		idle++;
		while (!wanted_us)
			pthread_cond_wait(&asked, &lock);
		idle--;
		us = wanted_us;
		wanted_us = 0;
		pthread_mutex_unlock(&lock);
		took = work_on(us);
		pthread_mutex_lock(&lock);
		took_us = took;
		pthread_cond_signal(&answered);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

TRACED long handle_request(long us)
{
	long took;

	pthread_mutex_lock(&lock);
	took_us = 0;
	wanted_us = us;
	pthread_cond_signal(&asked);
	while (!took_us)
		pthread_cond_wait(&answered, &lock);
	took = took_us;
	pthread_mutex_unlock(&lock);
	return took;
}

/* A worker that is not asleep gets a request without a wake-up. */
UNTRACED static void wait_for_workers(void)
{
	pthread_mutex_lock(&lock);
	while (idle < WORKERS) {
		pthread_mutex_unlock(&lock);
		usleep(2000); /* with more waits per second, only some would be recorded */
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
}

UNTRACED int main(int argc, char **argv)
{
	long requests = argc > 2 ? atol(argv[2]) : 1000;
	pthread_t thread;

	wait_for_go(argc, argv);
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&thread, NULL, worker, NULL))
			return 1;
	for (long i = 1; i <= requests; i++) {
		wait_for_workers();
		printf("%ld ", handle_request(i % EVERY ? SHORT_US : LONG_US));
	}
	puts("\ndone");
	fflush(stdout);
	for (;;)
		pause();
}
