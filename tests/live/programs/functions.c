// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions without sleds that count their own calls. For each line "THREADS LOOPS" on stdin or in a file, runs the
 * threads, with signals if there are several, and prints the sum of their results and the counts. LOOPS 0: runs until
 * the next line.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS                                                                                                      \
	X(leaf)                                                                                                        \
	X(zero) X(tail) X(conditional) X(pointer) X(recursive) X(unlikely) X(switched) X(jumper) X(compare) X(work)    \
	    X(handled)
#define X(name) N_##name,
enum { FUNCTIONS COUNT };
#undef X
#define X(name) #name,
static const char *const names[] = { FUNCTIONS };
unsigned long counts[COUNT];
#define HERE(name) __atomic_fetch_add(&counts[N_##name], 1, __ATOMIC_RELAXED)
#define API __attribute__((noinline))
#define THREADS_MAX 16

static __thread jmp_buf where;
static volatile int stop;

API int leaf(int a)
{
	HERE(leaf);
	return a + 1;
}

API int zero(void)
{
	HERE(zero);
	return 0;
}

API int tail(int a)
{
	HERE(tail);
	return leaf(a * 2);
}

API int conditional(int a)
{
	HERE(conditional);
	if (a % 3 == 0)
		return leaf(a);
	return a * 5;
}

API int pointer(int (*to)(int), int a)
{
	HERE(pointer);
	return to(a);
}

API long recursive(long n)
{
	HERE(recursive);
	return n < 2 ? n : recursive(n - 1) % 1000 * 3 + recursive(n - 2) % 1000 * 2;
}

API int unlikely(int a)
{
	HERE(unlikely);
	if (__builtin_expect(a > 90, 0)) {
		if (a > 1000)
			fprintf(stderr, "%d\n", a);
		return leaf(a);
	}
	return a;
}

API int switched(int a, int b)
{
	HERE(switched);
	switch (a) {
	case 0:
		return b + 1;
	case 1:
		return b * 3;
	case 2:
		return leaf(b);
	case 3:
		return zero() + b;
	case 4:
		return tail(b);
	case 5:
		b += 3;
		break;
	case 6:
		return b << 3;
	case 7:
		return -b;
	}
	return b ^ a;
}

API void jumper(int a)
{
	HERE(jumper);
	if (a % 7 == 0)
		longjmp(where, 1);
}

API int compare(const void *a, const void *b)
{
	HERE(compare);
	return *(const int *)a - *(const int *)b;
}

API long work(void)
{
	int list[16];
	volatile long result = 0;

	HERE(work);
	for (volatile int i = 0; i < 100; i++) {
		result += zero() + tail(i) + conditional(i) + pointer(leaf, i) + unlikely(i) + switched(i % 10, i);
		if (!setjmp(where))
			jumper(i);
		list[i % 16] = (int)(result * 7919 % 1000);
	}
	qsort(list, 16, sizeof(*list), compare);
	return result + recursive(12) + list[5];
}

API void handled(int number)
{
	(void)number;
	HERE(handled);
	zero();
}

struct worker {
	pthread_t thread;
	long loops;
	long sum;
	int ended;
};

static void *run(void *arg)
{
	struct worker *worker = arg;
	char *stack = malloc(65536);
	const stack_t other = { .ss_sp = stack, .ss_size = 65536 };
	const stack_t none = { .ss_flags = SS_DISABLE };
	long expected = work();

	sigaltstack(&other, NULL);
	for (long i = 0; worker->loops ? i < worker->loops : !stop; i++) {
		long result = work();

		if (result != expected)
			abort();
		worker->sum += result;
	}
	sigaltstack(&none, NULL);
	free(stack);
	__atomic_store_n(&worker->ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void send_signals(struct worker *workers, long count)
{
	for (long i = 0; i < count; i++)
		while (!stop && !__atomic_load_n(&workers[i].ended, __ATOMIC_ACQUIRE)) {
			for (long k = i; k < count; k++)
				if (!__atomic_load_n(&workers[k].ended, __ATOMIC_ACQUIRE))
					pthread_kill(workers[k].thread, SIGUSR1);
			usleep(500);
		}
}

static void *wait_for_line(void *arg)
{
	char line[64];

	(void)arg;
	if (fgets(line, sizeof(line), stdin))
		stop = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = handled, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct worker workers[THREADS_MAX];
	long threads, loops, sum = 0;
	pthread_t waiter;
	char line[64];

	if (argc > 1 && !freopen(argv[1], "r", stdin))
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGUSR1, &action, NULL);
	puts("ready");
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%ld %ld", &threads, &loops) == 2) {
		memset(counts, 0, sizeof(counts));
		memset(workers, 0, sizeof(workers));
		if (!loops)
			pthread_create(&waiter, NULL, wait_for_line, NULL);
		for (long i = 0; i < threads; i++) {
			workers[i].loops = loops;
			pthread_create(&workers[i].thread, NULL, run, &workers[i]);
		}
		if (threads > 1)
			send_signals(workers, threads);
		for (long i = 0; i < threads; i++) {
			pthread_join(workers[i].thread, NULL);
			sum += workers[i].sum;
		}
		for (int i = 0; i < COUNT; i++)
			printf("calls %s %lu\n", names[i], counts[i]);
		printf("sum %ld\n", sum);
		puts("ready");
	}
	return 0;
}
