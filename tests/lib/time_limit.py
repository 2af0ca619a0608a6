# SPDX-License-Identifier: BSD-2-Clause
"""A time limit for each phase of each test, so that a test that hangs fails instead of blocking the whole run."""
import contextlib
import signal
import threading

import pytest

LIMIT_S = 120


class TimeLimit(Exception):
    pass


@contextlib.contextmanager
def alarm(item):
    # A worker of pytest-xdist whose main thread starts late runs its tests in another one, which gets no signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    marker = item.get_closest_marker("time_limit")
    limit_s = marker.args[0] if marker else LIMIT_S

    def on_alarm(signum, frame):
        raise TimeLimit(f"the test took longer than {limit_s} s")

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
