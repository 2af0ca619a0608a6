// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rounds that their calls identify: round_of(i) calls one() or zero() for each bit of i, lowest first. Arguments: wait,
 * rounds, and the end: crash (in last(), by SIGSEGV), again (as many rounds at each SIGUSR1) or exit. main() and
 * all_rounds() stay open.
 */
#include <stdlib.h>

#include "go.h"

#define BITS 16

UNTRACED void not_traced(void)
{
	__asm__ volatile("");
}

/* Tail calls, because their exit sleds need no single step. */
TRACED static void one(void)
{
	__asm__ volatile("");
	not_traced();
}

TRACED static void zero(void)
{
	__asm__ volatile("" ::: "memory");
	not_traced();
}

TRACED static void round_of(unsigned int i)
{
	for (int bit = 0; bit < BITS; bit++)
		if (i >> bit & 1)
			one();
		else
			zero();
	not_traced();
}

TRACED static void last(volatile int *nowhere)
{
	*nowhere = 1;
	__asm__ volatile("");
}

TRACED static void all_rounds(unsigned int first, unsigned int rounds, const char *what)
{
	for (unsigned int i = first; i < first + rounds; i++)
		round_of(i);
	if (!strcmp(what, "crash"))
		last(NULL);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	unsigned int rounds = strtoul(argv[2], NULL, 10);

	for (unsigned int first = 0;; first += rounds) {
		wait_for_go(argc, argv);
		all_rounds(first, rounds, argv[3]);
		if (strcmp(argv[3], "again"))
			break;
	}
	puts("done");
	return 0;
}
