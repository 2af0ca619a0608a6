// SPDX-License-Identifier: BSD-2-Clause
/* At SIGUSR1, forks a child and prints its PID; both call a traced function until the next SIGUSR1. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))

static volatile sig_atomic_t signals;

TRACED static long leaf(long n)
{
	__asm__ volatile("");
	return n + 1;
}

UNTRACED static void on_signal(int number)
{
	(void)number;
	signals++;
}

UNTRACED static void work_until(int wanted)
{
	for (long n = 0; signals < wanted; n++) {
		if (leaf(n) != n + 1)
			abort();
		usleep(100);
	}
}

UNTRACED int main(void)
{
	int status;
	pid_t child;

	signal(SIGUSR1, on_signal);
	puts("ready");
	fflush(stdout);
	work_until(1);
	child = fork();
	if (!child)
		work_until(1 << 30);
	printf("%d\n", child);
	fflush(stdout);
	work_until(2);
	kill(child, SIGKILL);
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1;
}
