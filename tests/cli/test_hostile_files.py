# SPDX-License-Identifier: BSD-2-Clause
"""Recordings and programs made to keep their reader busy or waiting, or to make it read other files."""
import json
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import zlib

import pytest

import hand_made
import project

HUGE = 64 << 30
MAPPED = "1000-2000 r-xp 00000000 00:00 0 /x\n"
CPU_SECONDS = 5  # a minute is enough to read the 64 GB


def metadata(kind, payload):
    return bytes([kind << 1 | 1]) + payload.ljust(15, b"\0")


# Starts of files that the readers accept. The rest of each 64 GB is a hole.
SPARSE = {
    "zeros.prof": b"",
    "records.prof": struct.pack("<5Q", 0, 3, 0, 10000, 0),
    "pcs.prof": struct.pack("<7Q", 0, 3, 0, 10000, 0, 1, HUGE // 8 - 100),
    "lines.prof": hand_made.profile([(1, [0x1010])], MAPPED),
    "records.fdr": struct.pack("<HHIQQ8x", 5, 1, 3, 10**9, 0) + metadata(7, struct.pack("<Q", HUGE - 48))
    + metadata(0, struct.pack("<i", 7)) + metadata(4, struct.pack("<qi", 1, 1)) + metadata(9, struct.pack("<i", 7))
    + metadata(2, struct.pack("<HQ", 0, 1000)),
    "rest.fdr": struct.pack("<HHIQQ8x", 1, 1, 3, 10**9, HUGE - 32) + metadata(0, struct.pack("<i", 7))
    + metadata(4, struct.pack("<qi", 1, 1)) + metadata(2, struct.pack("<HQ", 0, 1000)) + metadata(1, b""),
    "jit.dump": struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 7, 1, 0),
}


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_files(xprof, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(SPARSE[name])
    os.truncate(path, HUGE)
    for command in ("report",):
        for operand in (path, tmp_path):
            assert xprof(command, operand, preexec_fn=limit_cpu).returncode in (0, 1), (command, operand)


@pytest.mark.parametrize("name", ["app.7.prof", "app.7.fdr", "manifest.json", "x"])
def test_no_regular_files(xprof, tmp_path, name):
    """Only regular files are read: other files of a directory are skipped; other operands are refused."""
    (tmp_path / "good.1.prof").write_bytes(hand_made.profile([(1, [0x1010])], MAPPED))
    path = tmp_path / name
    os.mkfifo(path)
    for command in ("report", "recover"):
        done = xprof(command, tmp_path, timeout=20)
        assert done.returncode == 0, done.stderr
    for command in ("report",):
        done = xprof(command, path, timeout=20)
        assert done.returncode == 1 and "not a regular file" in done.stderr


def test_sockets_are_not_opened(xprof, tmp_path):
    """Sockets and devices are not opened, because opening may have an effect: it starts a watchdog."""
    path = tmp_path / "app"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        for command in ("report", "list"):
            done = xprof(command, path)
            assert done.returncode == 1 and "not a regular file" in done.stderr, command


def test_file_becomes_shorter_while_it_is_read(tmp_path):
    path = tmp_path / "app.7.prof"
    path.write_bytes(hand_made.profile([(1, [0x1000 + at]) for at in range(100000)], MAPPED))
    process = subprocess.Popen([project.CHECK, "--dump", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.read(100)  # the process waits for a reader of the rest
    os.truncate(path, 0)
    _, messages = process.communicate(timeout=20)
    assert process.returncode == 1 and messages.startswith("xprof: error: a file became shorter"), messages


def leave_flights(tmp_path, count, comm="app", objects=1):
    """Makes the logs of a process's flight recorder: all are links to one file."""
    first = tmp_path / "0.fdr"
    first.write_bytes(hand_made.fdr_log({7: [(hand_made.ENTER, 1, 1000), (hand_made.EXIT, 1, 2000)]}))
    for number in range(1, count):
        os.link(first, tmp_path / f"{number}.fdr")
    process = {"pid": 7, "comm": comm, "flights": [{"log": f"{number}.fdr"} for number in range(count)],
               "objects": [{"path": "a"}] * objects}
    (tmp_path / "manifest.json").write_text(json.dumps({"processes": [process]}))


def test_manifest_is_kept_for_each_of_many_logs(xprof, tmp_path):
    """A manifest of 1 MB is not copied for each log: it took gigabytes."""
    leave_flights(tmp_path, 300, "c" * 100000, 60000)
    done = xprof("report", "--limit", "max", tmp_path,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
    assert done.returncode == 0, done.stderr
    assert "the manifest has too many entries" in done.stderr
    assert "flight 300: 1 call" in done.stdout and len(done.stdout) < 300 * 1000


def test_many_logs_take_no_square_of_time(xprof, tmp_path):
    leave_flights(tmp_path, 12000)
    done = xprof("report", tmp_path, preexec_fn=limit_cpu)
    assert done.returncode == 0, done.stderr


LOCKER = """
import fcntl, os, sys, time
held = [open(path) for path in sys.argv[1:]]
for file in held:
    fcntl.flock(file, fcntl.LOCK_EX)
print(os.fork() or time.sleep(100), flush=True)
"""


def test_held_locks_are_waited_for_once(xprof, tmp_path):
    """
    Locks that nobody will release are waited for once. Their owner has ended, but a child holds the files, so xprof
    cannot detect that.
    """
    spools = [tmp_path / f"{number}.spool" for number in range(4)]
    for spool in spools:
        spool.write_text("x")
    with subprocess.Popen([sys.executable, "-c", LOCKER, *map(str, spools)], stdout=subprocess.PIPE, text=True) as locker:
        child = int(locker.stdout.readline())
        try:
            locker.wait()
            done = xprof("recover", tmp_path, timeout=60)  # one wait takes 20 s
        finally:
            os.kill(child, signal.SIGKILL)
    assert done.returncode == 1 and done.stderr.count("its recording is still running") == 4, done.stderr


# Programs

SOURCE = hand_made.MARK + """
static inline __attribute__((always_inline)) int inside(int n) { MARK(1); return n * 3; }
__attribute__((noinline)) int hidden(int n) { return inside(n) + 1; }
int main(int argc, char **argv) { MARK(2); return hidden(argc) == 7; }
"""
BASE = 0x555555554000


def build(tmp_path, *flags):
    (tmp_path / "app.c").write_text(SOURCE)
    done = project.run(["gcc", "app.c", "-O2", "-g", "-Wl,--build-id=sha1", *flags, "-o", "app"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    app = tmp_path / "app"
    marks = hand_made.marks(app)
    profile = tmp_path / "app.7.prof"
    profile.write_bytes(hand_made.profile([(3, [BASE + marks[1], BASE + marks[2] + 1])], hand_made.mappings(app, BASE)))
    return app, profile


@pytest.fixture
def fifo():
    """Makes a FIFO and its directories, and removes what it made."""
    made = []

    def make(path):
        missing = [parent for parent in (path.parent, *path.parent.parents) if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        made.append((path, missing))

    yield make
    for path, missing in made:
        path.unlink()
        for directory in missing:
            directory.rmdir()


@pytest.mark.parametrize("where", ["debuglink", "build-id", "dwo", "dwz"])
def test_debug_file_is_a_fifo(xprof, tmp_path, fifo, where):
    """A debug file that is a FIFO does not block the report; names come from the other files."""
    app, profile = build(tmp_path, *(["-gsplit-dwarf"] if where == "dwo" else []))
    if where == "debuglink":
        debug = tmp_path / "app.debug"
        project.run(["objcopy", "--only-keep-debug", app, debug])
        project.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", app])
        debug.unlink()
        fifo(debug)
    elif where == "build-id":
        if os.geteuid():
            pytest.skip("needs root, to put a file under /usr/lib/debug")
        project.run(["strip", "--strip-debug", app])
        build_id = re.search(r"Build ID: (\w+)", project.run(["readelf", "-n", app]).stdout).group(1)
        fifo(pathlib.Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"))
    elif where == "dwo":
        (dwo,) = tmp_path.glob("*.dwo")
        dwo.unlink()
        fifo(dwo)
    else:
        fifo(tmp_path / "alt")
        (tmp_path / "link").write_bytes(f"{tmp_path}/alt\0".encode() + b"0123456789abcdefghij")
        project.run(["objcopy", f"--add-section=.gnu_debugaltlink={tmp_path}/link", app])
    done = xprof("report", profile, timeout=30)
    assert done.returncode == 0, done.stderr
    assert " hidden " in done.stdout and " main " in done.stdout


def test_debug_file_of_another_user(xprof, tmp_path):
    """When root reads a program, debug files must be readable by the program's owner."""
    if os.geteuid():
        pytest.skip("needs root, to give a file to another user")
    app, profile = build(tmp_path)
    debug = tmp_path / "app.debug"
    project.run(["objcopy", "--only-keep-debug", app, debug])
    project.run(["strip", app])
    project.run(["objcopy", f"--add-gnu-debuglink={debug}", app])
    debug.chmod(0o600)
    assert " hidden " in xprof("report", profile).stdout
    os.chown(app, 12345, 12345)
    done = xprof("report", profile)
    assert done.returncode == 0 and "app+0x" in done.stdout and "hidden" not in done.stdout


# Prints the peak memory, in KiB, of a command and of the processes that it waits for.
PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
print(os.wait4(pid, 0)[2].ru_maxrss, file=sys.stderr)
"""


def test_debug_section_that_expands(tmp_path):
    """A debug section that expands too much is not expanded. Names of functions come from the symbol table."""
    app, profile = build(tmp_path)
    zeros = bytes(1 << 20)
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(zeros) for _ in range(512)) + packer.flush()
    (tmp_path / "packed").write_bytes(struct.pack("<IIQQ", 1, 0, 512 << 20, 1) + packed)
    project.run(["objcopy", f"--update-section=.debug_str={tmp_path}/packed", app])
    data = bytearray(app.read_bytes())
    headers, names = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 62)[0]
    texts = struct.unpack_from("<Q", data, headers + 64 * names + 24)[0]
    for at in range(headers, headers + 64 * struct.unpack_from("<H", data, 60)[0], 64):
        if data[texts + struct.unpack_from("<I", data, at)[0]:].startswith(b".debug_str\0"):
            data[at + 8:at + 16] = struct.pack("<Q", 0x800)  # SHF_COMPRESSED
    app.write_bytes(data)
    done = project.run([sys.executable, "-S", "-c", PEAK, project.XPROF, "report", profile])
    assert " hidden " in done.stdout and " main " in done.stdout
    assert int(done.stderr.splitlines()[-1]) < 300 << 10, done.stderr


@pytest.mark.parametrize("form", ["zstd", "split", "separate"])
def test_debug_information_that_cannot_be_read(xprof, tmp_path, form):
    """Inlined calls have names, or a message gives the reason why not. Older versions of libdw cannot read zstd."""
    app, profile = build(tmp_path, *(["-gsplit-dwarf"] if form == "split" else []))
    compressed = ["--compress-debug-sections=zstd"]
    if form == "split":
        for dwo in tmp_path.glob("*.dwo"):
            dwo.unlink()
    elif form == "zstd":
        project.run(["objcopy", *compressed, app])
    else:
        project.run(["objcopy", "--only-keep-debug", *compressed, app, tmp_path / "app.debug"])
        project.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={tmp_path}/app.debug", app])
    done = xprof("report", profile)
    assert done.returncode == 0 and " hidden " in done.stdout
    told = f"inlined calls and lines of {app} are missing"
    assert (" inside " in done.stdout) != (told in done.stderr), done.stderr
    assert form != "split" or "no .dwo files" in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")])
def test_manifest_speaks_of_its_own_recording(xprof, tmp_path, order):
    """
    The manifest of one recording does not remove names from the next report, which may know another build of the
    program.
    """
    app, profile = build(tmp_path)
    for name in order:
        (tmp_path / name).mkdir()
        os.link(profile, tmp_path / name / profile.name)
    described = {"file": profile.name, "pid": 7, "comm": "bad", "objects": [{"path": str(app), "build_id": "00" * 20}]}
    (tmp_path / "bad" / "manifest.json").write_text(json.dumps({"samples": {"profiles": [described]}}))
    done = xprof("report", *(tmp_path / name for name in order))
    assert done.returncode == 0 and done.stderr.count("another build id") == 1, done.stderr
    assert done.stdout.count(" hidden ") == 1 and done.stdout.count("app+0x") == 2
