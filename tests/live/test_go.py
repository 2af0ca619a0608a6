# SPDX-License-Identifier: BSD-2-Clause
"""Checks the calls of Go programs: counts equal those of the program, and each goroutine is a thread of the log."""
import collections
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

import project
import recording
from recording import ENTER, EXIT

pytestmark = pytest.mark.skipif(not shutil.which("go"), reason="no go here")

FIRST_STACK = 1 << 22
CGO = 'package main\n\n// int twice(int a) { return 2 * a; }\nimport "C"\n\n//go:noinline\nfunc call(n int) int { return int(C.twice(C.int(n))) }\n\nfunc main() { println(call(3)) }\n'


@pytest.fixture(scope="session")
def go(tmp_path_factory):
    """Builds a Go program: go(source, "-ldflags=-s -w") -> path."""
    directory = tmp_path_factory.mktemp("go")
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "-p=1", "GOCACHE": str(project.OUTPUT.resolve() / "gocache")}

    def build(source, *options):
        path = directory / f"program{len(list(directory.iterdir()))}"
        done = project.run(["go", "build", *options, "-o", path, source], cwd=directory, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        return path

    return build


@pytest.fixture(scope="session")
def goroutines(go):
    """A stripped program."""
    return go(project.REPO / "tests/live/programs/goroutines.go", "-ldflags=-s -w")


def assert_nested(records):
    """The calls of each goroutine are nested: an exit is of the innermost open call."""
    stacks = collections.defaultdict(list)
    for r in records:
        if r.kind == ENTER:
            stacks[r.thread].append(r.name)
        elif r.kind == EXIT:
            assert stacks[r.thread].pop() == r.name
    return stacks


@pytest.mark.uprobes
@pytest.mark.time_limit(300)
def test_counts(goroutines, record):
    recorded = record("--no-samples", "--functions", "main.*", "--", goroutines, "1").finish().ok()
    counted = recording.printed_calls(recorded.output)
    records = recorded.log().records()
    entries, exits = (collections.Counter(r.name for r in records if r.kind == kind) for kind in (ENTER, EXIT))
    assert counted["main.deep"] == 2040 and {name: entries[name] for name in counted} == counted
    # Half of the calls of thrower() panic. Their exits, and those of their callers, are synthesized.
    assert entries["main.thrower"] == exits["main.thrower"] == exits["main.catcher"] == 600
    assert recorded.log().synthesized(records)["main.thrower"] == recorded.log().synthesized(records)["main.between"] == 300
    assert recorded.totals["seen"] == recorded.totals["written"]
    # A goroutine that ends by Goexit() leaves calls, and a sender may be about to return when the program ends.
    left = assert_nested(records)
    assert set(left) == {t["tid"] for t in recorded.manifest["processes"][0]["threads"]} and min(left) >= FIRST_STACK
    open_at_end = {name for name in set().union(*left.values()) if not name.startswith("main.work.func")}
    assert open_at_end <= {"main.round.func1", "main.work", "main.quits", "main.main", "main.main.func2"}
    assert recorded.manifest["processes"][0]["probed_because"].startswith("it is a Go program")


@pytest.mark.uprobes
@pytest.mark.time_limit(300)
def test_process(goroutines, record, start):
    """
    Probes, also those of the runtime, are attached and detached while the program grows stacks, panics and is
    preempted.
    """
    process = start([goroutines, "0"], stdin=subprocess.PIPE)
    for _ in range(3):
        recorded = record("--no-samples", "--functions", "main.*", "--functions", "runtime.*stack", "-p", process.pid, "-d", "0.3").finish().ok()
        assert recorded.totals["written"] > 100
        assert_nested(recorded.log().records())
    output, errors = process.communicate(timeout=recording.END_S)
    assert process.returncode == 0 and recording.printed_calls(output)["main.catcher"] % 600 == 0, errors


def listed(xprof, path):
    done = xprof("list", "--json", path)
    assert done.returncode == 0, done.stderr
    (binary,) = json.loads(done.stdout)["objects"]
    return binary


def without_text_address(path):
    """Changes a program to one of Go 1.26, where only the runtime's struct moduledata has the address of the code."""
    data = bytearray(path.read_bytes())
    sections = project.run(["readelf", "-SW", path]).stdout
    address, offset = (int(x, 16) for x in re.search(r" \.gopclntab +PROGBITS +(\w+) (\w+)", sections).groups())
    text = data[offset + 24:offset + 32]
    data[offset + 24:offset + 32] = bytes(8)
    path.write_bytes(data)
    module = path.with_suffix(".module")
    module.write_bytes(struct.pack("<Q", address) + bytes(168) + text)
    changed = path.with_suffix(".changed")
    done = project.run(["objcopy", "--add-section", f".go.module={module}", path, changed])
    assert done.returncode == 0, done.stderr
    return changed


def test_list(go, goroutines, xprof, tmp_path):
    source = project.REPO / "tests/live/programs/goroutines.go"
    program = go(source)
    plain, stripped = listed(xprof, program), listed(xprof, goroutines)
    symbols = dict(re.findall(r"^(\w+) [tT] (main\..*)$", project.run(["nm", program]).stdout, re.M))
    ours = {f"{f['address']:016x}": f for f in plain["functions"] if f["name"].startswith("main.")}
    assert {address: f["name"] for address, f in ours.items()} == symbols and len(ours) > 15
    assert {f["calls"] for f in ours.values()} == {"probes"} and plain["go"] and plain["totals"]["patched"] == 0
    assert [f["name"] for f in stripped["functions"]] == [f["name"] for f in plain["functions"]]
    assert [f.get("reason") for f in plain["functions"] if f["name"] == "runtime.memmove"] == ["it is written in assembly, or called from assembly"]
    (tmp_path / "cgo.go").write_text(CGO)
    # The table is in .data.rel.ro, and a relocation writes the address of the code.
    cgo = listed(xprof, go(tmp_path / "cgo.go", "-buildmode=pie", "-ldflags=-s -w"))["functions"]
    assert {f["calls"] for f in cgo if f["name"] == "main.call"} == {"probes"} and "twice" not in {f["name"] for f in cgo}
    changed = without_text_address(pathlib.Path(shutil.copy(goroutines, tmp_path)))
    assert listed(xprof, changed)["functions"] == stripped["functions"]
