# SPDX-License-Identifier: BSD-2-Clause
"""Checks that the memory that xprof uses to read a log does not grow with the log."""
import re
import struct
import sys

import project
import pytest

LIMIT_KB = 64 << 10
HEADER_BYTES = 32
# A small process between pytest and xprof, because a process inherits the peak of its parent.
PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, sys.argv[-1] + ".txt", 577, 0o600)])
print(os.wait4(pid, 0)[2].ru_maxrss)
"""


def block(tid, body):
    """Returns the block of one thread's records, in version 5 of the format."""
    head = b"".join(bytes([kind << 1 | 1]) + data.ljust(15, b"\0") for kind, data in (
        (0, struct.pack("<i", tid)), (4, struct.pack("<QI", 1700000000, 0)), (9, struct.pack("<i", 7)), (2, struct.pack("<HQ", 0, 1))))
    return b"\x0f" + struct.pack("<Q", len(head) + len(body)).ljust(15, b"\0") + head + body


def record(kind, function):
    return struct.pack("<II", function << 4 | kind << 1, 1)


def write(path, blocks):
    with open(path, "wb") as log:
        log.write(struct.pack("<HHIQ", 5, 1, 3, 1000000000).ljust(HEADER_BYTES, b"\0"))
        for data in blocks:
            log.write(data)


def report(xprof, path, blocks):
    """Returns (lines of the report, its peak memory in KiB)."""
    write(path, blocks)
    done = project.run([sys.executable, "-S", "-c", PEAK, xprof.path, "report", path])
    assert done.returncode == 0, done.stderr
    return (path.parent / (path.name + ".txt")).read_text().splitlines(), int(done.stdout)


def test_long_log(xprof, tmp_path):
    calls = 5 << 20
    body = (record(0, 1) + record(1, 1)) * calls
    lines, peak = report(xprof, tmp_path / "long.fdr", [block(1, body)])
    assert len(body) > LIMIT_KB << 10
    assert lines[0] == f"long: {calls} calls"
    assert peak < LIMIT_KB / 2


def test_log_of_many_threads(xprof, tmp_path):
    """When threads end, later threads reuse the memory of their calls."""
    threads, deep = 200000, 1000000
    body = b"".join(record(0, 1 + i) for i in range(9)) + b"".join(record(1, 9 - i) for i in range(9))
    blocks = [block(tid, body) for tid in range(1, threads + 1)]
    lines, peak = report(xprof, tmp_path / "many.fdr", [*blocks, block(threads + 1, record(0, 1) * deep + record(1, 1) * deep)])
    assert lines[0] == f"many: {9 * threads + deep} calls"
    assert peak < LIMIT_KB


def test_manifest_of_empty_objects(xprof, tmp_path):
    """Objects of a manifest are limited: each takes 80 times its bytes in memory, 800 MB here."""
    objects = 10 << 20
    (tmp_path / "manifest.json").write_text('{"processes": [' + ",".join(["{}"] * (objects // 3)) + "]}")
    lines, peak = report(xprof, tmp_path / "app.7.fdr", [block(1, record(0, 1) + record(1, 1))])
    assert lines[0] == "app.7: 1 call"
    assert 64 << 10 < peak < 480 << 10


ENTRIES, THREADS = 1 << 20, 4


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """Makes a recording whose calls never end, except one call of fn_2 per thread."""
    directory = tmp_path_factory.mktemp("entries")
    body = record(0, 1) * ENTRIES + record(0, 2) + record(1, 2)
    write(directory / "entries.7.fdr", [block(tid, body) for tid in range(1, THREADS + 1)])
    (directory / "manifest.json").write_text('{"clock": {"start_tsc": 1, "hz": 1000000000}}')
    return directory


# In addition to the open calls, a model of calls has stacks: at most one per open call.
@pytest.mark.parametrize("command, limit_kb", [
    (["report"], LIMIT_KB), (["explain"], LIMIT_KB), (["export", "--format=perfetto"], LIMIT_KB), (["export", "--calls", "--format=folded"], 4 * LIMIT_KB)],
    ids=["report", "explain", "perfetto", "calls"])
def test_calls_that_never_end(xprof, entries, tmp_path, command, limit_kb):
    output = ["-o", tmp_path / "out"] if command[0] == "export" else []
    done = project.run([sys.executable, "-S", "-c", PEAK, xprof.path, *command, *output, entries])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < limit_kb
    said = re.search(r"(\d+) calls are (missing|counted but not timed): too many calls or threads at the same time", done.stderr)
    # At most 2 Mi calls are open. At least half of the memory that a thread allocated is in use.
    assert THREADS * (ENTRIES + 1) - (2 << 20) <= int(said[1]) <= THREADS * (ENTRIES + 1) - (1 << 20)
