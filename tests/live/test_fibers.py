# SPDX-License-Identifier: BSD-2-Clause
"""Checks calls on other stacks than the thread's: coroutines and fibers are in calls while others run."""
import collections

import pytest

import recording
from recording import BASIC_KINDS, CLANGS, ENTER, EXIT, TAIL, in_turn

pytestmark = pytest.mark.uprobes
FIRST_STACK = 1 << 22


def assert_counted(recorded):
    counted = recording.printed_calls(recorded.output)
    found = recorded.ok().log().calls()
    assert counted and {name: found[name, ENTER] for name in counted} == counted
    assert {name: found[name, EXIT] + found[name, TAIL] for name in counted} == counted
    assert recorded.totals["synthesized_exits"] == recorded.totals["filtered"]["unmatched_exit"] == 0
    assert recorded.totals["seen"] == recorded.totals["written"]


def function_records(recorded):
    return [r for r in recorded.log().records() if r.kind in BASIC_KINDS]


def built(program, switch, memory, clang=None):
    return program("live/programs/fibers.c", "-O2", f"-DSWITCH={switch}", f"-DMEMORY={memory}", "-pthread", clang=clang)


@in_turn("switch, memory, mode, clang", ["ucontext", "own"], ["heap", "guard", "mapped", "heap", "mapped", "guard"],
         ["memory", "memory", "patch", "probe"], CLANGS)
def test_fibers(program, record, switch, memory, mode, clang):
    path = built(program, switch, memory, clang)
    recorded = record("--call-mode", mode, "--", path, "20", "30" if mode != "probe" else "5").finish()
    assert_counted(recorded)
    # Each stack is well nested: llvm-xray accepts it. The manifest names its thread.
    assert {r.name for r in function_records(recorded) if r.thread < FIRST_STACK} == {"resume"}
    threads = recorded.manifest["processes"][0]["threads"]
    assert {t["stack_of"] for t in threads if t["tid"] >= FIRST_STACK} <= {t["tid"] for t in threads if t["tid"] < FIRST_STACK}
    assert recorded.manifest["processes"][0]["thread_count"] == 2


@in_turn("switch, memory", ["own", "ucontext"], ["heap", "mapped", "guard"])
def test_recording_that_begins_in_fibers(program, record, start, switch, memory):
    """Each of 60 fibers was in at most 9 calls when the recording started: only exits of these calls have no entry."""
    process = start([built(program, switch, memory), "30", "200000000"])
    recorded = record("-p", process.pid, "-d", "0.3").finish().ok()
    assert recorded.totals["filtered"]["unmatched_exit"] <= 2 * 30 * 9
    assert recorded.totals["synthesized_exits"] <= 2 * 30 * 9
    assert recorded.totals["written"] > 10000


def test_callers_of_large_frames(program, record):
    """If a mapping holds one stack, a function with large variables is on this stack: its calls have a caller."""
    recorded = record("--", built(program, "own", "guard"), "3", "9").finish()
    callers = collections.defaultdict(set)
    stacks = collections.defaultdict(list)
    for r in function_records(recorded.ok()):
        stack = stacks[r.thread]
        if r.kind == ENTER:
            callers[r.name].add(stack[-1] if stack else None)
            stack.append(r.name)
        else:
            assert stack.pop() == r.name
    assert callers["outer"] == {None} and callers["large"] == {"step"} and callers["inner"] == {"step", "large", "inner"}


def test_ten_thousand_fibers(program, record):
    recorded = record("--", built(program, "own", "mapped"), "5000", "3").finish().ok()
    counted = recording.printed_calls(recorded.output)
    assert recorded.totals["written"] == recorded.totals["seen"] == 2 * sum(counted.values())
    assert recorded.totals["synthesized_exits"] == 0 and counted["outer"] == 10000


@in_turn("mode, clang", ["memory", "probe", "patch"], CLANGS)
def test_coroutines_without_stacks(program, record, mode, clang):
    flags = ["-std=c++20", "-O1"] + (["-fcoroutines-ts"] if clang == "clang-14" else [])
    path = program("live/programs/coroutines20.cpp", *flags, clang=clang)
    assert_counted(record("--call-mode", mode, "--", path).finish())
