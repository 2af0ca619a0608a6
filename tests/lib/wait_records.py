# SPDX-License-Identifier: BSD-2-Clause
"""Returns the waits of a recording with --off-cpu, from the output of the strict dumper."""
import collections
import re

Wait = collections.namedtuple("Wait", "pid tid state blocked runnable chance waker waker_name flags period")

DUMPED = re.compile(r"^\S+ +(\d+) +(\d+) .* SAMPLE ip \S+ period (\d+).*? (\w+) blocked (\d+) runnable (\d+) chance (\d+)/65536"
                    r"(?: syscall \d+)?(?: lock \S+)?(?: waker \d+/(\d+) \"(.*?)\")?((?: [a-z-]+)*)$", re.M)


def read(xprof, directory):
    for m in DUMPED.finditer(xprof.dump(directory / "perf.data").stdout):
        pid, tid, period, state, blocked, runnable, chance, waker, name, flags = m.groups()
        yield Wait(int(pid), int(tid), state, int(blocked), int(runnable), int(chance), waker and int(waker), name,
                   set(flags.split()), int(period))
