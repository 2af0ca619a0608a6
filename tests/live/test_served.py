# SPDX-License-Identifier: BSD-2-Clause
"""Checks targets whose files are on a FUSE file system, whose server may stop answering at any time."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import project
import recording
import targets

# Tools that read all processes wait for processes that wait for the server.
pytestmark = [pytest.mark.uprobes, pytest.mark.alone("processes that hang keep others waiting", kernel=True)]

# Maximum duration in addition to the recording: the timeouts of chosen_file.h, on a busy machine.
PATIENCE_S = recording.END_S


class Served:
    """A file system with one program. After silence(), it answers no request."""

    def __init__(self, process, directory):
        self.process = process
        self.directory = directory
        self.program = directory / "program"

    def fail_a_read(self):
        """Lets the next read fail, and answers no later request."""
        self.process.send_signal(signal.SIGUSR2)
        time.sleep(0.1)

    def silence(self):
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.1)


@pytest.fixture
def served(program, start, tmp_path):
    """Mounts a file system: served(path) -> Served."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse here")
    server = program("live/programs/served.c", "-O2")
    mounted = []

    def serve(path):
        directory = tmp_path / "served"
        directory.mkdir()
        process = start([server, directory, path])
        said = process.stdout.readline()
        if said != "ready\n":
            pytest.skip(f"cannot mount a FUSE file system here: {said}")
        mounted.append((process, directory))
        return Served(process, directory)

    yield serve
    for process, directory in mounted:
        # The end of the server lets every request fail, so nothing waits any more.
        process.kill()
        process.wait()
        project.run(["umount", "--lazy", directory])


@pytest.fixture
def target(served, program, start, tmp_path):
    """Starts victim.c from a served file system: (Served, targets.Busy)."""
    path = program("live/programs/victim.c", "-O2", project.no_runtime())
    system = served(path)
    progress = tmp_path / "progress"
    process = start([system.program, 2, 1000, progress])
    recording.wait_until(progress.exists, "the target does not start")
    return system, targets.Busy(process, path, progress)


def finish(args):
    """Waits until xprof ends, with a time limit."""
    process = subprocess.Popen([str(arg) for arg in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"{args} hangs in a file system that does not answer")
    return process.returncode, out, err


def test_a_server_that_answers(xprof, target, tmp_path):
    _, busy = target
    code, out, _ = finish([xprof.path, "list", busy.process.pid])
    assert code == 0 and "tick" in out or "work" in out or "functions" in out
    directory = tmp_path / "out"
    code, _, err = finish([xprof.path, "record", "-p", busy.process.pid, "-d", "200ms", "-o", directory])
    assert code == 0, err
    assert list(directory.glob("*.prof")), err
    busy.assert_works()


def probe(xprof, pid, directory):
    """Returns xprof's messages if it may not patch the target."""
    args = ["record", "-p", pid, "-d", "200ms", "--no-samples", "--call-mode", "probe", "-o", directory]
    code, _, err = finish([xprof.path, *args])
    assert code == 1 and not directory.exists(), err
    return err


def test_why_it_cannot_be_probed(xprof, target, tmp_path):
    said = probe(xprof, target[1].process.pid, tmp_path / "out")
    assert "is on a FUSE file system, and the kernel would wait for FUSE at each probe" in said


def test_overlay_of_a_user_namespace(xprof, program, start, tmp_path):
    """The layers of an overlay may be served, but need not be."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    path = pathlib.Path(program("live/programs/victim.c", "-O2", project.no_runtime()))
    lower, upper, work, mounted = (tmp_path / name for name in ("lower", "upper", "work", "mounted"))
    for directory in (lower, upper, work, mounted):
        directory.mkdir()
    shutil.copy(path, lower / "victim")
    progress = tmp_path / "progress"
    script = f"mount -t overlay o -o lowerdir={lower},upperdir={upper},workdir={work} {mounted} && exec {mounted}/victim 2 1000 {progress}"
    process = start(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script])
    recording.wait_until(lambda: progress.exists() or process.poll() is not None, "the target does not start")
    if process.poll() is not None:
        pytest.skip("user namespaces cannot mount an overlay here")
    said = probe(xprof, process.pid, tmp_path / "out")
    assert "is on an overlay, whose layers may be FUSE file systems, and the kernel would wait for FUSE" in said


@pytest.mark.parametrize(
    "args",
    [
        ["record", "-d", "200ms", "-p"],
        ["record", "-d", "200ms", "--call-mode", "probe", "-p"],
        ["list"],
        ["doctor"],
        ["restore"],
    ],
    ids=" ".join,
)
def test_a_server_that_stops_answering(xprof, target, tmp_path, args):
    system, busy = target
    system.silence()
    args = [args[0], "-o", tmp_path / "out", *args[1:]] if args[0] == "record" else args
    finish([xprof.path, *args, busy.process.pid])


def test_all_processes(xprof, target, tmp_path):
    system, _ = target
    system.silence()
    code, _, err = finish([xprof.path, "record", "-a", "-F", "999", "-d", "200ms", "--no-sleds", "-o", tmp_path / "out"])
    assert code == 0, err


def waits_of(pid):
    return [task.read_text() for task in pathlib.Path(f"/proc/{pid}/task").glob("*/wchan")]


@pytest.fixture
def holder(served, program, start, tmp_path):
    """
    Starts a program that holds the lock of its mappings forever. The program is static: if a library of other programs
    has a probe, such as the dynamic linker, the kernel would wait for this lock, too, and no process could fork.
    """
    data = tmp_path / "data"
    data.write_bytes(bytes(4096))
    system = served(data)
    path = program("live/programs/holder.c", "-O2", "-static", project.no_runtime())
    process = start([path, system.program])
    assert process.stdout.readline() == "ready\n"
    system.fail_a_read()
    process.send_signal(signal.SIGUSR1)
    recording.wait_until(lambda: any("mmap" in wait for wait in waits_of(process.pid)), "the lock is not held")
    return process


@pytest.mark.parametrize("args", [["record", "-d", "200ms", "-p"], ["list"]], ids=" ".join)
def test_mappings_held(xprof, holder, tmp_path, args):
    args = [args[0], "-o", tmp_path / "out", *args[1:]] if args[0] == "record" else args
    code, _, err = finish([xprof.path, *args, holder.pid])
    assert code == 1
    assert f"cannot read the mappings of process {holder.pid}: one of its threads holds their lock" in err
    assert not (tmp_path / "out").exists()


def test_mappings_held_by_one_of_two(record, holder, busy):
    """The process whose mappings are locked is omitted, and the other process is recorded."""
    other = busy(pause_us=1000)
    recorded = record("--no-samples", "-p", f"{holder.pid},{other.process.pid}", "-d", "200ms").finish().adds_up()
    assert recorded.status == 0, recorded.messages
    assert f"cannot read the mappings of process {holder.pid}: one of its threads holds their lock" in recorded.messages
    assert recorded.log().pid == other.process.pid
    other.assert_works()


def test_mappings_held_by_a_bystander(xprof, holder, tmp_path):
    code, out, err = finish([xprof.path, "record", "-a", "-F", "999", "-d", "200ms", "--no-sleds", "-o", tmp_path / "out"])
    assert code == 0, err
    # The summary lists only some profiles.
    assert list((tmp_path / "out").glob(f"*.{holder.pid}.prof")), out + err


def test_stack_in_a_served_file(xprof, served, program, start, tmp_path):
    """The stack of a waiting thread is in a file whose server does not answer."""
    data = tmp_path / "data"
    data.write_bytes(bytes(65536))
    system = served(data)
    path = program("live/programs/stack_in_file.c", "-O2", instrument=False)
    process = start([path, system.program])
    assert process.stdout.readline() == "ready\n"
    system.silence()
    code, _, err = finish([xprof.path, "record", "--off-cpu", "-d", "1", "-p", process.pid, "-o", tmp_path / "out"])
    assert code == 0, err
    assert "timeout" not in err  # no task tries to read the stack
    waits = json.loads((tmp_path / "out/manifest.json").read_text())["waits"]
    assert waits["written"] == waits["seen"] == 1 and waits["blocked_s"] > 0.9, waits
