// SPDX-License-Identifier: BSD-2-Clause
/* Calls that are much shorter or much longer than a millisecond. */
#include <unistd.h>

#include "go.h"

static long calls_of_short_leaf, calls_of_long_leaf, calls_of_quick, calls_of_slow, calls_of_outer, calls_of_last;
static volatile long sink;

TRACED static void short_leaf(void)
{
	COUNT(short_leaf);
	sink++;
}

TRACED static void long_leaf(void)
{
	COUNT(long_leaf);
	usleep(4000);
	sink--;
}

/* Short itself when its short callees are discarded. */
TRACED static void quick(void)
{
	COUNT(quick);
	for (int i = 0; i < 3; i++)
		short_leaf();
	sink--;
}

/* Long itself, with short callees that are discarded. */
TRACED static void slow(void)
{
	COUNT(slow);
	short_leaf();
	usleep(4000);
	quick();
	sink++;
}

TRACED static void last(void)
{
	COUNT(last);
	sink--;
	short_leaf();
}

TRACED static void outer(void)
{
	COUNT(outer);
	last();
	long_leaf();
	short_leaf();
	slow();
	sink++;
}

UNTRACED int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	for (int i = 0; i < 20; i++) {
		outer();
		quick();
		long_leaf();
	}
	PRINT_COUNT(short_leaf);
	PRINT_COUNT(long_leaf);
	PRINT_COUNT(quick);
	PRINT_COUNT(slow);
	PRINT_COUNT(outer);
	PRINT_COUNT(last);
	return 0;
}
