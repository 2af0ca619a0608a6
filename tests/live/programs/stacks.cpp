/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks that are hard to walk without frame pointers: stacks WHAT SECONDS. WHAT: chain, of 30 functions through libc's
 * qsort; recursion, 900 deep; exceptions, in flight; signal, in a handler; altstack, in one on a stack of its own;
 * read, in the kernel; vdso; threads, that go deep and come back.
 */
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile unsigned long sink;

NOINLINE static void spin(int count)
{
	for (int i = 0; i < count; i++)
		sink += i;
}

static int compare(const void *a, const void *b)
{
	spin(50);
	return *(const int *)a - *(const int *)b;
}

NOINLINE static int sort(int seed)
{
	int numbers[100];

	for (int i = 0; i < 100; i++)
		numbers[i] = (i * 7919 + seed) % 1000;
	qsort(numbers, 100, sizeof(*numbers), compare);
	return numbers[5];
}

/* What is done with the result behind the call keeps it from being a jump. */
template <int depth> NOINLINE int link(int seed)
{
	return link<depth - 1>(seed + 1) + (int)sink % 2;
}

template <> NOINLINE int link<0>(int seed)
{
	return sort(seed) + (int)sink % 2;
}

NOINLINE static int recurse(int depth)
{
	if (!depth) {
		spin(100000);
		return 1;
	}
	return recurse(depth - 1) + (int)sink % 2;
}

NOINLINE static void throw_from(int depth)
{
	std::string owned(20, 'x'); /* to be destroyed on the way */

	if (!depth)
		throw std::runtime_error(owned);
	throw_from(depth - 1);
	sink += owned.size();
}

NOINLINE static void catch_one()
{
	try {
		throw_from(30);
	} catch (const std::exception &error) {
		sink += strlen(error.what());
	}
}

static void on_signal(int)
{
	spin(200000);
	sink++; /* so that the call is none that jumps */
}

NOINLINE static int raise_from(int depth)
{
	if (!depth)
		return raise(SIGUSR1);
	return raise_from(depth - 1) + (int)sink % 2;
}

static void take_signals(int flags)
{
	static char stack[65536];
	stack_t alternate = {};
	struct sigaction action = {};

	alternate.ss_sp = stack;
	alternate.ss_size = sizeof(stack);
	sigaltstack(&alternate, nullptr);
	action.sa_handler = on_signal;
	action.sa_flags = flags;
	sigaction(SIGUSR1, &action, nullptr);
}

NOINLINE static long read_zeros(int fd)
{
	static char buffer[65536];

	return read(fd, buffer, sizeof(buffer)) + (long)sink % 2;
}

NOINLINE static void ask_time()
{
	struct timespec now;

	for (int i = 0; i < 1000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += now.tv_nsec;
	}
}

NOINLINE static int wander(int depth)
{
	volatile char pad[100];

	pad[0] = depth;
	if (!depth) {
		spin(20000);
		return 1;
	}
	return wander(depth - 1) + pad[0];
}

static void in_threads(double seconds)
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([=] {
			struct timespec now;
			unsigned int seed = i;

			do {
				wander(rand_r(&seed) % 200);
				clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
			} while (now.tv_sec + now.tv_nsec / 1e9 < seconds / 4);
		});
	for (std::thread &thread : threads)
		thread.join();
}

int main(int argc, char **argv)
{
	const std::string what = argc == 3 ? argv[1] : "";
	const double seconds = argc == 3 ? atof(argv[2]) : 0;
	const int zeros = open("/dev/zero", O_RDONLY);
	const std::map<std::string, std::function<void()>> work = {
		{ "chain", [] { sink += link<30>(1); } },
		{ "recursion", [] { sink += recurse(900); } },
		{ "exceptions", catch_one },
		{ "signal", [] { sink += raise_from(10); } },
		{ "altstack", [] { sink += raise_from(10); } },
		{ "read", [=] { sink += read_zeros(zeros); } },
		{ "vdso", ask_time },
	};

	if (what == "threads") {
		in_threads(seconds);
		return 0;
	}
	if (!work.count(what))
		return 2;
	take_signals(what == "altstack" ? SA_ONSTACK : 0);
	/* Where system calls are slow, a look at the clock takes longer than a round of work. */
	while (clock() / (double)CLOCKS_PER_SEC < seconds)
		for (int i = 0; i < 20; i++)
			work.at(what)();
	return 0;
}
