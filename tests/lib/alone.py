# SPDX-License-Identifier: BSD-2-Clause
"""
Distributes tests among the workers of pytest -n. Tests marked `alone` run after the other tests that record, all in one
worker. While a test marked alone(kernel=True) runs, other workers continue with tests that only use a CPU. Tests that
measure run last.
"""
import contextlib
import fcntl

import pytest

import project

# # The first lock is for tests that record, the second for tests that do not.
LOCK, QUIET_LOCK = (project.OUTPUT / "tests" / name for name in ("alone.lock", "alone-quiet.lock"))
QUIET = ("cli", "format", "fuzz")


def is_worker(config):
    return hasattr(config, "workerinput")


def group_of(item):
    """Returns the group of tests that share an expensive fixture, and so run in one worker, or None."""
    if item.get_closest_marker("alone"):
        return "alone"
    together = item.get_closest_marker("together")
    return together.args[0] if together else getattr(item, "worker_group", None)


def is_quiet(item):
    return item.path.parent.name in QUIET


def measures(item):
    alone = item.get_closest_marker("alone")
    return bool(alone) and not alone.kwargs.get("kernel", False)


def order(items):
    """
    Returns the sort key of tests. Groups that one worker runs come first, longest group first. Then live tests, which
    mostly wait for the kernel, alternate with unit tests, which use a CPU. Tests that run alone come last, while the
    other workers run the quiet tests.
    """
    parts = {True: [], False: []}
    for item in items:
        parts[item.path.parent.name == "live"].append(item)
    places = {item: place / len(part) for part in parts.values() for place, item in enumerate(part)}

    def key(item):
        together = item.get_closest_marker("together")
        alone = bool(item.get_closest_marker("alone"))
        return is_quiet(item), alone, measures(item), not together, places[item]

    return key


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if not is_worker(config):
        return
    items.sort(key=order(items))
    for item in items:
        group = group_of(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


@contextlib.contextmanager
def lock(path, how):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, how)
        yield


# The lock covers all phases of a test: no time limit runs while a worker waits for the lock.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    if not is_worker(item.config):
        yield
        return
    with contextlib.ExitStack() as held:
        if not is_quiet(item):
            held.enter_context(lock(LOCK, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH))
        if is_quiet(item) or measures(item):
            held.enter_context(lock(QUIET_LOCK, fcntl.LOCK_EX if measures(item) else fcntl.LOCK_SH))
        yield
