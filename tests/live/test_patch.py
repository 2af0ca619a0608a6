# SPDX-License-Identifier: BSD-2-Clause
"""Checks patched sleds: the target continues as without them, and the code is always restored."""
import fcntl
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest

import leftovers
import project
import recording
import targets
from recording import ENTER, EXIT, TAIL

pytestmark = pytest.mark.uprobes

SEED = 22
ROUNDS = 4
PATCH = "--call-mode=patch"


def patched(recorded):
    """Returns whether the sleds of every object of the recording were patched, in patch or memory mode."""
    objects = [o for p in recorded.manifest["processes"] for o in p["objects"]]
    assert objects
    return all(o["call_mode"] in ("patch", "memory") for o in objects)


def has_patches(pid):
    """Returns whether a sled starts with patched code. Before that, sleds have breakpoints, to count calls."""
    return any(byte == 0x41 for _, _, byte in leftovers.code_differences(pid))


def stubs(pid):
    return len(re.findall(" r-xp .*/memfd:xprof ", pathlib.Path(f"/proc/{pid}/maps").read_text()))


# What it does to the target.


def test_blocked_system_calls_go_on(record, program, start, tmp_path):
    """Blocked system calls do not return early or with EINTR, and those with a timeout take this time."""
    progress = tmp_path / "progress"
    process = start([program("live/programs/blocked.c", "-O1", project.no_runtime()), progress])
    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        recorded = record(PATCH, "-p", process.pid, "-d", "100ms").finish().adds_up()
        assert recorded.status == 0 and patched(recorded) and recorded.totals["written"] > 100
    time.sleep(2.5)
    assert progress.read_text() == ""
    process.send_signal(signal.SIGUSR1)
    assert process.communicate(timeout=60)[0] == "slept 2\n"


def test_restless_target(record, program, waiting):
    """Busy and short-lived threads run, signals arrive anywhere, and children share the target's memory."""
    process = waiting(program("live/programs/restless.c", "-O2", project.no_runtime()))
    # Rings for all calls: on a busy machine the reader may be late.
    session = record(PATCH, "--buffer=16M", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    counted = recording.printed_calls(output)
    recorded = session.finish().ok()
    assert patched(recorded)
    found = recorded.log().calls()
    assert counted["in_handler"] > 10
    assert {name: found[name, ENTER] for name in counted} == counted
    assert {name: found[name, EXIT] + found[name, TAIL] for name in counted} == counted
    assert {name for name, _ in found} == set(counted)


@pytest.mark.parametrize("options", [(), ("--uprobes=single",), ("--args=6",)], ids=lambda o: "".join(o) or "plain")
def test_rounds(record, busy, options):
    """Records a busy target with many threads twice. The second recording reuses the stub of the first."""
    target = busy(threads=4)
    for _ in range(2):
        recorded = record(PATCH, "-p", target.pid, "-d", "5ms", "--no-samples", *options).finish().adds_up()
        assert patched(recorded) and recorded.status == 0
        leftovers.assert_nothing_left(target.pid)
        assert stubs(target.pid) == 1
        shutil.rmtree(recorded.directory)
    target.assert_unharmed()


def test_rounds_of_a_restless_target(record, program, start):
    """Attaches and detaches repeatedly while the target's threads start and exit, get signals, and have children."""
    path = program("live/programs/restless.c", "-O2", project.no_runtime())
    for _ in range(2):
        process = start([path])
        while process.poll() is None:
            session = record(PATCH, "-p", process.pid, "-d", "1ms", "--no-samples")
            recorded = session.finish()
            if recorded.status and process.poll() is None:
                # A thread that waits for its vfork() child does not stop: xprof reports that, and changes no code.
                assert "cannot be patched" in recorded.messages, recorded.messages
        assert process.returncode == 0, process.communicate()


def test_stacks_through_the_stub(record, program, waiting):
    """Samples in the stub, or in the kernel below its probe, have complete stacks, in code without frame pointers."""
    path = program("live/programs/restless.c", "-O2", "-fomit-frame-pointer", project.no_runtime())
    # Long enough for some hundred samples on a fast machine.
    process = waiting(path, 10000)
    session = record(PATCH, "--buffer=64M", "-F", "999", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    recorded = session.finish().ok()
    stacks = recorded.manifest["samples"]["stacks"]
    assert stacks["seen"] > 100 and stacks["complete"] >= 0.95 * stacks["seen"], stacks
    # Nearly all time is spent in the probes, and so below the stub.
    report = project.run([project.XPROF, "report", "--limit=max", recorded.directory]).stdout
    (share,) = re.findall(r"([\d.]+)% +\d+ +[\d.]+% .* xprof's recording ", report)
    assert float(share) > 50 and "xprof_stub" not in report, report


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("linked", ["-pie", "-no-pie"])
def test_executes_before_sleds_lead_to_the_stub(record, program, start, tmp_path, linked, times):
    """
    The checked program was replaced by an exec, maybe with equal code at equal addresses: xprof starts again with the
    new program.
    """
    path = program("live/programs/flees.c", "-O2", project.no_runtime(), linked, *["-fPIE"] * (linked == "-pie"))
    target = targets.Churn(start([path, times, tmp_path / "progress"]), path, tmp_path / "progress")
    target.assert_works()
    session = record("--no-samples", "-p", target.pid).wait_attached()
    recording.wait_until(lambda: has_patches(target.pid) or target.process.poll(), session.messages)
    target.assert_works()
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    assert recorded.totals["written"] > 20 and patched(recorded.adds_up()), recorded.messages
    assert "probed, not patched" not in recorded.messages and "patched already" not in recorded.messages
    assert stubs(target.pid) == 1
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


@pytest.mark.parametrize("mode", ["auto", "patch", "probe"])
def test_executes_all_the_time(record, churn, mode):
    """
    The target executes programs faster than xprof can patch or check sleds: xprof probes them or waits, and never
    refuses.
    """
    target = churn("exec")
    # After some tries, each of which waits for the target to stop, a target is probed.
    duration = "2s" if mode == "auto" else "300ms"
    for _ in range(2):
        recorded = record("--no-samples", f"--call-mode={mode}", "-p", target.pid, "-d", duration).finish().adds_up()
        assert recorded.status == 0, recorded.messages
        # Each new program is checked before it is recorded: on a busy machine, the program ends earlier.
        assert mode != "probe" or recorded.totals["written"] > 0
        shutil.rmtree(recorded.directory)
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


@pytest.mark.parametrize("mode", ["patch", "memory"])
def test_every_byte_is_restored(record, busy, xprof, mode):
    """
    All bytes are restored at the end of a recording, and by restore after a kill, even if the target is always in a
    sled or in the stub.
    """
    target = busy(4)
    recorded = record(f"--call-mode={mode}", "--no-samples", "-p", target.pid, "-d", "100ms", "--flight=1M").finish()
    assert recorded.status == 0 and patched(recorded), recorded.messages
    assert not leftovers.compare_code(target.pid, with_tails=True)
    session = record(f"--call-mode={mode}", "--no-samples", "-p", target.pid, "--flight=1M").wait_attached()
    session.process.kill()
    session.process.wait()
    assert xprof("restore", "-p", target.pid).returncode == 0
    assert not leftovers.compare_code(target.pid, with_tails=True)
    target.assert_works()


def test_preempted_coroutines(record, program, start):
    """Some coroutines are always inside a sled, with stacks that belong to no thread."""
    process = start([program("live/programs/preempted.c", "-O2", project.no_runtime())])
    assert process.stdout.readline() == "ready\n"
    for _ in range(8):
        recorded = record("--call-mode=auto", "--no-samples", "--flight=1M", "-p", process.pid, "-d", "200ms").finish()
        assert recorded.status == 0, recorded.messages
        shutil.rmtree(recorded.directory)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.read() == "well\n" and process.wait() == 0


# If patching failed.


def test_seccomp_is_left_alone(record, program, start):
    """
    A seccomp filter kills the target for memfd_create() and mmap(), which patched sleds require: xprof uses neither.
    """
    process = start([program("live/programs/restricted.c", "-O1", project.no_runtime())])
    assert process.stdout.readline() == "ready\n"
    refused = record(PATCH, "-p", process.pid, "-d", "100ms").finish()
    assert refused.status == 3 and "cannot be patched: it is under seccomp" in refused.messages
    for mode in ("auto", "memory"):
        recorded = record(f"--call-mode={mode}", "-p", process.pid, "-d", "200ms").finish().ok()
        assert not patched(recorded) and recorded.totals["written"] > 0
        assert "are probed, not patched: it is under seccomp" in recorded.messages
        assert "seccomp" in recorded.manifest["processes"][0]["probed_because"]
    assert stubs(process.pid) == 0 and process.poll() is None


@pytest.mark.parametrize("limit, remedy", [("AS", "--as=unlimited"), ("DATA", "--data=unlimited")])
def test_target_at_its_limit(record, busy, limit, remedy):
    """If the target's limits leave no memory for the stub, xprof uses probes, which need none."""
    target = busy(2, 1000)
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{target.pid}/status").read_text().splitlines())
    used = int(status["VmSize" if limit == "AS" else "VmData"].split()[0]) << 10
    kind = getattr(resource, f"RLIMIT_{limit}")
    before = resource.prlimit(target.pid, kind)
    resource.prlimit(target.pid, kind, (used, before[1]))
    refused = record(PATCH, "--no-samples", "-p", target.pid, "-d", "100ms").finish()
    assert refused.status == 3 and "cannot be patched: its" in refused.messages, refused.messages
    assert f"`prlimit --pid {target.pid} {remedy}`" in refused.messages
    recorded = target.works_during(record("--call-mode=auto", "--no-samples", "-p", target.pid)).ok()
    assert not patched(recorded) and recorded.totals["written"] > 0
    assert "are probed, not patched: its" in recorded.messages
    resource.prlimit(target.pid, kind, before)
    assert patched(record(PATCH, "--no-samples", "-p", target.pid, "-d", "100ms").finish().ok())
    target.assert_unharmed()


def test_debugger_is_respected(record, busy, start, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("no strace here")
    target = busy(2, 1000)
    tracer = start(["strace", "-f", "-o", tmp_path / "trace", "-p", target.pid])
    status = pathlib.Path(f"/proc/{target.pid}/status")
    recording.wait_until(lambda: "TracerPid:\t0\n" not in status.read_text(), "strace does not attach")
    refused = record(PATCH, "-p", target.pid, "-d", "100ms").finish()
    assert refused.status == 3 and f"process {tracer.pid} is attached to it" in refused.messages
    recorded = target.works_during(record("--call-mode=auto", "-p", target.pid)).ok()
    assert not patched(recorded) and recorded.totals["written"] > 0
    tracer.terminate()
    tracer.wait(60)
    target.assert_unharmed()


def test_active_runtime_is_respected(record, program, busy):
    """If XRay's runtime has patched sleds, xprof changes no sled of the object."""
    path = program("live/programs/victim.c", "-O2", "-DPATCH")
    target = busy(2, 1000, path, "patched")
    refused = record(PATCH, "--no-samples", "-p", target.pid, "-d", "100ms").finish()
    assert refused.status == 3 and "its sleds are patched already" in refused.messages
    assert stubs(target.pid) == 0
    target.assert_works()


def test_runtime_that_patches_meanwhile(record, program, busy):
    """Patches that XRay's runtime makes during a recording remain, and xprof reports that events are missing."""
    path = program("live/programs/victim.c", "-O2", "-DPATCH")
    target = busy(2, 1000, path)
    session = record(PATCH, "-p", target.pid).wait_attached()
    target.assert_works()
    target.process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    target.assert_works()
    recorded = session.stop().ok()
    assert re.search(r"XRay's runtime patched \d+ sleds", recorded.messages)
    target.assert_works()
    target.process.send_signal(signal.SIGUSR2)
    target.assert_unharmed()


def test_others_probes_are_respected(record, busy):
    """If a recording has probes on the sleds, another one does not patch them."""
    target = busy(2, 1000)
    probing = record("--call-mode=probe", "-p", target.pid).wait_attached()
    refused = record(PATCH, "-p", target.pid, "-d", "100ms").finish()
    assert refused.status == 3 and "probes or breakpoints on its sleds" in refused.messages
    assert target.works_during(record("--call-mode=auto", "-p", target.pid)).ok().totals["written"] > 100
    probing.stop().ok()
    target.assert_unharmed()


def test_turns_of_recordings(record, busy, start):
    """Between the check of the sleds and the last patch, no other recording may set probes."""
    target = busy(2, 1000)
    with start([sys.executable, "-c", targets.LOCKS, target.path, 1]) as other:
        assert other.stdout.readline() == "locked\n"
        session = record("--call-mode=auto", "-p", target.pid).wait_attached()
        assert other.poll() == 0, "xprof did not wait"
    assert patched(session.stop().ok())
    target.assert_unharmed()


def test_waiting_for_its_turn_ends(record, busy, start):
    """The wait for another recording ends by ^C, and after the time limit for attaching."""
    target = busy(2, 1000)
    other = start([sys.executable, "-c", targets.LOCKS, target.path, 100])
    assert other.stdout.readline() == "locked\n"
    session = record(PATCH, "-p", target.pid)
    time.sleep(0.5)
    session.process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    done = session.finish()
    assert done.status == 1 and "stopped while attaching" in done.messages
    assert time.monotonic() - begin < 5
    # xprof does not wait for locks of other programs.
    other.kill()
    other.wait()
    with open(target.path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert patched(record(PATCH, "-p", target.pid, "-d", "100ms").finish().ok())
    target.assert_unharmed()


def test_two_that_patch(record, busy, xprof):
    """While one recording patches, a second one and a restore are refused."""
    target = busy(2, 1000)
    first = record(PATCH, "-p", target.pid).wait_attached()
    second = record(PATCH, "-p", target.pid, "-d", "100ms").finish()
    refusal = f"is being recorded by another xprof (process {first.process.pid}): end that recording"
    assert second.status == 1 and refusal in second.messages
    restored = xprof("restore", "-p", target.pid)
    assert restored.returncode == 1 and refusal in restored.stderr
    target.assert_works()
    assert first.stop().ok().totals["written"] > 100
    target.assert_unharmed()


def test_dry_run_tells(xprof, busy):
    target = busy(1, 1000)
    done = xprof("record", PATCH, "--dry-run", "-p", target.pid)
    assert done.returncode == 0 and "9 to patch, 0 refused" in done.stdout, done.stdout + done.stderr
    leftovers.assert_nothing_left(target.pid)
    target.assert_unharmed()


# What happens to the target meanwhile.


@pytest.mark.parametrize("what", ["exec", "fork", "threads", "load"])
def test_churning_target(xprof, record, churn, what):
    target = churn(what)
    recorded = record("--call-mode=auto", "-p", target.pid, "-d", "1ms").finish().ok()
    assert xprof.check(recorded.directory).returncode == 0
    target.assert_works()
    session = record("--call-mode=auto", "-p", target.pid).wait_attached()
    target.assert_works()
    recorded = session.stop().ok()
    assert what == "exec" or recorded.totals["written"] > 0  # of that test_executes_all_the_time has all
    assert xprof.check(recorded.directory).returncode == 0
    leftovers.assert_nothing_left(target.pid)


def test_loaded_again(record, program, waiting):
    """An object that is unloaded and loaded again is patched again, and recorded from shortly after that."""
    library = program("live/programs/shared_lib.cpp", "-O1", "-fPIC", "-shared", "-DPREFIX=loaded")
    process = waiting(program("live/programs/reload.c", "-O1"), "each", 600, library)
    session = record(PATCH, "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=60)
    counted = recording.printed_calls(output)
    recorded = session.finish().ok()
    assert len(re.findall(r"process \d+ loaded .* again: ", recorded.messages)) == 1
    assert "its calls are not recorded until its sleds are patched" in recorded.messages
    assert patched(recorded)
    found = recorded.log().calls()
    assert counted["loaded_entry"] == 20
    assert {name: found[name, ENTER] for name in counted} == counted


def test_children_are_put_back(record, program, start, xprof):
    """A child that was forked while its parent was patched is not recorded, works, and is restored with its parent."""
    process = start([program("live/programs/parent.c", "-O1", project.no_runtime())])
    assert process.stdout.readline() == "ready\n"
    session = record(PATCH, "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    child = int(process.stdout.readline())
    assert leftovers.changed_code(child)
    recorded = session.stop().ok()
    assert [log.pid for log in recorded.logs] == [process.pid]
    leftovers.assert_nothing_left(process.pid)
    leftovers.assert_nothing_left(child)
    restored = xprof("restore", "-p", child)
    assert restored.returncode == 0 and "no sleds patched" in restored.stderr
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0


# The end of xprof.


@pytest.mark.together("kills")
def test_kill_in_every_state(xprof, busy, tmp_path):
    """Kills xprof while it checks, patches, records, restores and writes: the target works, and can be restored."""
    chance = random.Random(SEED)
    target = busy()
    arguments = [xprof.path, "record", PATCH, "-q", "--no-samples", "-p", str(target.pid)]
    begin = time.monotonic()
    subprocess.run([*arguments, "-d", "300ms", "-o", tmp_path / "whole"], check=True)
    whole_s = time.monotonic() - begin
    killed = left = 0
    for number in range(ROUNDS):
        # Some kills wait for patched sleds, which may take a while.
        duration = "10s" if number % 4 == 0 else "300ms"
        process = subprocess.Popen([*arguments, "-d", duration, "-o", tmp_path / f"killed{number}"])
        if number % 4 == 0:
            recording.wait_until(lambda: has_patches(target.pid), "no sled is patched")
        else:
            # One kill in each part of that time.
            time.sleep(whole_s * (number + chance.uniform(0.1, 1)) / ROUNDS)
        killed += process.poll() is None
        process.kill()
        process.wait()
        target.assert_works()
        done = leftovers.restore(xprof, target.pid)
        assert done.returncode == 0, done.stderr
        left += "): restored " in done.stderr
        target.assert_unharmed()
    assert killed >= ROUNDS // 3 and left >= 1, f"{killed} of {ROUNDS} were killed before their end, {left} left patched sleds"


@pytest.mark.parametrize("mode", ["patch", "probe"])
def test_next_recording_notices(record, busy, mode):
    target = busy(2, 1000)
    session = record(PATCH, "-p", target.pid).wait_attached()
    session.process.kill()
    session.finish()
    target.assert_works()
    assert leftovers.changed_code(target.pid)
    leftovers.assert_no_orphans()
    recorded = target.works_during(record(f"--call-mode={mode}", "-p", target.pid)).ok()
    assert "restored 9 sleds that a killed xprof had left patched" in recorded.messages
    assert recorded.totals["written"] > 0
    target.assert_unharmed()


@pytest.mark.together("kills")
def test_killed_with_its_command(xprof, program, start, tmp_path):
    """A command that has reached its main function continues without a killed xprof, and can be restored."""
    path = program("live/programs/victim.c", "-O2", project.no_runtime())
    progress = tmp_path / "progress"
    process = start([xprof.path, "record", PATCH, "-q", "--no-samples", "-o", tmp_path / "out", "--", path, "2", "1000", progress])
    recording.wait_until(progress.exists, "the command does not start")
    children = [pid for pid in targets.children(process.pid) if targets.runs(pid, path)]
    try:
        process.kill()
        process.wait()
        (child,) = children
        target = targets.Busy(Orphan(child), path, progress)
        target.assert_works()
        assert leftovers.restore(xprof, child).returncode == 0
        target.assert_unharmed()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


class Orphan:
    """A process that is not our child, with the part of Popen that targets.Busy uses."""

    returncode = None

    def __init__(self, pid):
        self.pid = pid

    def poll(self):
        return None if pathlib.Path(f"/proc/{self.pid}").exists() else -1


def test_stopped_target(record, busy):
    """A stopped target is patched and restored, stays stopped, and works after SIGCONT."""
    target = busy(pause_us=1000)
    target.process.send_signal(signal.SIGSTOP)
    recorded = record(PATCH, "-p", target.pid, "-d", "200ms").finish().ok()
    assert patched(recorded)
    assert "State:\tT" in pathlib.Path(f"/proc/{target.pid}/status").read_text()
    leftovers.assert_nothing_left(target.pid)
    target.process.send_signal(signal.SIGCONT)
    target.assert_unharmed()


def test_restore_of_nothing(xprof, busy):
    target = busy(1, 1000)
    done = xprof("restore", "-p", target.pid)
    assert done.returncode == 0 and "no sleds patched by xprof" in done.stderr
    done = xprof("restore", "-p", 2**22 + 1)
    assert done.returncode == 1 and "no process" in done.stderr


def sled_addresses(target):
    """Returns the addresses of the sleds in the memory of the target."""
    lines = project.run([project.XPROF, "list", "--sleds", target.path]).stdout.splitlines()
    offsets = [int(line.split()[3], 0) for line in lines if line.split()[0].isdigit()]
    for line in pathlib.Path(f"/proc/{target.pid}/maps").read_text().splitlines():
        place, _, start, _, _, *path = line.split()
        if path == [str(target.path)] and " r-xp " in line:
            begin, end = (int(part, 16) for part in place.split("-"))
            places = [begin + offset - int(start, 16) for offset in offsets]
            return [address for address in places if begin <= address < end]
    raise AssertionError("the target has no code")


def test_restore_removes_breakpoints(xprof, busy):
    """restore removes breakpoints without a probe, which the kernel leaves if the task that attaches is killed."""
    target = busy(2, 1000)
    target.process.send_signal(signal.SIGSTOP)
    recording.wait_until(
        lambda: "State:\tT" in pathlib.Path(f"/proc/{target.pid}/status").read_text(), "the target does not stop"
    )
    sleds = sled_addresses(target)
    with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
        for address in sleds:
            memory.seek(address)
            memory.write(b"\xcc")
    assert len(leftovers.code_differences(target.pid)) == len(sleds) > 3
    done = xprof("restore", "-p", target.pid)
    assert done.returncode == 0 and f"removed {len(sleds)} breakpoints" in done.stderr, done.stderr
    leftovers.assert_nothing_left(target.pid)
    target.process.send_signal(signal.SIGCONT)
    target.assert_unharmed()


def test_restore_keeps_probes(record, xprof, busy):
    """restore keeps breakpoints of probes, so another recording continues to record calls."""
    target = busy(2, 1000)
    recorded = record("--call-mode=probe", "-p", target.pid).wait_attached()
    before = leftovers.code_differences(target.pid)
    assert before
    done = xprof("restore", "-p", target.pid)
    assert done.returncode == 0 and "breakpoints" not in done.stderr, done.stderr
    assert leftovers.code_differences(target.pid) == before
    assert recorded.stop().ok().totals["written"] > 100
    target.assert_unharmed()
