# SPDX-License-Identifier: BSD-2-Clause
"""
Every subcommand of llvm-xray reads the logs of every kind of recording without -k or -d, and its numbers are right; the
strict rules, too, find nothing. That each version reads each record is for the format tests.
"""
import collections
import csv
import io
import itertools
import json
import re
import subprocess

import pytest

import project
import recording
from recording import ENTER, ENTER_ARGS, EXIT, TAIL

pytestmark = pytest.mark.uprobes

CALLS = ("live/programs/calls.c", "-O2")
HOT = ("live/programs/hot.c", "-O2")
BUSY = ("live/programs/busy.c", "-O2")
EVENTS = (
    "live/programs/events.c",
    "-O0",
    project.no_runtime(),
    "-Wl,--defsym=__xray_CustomEvent=0,--defsym=__xray_TypedEvent=0",
)
ENTRIES_ONLY = "-fxray-instrumentation-bundle=function-entry"


class Scene:
    """What a recording is made with."""

    def __init__(self, xprof, program, directory):
        self.xprof = xprof
        self.program = program
        self.directory = directory

    def record(self, *args):
        return recording.Session(self.xprof, self.directory / "out", args)

    def command(self, source, *args, options=()):
        return self.record(*options, "--", self.program(*source), *args).finish()

    def of_running(self, source, *args, options=()):
        """Of a program that is in the middle of its work."""
        with subprocess.Popen(
            [self.program(*source), *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout.readline() == "ready\n"
                recorded = self.record(*options, "-p", process.pid).finish()
                assert process.poll() is None, "the program did not survive"
            finally:
                process.kill()
        return recorded


def arguments(scene):
    return scene.command(CALLS, options=["--args=3"]).ok()


def throws(scene):
    return scene.command(("live/programs/throws.cpp", "-O2")).ok()


def shared_objects(scene):
    library = ("live/programs/shared_lib.cpp", "-O1", "-fPIC", "-shared")
    needed, loaded = (scene.program(*library, f"-DPREFIX={prefix}") for prefix in ("needed", "loaded"))
    return scene.command(("live/programs/shared.cpp", "-O1", needed), 500, loaded).ok()


def threads_40(scene):
    recorded = scene.command(HOT, 40, 500).ok()
    assert recorded.manifest["processes"][0]["thread_count"] == 40
    return recorded


def middle_of_calls(scene):
    recorded = scene.of_running(BUSY, 4, options=["-d", "100ms"]).ok()
    assert recorded.totals["filtered"]["unmatched_exit"] > 0, "no call was open at the start: the test proves nothing"
    return recorded


def lost_on_purpose(scene):
    recorded = scene.command(HOT, 2, 10000, options=["--buffer=4096", "--call-mode=patch"]).adds_up()
    assert recorded.status == 0
    assert recorded.totals["lost"]["ring"] > 0, "nothing was lost: the test proves nothing"
    assert recorded.totals["written"] > 0
    # What was lost is counted exactly: an entry and an exit of each call.
    assert recorded.totals["seen"] == 2 * sum(recording.printed_calls(recorded.output).values())
    return recorded


def no_event(scene):
    recorded = scene.of_running(("live/programs/calls.c", "-O2"), "wait", options=["-d", "200ms"]).ok()
    assert recorded.totals["seen"] == 0
    return recorded


def entries_only(scene):
    return scene.command(("live/programs/calls.c", "-O2", ENTRIES_ONLY)).ok()


def typed_events(scene):
    return scene.command((*EVENTS, "-DTYPED_EVENTS"), 0, 1, 100, 5000).ok()


SCENES = (
    arguments, throws, shared_objects, threads_40, middle_of_calls, lost_on_purpose, no_event, entries_only, typed_events
)


def expected_numbers(log):
    """From the log itself, paired here: calls are entries and exits that belong together."""
    calls = collections.Counter()  # closed ones, by function id
    edges = set()
    kinds = collections.Counter()
    stacks = collections.defaultdict(list)
    for record in log.records():
        kinds[record.kind] += 1
        stack = stacks[record.thread]
        if record.kind in (ENTER, ENTER_ARGS):
            stack.append(record)
        elif record.kind in (EXIT, TAIL):
            begun = stack.pop()
            assert begun.id == record.id, f"{begun.name} is left as {record.name}"
            assert begun.tsc <= record.tsc
            calls[record.id] += 1
            edges.add((stack[-1].id if stack else 0, record.id))
    return calls, edges, kinds


def read(llvm_xray, *args):
    done = llvm_xray(*args, timeout=100)
    assert done.returncode == 0, f"{llvm_xray.path} {' '.join(map(str, args))}\n{done.stderr}"
    assert "error" not in done.stderr.lower(), done.stderr
    return done.stdout


def check_account(llvm_xray, log, numbers):
    table = csv.DictReader(io.StringIO(read(llvm_xray, "account", log.path, f"-instr_map={log.instr_map}", "-f", "csv")))
    rows = list(table)
    assert {int(row["funcid"]): int(row["count"]) for row in rows} == dict(numbers[0])
    unknown = [row["funcid"] for row in rows if row["function"].startswith("#") or "unknown" in row["function"]]
    assert not unknown, f"functions without a name: {unknown}"


def check_graph(llvm_xray, log, numbers):
    text = read(llvm_xray, "graph", log.path, f"-instr_map={log.instr_map}", "-edge-label=count")
    found = {(int(a), int(b)): int(n) for a, b, n in re.findall(r'F(\d+) -> F(\d+) \[label="(\d+)', text)}
    assert set(found) == numbers[1]
    assert sum(found.values()) == sum(numbers[0].values())


STACKS = ("-all-stacks", "-stack-format=flame", "-aggregation-type=count")


def check_stack(llvm_xray, log, numbers):
    if not numbers[0]:
        # Of no call at all it makes no stack: not a fault of the log.
        done = llvm_xray("stack", log.path, f"-instr_map={log.instr_map}")
        assert "No instrumented calls were accounted" in done.stderr
        return
    text = read(llvm_xray, "stack", log.path, f"-instr_map={log.instr_map}", *STACKS)
    found = sum(int(n) for n in re.findall(r"; (\d+)$", text, re.M))
    assert found == sum(numbers[0].values())


def check_trace_event(llvm_xray, log, numbers):
    text = read(llvm_xray, "convert", "-f", "trace_event", "-symbolize", f"-instr_map={log.instr_map}", log.path)
    phases = collections.Counter(e["ph"] for e in json.loads(text)["traceEvents"])
    kinds = numbers[2]
    assert phases["B"] == kinds[ENTER] + kinds[ENTER_ARGS]
    assert phases["E"] == kinds[EXIT] + kinds[TAIL]


def check_yaml(llvm_xray, log, numbers):
    kinds = collections.Counter(r.kind for r in log.records(llvm_xray.version))
    assert kinds == numbers[2]


def check_fdr_dump(llvm_xray, log, numbers):
    text = read(llvm_xray, "fdr-dump", log.path)
    kinds = numbers[2]
    assert len(re.findall(r"^<Function Enter: ", text, re.M)) == kinds[ENTER]
    assert len(re.findall(r"^<Function Enter With Arg: ", text, re.M)) == kinds[ENTER_ARGS]
    assert len(re.findall(r"^<Function (?:Tail )?Exit: ", text, re.M)) == kinds[EXIT] + kinds[TAIL]
    assert len(re.findall(r"^<Typed Event: ", text, re.M)) == kinds["typed-event"]


CHECKS = (check_account, check_graph, check_stack, check_trace_event, check_yaml, check_fdr_dump)


@pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)
def test_every_reader(xprof, program, tmp_path, make):
    """Each subcommand, of one of the installed versions: those of the other read another scene."""
    if not project.LLVM_VERSIONS:
        pytest.skip("no llvm-xray here")
    log = make(Scene(xprof, program, tmp_path)).log()
    numbers = expected_numbers(log)
    versions = itertools.islice(itertools.cycle(project.LLVM_VERSIONS), SCENES.index(make) % 2, None)
    for check, version in zip(CHECKS, versions):
        check(project.LlvmXray(version), log, numbers)
    done = xprof.check(log.path.parent)
    assert done.returncode == 0, done.stderr
    assert_agrees_with_manifest(log, numbers[2])


def assert_agrees_with_manifest(log, kinds):
    """What was written is in the log, and beside it only exits that were added."""
    threads = log.entry["thread_count"]
    names = kinds["custom-event"] - threads  # each thread's log begins with its name
    functions = sum(kinds[kind] for kind in recording.FUNCTION_KINDS)
    events = names + kinds["typed-event"] if threads else 0
    assert functions + events == log.entry["written"] + log.entry["synthesized_exits"]


# The ring takes them all (32 bytes each), should the machine have no CPU for the recorder meanwhile. The format tests let
# every subcommand read 400 000 of a thread.

LONG_CALLS = 100_000


def test_long_log(xprof, program, newest_llvm_xray, tmp_path):
    recorded = Scene(xprof, program, tmp_path).command(HOT, 1, LONG_CALLS, options=["--buffer=8M"]).ok()
    assert recorded.totals["written"] == 2 * LONG_CALLS
    log = recorded.log()
    assert xprof.check(log.path).returncode == 0
    table = csv.DictReader(io.StringIO(read(newest_llvm_xray, "account", log.path, "-f", "csv")))
    assert [int(row["count"]) for row in table] == [LONG_CALLS]
