# SPDX-License-Identifier: BSD-2-Clause
"""
Checks that the target continues and computes the same after any failure of xprof or of the target, and that nothing of
xprof remains.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

import leftovers
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

# The kernel needs time to clean up after a killed xprof, and refuses other probes meanwhile: run these tests one at a
# time.
kills = pytest.mark.together("kills")

# Seed of random choices: the same in every run, and part of the name of a failing test.
SEED = 20
ROUNDS = {"multi": 5, "single": 3}
# test_patch.py has similar tests for patched sleds.
PROBE = "--call-mode=probe"
# Options of recordings that are killed: a perf.data of compressed samples is unreadable for some microseconds per
# second.
WHOLE = "--no-compression"
# Minimum, of live/programs/victim.c.
CALLS_OF_ROUND = 3


@pytest.fixture
def record(record):
    return lambda *args, **options: record(PROBE, *args, **options)


def assert_readable(xprof, directory, instr_map):
    """
    Checks that every file of the recording is valid, and that llvm-xray reads the logs (a sample, if there are many).
    """
    checked = xprof.check(directory)
    assert checked.returncode == 0, checked.stderr
    for log in sorted(directory.glob("*.fdr"))[:5]:
        side = log.with_suffix(".xray.so")
        for version in project.LLVM_VERSIONS[-1:]:
            done = project.LlvmXray(version)("account", log, f"-instr_map={side if side.exists() else instr_map}")
            assert done.returncode == 0, done.stderr


def assert_recovers(xprof, directory, instr_map):
    """Checks that recover makes files from what a killed xprof left: recover waits until the killed xprof is gone."""
    if not directory.exists():
        return 0
    spools = len(list(directory.glob("*.spool")))
    recovered = xprof("recover", directory)
    assert recovered.returncode == 0, recovered.stderr
    assert not list(directory.glob("*.spool")) and not list(directory.glob("*.part"))
    if list(directory.iterdir()):
        assert_readable(xprof, directory, instr_map)
    return spools


# The end of xprof.


@kills
@pytest.mark.parametrize("way, pause_us", [("multi", 0), ("single", 1000)], ids=["multi-load", "single-idle"])
def test_kill_in_every_state(xprof, busy, tmp_path, way, pause_us):
    """Kills xprof while it checks, attaches, records, detaches and writes, which takes some tenths of a second here."""
    chance = random.Random(SEED)
    target = busy(pause_us=pause_us)
    arguments = [xprof.path, "record", PROBE, WHOLE, "-q", f"--uprobes={way}", "-d", "100ms", "-p", str(target.pid), "-o"]
    begin = time.monotonic()
    subprocess.run([*arguments, tmp_path / "whole"], check=True)
    whole_s = time.monotonic() - begin
    killed = 0
    for number in range(ROUNDS[way]):
        directory = tmp_path / f"killed{number}"
        begin = time.monotonic()
        process = subprocess.Popen([*arguments, directory])
        try:
            # One kill in each part of that time.
            process.wait(whole_s * (number + chance.uniform(0.1, 1)) / ROUNDS[way])
            # Later recordings are faster than the first, or the machine is less busy.
            whole_s = time.monotonic() - begin
        except subprocess.TimeoutExpired:
            killed += 1
        process.kill()
        process.wait()
        target.assert_unharmed()
        assert_recovers(xprof, directory, target.path)
    assert killed, "none was killed before its end"


@kills
@recording.in_turn("mode, linked", recording.MODES, ["-static", "-pie"])
def test_probes_have_an_anchor(program, start, tmp_path, xprof, linked, mode):
    """
    The last probe to be removed is one that is hardly ever hit, also after a kill, when the kernel closes files from
    the highest descriptor down. Otherwise, the kernel would kill a thread that hits another probe just before its
    removal.
    """
    path = program("live/programs/victim.c", "-O2", project.no_runtime(), "-fPIE", linked)
    target = start([path, "2", "1000", tmp_path / "progress"])
    session = recording.Session(xprof, tmp_path / "out", ["--no-samples", f"--call-mode={mode}", "-p", target.pid])
    links = leftovers.uprobe_links(session.wait_attached().process.pid)
    assert len(links) > 1
    assert [name for _, name in links].index("link_map_changed"[: len(links[0][1])]) == 0, links
    assert links[0][0] < 512 <= links[1][0]
    assert session.stop().status == 0
    assert target.poll() is None
    leftovers.assert_nothing_left(target.pid)


@kills
def test_killed_recording_is_recovered(xprof, record, busy):
    """recover restores all records up to two seconds before the kill; usually, up to one second."""
    target = busy(pause_us=1000)
    session = record(WHOLE, "-p", target.pid).wait_attached()
    first = target.rounds()
    target.assert_works()
    rounds = target.rounds() - first
    time.sleep(2.5)
    session.process.kill()
    recorded = session.finish()
    target.assert_unharmed()
    assert assert_recovers(xprof, recorded.directory, target.path) == 1
    records = xprof.dump(*recorded.directory.glob("*.fdr")).stdout
    assert records.count("enter function") > CALLS_OF_ROUND * rounds > 0
    # The manifest names the objects of these functions.
    manifest = json.loads((recorded.directory / "manifest.json").read_text())
    (process,) = manifest["processes"]
    assert manifest["recovered"] and process["pid"] == target.pid
    (said,) = [thing for thing in process["objects"] if thing["path"] == str(target.path)]
    assert said["first_id"] == 1 and said["build_id"]
    report = xprof("report", recorded.directory).stdout
    assert "recovered after an interruption" in report
    assert " traced_leaf " in report and "fn_" not in report


@kills
def test_killed_with_its_command(xprof, program, tmp_path):
    """A command survives a kill of xprof, even while xprof holds it, and runs without probes."""
    path = program("live/programs/victim.c", "-O2", project.no_runtime())
    chance = random.Random(SEED)
    for number in range(4):
        progress = tmp_path / f"progress{number}"
        process = subprocess.Popen([xprof.path, "record", PROBE, "-q", "-o", tmp_path / f"out{number}", "--", path, "2", "1000", progress])
        if number % 2:
            recording.wait_until(progress.exists, "the command does not start")
        time.sleep(chance.uniform(0, 0.2))
        commands = [pid for pid in targets.children(process.pid) if targets.runs(pid, path)]
        process.kill()
        process.wait()
        for pid in commands:
            try:
                if progress.exists():
                    leftovers.assert_nothing_left(pid)
                    before = progress.read_text()
                    recording.wait_until(lambda: progress.read_text() != before, "the command makes no progress")
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, FileNotFoundError):
                assert not progress.exists(), "the command died with xprof"
        leftovers.assert_no_orphans()


@kills
def test_second_signal_aborts(xprof, busy, tmp_path):
    """
    A second signal ends the recording soon, whatever xprof does: the sleds are restored before xprof ends, and its files
    can be recovered. test_interrupt.py tests the end.
    """
    chance = random.Random(SEED)
    target = busy(threads=1)
    for round_number in range(4):
        number = (signal.SIGINT, signal.SIGTERM)[round_number // 2]
        directory = tmp_path / f"twice{round_number}"
        mode = (PROBE, "--call-mode=patch")[round_number % 2]
        argv = [xprof.path, "record", mode, WHOLE, "-q", "-o", directory, "-p", str(target.pid)]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        time.sleep(chance.uniform(0, 1.5))
        recording.signal_twice(process, number, chance.uniform(0, 0.1))
        messages = process.communicate(timeout=recording.READY_S)[1]
        recording.assert_ended_by(process, number, messages, directory)
        target.assert_unharmed()
        assert_recovers(xprof, directory, target.path)


def test_signal_at_the_end_of_the_target(record, busy):
    """If the target ends and a signal arrives together, the signal does not count as a second one."""
    target = busy(threads=1)
    session = record("-p", target.pid).wait_attached()
    session.process.send_signal(signal.SIGSTOP)
    os.kill(target.pid, signal.SIGKILL)
    target.process.wait()
    session.process.send_signal(signal.SIGINT)
    session.process.send_signal(signal.SIGCONT)
    session.finish().ok()


# What the target does meanwhile.


@recording.in_turn("what, options", ["exec", "fork", "threads", "load"] * 2,
                   [[], ["--follow"], ["--uprobes=single"], [], ["--follow"], ["--uprobes=single"], ["--follow"], []])
def test_restless_target(xprof, record, churn, what, options):
    """The target executes programs, forks, starts threads, and loads and unloads objects throughout the recording."""
    target = churn(what)
    recorded = record("-p", target.pid, "-d", "1ms", *options).finish().ok()
    assert_readable(xprof, recorded.directory, target.path)
    target.assert_works()
    session = record("-p", target.pid, *options).wait_attached()
    target.assert_works()
    recorded = session.stop().ok()
    assert recorded.totals["written"] > 0
    assert_readable(xprof, recorded.directory, target.path)
    leftovers.assert_nothing_left(target.pid)


def test_more_children_than_descriptors(xprof, record, churn, tmp_path):
    """Processes that have ended do not keep files and memory until the end of the recording."""
    target = churn("fork")
    limited = project.wrapped(xprof, tmp_path, "prlimit", "--nofile=128")
    session = record("-p", target.pid, "--follow", "--buffer=16M", program=limited).wait_attached()
    first = target.generations()
    recording.wait_until(lambda: target.generations() > first + 150, "the target forks too slowly", 60)
    recorded = session.stop().ok()
    assert len(recorded.logs) > 150
    assert_readable(xprof, recorded.directory, target.path)
    target.assert_works()


@kills
def test_killed_recording_has_its_ended_children(xprof, record, churn):
    target = churn("fork")
    session = record(WHOLE, "-p", target.pid, "--follow").wait_attached()
    recording.wait_until(lambda: len(list(session.directory.glob("*.fdr"))) >= 90, "ended children have no logs", 60)
    session.process.kill()
    recorded = session.finish()
    leftovers.assert_nothing_left(target.pid)
    assert_recovers(xprof, recorded.directory, target.path)
    texts = [xprof.dump(log).stdout for log in recorded.directory.glob("*.fdr")]
    assert sum("enter function" in text for text in texts) >= 90


@kills
@pytest.mark.parametrize("what", ["exec", "fork"])
def test_kill_beside_restless_target(xprof, churn, tmp_path, what):
    chance = random.Random(SEED)
    target = churn(what)
    for number in range(3):
        directory = tmp_path / f"killed{number}"
        process = subprocess.Popen([xprof.path, "record", PROBE, WHOLE, "-q", "--follow", "-o", directory, "-p", str(target.pid)])
        time.sleep(chance.uniform(0, 0.6))
        process.kill()
        process.wait()
        target.assert_works()
        leftovers.assert_nothing_left(target.pid)
        assert_recovers(xprof, directory, target.path)


def test_stopped_target(record, busy):
    """
    xprof attaches to a stopped target and detaches from it; in other cases the target stops and continues meanwhile.
    """
    target = busy(pause_us=1000)
    target.process.send_signal(signal.SIGSTOP)
    recorded = record("-p", target.pid, "-d", "300ms").finish()
    recorded.ok()
    leftovers.assert_nothing_left(target.pid)
    target.process.send_signal(signal.SIGCONT)
    target.assert_unharmed()
    session = record("-p", target.pid).wait_attached()
    target.assert_works()
    target.process.send_signal(signal.SIGSTOP)
    session.stop().ok()
    leftovers.assert_nothing_left(target.pid)
    target.process.send_signal(signal.SIGCONT)
    target.assert_unharmed()


# Others at the same target.


def test_two_at_once(xprof, record, busy):
    """The second one ends first. test_follow.py tests two that end together."""
    target = busy(2, 1000)
    sessions = [record("-p", target.pid, f"--uprobes={way}").wait_attached() for way in ("multi", "single")]
    target.assert_works()
    for session in reversed(sessions):
        recorded = session.stop().ok()
        assert recorded.totals["written"] > 100
        assert_readable(xprof, recorded.directory, target.path)
        target.assert_works()
    target.assert_unharmed()


def test_one_is_killed_and_the_other_goes_on(xprof, record, busy):
    target = busy(threads=1)
    killed = record("-p", target.pid).wait_attached()
    other = record("-p", target.pid).wait_attached()
    killed.process.kill()
    target.assert_works()
    recorded = other.stop().ok()
    assert_readable(xprof, recorded.directory, target.path)
    target.assert_unharmed()


def test_under_strace(xprof, record, busy, start, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("no strace here")
    target = busy(2, 1000)
    tracer = start(["strace", "-f", "-o", tmp_path / "trace", "-p", target.pid])
    recording.wait_until(lambda: traced(target.pid), "strace does not attach")
    session = record("-p", target.pid).wait_attached()
    target.assert_works()
    recorded = session.stop().ok()
    assert recorded.totals["written"] > 100
    assert_readable(xprof, recorded.directory, target.path)
    tracer.terminate()
    tracer.wait(recording.READY_S)
    target.assert_unharmed()


def test_under_gdb(record, busy, start):
    """A debugger holds the target while xprof attaches, and detaches while xprof records."""
    if not shutil.which("gdb"):
        pytest.skip("no gdb here")
    target = busy(2, 1000)
    debugger = start(["gdb", "-nx", "-q", "-p", target.pid], stdin=subprocess.PIPE)
    recording.wait_until(lambda: traced(target.pid), "gdb does not attach")
    session = record("-p", target.pid).wait_attached()
    debugger.stdin.write("detach\nquit\n")
    debugger.stdin.flush()
    debugger.communicate(timeout=recording.READY_S)
    target.assert_works()
    assert session.stop().ok().totals["written"] > 100
    target.assert_unharmed()


def traced(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return "TracerPid:\t0\n" not in status.read()


# Losses.


@pytest.mark.parametrize("options", [["--min-duration=20us"], ["--uprobes=single", "--args=6"]], ids=["multi", "single"])
def test_ring_overflow(xprof, record, busy, options):
    """Rings of one page overflow while xprof sleeps: lost records are counted, the other records are right."""
    target = busy()
    recorded = record("-p", target.pid, "--buffer=4096", "-d", "1", *options).finish().adds_up()
    assert recorded.status == 0, recorded.messages
    lost = recorded.totals["lost"]
    assert lost["ring"] > 0 and lost["total"] == lost["ring"] + lost["missed"] + lost["unstored"]
    assert recorded.totals["written"] > 0
    assert_readable(xprof, recorded.directory, target.path)
    target.assert_unharmed()
