# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the live tests."""
import itertools

import pytest

import house
import recording


@pytest.fixture
def record(xprof, tmp_path):
    """Starts recordings that end with the test: record("-p", pid) -> recording.Session."""
    sessions = []
    numbers = itertools.count(1)

    def start_one(*args):
        session = recording.Session(xprof, tmp_path / f"out{next(numbers)}", args)
        sessions.append(session)
        return session

    yield start_one
    for session in sessions:
        if session.process.poll() is None:
            session.process.terminate()
            try:
                session.process.wait(10)
            finally:
                session.process.kill()
        session.process.communicate()


@pytest.fixture
def waiting(start):
    """Starts a test program that waits for SIGUSR1 before it works: waiting(path) -> Popen."""

    def start_one(path, *args):
        process = start([path, "wait", *args])
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    return start_one


@pytest.fixture(params=[f"clang-{v}" for v in house.clang_versions()] or [None])
def clang(request):
    """Each installed clang in turn."""
    if request.param is None:
        pytest.skip("no clang with an llvm-xray of its version here")
    return request.param
