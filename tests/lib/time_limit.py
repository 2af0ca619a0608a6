# SPDX-License-Identifier: BSD-2-Clause
"""
A time limit for each phase of each test: a test that hangs fails instead of blocking the whole run. Time spent waiting
for a CPU does not count, up to twice the limit.
"""
import contextlib
import math
import pathlib
import signal
import threading
import time

import pytest

LIMIT_S = 120


class TimeLimit(Exception):
    pass


def stalled_s():
    """Returns how long runnable tasks have waited for a CPU since boot; 0 if the kernel does not report that."""
    with contextlib.suppress(OSError):
        return int(pathlib.Path("/proc/pressure/cpu").read_text().partition("total=")[2].split()[0]) / 1e6
    return 0


class Limit:
    def __init__(self, limit_s):
        self.limit_s = limit_s
        self.begin_s, self.stalled_s = time.monotonic(), stalled_s()

    def left_s(self):
        """Returns the remaining time; 0 or less: the limit is exceeded."""
        spared_s = min(stalled_s() - self.stalled_s, 2 * self.limit_s)
        return self.limit_s + spared_s - (time.monotonic() - self.begin_s)


@contextlib.contextmanager
def alarm(item):
    # A worker of pytest-xdist whose main thread starts late runs its tests in another thread, which gets no signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    marker = item.get_closest_marker("time_limit")
    limit_s = marker.args[0] if marker else LIMIT_S
    limit = Limit(limit_s)

    def on_alarm(signum, frame):
        left_s = limit.left_s()
        if left_s <= 0:
            raise TimeLimit(f"the test took longer than {limit_s} s")
        signal.alarm(math.ceil(left_s))

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    with alarm(item):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    with alarm(item):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    with alarm(item):
        yield
