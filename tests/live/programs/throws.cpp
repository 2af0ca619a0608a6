// SPDX-License-Identifier: BSD-2-Clause
// Exceptions through several frames, with destructors that run on the way, rethrown and nested ones, in two threads.
#include <alloca.h>
#include <stdexcept>
#include <thread>

#include "go.h"

static volatile long sink;

namespace shop
{

struct Guard {
	int n;
	TRACED explicit Guard(int number) : n(number)
	{
		sink = sink + n;
	}
	TRACED ~Guard()
	{
		sink = sink - n;
	}
};

struct Error : std::runtime_error {
	using std::runtime_error::runtime_error;
};

TRACED void thrower(int n)
{
	sink = sink + 1;
	if (n % 3)
		throw Error("no");
	if (n % 2)
		throw n;
}

TRACED void through(int n, int depth)
{
	Guard guard(depth);

	if (depth)
		through(n, depth - 1);
	else
		thrower(n);
	sink = sink + 1;
}

// Frames of different sizes, so that calls stand at, between and beside the places of frames that a throw left.
TRACED void callee(int n)
{
	sink = sink + n;
}
TRACED void sized(int n)
{
	volatile char *room = static_cast<volatile char *>(alloca(16 + 8 * n));

	room[0] = 1;
	callee(n);
	sink = sink + room[0];
}
TRACED long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	thrower(static_cast<int>(a));
	return a + b + c + d + e + f + g + h + i + j;
}

TRACED void rethrower(int n)
{
	try {
		through(n, 3);
	} catch (const Error &) {
		callee(n);
		throw;
	}
}

TRACED void catcher(int n)
{
	try {
		rethrower(n);
	} catch (const Error &) {
		sized(n);
	} catch (int) {
		callee(n);
	}
	try {
		sink = sink + many(n, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	} catch (...) {
		try {
			through(n + 1, 1);
		} catch (...) {
			sized(n);
		}
		sized(2 * n);
	}
	// The frames left above are still there when these run.
	for (int i = 0; i < 8; i++)
		sized(i + n);
}

TRACED void work()
{
	auto rounds = [](int count) __attribute__((xray_never_instrument))
	{
		for (int n = 0; n < count; n++)
			catcher(n);
	};
	std::thread other(rounds, 20);

	rounds(40);
	other.join();
}

} // namespace shop

UNTRACED int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	shop::work();
	return 0;
}
