// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that runs until it is killed: two threads that count Fibonacci numbers the slow way, a little at a time.
 * It prints its process id, for `sudo xprof record -p`.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile unsigned long sink, rests;

__attribute__((noinline)) static unsigned long fib(unsigned int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) static void rest(void)
{
	usleep(20000);
	rests++; /* code after the call, or the compiler jumps to usleep and this function has no exit */
}

__attribute__((noinline)) static void work(unsigned int n)
{
	rest();
	sink = fib(n);
}

static void *worker(void *arg)
{
	const unsigned int *n = arg;

	for (;;)
		work(*n);
	return NULL;
}

int main(void)
{
	static const unsigned int sizes[] = { 8, 12 };
	pthread_t threads[2];

	printf("%d\n", (int)getpid());
	fflush(stdout);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, worker, (void *)&sizes[i]))
			return 1;
	pause();
	return 0;
}
