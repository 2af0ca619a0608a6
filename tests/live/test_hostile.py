# SPDX-License-Identifier: BSD-2-Clause
"""Targets without privileges attack the root user who records them: none of the attacks succeeds."""
import os
import pathlib
import random
import resource
import signal
import subprocess
import time

import pytest

import leftovers
import project
import recording

pytestmark = pytest.mark.uprobes

SEED = 11
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
PATCH = "--call-mode=patch"
SECRET = "root's own\n"


class Hostile:
    def __init__(self, process):
        self.process = process
        self.pid = int(process.stdout.readline())

    def is_alive(self):
        return self.process.poll() is None

    def end_well(self):
        """Checks that the target still runs, and computes the right results."""
        assert self.is_alive(), f"the target ended with status {self.process.returncode}"
        leftovers.assert_nothing_left(self.pid)
        self.process.terminate()
        assert self.process.wait(recording.READY_S) == 0


@pytest.fixture
def hostile(program, start, tmp_path):
    """Starts live/programs/hostile.c as nobody: hostile(mode, ...) -> Hostile."""
    path = program("live/programs/hostile.c", "-O1", project.no_runtime(), "-no-pie")

    def start_one(*args):
        # Use a descriptor, because nobody may not be able to reach the program's path.
        fd = os.open(path, os.O_PATH)
        try:
            return Hostile(start([*NOBODY, f"/proc/self/fd/{fd}", *args], pass_fds=[fd]))
        finally:
            os.close(fd)

    return start_one


@pytest.fixture
def secret(tmp_path_factory):
    """Makes a file of root that other users cannot find, read or write."""
    directory = pathlib.Path(f"/tmp/xprof-secret-{os.getpid()}")
    directory.mkdir(mode=0o755)
    path = directory / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    yield path
    path.unlink()
    directory.rmdir()


def test_descriptor_exchanged(record, hostile, secret):
    """The target replaces the descriptor of the stub's memfd by a file of root before xprof opens it."""
    for _ in range(2):
        target = hostile("swap", secret)
        recorded = record("-p", target.pid, "-d", "20ms", "--no-samples").finish()
        assert secret.read_text() == SECRET
        assert recorded.status == 0, recorded.messages
        target.end_well()


def test_code_exchanged(record, hostile):
    """
    The system call that xprof runs in the target never returns: xprof gives up, restores the code, and uses probes.
    Sometimes the helper is too late.
    """
    target = hostile("loop")
    recorded = record("-p", target.pid, "-d", "500ms", "--no-samples").finish().adds_up()
    assert recorded.status == 0, recorded.messages
    assert "probed, not patched" not in recorded.messages or "did not return in time" in recorded.messages
    assert recorded.totals["written"] > 0
    target.end_well()


# Stubs that do not come from xprof.


@pytest.fixture
def forger(program, start, hostile, record, tmp_path):
    """
    Starts live/programs/forges.c with a copy of the stub that xprof left in a process: forger(count, ...) -> Hostile.
    """
    path = program("live/programs/forges.c", "-O1", project.no_runtime())
    stub = tmp_path / "stub"
    victim = hostile("calm")
    assert record(PATCH, "--no-samples", "-p", victim.pid, "-d", "10ms").finish().status == 0
    maps = pathlib.Path(f"/proc/{victim.pid}/maps").read_text()
    (line,) = [line for line in maps.splitlines() if line.endswith("/memfd:xprof (deleted)") and " r-xp " in line]
    with open(f"/proc/{victim.pid}/mem", "rb") as memory:
        memory.seek(int(line.split("-")[0], 16))
        stub.write_bytes(memory.read(4096))

    def start_one(*args):
        return Hostile(start([path, stub, *args]))

    return start_one


@pytest.mark.parametrize("mode", ["patch", "auto"])
@pytest.mark.parametrize("what, why", [
    ((2,), None),
    ((1, "locked"), "its stub is locked, and not by an xprof"),
    ((4000,), "has mapped more than 32 stubs of xprof, which xprof did not make"),
    ((1, "jumps"), "has mapped more trampolines of xprof than xprof makes"),
], ids=["twice", "locked", "4000", "jumps"])
def test_forged_stubs(record, hostile, forger, what, why, mode):
    """Only calls of the forging process are omitted. The recording of other processes starts and ends as usual."""
    forging, other = forger(*what), hostile("calm")
    switches = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
    recorded = record(f"--call-mode={mode}", "--no-samples", "-p", f"{forging.pid},{other.pid}", "-d", "500ms").finish().adds_up()
    assert recorded.status == 0, recorded.messages
    # For each mapping that xprof opens, it waits for xprof-memory. It opens a file once, not at each of 4000 mappings.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - switches < 4000
    assert ("is locked" in recorded.messages or "has mapped" in recorded.messages) == bool(why), recorded.messages
    assert not why or why in recorded.messages
    found = {p["pid"]: [o["call_mode"] for o in p["objects"]] for p in recorded.manifest["processes"] if p["seen"]}
    assert found[other.pid] in (["patch"], ["memory"])
    assert bool(found.get(forging.pid)) == (not why)
    if why:
        assert project.run([project.XPROF, "restore", "-p", forging.pid]).returncode != 0
    forging.process.terminate()
    assert forging.process.wait(recording.READY_S) == 0
    other.end_well()


# Cgroups.


def mount_of(kind, option=None):
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, tail = line.split(" - ")
        file_system, _, options = tail.split(" ", 2)
        if file_system == kind and (not option or option in options.split(",")):
            return pathlib.Path(fields.split()[4])
    return None


class Group:
    """A cgroup of version 1 or 2, made for a test."""

    def __init__(self, version):
        mount = mount_of("cgroup2") if version == 2 else mount_of("cgroup", "freezer")
        if not mount:
            pytest.skip(f"no control groups of version {version} are mounted here")
        self.version = version
        self.path = mount / f"xprof-test-{os.getpid()}"
        self.path.mkdir()

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def freeze(self, frozen=True):
        if self.version == 2:
            (self.path / "cgroup.freeze").write_text(str(int(frozen)))
        else:
            (self.path / "freezer.state").write_text("FROZEN" if frozen else "THAWED")

    def wait_frozen(self):
        file, word = ("cgroup.events", "frozen 1") if self.version == 2 else ("freezer.state", "FROZEN")
        recording.wait_until(lambda: word in (self.path / file).read_text(), "the group does not freeze")

    def kill(self):
        (self.path / "cgroup.kill").write_text("1")

    def remove(self):
        self.freeze(False)
        for pid in (self.path / "cgroup.procs").read_text().split():
            (self.path.parent / "cgroup.procs").write_text(pid)
        self.path.rmdir()


@pytest.fixture
def freezer(version):
    group = Group(version)
    yield group
    group.remove()


@pytest.mark.parametrize("version", [1, 2])
def test_frozen_target(record, hostile, freezer):
    """A frozen target is probed immediately, and the other processes of the recording are patched."""
    frozen, other = hostile("calm"), hostile("calm")
    freezer.add(frozen.pid)
    freezer.freeze()
    freezer.wait_frozen()
    recorded = record("-p", f"{frozen.pid},{other.pid}", "-d", "300ms", "--no-samples").finish().adds_up()
    assert recorded.status == 0, recorded.messages
    assert "control group is frozen" in recorded.messages
    modes = {p["pid"]: p["objects"][0]["call_mode"] for p in recorded.manifest["processes"]}
    assert modes[frozen.pid] == "probe" and modes[other.pid] in ("patch", "memory")
    freezer.freeze(False)
    frozen.end_well()
    other.end_well()


@pytest.mark.parametrize("version", [2])
def test_frozen_in_between(record, hostile, freezer):
    """The target is frozen and thawed repeatedly, throughout all steps of a recording."""
    target = hostile("calm")
    freezer.add(target.pid)
    rng = random.Random(SEED)
    for _ in range(3):
        session = record("-p", target.pid, "-d", "100ms", "--no-samples")
        while session.process.poll() is None:
            freezer.freeze()
            time.sleep(rng.uniform(0.001, 0.03))
            freezer.freeze(False)
            time.sleep(rng.uniform(0.001, 0.03))
        assert session.finish().status == 0
        assert target.is_alive()
    target.end_well()


@pytest.mark.parametrize("version", [1])
def test_stays_frozen(record, hostile, freezer):
    """
    ^C ends the recording of a target that was frozen while xprof attached; after thawing, the target is unharmed. The
    last round freezes a target with patched sleds: the sleds stay patched, and xprof reports that.
    """
    target = hostile("calm")
    freezer.add(target.pid)
    rng = random.Random(SEED)
    for is_last in [False, False, True]:
        session = record("-p", target.pid, "--no-samples", "--call-mode=patch")
        if is_last:
            session.wait_attached()
        else:
            time.sleep(rng.uniform(0.05, 0.6))
        freezer.freeze()
        time.sleep(0.1)
        session.process.send_signal(signal.SIGINT)
        session.process.wait(recording.READY_S)
        if is_last:
            assert "its control group is frozen" in session.messages()
        freezer.freeze(False)
        assert target.is_alive()
        project.run([project.XPROF, "restore", "-p", target.pid])
    target.end_well()


def test_recorder_killed_with_its_group(xprof, hostile, tmp_path):
    """
    A service manager that stops a container kills xprof and its helpers immediately, while xprof makes the stub. The
    kill does not come earlier, while xprof counts calls: a breakpoint that the kernel is removing would remain
    (user/base/shield.h).
    """
    group = Group(2)
    try:
        if not (group.path / "cgroup.kill").exists():
            pytest.skip("this kernel has no cgroup.kill (Linux 5.14)")
        for number in range(2):
            target = hostile("calm")
            process = subprocess.Popen(
                [xprof.path, "record", PATCH, "--no-samples", "-p", str(target.pid), "-o", str(tmp_path / f"killed{number}")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=lambda: group.add(os.getpid()),
            )
            maps = pathlib.Path(f"/proc/{target.pid}/maps")
            deadline = time.monotonic() + recording.READY_S
            while "/memfd:xprof " not in maps.read_text():
                assert time.monotonic() < deadline, "no stub is made"
            group.kill()
            process.wait(recording.READY_S)
            assert target.is_alive(), f"killed in round {number}"
            recording.wait_until(lambda: not (group.path / "cgroup.procs").read_text(), "something was not killed")
            assert project.run([project.XPROF, "restore", "-p", target.pid]).returncode == 0
            target.end_well()
    finally:
        group.remove()
