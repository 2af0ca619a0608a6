// SPDX-License-Identifier: BSD-2-Clause
/* longjmp: once, in a loop, and out of a signal handler; a handler on its own stack; coroutines. */
#include <alloca.h>
#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

#include "go.h"

static jmp_buf back;
static sigjmp_buf back_from_signal;
static ucontext_t consumer, producer;
static volatile long sink;
static volatile int finished;

TRACED static void leaf(int n)
{
	sink += n;
}

TRACED static void jumper(int n, int depth)
{
	volatile char *room = alloca((size_t)(16 + 8 * depth));

	room[0] = 1;
	if (depth)
		jumper(n, depth - 1);
	leaf(n);
	if (n % 2)
		longjmp(back, 1);
	sink += room[0];
}

/* Its frame is where the abandoned frames were, at a different place in each call. */
TRACED static void sized(int n)
{
	volatile char *room = alloca((size_t)(16 + 8 * n));

	room[0] = 1;
	leaf(n);
	sink += room[0];
}

TRACED static void loop(void)
{
	for (volatile int n = 0; n < 60; n++) {
		if (!setjmp(back))
			jumper(n, n % 5);
		sized(n % 9);
	}
}

TRACED static void left(jmp_buf to)
{
	leaf(1);
	longjmp(to, 1);
}

/* A jump abandons a frame at the bottom; then leaf() is called at the next place. */
TRACED static void nested(void)
{
	static jmp_buf inner;

	if (!setjmp(inner)) {
		volatile char *deeper = alloca(1024);

		deeper[0] = 1;
		left(inner);
	}
	leaf(2);
}

/* Calls nested() next to an abandoned frame. leaf() then uses the place of that frame while nested() still runs. */
TRACED static void beside(void)
{
	for (volatile int room = 16; room < 512; room += 16) {
		if (!setjmp(back)) {
			volatile char deeper[room];

			deeper[0] = 1;
			left(back);
		}
		nested();
	}
}

/* Handlers on their own stack jump out of it; then handlers interrupt a call that continues. */
TRACED static void interrupted(int n)
{
	if (!sigsetjmp(back_from_signal, 1))
		raise(SIGUSR2);
	leaf(n);
}

TRACED static void on_signal(int signal)
{
	leaf(signal);
	siglongjmp(back_from_signal, 1);
}

TRACED static void on_own_stack(int signal)
{
	sized(signal);
}

TRACED static void signals(void)
{
	stack_t stack = { .ss_size = 64 << 10, .ss_sp = malloc(64 << 10) };
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR2, &action, NULL);
	for (volatile int n = 0; n < 20; n++)
		if (!sigsetjmp(back_from_signal, 1))
			raise(SIGUSR2);
	sigaltstack(&stack, NULL);
	action.sa_handler = on_own_stack;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	for (int n = 0; n < 20; n++)
		raise(SIGUSR2);
	action.sa_handler = on_signal;
	sigaction(SIGUSR2, &action, NULL);
	for (volatile int n = 0; n < 20; n++) {
		if (!sigsetjmp(back_from_signal, 1))
			raise(SIGUSR2);
		interrupted(n);
	}
}

TRACED static void produce_one(int n)
{
	leaf(n);
	swapcontext(&producer, &consumer);
}

TRACED static void produce(void)
{
	for (int n = 0; n < 20; n++)
		produce_one(n);
	finished = 1;
}

TRACED static void coroutines(void)
{
	static char stack[64 << 10];

	getcontext(&producer);
	producer.uc_stack.ss_sp = stack;
	producer.uc_stack.ss_size = sizeof(stack);
	producer.uc_link = &consumer;
	makecontext(&producer, produce, 0);
	while (!finished) {
		swapcontext(&consumer, &producer);
		sized(3);
	}
}

TRACED static void work(void)
{
	loop();
	beside();
	signals();
	coroutines();
}

UNTRACED int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	work();
	return 0;
}
