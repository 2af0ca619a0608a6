// SPDX-License-Identifier: BSD-2-Clause
/*
 * The program under measurement. It executes commands from standard input, one per line, and answers each with a
 * number. It exits at the end of the input, so it never outlives the benchmark:
 *
 *   calls N      N calls of the one instrumented function; the thread's CPU time for all, ns
 *   threads T N  the same in T threads at the same time, N calls in each; the process's CPU time, ns
 *   crowd T      T more threads, which wait: the last of them makes the calls of 'last'; T
 *   last N       N calls in that thread; its CPU time, ns
 *   rate R MS    R calls a second, in bursts of a millisecond's worth, for MS milliseconds; the calls made
 *   requests R MS  the same, each burst in a call of an instrumented function
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 64
#define CROWD_STACK_BYTES (64u << 10)
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Used: so it comes first in the file, where tools that trace one function find it. */
__attribute__((used, noinline, xray_always_instrument)) static void traced(void)
{
	__asm__ volatile("");
}

static void call(uint64_t times)
{
	while (times--)
		traced();
}

__attribute__((noinline, xray_always_instrument)) static void request(uint64_t times)
{
	call(times);
	__asm__ volatile("");
}

static void *thread(void *arg)
{
	call(*(const uint64_t *)arg);
	return NULL;
}

static void call_in_threads(unsigned int count, uint64_t times)
{
	pthread_t threads[THREADS_MAX];

	if (count > THREADS_MAX)
		exit(1);
	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, thread, &times))
			exit(1);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* Waiting threads, and the work of the last one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t last_calls, last_ns;

static void *wait_in_crowd(void *arg)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		uint64_t begin;

		while (!arg || !last_calls)
			pthread_cond_wait(&changed, &lock);
		begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
		call(last_calls);
		last_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		last_calls = 0;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

static void begin_crowd(uint64_t count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, CROWD_STACK_BYTES);
	for (uint64_t i = 1; i <= count; i++)
		if (pthread_create(&thread, &attributes, wait_in_crowd, i == count ? &last_calls : NULL))
			exit(1);
	pthread_attr_destroy(&attributes);
}

static uint64_t call_in_last(uint64_t times)
{
	uint64_t ns;

	pthread_mutex_lock(&lock);
	last_calls = times;
	pthread_cond_broadcast(&changed);
	while (last_calls)
		pthread_cond_wait(&changed, &lock);
	ns = last_ns;
	pthread_mutex_unlock(&lock);
	return ns;
}

static uint64_t call_at_rate(uint64_t per_s, uint64_t ms, void (*burst)(uint64_t times))
{
	uint64_t begin = now_ns(CLOCK_MONOTONIC);
	uint64_t made = 0;

	for (uint64_t i = 1; i <= ms; i++) {
		uint64_t due = begin + i * NS_PER_MS;
		struct timespec until = { due / NS_PER_S, due % NS_PER_S };

		burst(per_s * i / 1000 - made);
		made = per_s * i / 1000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return made;
}

int main(void)
{
	unsigned long long a, b;
	char line[128];

	while (fgets(line, sizeof(line), stdin)) {
		uint64_t answer;

		if (sscanf(line, "calls %llu", &a) == 1) {
			answer = now_ns(CLOCK_THREAD_CPUTIME_ID);
			call(a);
			answer = now_ns(CLOCK_THREAD_CPUTIME_ID) - answer;
		} else if (sscanf(line, "threads %llu %llu", &a, &b) == 2) {
			answer = now_ns(CLOCK_PROCESS_CPUTIME_ID);
			call_in_threads(a, b);
			answer = now_ns(CLOCK_PROCESS_CPUTIME_ID) - answer;
		} else if (sscanf(line, "crowd %llu", &a) == 1) {
			begin_crowd(a);
			answer = a;
		} else if (sscanf(line, "last %llu", &a) == 1) {
			answer = call_in_last(a);
		} else if (sscanf(line, "rate %llu %llu", &a, &b) == 2) {
			answer = call_at_rate(a, b, call);
		} else if (sscanf(line, "requests %llu %llu", &a, &b) == 2) {
			answer = call_at_rate(a, b, request);
		} else {
			return 1;
		}
		printf("%llu\n", (unsigned long long)answer);
		fflush(stdout);
	}
	return 0;
}
