# SPDX-License-Identifier: BSD-2-Clause
"""
Several workers (pytest -n), and tests that need the machine for themselves. Those marked `alone` come last, all in one
worker, and run when the others have nothing to do. Fuzzing, which needs a CPU and nothing else of the machine, goes on
beside those that only disturb others.
"""
import contextlib
import fcntl

import pytest

import project

# All tests but the fuzzing; the fuzzing.
LOCK, FUZZ_LOCK = (project.OUTPUT / "tests" / name for name in ("alone.lock", "alone-fuzz.lock"))


def is_worker(config):
    return hasattr(config, "workerinput")


def group_of(item):
    """Tests that share what is made once, in one worker."""
    if item.get_closest_marker("alone"):
        return "alone"
    together = item.get_closest_marker("together")
    return together.args[0] if together else getattr(item, "worker_group", None)


def is_fuzzing(item):
    return item.path.name == "test_fuzz.py"


def measures(item):
    alone = item.get_closest_marker("alone")
    return bool(alone) and not alone.kwargs.get("fuzzing", False)


def order(items):
    """
    The key by which tests are sorted. First those that one worker runs together, the longest chains. Then live tests,
    which mostly wait for the kernel, evenly mixed with the others, which need a CPU. Last those that run alone, while
    the other workers fuzz.
    """
    parts = {True: [], False: []}
    for item in items:
        parts[item.path.parent.name == "live"].append(item)
    places = {item: place / len(part) for part in parts.values() for place, item in enumerate(part)}

    def key(item):
        together = item.get_closest_marker("together")
        alone = bool(item.get_closest_marker("alone"))
        return is_fuzzing(item), alone, measures(item), not together, places[item]

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
        if not is_fuzzing(item):
            held.enter_context(lock(LOCK, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH))
        if is_fuzzing(item) or measures(item):
            held.enter_context(lock(FUZZ_LOCK, fcntl.LOCK_EX if measures(item) else fcntl.LOCK_SH))
        yield
