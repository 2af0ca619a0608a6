// SPDX-License-Identifier: BSD-2-Clause
/*
 * crowd HOW FILE: 13 000 functions. Each process calls 3 000 of them in turn at full speed, and 1 000 others
 * occasionally, 10 million calls per second. HOW is `run`: one process; or `fork`: two at a time, which live for 0.2 s.
 * Both end with SIGTERM. FILE contains the rounds of all processes, and their CPU time in ns, as 64-bit numbers.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))

/* Names are made of digits: crowd10000 to crowd22999. */
/* clang-format off */
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m, n) \
	TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4) \
	TEN(m, n##5) TEN(m, n##6) TEN(m, n##7) TEN(m, n##8) TEN(m, n##9)
#define THOUSAND(m, n) \
	HUNDRED(m, n##0) HUNDRED(m, n##1) HUNDRED(m, n##2) HUNDRED(m, n##3) HUNDRED(m, n##4) \
	HUNDRED(m, n##5) HUNDRED(m, n##6) HUNDRED(m, n##7) HUNDRED(m, n##8) HUNDRED(m, n##9)
#define ALL(m) \
	THOUSAND(m, 10) THOUSAND(m, 11) THOUSAND(m, 12) THOUSAND(m, 13) THOUSAND(m, 14) THOUSAND(m, 15) \
	THOUSAND(m, 16) THOUSAND(m, 17) THOUSAND(m, 18) THOUSAND(m, 19) THOUSAND(m, 20) THOUSAND(m, 21) \
	THOUSAND(m, 22)
/* clang-format on */

#define DEFINE(n)                                                                                                      \
	__attribute__((noinline, xray_always_instrument)) static int crowd##n(int x)                                   \
	{                                                                                                              \
		return x ^ n;                                                                                          \
	}
#define NAME(n) crowd##n,

ALL(DEFINE)

static int (*const functions[])(int) = { ALL(NAME) };

#define HOT 3000
#define ROUNDS_PER_OTHER 16
#define OTHERS 1000
#define TURNS 60 /* steps of work between two calls: 60 ns */

static uint64_t *counters;
static volatile sig_atomic_t ended;

UNTRACED static void end(int number)
{
	ended = number;
}

UNTRACED static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

UNTRACED static int round_of_calls(unsigned int round, int sum)
{
	for (unsigned int i = 0; i < HOT; i++) {
		for (volatile int turn = 0; turn < TURNS; turn++)
			;
		sum += functions[i](sum);
	}
	if (round % ROUNDS_PER_OTHER == 0)
		sum += functions[HOT + round / ROUNDS_PER_OTHER % OTHERS](sum);
	return sum;
}

UNTRACED static int run(uint64_t lives_ns)
{
	uint64_t begin = now_ns(CLOCK_MONOTONIC), before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	int sum = 0;

	for (unsigned int round = 0; !ended && now_ns(CLOCK_MONOTONIC) - begin < lives_ns; round++) {
		uint64_t now;

		sum = round_of_calls(round, sum);
		now = now_ns(CLOCK_PROCESS_CPUTIME_ID);
		__atomic_fetch_add(&counters[0], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&counters[1], now - before, __ATOMIC_RELAXED);
		before = now;
	}
	return sum == -1;
}

UNTRACED static void run_child(void)
{
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(run(200000000));
}

UNTRACED int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = end };
	int fd = argc == 3 ? open(argv[2], O_RDWR | O_CREAT, 0600) : -1;

	if (fd < 0 || ftruncate(fd, 2 * sizeof(*counters)))
		return 1;
	counters = mmap(NULL, 2 * sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	sigaction(SIGTERM, &act, NULL);
	if (strcmp(argv[1], "fork"))
		return run(UINT64_MAX);
	run_child();
	run_child();
	while (wait(NULL) > 0)
		if (!ended)
			run_child();
	return 0;
}
