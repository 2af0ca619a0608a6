// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server with three faults: a pool of two workers handles requests, nearly all in some microseconds. One request
 * waits for a lock that "refresher" holds while it sleeps, one reads from "storage", which is slow to answer, and one
 * computes with the lowest priority on the CPU that "busy" keeps. Arguments: wait, requests.
 */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "go.h"
#include "fault_threads.h"

#define WORKERS 2
#define FAULT_MS 60

static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER, queue = PTHREAD_MUTEX_INITIALIZER;
static int refresh_asked, refresh_begun, storage_asked[2], storage_answers[2], busy_asked, is_busy, is_over;
static unsigned int requests, next_request;

/* Not all stacks are recorded for a thread that waits more than 477 times per second. */
UNTRACED static void wait_for(const int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		sleep_ms(4);
}

UNTRACED static void raise_flag(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

/* ---- those at fault ---- */

UNTRACED static void *refresher(void *arg)
{
	wait_for(&refresh_asked);
	pthread_mutex_lock(&cache);
	raise_flag(&refresh_begun);
	sleep_ms(FAULT_MS);
	pthread_mutex_unlock(&cache);
	return arg;
}

UNTRACED static void *storage(void *arg)
{
	char block = 0;

	if (read(storage_asked[0], &block, 1) == 1) {
		sleep_ms(FAULT_MS);
		if (write(storage_answers[1], &block, 1) != 1)
			abort();
	}
	return arg;
}

UNTRACED static void *busy(void *arg)
{
	pin(0);
	wait_for(&busy_asked);
	raise_flag(&is_busy);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		;
	return arg;
}

/* ---- requests ---- */

TRACED static void parse(unsigned int request)
{
	__asm__ volatile("" : : "r"(request));
}

TRACED static void lookup(void)
{
	pthread_mutex_lock(&cache);
	__asm__ volatile("");
	pthread_mutex_unlock(&cache);
}

TRACED static void load_block(void)
{
	char block = 0;

	if (write(storage_asked[1], &block, 1) != 1 || read(storage_answers[0], &block, 1) != 1)
		abort();
	__asm__ volatile("");
}

TRACED static void compute(void)
{
	double until = seconds(CLOCK_THREAD_CPUTIME_ID) + 0.002;

	while (seconds(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

TRACED static void handle_request(unsigned int request)
{
	parse(request);
	if (request == requests / 4) {
		raise_flag(&refresh_asked);
		wait_for(&refresh_begun);
	}
	lookup();
	if (request == requests / 2)
		load_block();
	if (request == requests / 4 * 3) {
		pin(0);
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
		raise_flag(&busy_asked);
		wait_for(&is_busy);
		compute();
		raise_flag(&is_over);
	}
}

TRACED static void serve(void)
{
	for (;;) {
		unsigned int request;

		pthread_mutex_lock(&queue);
		request = next_request++;
		pthread_mutex_unlock(&queue);
		if (request >= requests)
			break;
		handle_request(request);
	}
	__asm__ volatile("");
}

UNTRACED static void *worker(void *arg)
{
	serve();
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t threads[3 + WORKERS];

	requests = strtoul(argv[2], NULL, 10);
	if (pipe(storage_asked) || pipe(storage_answers))
		return 1;
	threads[0] = start(refresher, "refresher");
	threads[1] = start(storage, "storage");
	threads[2] = start(busy, "busy");
	wait_for_go(argc, argv);
	for (int i = 0; i < WORKERS; i++)
		threads[3 + i] = start(worker, "worker");
	for (int i = 0; i < 3 + WORKERS; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	fflush(stdout);
	wait_for_go(argc, argv);
	return 0;
}
