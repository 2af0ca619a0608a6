# SPDX-License-Identifier: BSD-2-Clause
"""The memory that `xprof report` takes for a log does not grow with the log."""
import struct
import sys

import project

LIMIT_KB = 64 << 10
HEADER_BYTES = 32
# A small process between this one and xprof: a process inherits the peak of the one that started it.
PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, sys.argv[-1] + ".txt", 577, 0o600)])
print(os.wait4(pid, 0)[2].ru_maxrss)
"""


def block(tid, body):
    """One thread's records, in version 5 of the format."""
    head = b"".join(bytes([kind << 1 | 1]) + data.ljust(15, b"\0") for kind, data in (
        (0, struct.pack("<i", tid)), (4, struct.pack("<QI", 1700000000, 0)), (9, struct.pack("<i", 7)), (2, struct.pack("<HQ", 0, 1))))
    return b"\x0f" + struct.pack("<Q", len(head) + len(body)).ljust(15, b"\0") + head + body


def record(kind, function):
    return struct.pack("<II", function << 4 | kind << 1, 1)


def report(xprof, path, blocks):
    """(lines of the report, peak of its memory in KiB)"""
    with open(path, "wb") as log:
        log.write(struct.pack("<HHIQ", 5, 1, 3, 1000000000).ljust(HEADER_BYTES, b"\0"))
        for data in blocks:
            log.write(data)
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
    """Threads that have ended give the room of their calls to later ones."""
    threads, deep = 200000, 1000000
    body = b"".join(record(0, 1 + i) for i in range(9)) + b"".join(record(1, 9 - i) for i in range(9))
    blocks = [block(tid, body) for tid in range(1, threads + 1)]
    lines, peak = report(xprof, tmp_path / "many.fdr", [*blocks, block(threads + 1, record(0, 1) * deep + record(1, 1) * deep)])
    assert lines[0] == f"many: {9 * threads + deep} calls"
    assert peak < LIMIT_KB
