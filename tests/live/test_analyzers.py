# SPDX-License-Identifier: BSD-2-Clause
"""
Checks that every subcommand of llvm-xray reads the logs of every kind of recording without -k or -d, with the right
numbers, and that the strict checkers find no violation. The format tests check each llvm-xray with each kind of record.
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
    """How to make a recording."""

    def __init__(self, xprof, program, directory):
        self.xprof = xprof
        self.program = program
        self.directory = directory

    def record(self, *args):
        return recording.Session(self.xprof, self.directory / "out", args)

    def command(self, source, *args, options=()):
        return self.record(*options, "--", self.program(*source), *args).finish()

    def of_running(self, source, *args, options=()):
        """Records a program that is already running."""
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
    # Lost calls are counted exactly: an entry and an exit per call.
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
    """Returns the expected numbers of the log, from entries and exits that this function pairs."""
    calls = collections.Counter()  # closed calls, by function ID
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
        # Without any call, llvm-xray stack fails; the log is still valid.
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
    """Runs each subcommand of one installed version. The other versions read other scenes."""
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
    """
    Checks that the log has the records that the manifest counts as written, and in addition only synthesized exits.
    """
    threads = log.entry["thread_count"]
    names = kinds["custom-event"] - threads  # each thread's log starts with its name
    functions = sum(kinds[kind] for kind in recording.FUNCTION_KINDS)
    events = names + kinds["typed-event"] if threads else 0
    assert functions + events == log.entry["written"] + log.entry["synthesized_exits"]


# The ring has space for all records (32 bytes each), if xprof gets no CPU meanwhile. In the format tests, every
# subcommand reads 400 000 records of a thread.

LONG_CALLS = 100_000


def test_long_log(xprof, program, newest_llvm_xray, tmp_path):
    recorded = Scene(xprof, program, tmp_path).command(HOT, 1, LONG_CALLS, options=["--buffer=8M"]).ok()
    assert recorded.totals["written"] == 2 * LONG_CALLS
    log = recorded.log()
    assert xprof.check(log.path).returncode == 0
    table = csv.DictReader(io.StringIO(read(newest_llvm_xray, "account", log.path, "-f", "csv")))
    assert [int(row["count"]) for row in table] == [LONG_CALLS]
