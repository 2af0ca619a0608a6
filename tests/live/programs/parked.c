// SPDX-License-Identifier: BSD-2-Clause
/*
 * At SIGUSR1, a signal interrupts threads in the stub; they wait in the handler and return to the stub after the
 * recording. Prints "ready", and at the end how many threads were interrupted in the stub, and how many had correct
 * results. Usage: parked THREADS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define THREADS_MAX 64
#define REACH (1ull << 31)

extern char __executable_start, end;

static volatile sig_atomic_t resumed;
static __thread volatile int is_parked;
static int parked, well;

__attribute__((noinline)) uint64_t mix(uint64_t value, uint64_t a, uint64_t b, uint64_t c)
{
	__asm__ volatile("");
	return value * 6364136223846793005u + (a ^ b) + c;
}

UNTRACED static uint64_t run(uint64_t rounds)
{
	uint64_t value = 1;

	for (uint64_t i = 0; i < rounds; i++)
		value = mix(value, i, i + 1, i + 2);
	return value;
}

UNTRACED static void resume(int number)
{
	(void)number;
	resumed = 1;
}

/* The stub is near the program, unlike its libraries. */
UNTRACED static void park(int number, siginfo_t *info, void *context)
{
	uint64_t rip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	uint64_t start = (uint64_t)&__executable_start;

	(void)number;
	(void)info;
	if (is_parked || (rip >= start && rip < (uint64_t)&end) || rip - start + REACH > 2 * REACH)
		return;
	is_parked = 1;
	__atomic_add_fetch(&parked, 1, __ATOMIC_SEQ_CST);
	while (!resumed)
		usleep(1000);
}

UNTRACED static void *work(void *arg)
{
	const uint64_t rounds = 1000, expected = (uint64_t)(uintptr_t)arg;
	const struct itimerspec often = { { 0, 211000 }, { 0, 211000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	uint64_t wrong = 0;
	timer_t timer;

	event._sigev_un._tid = gettid();
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) || timer_settime(timer, 0, &often, NULL))
		exit(2);
	while (!resumed)
		wrong += run(rounds) != expected;
	timer_delete(timer);
	wrong += run(rounds) != expected;
	if (!wrong)
		__atomic_add_fetch(&well, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

UNTRACED int main(int argc, char **argv)
{
	const int count = argc > 1 ? atoi(argv[1]) : 1;
	struct sigaction action = { .sa_sigaction = park, .sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t threads[THREADS_MAX];
	uint64_t expected = run(1000);

	sigaction(SIGALRM, &action, NULL);
	signal(SIGUSR1, resume);
	for (int i = 0; i < count && i < THREADS_MAX; i++)
		pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)expected);
	puts("ready");
	fflush(stdout);
	while (!resumed)
		usleep(1000);
	printf("parked %d\n", parked);
	for (int i = 0; i < count && i < THREADS_MAX; i++)
		pthread_join(threads[i], NULL);
	printf("well %d\n", well);
	return well != count;
}
