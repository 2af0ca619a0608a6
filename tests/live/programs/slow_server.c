// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server whose slow requests have three known causes, and which counts them. Two workers handle requests, most in
 * some microseconds:
 *  - refresher holds the lock of the cache while it sleeps;
 *  - some requests end in write_journal(), to which handle_request() jumps, and which waits for storage to answer;
 *  - some requests compute with the lowest priority on the CPU that busy keeps meanwhile.
 * Arguments: wait, requests. It prints how many requests each cause made slow, and the address of the lock.
 */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "go.h"
#include "fault_threads.h"

#define WORKERS 2
#define FAULT_MS 12
#define SLOW_S 0.005

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static int asked[2], answers[2], is_busy, is_over;
static unsigned int requests, next_request, locked, journaled, starved;

UNTRACED static void count(unsigned int *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- those at fault ---- */

TRACED static void refresh_cache(void)
{
	pthread_mutex_lock(&cache_lock);
	sleep_ms(FAULT_MS);
	pthread_mutex_unlock(&cache_lock);
	__asm__ volatile("");
}

UNTRACED static void *refresher(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		sleep_ms(3 * FAULT_MS);
		refresh_cache();
	}
	return arg;
}

UNTRACED static void *storage(void *arg)
{
	char block = 0;

	while (read(asked[0], &block, 1) == 1) {
		sleep_ms(FAULT_MS);
		if (write(answers[1], &block, 1) != 1)
			abort();
	}
	return arg;
}

UNTRACED static void *busy(void *arg)
{
	pin(0);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		if (__atomic_load_n(&is_busy, __ATOMIC_RELAXED))
			continue;
		sleep_ms(1);
	}
	return arg;
}

/* ---- requests ---- */

TRACED static void parse(unsigned int request)
{
	__asm__ volatile("" : : "r"(request));
}

TRACED static void lookup(void)
{
	double begin = seconds(CLOCK_MONOTONIC);

	pthread_mutex_lock(&cache_lock);
	if (seconds(CLOCK_MONOTONIC) - begin > SLOW_S)
		count(&locked);
	pthread_mutex_unlock(&cache_lock);
}

TRACED static int write_journal(unsigned int request)
{
	char block = 0;

	if (write(asked[1], &block, 1) != 1 || read(answers[0], &block, 1) != 1)
		abort();
	count(&journaled);
	__asm__ volatile("");
	return (int)request;
}

TRACED static void compute(void)
{
	double begin = seconds(CLOCK_MONOTONIC);
	id_t thread = (id_t)syscall(SYS_gettid);
	int priority = getpriority(PRIO_PROCESS, thread);
	cpu_set_t cpus;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	pin(0);
	setpriority(PRIO_PROCESS, thread, 19);
	__atomic_store_n(&is_busy, 1, __ATOMIC_RELAXED);
	sleep_ms(2);
	starve();
	__atomic_store_n(&is_busy, 0, __ATOMIC_RELAXED);
	setpriority(PRIO_PROCESS, thread, priority);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (seconds(CLOCK_MONOTONIC) - begin > SLOW_S)
		count(&starved);
}

TRACED static int handle_request(unsigned int request)
{
	parse(request);
	lookup();
	if (request % 200 == 150)
		compute();
	if (request % 50 == 49)
		return write_journal(request);
	__asm__ volatile("");
	return 0;
}

TRACED static void serve(void)
{
	for (;;) {
		unsigned int request = __atomic_fetch_add(&next_request, 1, __ATOMIC_RELAXED);

		if (request >= requests)
			break;
		handle_request(request);
		sleep_ms(1);
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
	pthread_t threads[2 + WORKERS];

	requests = strtoul(argv[2], NULL, 10);
	if (pipe(asked) || pipe(answers))
		return 1;
	wait_for_go(argc, argv);
	threads[0] = start(refresher, "refresher");
	threads[1] = start(busy, "busy");
	start(storage, "storage");
	for (int i = 0; i < WORKERS; i++)
		threads[2 + i] = start(worker, "worker");
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[2 + i], NULL);
	is_over = 1;
	printf("%u %u %u %p\n", locked, journaled, starved, (void *)&cache_lock);
	fflush(stdout);
	wait_for_go(argc, argv);
	return 0;
}
