// SPDX-License-Identifier: BSD-2-Clause
// An instrumented library of shared.cpp, linked or loaded; PREFIX makes its names.
#include <stdio.h>

#include "noticed.h"

#define TRACED __attribute__((noinline))

#define PASTE(a, b) a##_##b
#define NAME_OF(prefix, name) PASTE(prefix, name)
#define NAME(name) NAME_OF(PREFIX, name)
#define TEXT(a) #a
#define TEXT_OF(a) TEXT(a)

namespace NAME(space)
{

	static long inner_calls, outer_calls;

	TRACED void inner(int n)
	{
		__atomic_fetch_add(&inner_calls, 1, __ATOMIC_RELAXED);
		if (n < 0)
			throw n;
	}

	TRACED long outer(int n)
	{
		__atomic_fetch_add(&outer_calls, 1, __ATOMIC_RELAXED);
		inner(n);
		long sum = n < 2 ? n : outer(n - 1) + outer(n - 2);

		asm volatile("" : "+r"(sum)); // or clang makes a loop of the second call
		return sum;
	}

}

extern "C" TRACED long NAME(entry)(int n)
{
	return NAME(space)::outer(n) + 1;
}

extern "C" __attribute__((xray_never_instrument)) void NAME(wait)(int limit_ms)
{
	wait_until_noticed(limit_ms);
}

extern "C" __attribute__((xray_never_instrument)) void NAME(print)(void)
{
	printf("calls %s_space::inner(int) %ld\n", TEXT_OF(PREFIX), NAME(space)::inner_calls);
	printf("calls %s_space::outer(int) %ld\n", TEXT_OF(PREFIX), NAME(space)::outer_calls);
}
