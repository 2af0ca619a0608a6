// SPDX-License-Identifier: BSD-2-Clause
/*
 * Coroutines that a timer signal preempts, at any instruction of a function or its sled: the handler switches to the
 * next coroutine. Meanwhile, the registers of a coroutine are on its own stack. Prints "ready"; at SIGUSR1 exits, and
 * prints "well" if all coroutines have correct results.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument))
#define TRACED __attribute__((noinline, xray_always_instrument))
#define COROUTINES 200
#define STACK_BYTES 65536
#define PAGE 4096

static ucontext_t main_context, contexts[COROUTINES];
static const struct itimerval often = { { 0, 300 }, { 0, 300 } };
static uint64_t wrong;
static bool begun;
static volatile sig_atomic_t now, ended;

TRACED static uint64_t next(uint64_t value)
{
	return value * 6364136223846793005u + 1442695040888963407u;
}

UNTRACED static void work(void)
{
	if (!begun) { /* no switch before the first coroutine runs */
		begun = true;
		setitimer(ITIMER_REAL, &often, NULL);
	}
	while (!ended) {
		uint64_t value = 1, expected = 1;

		for (int i = 0; i < 1000; i++) {
			value = next(value);
			expected = expected * 6364136223846793005u + 1442695040888963407u;
		}
		wrong += value != expected;
	}
}

UNTRACED static void preempt(int number)
{
	int before = now;

	(void)number;
	now = (now + 1) % COROUTINES;
	swapcontext(&contexts[before], &contexts[now]);
}

UNTRACED static void end(int number)
{
	(void)number;
	ended = 1;
}

UNTRACED int main(void)
{
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };

	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&contexts[i]);
		/* A page between stacks, which the kernel would otherwise join into one mapping. */
		contexts[i].uc_stack.ss_sp =
		    (char *)mmap(NULL, STACK_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
		if (mprotect(contexts[i].uc_stack.ss_sp, STACK_BYTES, PROT_READ | PROT_WRITE))
			return 2;
		contexts[i].uc_stack.ss_size = STACK_BYTES;
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], work, 0);
	}
	signal(SIGUSR1, end);
	signal(SIGALRM, preempt);
	puts("ready");
	fflush(stdout);
	swapcontext(&main_context, &contexts[0]);
	setitimer(ITIMER_REAL, &never, NULL);
	puts(wrong ? "ill" : "well");
	return wrong != 0;
}
