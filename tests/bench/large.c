// SPDX-License-Identifier: BSD-2-Clause
/*
 * large CALLS CPU_MS: a program of 100 MB. It waits for a line, then makes that many calls of an instrumented function
 * evenly while its code runs for CPU_MS of CPU time. It exits at the end of the input.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

/* PARTS: P(0) P(1) and so on; each is large_part.cc. */
#define P(n) long part##n(long seed);
PARTS
#undef P
#define P(n) part##n,
static long (*const parts[])(long) = { PARTS };

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

__attribute__((noinline, xray_always_instrument)) static void traced(void)
{
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	uint64_t calls, all_ns, begin, used_ns = 0, made = 0;
	long sum = 0;

	if (argc != 3 || getchar() == EOF)
		return 1;
	calls = strtoull(argv[1], NULL, 10);
	all_ns = strtoull(argv[2], NULL, 10) * NS_PER_MS;
	begin = cpu_ns();
	for (unsigned int next = 0; used_ns < all_ns; next++) {
		sum += parts[next % (sizeof(parts) / sizeof(parts[0]))](sum);
		used_ns = cpu_ns() - begin;
		/* In 1/65536 of the whole: the product must not overflow. */
		for (uint64_t due = calls * ((used_ns << 16) / all_ns) >> 16; made < due && made < calls; made++)
			traced();
	}
	for (; made < calls; made++)
		traced();
	printf("%ld\n", sum);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
