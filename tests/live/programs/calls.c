// SPDX-License-Identifier: BSD-2-Clause
/* Recursion, tail calls, function pointers, callbacks of libc and threads; always the same calls. */
#include <pthread.h>
#include <stdlib.h>

#include "go.h"

#define THREADS 6

static volatile long sink;

TRACED static long fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

TRACED static long deep(int n)
{
	volatile char room[64];

	room[n % 64] = (char)n;
	return n ? deep(n - 1) + room[n % 64] : 0;
}

/* The last action of each is to call the other: with optimization, a jump. */
TRACED static int is_odd(unsigned int n);
TRACED static int is_even(unsigned int n)
{
	sink++;
	return n ? is_odd(n - 1) : 1;
}
TRACED static int is_odd(unsigned int n)
{
	sink--;
	return n ? is_even(n - 1) : 0;
}

TRACED static void leaf(int n)
{
	sink += n;
}
TRACED static void before_leaf(int n)
{
	sink -= n;
	leaf(n);
}
/* Several returns and a tail call: several exits of one entry. */
TRACED static int forks(int n)
{
	if (n % 3 == 0)
		return (int)sink;
	if (n % 3 == 1) {
		before_leaf(n);
		return -1;
	}
	sink ^= n;
	return is_even((unsigned int)n & 7);
}

struct big {
	long values[16];
};
TRACED static struct big make_big(long first, long a2, long a3, long a4, long a5, long a6, long a7, long a8)
{
	struct big big = { { first, a2, a3, a4, a5, a6, a7, a8 } };

	return big;
}

TRACED static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

TRACED static void round_of(int n)
{
	static void (*const through[])(int) = { leaf, before_leaf };
	struct big big;
	int numbers[16];

	for (int i = 0; i < 16; i++)
		numbers[i] = (i * 7) % 16;
	qsort(numbers, 16, sizeof(numbers[0]), compare);
	for (int i = 0; i < n; i++) {
		through[i % 2](i);
		sink += forks(i);
	}
	big = make_big(n, 2, 3, 4, 5, 6, 7, 8);
	sink += big.values[n % 16];
	fib(n);
	is_even(50);
}

TRACED static void *thread(void *arg)
{
	round_of((int)(long)arg);
	return NULL;
}

TRACED static void work(void)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(i + 4));
	round_of(12);
	deep(500);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

UNTRACED int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	work();
	return 0;
}
