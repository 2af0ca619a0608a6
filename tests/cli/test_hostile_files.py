# SPDX-License-Identifier: BSD-2-Clause
"""Recordings and programs made to keep their reader busy, waiting, or reading what it should not."""
import os
import resource
import struct

import pytest

import hand_made

HUGE = 64 << 30
MAPPED = "1000-2000 r-xp 00000000 00:00 0 /x\n"
CPU_SECONDS = 5  # to read the 64 GB takes a minute


def metadata(kind, payload):
    return bytes([kind << 1 | 1]) + payload.ljust(15, b"\0")


# What the readers accept at first, each with the rest of its 64 GB a hole.
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
    for command in ("report", "check", "dump"):
        for operand in (path, tmp_path):
            assert xprof(command, operand, preexec_fn=limit_cpu).returncode in (0, 1), (command, operand)


@pytest.mark.parametrize("name", ["app.7.prof", "app.7.fdr", "manifest.json", "x"])
def test_no_regular_files(xprof, tmp_path, name):
    """Of a directory they are passed over, as operands refused."""
    (tmp_path / "good.1.prof").write_bytes(hand_made.profile([(1, [0x1010])], MAPPED))
    path = tmp_path / name
    os.mkfifo(path)
    for command in ("report", "check", "recover"):
        done = xprof(command, tmp_path, timeout=20)
        assert done.returncode == 0, done.stderr
    for command in ("report", "check", "dump"):
        done = xprof(command, path, timeout=20)
        assert done.returncode == 1 and "not a regular file" in done.stderr

