// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server whose threads share one arena of the allocator, as with MALLOC_ARENA_MAX=1: while the purger returns memory
 * to the system, which it does with the arena locked, requests wait in malloc() and free(). Prints how many requests
 * took at least half as long as the shortest purge.
 */
#include <malloc.h>
#include <unistd.h>

#include "go.h"
#include "fault_threads.h"

#define WORKERS 3
#define PURGES 8
#define BLOCKS 3000
#define BLOCK_BYTES 65536
#define ANSWER_BYTES 3000 /* more than a thread's own cache keeps */
#define REQUESTS_MAX 100000

static int is_over;
static double shortest_purge = 1, took[WORKERS][REQUESTS_MAX];
static int requests[WORKERS], next_worker;

TRACED static void purge(void **blocks)
{
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	malloc_trim(0);
	__asm__ volatile("");
}

UNTRACED static void *purger(void *arg)
{
	static void *blocks[BLOCKS], *between[BLOCKS];

	for (int i = 0; i < PURGES; i++) {
		double begin;

		/* What is between the blocks keeps them from being one. */
		for (int b = 0; b < BLOCKS; b++) {
			blocks[b] = malloc(BLOCK_BYTES);
			between[b] = malloc(ANSWER_BYTES);
			memset(blocks[b], i, BLOCK_BYTES);
		}
		sleep_ms(20);
		begin = seconds(CLOCK_MONOTONIC);
		purge(blocks);
		begin = seconds(CLOCK_MONOTONIC) - begin;
		shortest_purge = begin < shortest_purge ? begin : shortest_purge;
		for (int b = 0; b < BLOCKS; b++)
			free(between[b]);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	return arg;
}

TRACED static void build_answer(void)
{
	char *volatile parts[8];

	for (int i = 0; i < 8; i++)
		parts[i] = malloc(ANSWER_BYTES);
	for (int i = 0; i < 8; i++)
		free(parts[i]);
	__asm__ volatile("");
}

TRACED static void handle_request(void)
{
	build_answer();
	__asm__ volatile("");
}

UNTRACED static void *worker(void *arg)
{
	int own = __atomic_fetch_add(&next_worker, 1, __ATOMIC_RELAXED);

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED) && requests[own] < REQUESTS_MAX) {
		double begin = seconds(CLOCK_MONOTONIC);

		handle_request();
		took[own][requests[own]++] = seconds(CLOCK_MONOTONIC) - begin;
		sleep_ms(1);
	}
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t threads[1 + WORKERS];
	int slow = 0;

	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	wait_for_go(argc, argv);
	for (int i = 0; i < WORKERS; i++)
		threads[1 + i] = start(worker, "worker");
	threads[0] = start(purger, "purger");
	for (int i = 0; i < 1 + WORKERS; i++)
		pthread_join(threads[i], NULL);
	for (int w = 0; w < WORKERS; w++)
		for (int i = 0; i < requests[w]; i++)
			slow += took[w][i] >= shortest_purge / 2;
	printf("%d %.1f\n", slow, 1000 * shortest_purge);
	fflush(stdout);
	wait_for_go(argc, argv);
	return 0;
}
