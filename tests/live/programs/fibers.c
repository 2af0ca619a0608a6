// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fibers: SWITCH is `ucontext` or `own`, a switch in assembler as boost.context has it; MEMORY is `heap` (of malloc(),
 * one stack after the other), `guard` (each mapping with a guard page) or `mapped` (one mapping of all). Arguments:
 * [wait] FIBERS ROUNDS. Each fiber is in calls of its own whenever another one runs. Prints how often each function was
 * called.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "go.h"

enum memory { heap, guard, mapped };
enum kind { ucontext, own };
#define STACK_BYTES (16ul << 10)
#define PAGE 4096

static long calls_of_outer, calls_of_step, calls_of_inner, calls_of_resume, calls_of_large;
static int rounds, fibers;
static __thread int running;

struct fiber {
	ucontext_t context;
	void *sp;
	int done;
};
static __thread struct fiber *all, *current;
static __thread ucontext_t main_context;
static __thread void *main_sp;

/* Saves the registers that a call preserves, and continues on another stack. */
void switch_stack(void **from, void *to);
__asm__(".text\n"
	"switch_stack:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
	"	ret\n");

UNTRACED static void yield(void)
{
	struct fiber *fiber = current;

	if (SWITCH == ucontext)
		swapcontext(&fiber->context, &main_context);
	else
		switch_stack(&fiber->sp, main_sp);
}

TRACED static void inner(int depth)
{
	COUNT(inner);
	if (depth)
		inner(depth - 1);
	else
		yield();
	__asm__ volatile("" : : : "memory");
}

/* More variables than fit below it on a stack of 2 KiB. */
TRACED static void large(void)
{
	volatile char room[5000];

	COUNT(large);
	room[0] = 1;
	inner(1);
	room[4999] = room[0];
}

TRACED static void step(int n)
{
	COUNT(step);
	if (n % 3 == 2)
		large();
	else
		inner(n % 5);
	__asm__ volatile("" : : : "memory");
}

TRACED static void outer(void)
{
	COUNT(outer);
	for (int n = 0; n < rounds; n++)
		step(n);
	__asm__ volatile("" : : : "memory");
}

UNTRACED static void fiber_main(void)
{
	outer();
	current->done = 1;
	running--;
	yield();
	abort();
}

TRACED static void resume(struct fiber *fiber)
{
	COUNT(resume);
	current = fiber;
	if (SWITCH == ucontext)
		swapcontext(&main_context, &fiber->context);
	else
		switch_stack(&main_sp, fiber->sp);
	__asm__ volatile("" : : : "memory");
}

UNTRACED static char *stack_of(int i)
{
	static __thread char *base;

	if (MEMORY == heap)
		return malloc(STACK_BYTES);
	if (!base)
		base = mmap(NULL, (size_t)fibers * (STACK_BYTES + PAGE), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (MEMORY == mapped)
		return base + (size_t)i * STACK_BYTES;
	mprotect(base + (size_t)i * (STACK_BYTES + PAGE), PAGE, PROT_NONE);
	return base + (size_t)i * (STACK_BYTES + PAGE) + PAGE;
}

UNTRACED static void create(struct fiber *fiber, char *stack)
{
	uintptr_t *top = (uintptr_t *)(stack + STACK_BYTES);

	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = stack;
	fiber->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber->context, fiber_main, 0);
	*--top = 0;
	*--top = (uintptr_t)fiber_main;
	fiber->sp = top - 6;
}

UNTRACED static void *run(void *unused)
{
	all = calloc((size_t)fibers, sizeof(*all));
	for (int i = 0; i < fibers; i++)
		create(&all[i], stack_of(i));
	running = fibers;
	/* The order differs in each round. */
	for (unsigned int n = 0; running; n = n * 1103515245 + 12345)
		for (int i = 0; i < fibers; i++)
			if (!all[(i + n) % fibers].done)
				resume(&all[(i + n) % fibers]);
	return unused;
}

UNTRACED int main(int argc, char **argv)
{
	int first = argc > 1 && !strcmp(argv[1], "wait") ? 2 : 1;
	pthread_t thread;

	fibers = atoi(argv[first]);
	rounds = atoi(argv[first + 1]);
	wait_for_go(argc, argv);
	pthread_create(&thread, NULL, run, NULL);
	run(NULL);
	pthread_join(thread, NULL);
	PRINT_COUNT(outer);
	PRINT_COUNT(step);
	PRINT_COUNT(inner);
	PRINT_COUNT(resume);
	PRINT_COUNT(large);
	return 0;
}
