# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the live tests."""
import itertools
import os
import subprocess

import pytest

import project
import recording
import targets
from exported import made  # noqa: F401 (a fixture)


@pytest.fixture
def record(xprof, tmp_path):
    """
    Starts recordings that end with the test: record("-p", pid) -> recording.Session. program: run this instead of
    xprof.
    """
    sessions = []
    numbers = itertools.count(1)

    def start_one(*args, directory=None, program=None):
        session = recording.Session(program or xprof, directory or tmp_path / f"out{next(numbers)}", args)
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


@pytest.fixture(params=recording.CLANGS)
def clang(request):
    """Each installed clang in turn."""
    if request.param is None:
        pytest.skip("no clang with an llvm-xray of its version here")
    return request.param


def yielding():
    """
    Lowers the priority of targets that would otherwise use one or two CPUs while another test waits for the kernel to
    attach probes. Not for load.c, whose calls per second are measured, nor for churn.c, whose progress other tests may
    wait for.
    """
    os.nice(10)


@pytest.fixture
def busy(program, start, tmp_path):
    """Starts live/programs/victim.c: busy(threads=2, pause_us=0) -> targets.Busy. Returns when the program works."""
    numbers = itertools.count(1)

    def start_one(threads=2, pause_us=0, path=None, *args):
        path = path or program("live/programs/victim.c", "-O2", project.no_runtime())
        progress = tmp_path / f"progress{next(numbers)}"
        process = start([path, threads, pause_us, progress, *args], preexec_fn=yielding)
        target = targets.Busy(process, path, progress)
        recording.wait_until(progress.exists, "the target does not start")
        target.assert_works()
        return target

    return start_one


@pytest.fixture
def load(program, start, tmp_path):
    """Starts live/programs/load.c: load(threads=2, hot_calls=10) -> targets.Load. Returns when the program works."""
    numbers = itertools.count(1)

    def start_one(threads=2, hot_calls=10, rounds=0, wait=False):
        path = program("live/programs/load.c", "-O2", project.no_runtime())
        progress = tmp_path / f"load{next(numbers)}"
        process = start([path, "wait" if wait else "run", threads, rounds, hot_calls, progress])
        if wait:
            assert process.stdout.readline() == "ready\n", process.communicate()
        recording.wait_until(lambda: progress.exists() and progress.stat().st_size, "the target does not start")
        target = targets.Load(process, path, progress)
        if not wait:
            target.assert_works()
        return target

    return start_one


@pytest.fixture
def wakes(program, start):
    """
    Starts live/programs/wakes.c: wakes() -> Popen. It has a higher priority than all processes except xprof, because
    other processes would get a CPU at each wake-up.
    """

    def start_one():
        path = program("live/programs/wakes.c", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", instrument=False)
        process = start([path], stdin=subprocess.PIPE, preexec_fn=lambda: os.setpriority(os.PRIO_PROCESS, 0, -10))
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    return start_one


@pytest.fixture
def churn(program, start, tmp_path):
    """Starts live/programs/churn.c: churn("fork") -> targets.Churn. Returns when the program works."""

    def start_one(what):
        path = program("live/programs/churn.c", "-O2", project.no_runtime(), "-ldl")
        library = program("live/programs/churn.c", "-O2", project.no_runtime(), "-fPIC", "-shared", "-DLIBRARY")
        progress = tmp_path / f"generations-{what}"
        target = targets.Churn(start([path, what, progress, library]), path, progress)
        target.assert_works()
        return target

    return start_one


@pytest.fixture
def tmpfs(tmp_path):
    """Mounts small file systems: tmpfs("size=1m") -> path."""
    mounted = []

    def mount(options):
        path = tmp_path / f"disk{len(mounted)}"
        path.mkdir()
        made = project.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path])
        if made.returncode:
            pytest.skip(f"cannot mount a tmpfs: {made.stderr}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        project.run(["umount", "--lazy", path])
