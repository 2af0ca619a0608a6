/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For LLVM's lli, which compiles it in memory: runs for this many seconds of CPU time in a chain of functions that do
 * not use rbp as frame pointer, with libc's qsort() in between.
 */
#include <stdlib.h>
#include <time.h>

volatile unsigned int sum;

/* Keeps more values in use during the loop than there are other registers. */
__attribute__((noinline)) unsigned int leaf(unsigned int n)
{
	unsigned int a = sum, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7, i = a + 8;
	unsigned int j = a + 9, k = a + 10, l = a + 11;

	for (; n; n--) {
		a = a * 31 + l, b = b * 33 + a, c = c * 35 + b, d = d * 37 + c, e = e * 39 + d, f = f * 41 + e;
		g = g * 43 + f, h = h * 45 + g, i = i * 47 + h, j = j * 49 + i, k = k * 51 + j, l = l * 53 + k;
	}
	return a + b + c + d + e + f + g + h + i + j + k + l;
}

static int compare(const void *a, const void *b)
{
	sum += leaf(20000);
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) unsigned int link_2(unsigned int n)
{
	unsigned int a = sum, b = sum, c = sum, d = sum, e = sum, f = sum;
	int numbers[2] = { 2, 1 };

	qsort(numbers, 2, sizeof(*numbers), compare);
	return a + b * 3 + c * 5 + d * 7 + e * 9 + f * 11 + n + leaf(n);
}

__attribute__((noinline)) unsigned int link_1(unsigned int n)
{
	unsigned int a = sum, b = sum, c = sum, d = sum, e = sum, f = sum;
	unsigned int result = link_2(n);

	return a + b * 3 + c * 5 + d * 7 + e * 9 + f * 11 + result;
}

int main(int argc, char **argv)
{
	clock_t end = clock() + atoi(argv[1]) * CLOCKS_PER_SEC;

	while (argc == 2 && clock() < end)
		sum += link_1(20000);
	return 0;
}
