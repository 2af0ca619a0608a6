# SPDX-License-Identifier: BSD-2-Clause
"""A recording shared by the tests of exports, and the output of `xprof report` for it."""
import collections
import re
import shutil

import pytest

import project
import reported

SOURCE = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

namespace shop {
template <typename T> struct Order {
	__attribute__((noinline)) T price(T rounds) { volatile T sum = 0; while (rounds--) sum = sum + rounds; return sum; }
};
}

static inline __attribute__((always_inline)) long quick(long rounds)
{
	return shop::Order<long>().price(rounds);
}

__attribute__((noinline)) long random_numbers(long rounds)
{
	long sum = 0;
	while (rounds--)
		sum += rand();
	return sum;
}

static long until(double seconds, long (*work)(long), long rounds)
{
	struct timespec now;
	long sum = 0;
	do {
		sum += work(rounds);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
	return sum;
}

__attribute__((noinline)) static long priced(long rounds)
{
	return quick(rounds) + 1;
}

static void *helper(void *)
{
	prctl(PR_SET_NAME, "the helper");
	return (void *)until(0.4, random_numbers, 40000);
}

int main()
{
	pthread_t thread;
	pthread_create(&thread, nullptr, helper, nullptr);
	until(0.8, priced, 200000);
	return pthread_join(thread, nullptr);
}
"""
NAME = "the orders"
PRICE = "shop::Order::price"


class Made:
    """A recording and the program that was recorded."""

    def __init__(self, xprof, directory, program):
        self.xprof, self.directory, self.program = xprof, directory, program
        shown = xprof("report", "--limit", "max", directory)
        assert shown.returncode == 0 and not shown.stderr, shown
        self.report = shown.stdout
        self.samples, self.calls = (
            int(found[1]) if (found := re.search(rf"(\d+) {what}", self.report)) else 0 for what in ("samples,", "calls")
        )
        self.rows = collections.defaultdict(lambda: [0, 0, 0])
        # Flat, cum and calls of each function name. Overloads share a name.
        for row in reported.rows(self.report):
            for i, column in enumerate(("Flat", "Cum", "Calls")):
                self.rows[row["Function"]][i] += int(row.get(column) or 0)

    def callers(self):
        """
        Returns {calling function: its samples}. Includes functions of the C library only if the library has symbols.
        """
        names = ["main", "priced", "random_numbers", *({"__libc_start_call_main"} & self.rows.keys())]
        return {name: self.rows[name][1] for name in names}

    def export(self, *args, directory=None, status=0):
        done = self.xprof("export", *args, directory or self.directory)
        assert done.returncode == status, done.stderr
        return done


@pytest.fixture(scope="session")
def made(xprof, program, tmp_path_factory):
    built = program.text("orders", SOURCE, "-O1", "-g", project.no_runtime(), suffix=".cpp")
    path = tmp_path_factory.mktemp("export") / NAME
    shutil.copy(built, path)
    directory = path.with_name("recording")
    done = xprof("record", "-F", "997", "-o", directory, "--", path)
    assert done.returncode == 0, done.stderr
    return Made(xprof, directory, path)


def folded(text):
    """Returns {stack: value}, after checking that each stack occurs once."""
    assert len({line.rsplit(" ", 1)[0] for line in text.splitlines()}) == len(text.splitlines())
    return {tuple(line.rsplit(" ", 1)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in text.splitlines()}
