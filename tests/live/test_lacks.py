# SPDX-License-Identifier: BSD-2-Clause
"""
Kernels that lack or refuse a feature, simulated by live/programs/lacks.c: xprof uses another method, or prints one
sentence with the remedy.
"""
import os
import re
import signal

import pytest

import leftovers
import project
import recording
from recording import ENTER, EXIT, TAIL

pytestmark = pytest.mark.uprobes

ENVIRONMENT = 3
PATCH = "--call-mode=patch"


@pytest.fixture
def lacking(xprof, program, tmp_path):
    """Runs xprof on such a kernel: lacking("writes pokes")."""
    library = program("live/programs/lacks.c", "-O1", "-shared", "-fPIC", instrument=False)

    def wrap(words):
        return project.wrapped(xprof, tmp_path, "env", f"LD_PRELOAD={library}", f"LACKS={words}")

    return wrap


@pytest.fixture
def doctor(lacking):
    """doctor("writes"): (exit status, {name of a check: its line without the name})"""

    def run(words):
        done = lacking(words)("doctor")
        lines = re.findall(r"^(\w+) +(calls|samples|waits|patched sleds|BTF|lockdown|uprobe_multi) +(.*)$", done.stdout, re.M)
        return done.returncode, {name: f"{state} {detail}" for state, name, detail in lines}

    return run


def assert_refused(xprof, directory, args, *texts):
    """Checks that xprof ends with status 3 and one sentence that contains all texts, and leaves no files."""
    done = xprof("record", "-o", directory, *args)
    errors = [line for line in done.stderr.splitlines() if line.startswith("xprof: error: ")]
    assert done.returncode == ENVIRONMENT and len(errors) == 1, done.stderr
    assert all(text in errors[0] for text in texts), errors[0]
    assert not os.path.lexists(directory)


def modes(recorded):
    return {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]}


def test_all_calls_if_ptrace_writes(lacking, record, program, waiting):
    process = waiting(program("live/programs/restless.c", "-O2", project.no_runtime()))
    session = record(PATCH, "--buffer=16M", "-p", process.pid, program=lacking("writes")).wait_attached()
    process.send_signal(signal.SIGUSR1)
    counted = recording.printed_calls(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    recorded = session.finish().ok()
    assert modes(recorded) == {"patch"}
    found = recorded.log().calls()
    assert {name: found[name, ENTER] for name in counted} == counted
    assert {name: found[name, EXIT] + found[name, TAIL] for name in counted} == counted


@pytest.mark.together("kills")
def test_restored_if_ptrace_writes(lacking, record, busy):
    """Sleds are restored after a recording, and by `xprof restore` after a kill."""
    target, without = busy(threads=4), lacking("writes")
    recorded = record(PATCH, "--no-samples", "-p", target.pid, "-d", "50ms", program=without).finish().adds_up()
    assert recorded.status == 0 and modes(recorded) == {"patch"}
    leftovers.assert_nothing_left(target.pid)
    session = record(PATCH, "--no-samples", "-p", target.pid, program=without).wait_attached()
    session.process.kill()
    session.process.wait()
    assert leftovers.code_differences(target.pid)
    done = without("restore", "-p", target.pid)
    assert done.returncode == 0, done.stderr
    target.assert_unharmed()


@pytest.mark.parametrize("words, way", [("", "through /proc/PID/mem"), ("writes", "by ptrace")])
def test_doctor_writes_code(doctor, words, way):
    status, lines = doctor(words)
    assert status == 0 and re.match(f"ok .* xprof writes the calls {way}", lines["patched sleds"]), lines


def test_no_writes_of_code(lacking, doctor, record, busy, tmp_path):
    """Sleds are probed, unless the options require patching."""
    target, remedy = busy(), "boot with proc_mem.force_override=ptrace"
    status, lines = doctor("writes pokes")
    assert status == 0 and remedy in lines["patched sleds"] and lines["patched sleds"].startswith("degraded "), lines
    without = lacking("writes pokes")
    assert_refused(without, tmp_path / "refused", [PATCH, "-p", target.pid, "-d", "1"], remedy)
    leftovers.assert_nothing_left(target.pid)
    recorded = record("--no-samples", "-p", target.pid, "-d", "100ms", program=without).finish().adds_up()
    assert recorded.status == 0 and modes(recorded) == {"probe"} and remedy in recorded.messages
    target.assert_unharmed()


@pytest.mark.parametrize("name, check, state, options", [
    ("sled_entry", "calls", "missing", ["--no-samples"]),
    ("task_exec", "calls", "missing", ["--no-samples"]),
    ("switch_threads", "samples", "missing", ["--no-sleds", "--switch-events"]),
    ("sample", "samples", "missing", ["--no-sleds"]),
    ("scan_waits", "waits", "degraded", ["--off-cpu"]),
])
def test_refused_program(lacking, doctor, busy, tmp_path, name, check, state, options):
    """doctor does not print "ok" for a feature that record refuses."""
    target = busy(pause_us=1000)
    status, lines = doctor(name)
    assert lines[check].startswith(f"{state} ") and "-v shows the kernel's messages" in lines[check], lines
    assert status == (ENVIRONMENT if state == "missing" else 0)
    assert_refused(lacking(name), tmp_path / "refused", [*options, "-p", target.pid, "-d", "1"], "-v shows the kernel's messages")
    target.assert_unharmed()


@pytest.mark.parametrize("word, check, remedy", [
    ("btf", "BTF", "use a kernel with CONFIG_DEBUG_INFO_BTF=y"),
    ("confidence", "lockdown", "boot without lockdown=confidentiality"),
])
def test_lacks_what_all_need(lacking, doctor, busy, tmp_path, word, check, remedy):
    target = busy(pause_us=1000)
    status, lines = doctor(word)
    assert status == ENVIRONMENT and lines[check].startswith("missing "), lines
    assert_refused(lacking(word), tmp_path / "refused", ["-p", target.pid, "-d", "1"], remedy)
    target.assert_unharmed()


def test_without_uprobe_multi(lacking, doctor, record, busy):
    target = busy(pause_us=1000)
    status, lines = doctor("multi")
    assert status == 0 and lines["uprobe_multi"].startswith("degraded ") and lines["calls"].startswith("ok "), lines
    recorded = record("--no-samples", "-p", target.pid, "-d", "100ms", program=lacking("multi")).finish().adds_up()
    assert recorded.status == 0 and recorded.totals["written"] > 0
    target.assert_unharmed()
