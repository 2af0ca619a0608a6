# SPDX-License-Identifier: BSD-2-Clause
"""
Checks that the log has exactly the calls that were made, by comparison with XRay's own runtime, or with the program's
own counts.
"""
import collections
import signal

import pytest

import recording
from recording import CLANGS, ENTER, EXIT, MODES, TAIL, in_turn

pytestmark = pytest.mark.uprobes

PROGRAMS = {
    "calls": ("live/programs/calls.c", "-O2"),
    "calls-O1": ("live/programs/calls.c", "-O1"),
    "throws": ("live/programs/throws.cpp", "-O2"),
    "throws-O1": ("live/programs/throws.cpp", "-O1"),
    "jumps": ("live/programs/jumps.c", "-O2"),
}
LEAVES_FRAMES = ("throws", "throws-O1", "jumps")
# The last handler leaves its own stack by a jump: for xprof, its call remains open.
LEFT_OPEN = {"on_signal": 1}


def assert_truth(recorded, truth, leaves_frames):
    """
    Checks that every function was entered and left equally often in every thread, except for the exits that xprof
    reports as synthesized.
    """
    log = recorded.ok().log()
    records = log.records()
    added = log.synthesized(records)
    found = recording.calls(records)
    expected = recording.calls(truth)
    for name, exits in added.items():
        expected[name, EXIT] += exits
    assert found == expected
    assert bool(added) == leaves_frames, added
    assert sum(added.values()) == recorded.totals["synthesized_exits"]
    assert recorded.totals["seen"] == recorded.totals["written"] == len(truth)
    # Every entered function was left.
    for name in {name for name, _ in found}:
        is_open = found[name, ENTER] - found[name, EXIT] - found[name, TAIL]
        assert is_open in (0, LEFT_OPEN.get(name, 0)), name
    if not leaves_frames:
        assert recording.calls_by_thread(records) == recording.calls_by_thread(truth)


@pytest.fixture
def record(record, mode):
    return lambda *args, **options: record("--call-mode", mode, *args, **options)


@pytest.fixture
def built(program, clang):
    def build(name, *flags):
        return program(*PROGRAMS[name], *flags, clang=clang)

    return build


# test_running_process() tests the other pairs of a program and a mode.
@in_turn("name, mode, clang", ["calls", "calls-O1", "throws", "throws", "throws-O1", "jumps", "jumps"],
         ["memory", "patch", "probe", "patch", "memory", "memory", "probe"], CLANGS)
def test_command_from_its_first_instruction(built, record, tmp_path, name):
    path = built(name)
    truth = recording.runtime_records(path, tmp_path)
    assert_truth(record("--", path).finish(), truth, name in LEAVES_FRAMES)


@in_turn("name, mode, clang", ["calls", "throws", "jumps"], ["probe", "memory", "patch"], CLANGS)
def test_running_process(built, record, waiting, tmp_path, name):
    path = built(name)
    truth = recording.runtime_records(path, tmp_path)
    process = waiting(path)
    session = record("-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0, f"the traced program ended with status {process.returncode}"
    assert_truth(session.finish(), truth, name in LEAVES_FRAMES)


@in_turn("form, mode", ["command", "process"], MODES)
def test_single_uprobes(program, record, waiting, tmp_path, form):
    """One perf event per sled, as on kernels before 6.6."""
    path = program(*PROGRAMS["throws"])
    truth = recording.runtime_records(path, tmp_path)
    if form == "command":
        session = record("--uprobes=single", "--", path)
    else:
        process = waiting(path)
        session = record("--uprobes=single", "-p", process.pid).wait_attached()
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 0, f"the traced program ended with status {process.returncode}"
    recorded = session.finish()
    assert recorded.manifest["attach"]["method"] == "perf_uprobe"
    assert_truth(recorded, truth, True)


@in_turn("mode, clang", MODES, CLANGS)
def test_position_dependent_and_stripped(built, record, tmp_path):
    """Without a symbol table, functions have the same IDs, but no names."""
    named = built("calls", "-no-pie", "-fno-pie")
    path = built("calls", "-no-pie", "-fno-pie", "-s")
    truth = collections.Counter((r.id, r.kind) for r in recording.runtime_records(named, tmp_path))
    records = record("--", path).finish().ok().log().records()
    assert collections.Counter((r.id, r.kind) for r in records if r.kind in recording.FUNCTION_KINDS) == truth


@in_turn("mode, clang", MODES, CLANGS)
def test_indirect_branch_tracking(built, record, tmp_path):
    """endbr64 precedes the entry sleds."""
    path = built("calls", "-fcf-protection=full")
    assert_truth(record("--", path).finish(), recording.runtime_records(path, tmp_path), False)


@in_turn("mode, clang", [*MODES, "memory"], [CLANGS[0]] * 3 + [CLANGS[-1]])
def test_conditional_tail_exits(program, record, clang):
    """
    clang before 19 runs the exit sled of a conditional tail call even if the call is not made; XRay's runtime even
    changes the program's behaviour.
    """
    path = program("live/programs/conditional.c", "-Os", clang=clang)
    recorded = record("--", path).finish().ok()
    counted = recording.printed_calls(recorded.output)
    found = recorded.log().calls()
    assert {name: found[name, ENTER] for name in counted} == counted
    assert {name: found[name, EXIT] + found[name, TAIL] for name in counted} == counted
    tail_calls = sum(found[name, TAIL] for name in counted)
    assert tail_calls == counted["target"] and found["target", EXIT] == counted["target"]
    passed = sum(counted.values()) - counted["target"] - tail_calls
    assert recorded.totals["not_taken"] in (0, passed)
    assert clang != "clang-14" or recorded.totals["not_taken"] > 0, "no conditional sled was made: the test proves nothing"


def shared_program(program, clang, *flags):
    """Builds (program, library that it loads). Another library is linked."""
    libraries = [
        program("live/programs/shared_lib.cpp", "-O1", "-fPIC", "-shared", f"-DPREFIX={prefix}", clang=clang)
        for prefix in ("needed", "loaded")
    ]
    needed, loaded = libraries
    path = program("live/programs/shared.cpp", "-O1", needed, *flags, clang=clang)
    return path, loaded


@in_turn("form, mode, clang", ["command", "process", "single"], MODES[::-1], CLANGS)
def test_shared_objects(program, record, waiting, clang, form):
    """Linked and loaded libraries. XRay's runtime cannot record these before LLVM 20, so the program counts."""
    path, loaded = shared_program(program, clang)
    noticed_ms = 2000
    if form == "command":
        recorded = record("--", path, noticed_ms, loaded).finish()
        output = recorded.output
    else:
        process = waiting(path, noticed_ms, loaded)
        session = record("--uprobes", "single" if form == "single" else "multi", "-p", process.pid).wait_attached()
        process.send_signal(signal.SIGUSR1)
        output, _ = process.communicate(timeout=60)
        recorded = session.finish()
    check_shared(recorded, output)


def check_shared(recorded, output):
    counted = recording.printed_calls(output)
    assert len(counted) == 7, output
    log = recorded.ok().log()
    assert log.side, "no side ELF names the functions of shared objects"
    found = log.calls()
    assert {name: found[name, ENTER] for name in counted} == counted
    assert {name: found[name, EXIT] + found[name, TAIL] for name in counted} == counted
    assert {name for name, _ in found} == set(counted)
