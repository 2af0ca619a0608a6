/* SPDX-License-Identifier: BSD-2-Clause */
/* For LLVM's lli, which compiles it in memory: runs for this many seconds of CPU time, all in hot_loop(). */
#include <stdlib.h>
#include <time.h>

volatile unsigned int sum;

__attribute__((noinline)) void hot_loop(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum = sum * 31 + i;
}

int main(int argc, char **argv)
{
	clock_t end = clock() + (argc > 1 ? atoi(argv[1]) : 60) * CLOCKS_PER_SEC;

	while (clock() < end)
		hot_loop(1000000);
	return 0;
}
