# SPDX-License-Identifier: BSD-2-Clause
"""USDT probes: each hit with its arguments, in perf.data; their semaphore is up only while xprof records."""
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import perfetto
import project
import recording

pytestmark = pytest.mark.uprobes


@pytest.fixture
def probed(program, start):
    process = start([program("live/programs/usdt.c", "-O2", clang="gcc", instrument=False)])
    assert process.stdout.readline() == "ready\n"
    return process


def passes(session, probed):
    """Whether the semaphore is up meanwhile."""
    session.wait_attached()
    probed.send_signal(signal.SIGUSR1)
    return probed.stdout.readline() == "enabled by 1\n"


def small(number):
    return (-number + 128) % 256 - 128


def test_hits(record, probed, xprof, tmp_path):
    session = record("-p", probed.pid, "--no-sleds", "--usdt", "usdt*:mine:st*p", "--usdt", "mine:tenth")
    assert passes(session, probed)
    session.stop()
    recorded = session.finish()
    assert recorded.status == 0, recorded.messages
    assert probed.communicate(timeout=30)[0] == "enabled by 0\n"
    assert "1100 hits of USDT probes seen = 1100 written + 0 lost" in recorded.messages
    shown = project.run(["perf", "script", "-F", "event,bpf-output", "-i", f"{recorded.directory}/perf.data"]).stdout
    hits = re.findall(r'BPF string: "(mine:[^"]*)"', shown)
    steps = [hit for hit in hits if hit.startswith("mine:step")]
    assert hits.count("mine:tenth") == 100 and len(steps) == 1000
    for number, hit in enumerate(steps):
        assert hit == f"mine:step arg1={number} arg2={small(number)} arg3=300 arg4=7 arg5=? arg6={100 * (number % 4 + 1)}"
    # They are no samples of CPU time.
    assert recorded.manifest["samples"]["written"] < 1100
    xprof.check(f"{recorded.directory}/perf.data")
    report = xprof("report", recorded.directory)
    assert (report.returncode, report.stderr) == (0, "")
    group = re.escape(f"{pathlib.Path(probed.args[0]).name[:15]} ({probed.pid})")
    assert re.search(rf"^ +Hits +USDT probe +Process\n +1000 +mine:step +{group}\n +100 +mine:tenth +{group}$", report.stdout, re.M)
    report = json.loads(xprof("report", "--json", "--by=none", recorded.directory).stdout)
    assert report["usdt"] == [{"probe": "mine:step", "group": "all", "hits": 1000}, {"probe": "mine:tenth", "group": "all", "hits": 100}]
    check_trace(xprof, recorded, tmp_path / "trace.pftrace", probed.pid, steps)


def check_trace(xprof, recorded, path, pid, steps):
    """Each hit is an instant of its thread, in the order of time, with its arguments."""
    made = xprof("export", "--format=perfetto", "-o", path, recorded.directory)
    assert made.returncode == 0, made.stderr
    trace = perfetto.Trace(path.read_bytes())
    instants = [(name, arguments) for tid, name, _, arguments in trace.instants if tid == pid]
    shown = [" ".join([name, *(f"{key}={value}" for key, value in arguments.items())]) for name, arguments in instants]
    assert [hit for hit in shown if hit != "mine:tenth"] == steps and len(shown) == 1100
    assert [at for _, _, at, _ in trace.instants] == sorted(at for _, _, at, _ in trace.instants)


def test_all(record, program, start, xprof):
    """The probes of a binary in processes that start during the recording."""
    path = program("live/programs/usdt.c", "-O2", clang="gcc", instrument=False)
    session = record("--all", "-F1", "--usdt", f"{path}:mine:step")
    session.wait_attached()
    processes = [start([path]) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
    assert [process.stdout.readline() for process in processes] == ["enabled by 1\n"] * 2
    session.stop()
    recorded = session.finish()
    assert recorded.status == 0, recorded.messages
    assert [process.communicate(timeout=30)[0] for process in processes] == ["enabled by 0\n"] * 2
    report = json.loads(xprof("report", "--json", recorded.directory).stdout)
    assert sorted((row["probe"], row["group"], row["hits"]) for row in report["usdt"]) == sorted(
        ("mine:step", f"{path.name[:15]} ({process.pid})", 1000) for process in processes
    )


def semaphore(pid, path):
    """Returns the counter in the memory of a process."""
    address = int(re.search(r"^(\w+) \w enabled$", project.run(["nm", path]).stdout, re.M)[1], 16)
    start = int(re.search(rf"^(\w+)-.* {re.escape(str(path))}$", pathlib.Path(f"/proc/{pid}/maps").read_text(), re.M)[1], 16)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start + address)
        return int.from_bytes(memory.read(2), "little")


def test_follow(record, program, start, xprof):
    """The probes of a program that a child executes, and of its next process from its start."""
    path = program("live/programs/usdt.c", "-O2", clang="gcc", instrument=False)
    shell = start(["sh"], stdin=subprocess.PIPE)
    session = record("-p", shell.pid, "--follow", "--no-sleds", "--usdt", "mine:step").wait_attached()
    children = []
    for _ in range(2):
        shell.stdin.write(f"{path} &\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "ready\n"
        children.append(int(pathlib.Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()[-1]))
        recording.wait_until(lambda: semaphore(children[-1], path) == 1, "the probes are not attached")
    for child in children:
        os.kill(child, signal.SIGUSR1)
        assert shell.stdout.readline() == "enabled by 1\n"
    recorded = session.stop()
    assert "2000 hits of USDT probes seen = 2000 written + 0 lost" in recorded.messages
    report = json.loads(xprof("report", "--json", recorded.directory).stdout)
    assert {(row["group"], row["hits"]) for row in report["usdt"]} == {(f"{path.name[:15]} ({child})", 1000) for child in children}
    assert shell.communicate(timeout=30)[0] == "enabled by 0\n" * 2


def test_kill(record, probed):
    session = record("-p", probed.pid, "--no-sleds", "--usdt", "mine:step")
    assert passes(session, probed)
    session.process.send_signal(signal.SIGKILL)
    assert probed.communicate(timeout=30)[0] == "enabled by 0\n"


def test_no_match(record, probed):
    recorded = record("-p", probed.pid, "--no-sleds", "--usdt", "mine:stop").finish()
    assert recorded.status == 2
    assert "--usdt 'mine:stop' matches no USDT probe; the nearest names are mine:step" in recorded.messages


def test_all_without_file(record):
    recorded = record("--all", "--usdt", "/proc/none:mine:step").finish()
    assert recorded.status != 0 and "--usdt: cannot open /proc/none: No such file or directory" in recorded.messages
