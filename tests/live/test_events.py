# SPDX-License-Identifier: BSD-2-Clause
"""Checks custom and typed events byte for byte, and the arguments of calls."""
import collections
import os
import re
import signal
import subprocess

import pytest

import hand_made
import project
import recording
from recording import CLANGS, ENTER_ARGS, MODES, in_turn

pytestmark = pytest.mark.uprobes


@pytest.fixture
def record(record, mode):
    return lambda *args, **options: record("--call-mode", mode, *args, **options)


SIZES = (0, 1, 64, 65, 512, 513, 4095, 4096, 4097, 5000)
LIMIT = 4096
TYPES = range(0x1000, 0x1006)

CUSTOM = re.compile(rb"<Custom Event: (?:tsc = \d+, cpu = \d+|delta = \+\d+), size = (\d+), data = '")
TYPED = re.compile(rb"<Typed Event: delta = \+\d+, type = (\d+), size = (\d+), data = '")


def payload(size):
    """
    Returns the payload that the program writes. Longer payloads are cut at the limit; an empty payload is a zero byte
    in the log.
    """
    return bytes((31 * size + 7 * i) & 0xFF for i in range(min(size, LIMIT))) or b"\0"


def logged_events(llvm_xray, path):
    """Returns [(type or None, payload)] of the log, without the thread's name at its start."""
    text = subprocess.run([llvm_xray.path, "fdr-dump", path], stdout=subprocess.PIPE, timeout=60, check=True).stdout
    events = []
    padding = False
    for match in re.finditer(rb"^<(Custom|Typed|Thread|End)\b", text, re.M):
        if match[1] in (b"Thread", b"End"):
            padding = match[1] == b"End"  # records between two buffers
            continue
        custom = CUSTOM.match(text, match.start())
        typed = TYPED.match(text, match.start())
        found = custom or typed
        assert found, text[match.start() :][:100]
        size = int(found[1 if custom else 2])
        if not padding:
            events.append((None if custom else int(typed[1]), text[found.end() : found.end() + size]))
    return events[1:]


@pytest.fixture
def events_program(program, clang):
    """
    Builds a program with or without typed events. Does not link XRay's runtime; clang 14 crashes on events when it
    optimizes.
    """

    def build(*flags):
        return program(
            "live/programs/events.c",
            "-O0" if clang == "clang-14" else "-O2",
            project.no_runtime(clang),
            "-Wl,--defsym=__xray_CustomEvent=0,--defsym=__xray_TypedEvent=0",
            *flags,
            clang=clang,
        )

    return build


def read_by_all(path):
    """Returns the events of a log, after checking that every installed llvm-xray reads the same events."""
    found = [logged_events(project.LlvmXray(version), path) for version in project.LLVM_VERSIONS]
    assert all(events == found[0] for events in found)
    return found[0]


def expected_custom(sizes):
    return [(None, payload(size)) for size in sizes for _ in range(5)]


def expected_typed(sizes):
    return [e for size in sizes for e in [(None, payload(size))] * 5 + [(kind, payload(size)) for kind in TYPES]]


@in_turn("mode, clang", MODES, CLANGS)
def test_custom_events(events_program, record):
    recorded = record("--", events_program(), *SIZES).finish().ok()
    assert recorded.log().path.read_bytes()[:2] == b"\1\0", "not version 1"
    assert read_by_all(recorded.log().path) == expected_custom(SIZES)
    assert recorded.totals["truncated"] == 5 * sum(size > LIMIT for size in SIZES)
    assert recorded.totals["faulted"] == 0


def lines_of(program, functions):
    """Returns the source lines of the events, {"ev": "e.c:5:0"}, as llvm-xray would print them if it could."""
    addresses = hand_made.symbols(program)
    done = project.run(["llvm-symbolizer", f"--obj={program}", "--no-inlines", *(hex(addresses[name]) for name in functions)])
    places = [lines.splitlines()[1] for lines in done.stdout.strip().split("\n\n")]
    return {name: os.path.basename(place) for name, place in zip(functions, places, strict=True)}


@in_turn("mode, clang", MODES, CLANGS[::-1])
def test_typed_events(events_program, record):
    """Typed events require version 5, which xprof reports."""
    program = events_program("-DTYPED_EVENTS", "-g")
    recorded = record("--", program, *SIZES).finish().ok()
    log = recorded.log()
    assert log.path.read_bytes()[:2] == b"\5\0", "not version 5"
    assert "version 5: it has typed events" in recorded.messages, recorded.messages
    assert any("version 5" in notice for notice in recorded.manifest["notices"])
    assert read_by_all(log.path) == expected_typed(SIZES)
    assert recorded.totals["truncated"] == 11 * sum(size > LIMIT for size in SIZES)
    assert log.side, "llvm-xray cannot read the program's own map, so a side ELF is needed"
    # Its source lines are those of the program.
    for version in project.LLVM_VERSIONS:
        account = project.LlvmXray(version)("account", log.path, f"-instr_map={log.side}").stdout
        told = {name: place for place, name in re.findall(r" (\S+:\d+:0): (\w+)$", account, re.M)}
        assert {"typed_tsp", "custom_called"} < set(told)
        assert told == lines_of(program, list(told))


@in_turn("mode, clang", ["memory"], CLANGS)
def test_version_5_on_request(events_program, record):
    recorded = record("--fdr-version=5", "--", events_program(), *SIZES).finish().ok()
    assert recorded.log().path.read_bytes()[:2] == b"\5\0", "not version 5"
    assert read_by_all(recorded.log().path) == expected_custom(SIZES)


@in_turn("way, mode, clang", ["single", "multi"], MODES, CLANGS)
def test_events_of_a_running_process(events_program, record, waiting, way):
    llvm_xray = project.LlvmXray(project.LLVM_VERSIONS[-1])
    process = waiting(events_program("-DTYPED_EVENTS"), 1, 100)
    session = record(f"--uprobes={way}", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 0
    assert logged_events(llvm_xray, session.finish().ok().log().path) == expected_typed((1, 100))


@in_turn("mode, clang", MODES, CLANGS)
def test_unreadable_payload(events_program, record):
    """An unreadable payload is omitted and counted; the program is not affected."""
    recorded = record("--", events_program(), "unmapped").finish().ok()
    assert recorded.output == "survived\n"
    assert recorded.totals["faulted"] == 5
    assert read_by_all(recorded.log().path) == [(None, b"\0")] * 5


# Arguments

U64 = 2**64
SIX = [
    (1, 2, 3, 4, 5, 6),
    (U64 - 1, 2**63, 2**63 - 1, 0, 0x123456789ABCDEF0, 2**63),
]


def arguments(record, program, clang, *options):
    """Returns ({function: [its arguments in each call]}, address of the object whose method is called)."""
    path = program("live/programs/arguments.cpp", "-O1", clang=clang)
    recorded = record(*options, "--", path).finish().ok()
    found = collections.defaultdict(list)
    for one in recorded.log().records():
        if one.kind == ENTER_ARGS:
            found[one.name].append(tuple(one.args))
        elif one.kind == recording.ENTER:
            found[one.name].append(())
    return found, int(re.search(r"this (\d+)", recorded.output)[1])


@in_turn("count, mode, clang", range(1, 7), MODES, CLANGS)
def test_arguments_of_every_function(record, program, clang, count):
    found, this = arguments(record, program, clang, f"--args={count}")
    assert found["six"] == [six[:count] for six in SIX]
    assert [a[:1] for a in found["logged"]] == [(42,), (U64 - 1,)]
    assert all(len(a) == count for calls in found.values() for a in calls)
    (narrow,) = found["narrow"]
    # The upper bits of narrow arguments are not defined.
    assert narrow[0] & 0xFF == 200 and (count < 2 or narrow[1] & 0xFFFFFFFF == 7)
    (add,) = found["Counter::add(long)"]
    assert add[0] == this and (count < 2 or add[1] == 5)


@in_turn("mode, clang", MODES, CLANGS)
def test_arguments_that_the_program_wants_logged(record, program, clang):
    """With xray_log_args(1), the first argument is recorded without --args."""
    found, _ = arguments(record, program, clang)
    assert found["logged"] == [(42,), (U64 - 1,)]
    assert {name for name, calls in found.items() if any(calls)} == {"logged"}
