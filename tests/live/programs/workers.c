// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server that forks its workers: workers wait FILE. At SIGUSR1 it forks two, and at each SIGHUP one more. A round of a
 * worker is about 1 ms of work, one call of warm() and 5000 of hot(), unless the file says otherwise: recorded in memory,
 * these take a fifth of the time. In the file are rounds, calls of hot() and of warm(), whether rounds have no calls of
 * hot(), and whether workers are to end, as 64-bit numbers. The server ends behind the last worker.
 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"

enum { ROUNDS, HOT, WARM, QUIET, END, NUMBERS };

static volatile uint64_t *numbers;

TRACED static void hot(void)
{
	__asm__ volatile("");
}

TRACED static void warm(void)
{
	__asm__ volatile("nop");
}

UNTRACED static void count(int which, uint64_t by)
{
	__atomic_fetch_add(&numbers[which], by, __ATOMIC_RELAXED);
}

UNTRACED static void start_worker(int number)
{
	(void)number;
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!numbers[END]) {
		uint64_t calls = numbers[QUIET] ? 0 : 5000;

		for (volatile long i = 0; i < 500000; i++)
			;
		warm();
		for (uint64_t i = 0; i < calls; i++)
			hot();
		count(HOT, calls);
		count(WARM, 1);
		count(ROUNDS, 1);
	}
	_exit(0);
}

UNTRACED int main(int argc, char **argv)
{
	struct sigaction more = { .sa_handler = start_worker, .sa_flags = SA_RESTART };
	int fd = open(argv[2], O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, NUMBERS * sizeof(*numbers)))
		return 1;
	numbers = mmap(NULL, NUMBERS * sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	sigaction(SIGHUP, &more, NULL);
	wait_for_go(argc, argv);
	start_worker(0);
	start_worker(0);
	while (wait(NULL) > 0)
		;
	return 0;
}
