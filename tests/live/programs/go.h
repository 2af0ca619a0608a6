// SPDX-License-Identifier: BSD-2-Clause
/* What the traced programs share: they work at once, or, with the argument "wait", at SIGUSR1. */
#ifndef GO_H
#define GO_H

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))

UNTRACED static void wait_for_go(int argc, char **argv)
{
	sigset_t go;

	if (argc < 2 || strcmp(argv[1], "wait"))
		return;
	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	sigprocmask(SIG_BLOCK, &go, NULL);
	puts("ready");
	fflush(stdout);
	while (sigwaitinfo(&go, NULL) != SIGUSR1)
		;
}

/* Calls of a function as the program itself counts them; printed at its end, in the form that the tests read. */
#define COUNT(name) (__atomic_fetch_add(&calls_of_##name, 1, __ATOMIC_RELAXED))
#define PRINT_COUNT(name) printf("calls %s %ld\n", #name, calls_of_##name)

#endif
