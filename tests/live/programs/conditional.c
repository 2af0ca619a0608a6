// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tail calls after a condition. clang before 19 puts the exit sled before the conditional jump, where it runs even if
 * the function is not left; so the program counts its calls itself. Arguments: wait or run, and the number of rounds
 * (1).
 */
#include <stdlib.h>

#include "go.h"

static long calls_of_target, calls_of_equal, calls_of_less, calls_of_below, calls_of_negative, calls_of_zero_bit;

TRACED static void target(void)
{
	COUNT(target);
}

/* Contains only the test and the call, so that the call may become a conditional jump. */
#define CONDITIONAL(name, condition)                                                                                   \
	TRACED static void name(long a, long b)                                                                        \
	{                                                                                                              \
		COUNT(name);                                                                                           \
		if (condition)                                                                                         \
			target();                                                                                      \
	}

CONDITIONAL(equal, a == b)
CONDITIONAL(less, a < b)
CONDITIONAL(below, (unsigned long)a > (unsigned long)b)
CONDITIONAL(negative, a + b < 0)
CONDITIONAL(zero_bit, !(a & 4))

UNTRACED int main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[2]) : 1;

	wait_for_go(argc, argv);
	for (long i = 0; i < 120 * rounds; i++) {
		long a = i / 6 % 20 - 10, b = i % 6 - 3;

		equal(a, b);
		less(a, b);
		below(a, b);
		negative(a, b);
		zero_bit(a, b);
	}
	PRINT_COUNT(target);
	PRINT_COUNT(equal);
	PRINT_COUNT(less);
	PRINT_COUNT(below);
	PRINT_COUNT(negative);
	PRINT_COUNT(zero_bit);
	return 0;
}
