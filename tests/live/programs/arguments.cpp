// SPDX-License-Identifier: BSD-2-Clause
// Functions whose arguments are known.
#include <cstdint>

#include "go.h"

static volatile long sink;

extern "C" {

TRACED void six(long a, long b, long c, long d, long e, long f)
{
	sink = a + b + c + d + e + f;
}

__attribute__((noinline, xray_always_instrument, xray_log_args(1))) void logged(uint64_t value)
{
	sink = static_cast<long>(value);
}

TRACED void narrow(unsigned char a, int b, const char *c)
{
	sink = a + b + c[0];
}
}

struct Counter {
	long value;
	TRACED void add(long n)
	{
		value += n;
	}
};

UNTRACED int main(int argc, char **argv)
{
	static Counter counter;

	wait_for_go(argc, argv);
	six(1, 2, 3, 4, 5, 6);
	six(-1, INT64_MIN, INT64_MAX, 0, 0x123456789abcdef0, 1L << 63);
	logged(42);
	logged(UINT64_MAX);
	narrow(200, 7, argv[0]);
	counter.add(5);
	printf("this %lu\n", reinterpret_cast<unsigned long>(&counter));
	return 0;
}
