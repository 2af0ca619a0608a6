# SPDX-License-Identifier: BSD-2-Clause
"""
Several workers (pytest -n), and tests that need the machine for themselves. Those marked `alone` come when the others that
record have ended, all in one worker. Tests that need a CPU and nothing else of the machine go on in the other workers
beside those that only disturb recordings (kernel=True). What measures comes last.
"""
import contextlib
import fcntl

import pytest

import project

# Of the tests that record, and of those that do not.
LOCK, QUIET_LOCK = (project.OUTPUT / "tests" / name for name in ("alone.lock", "alone-quiet.lock"))
QUIET = ("cli", "format", "fuzz")


def is_worker(config):
    return hasattr(config, "workerinput")


def group_of(item):
    """Tests that share what is made once, in one worker."""
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
    The key by which tests are sorted. First those that one worker runs together, the longest chains. Then live tests,
    which mostly wait for the kernel, evenly mixed with unit tests, which need a CPU. Then those that run alone, while
    the other workers run the quiet ones.
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


# The lock is taken around all phases of a test: no time limit runs while it is waited for.
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
