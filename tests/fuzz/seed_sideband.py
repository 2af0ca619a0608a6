#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_sideband and fuzz_symbolize: `seed_sideband.py tests/fuzz/corpus`."""
import pathlib
import struct
import sys

MMAP2, COMM, EXIT, FORK, LOST = 10, 3, 4, 7, 2
EXEC, PROT_EXEC = 0x2000, 4


def record(kind, body, time, misc=0):
    body += struct.pack("<IIQ", 7, 7, time)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def text(words):
    return (words + b"\0").ljust((len(words) + 8) // 8 * 8, b"\0")


def mmap2(path, time, prot=PROT_EXEC):
    return record(MMAP2, struct.pack("<IIQQQIIQQII", 7, 7, 0x400000, 0x1000, 0, 8, 2, 77, 1, prot, 2) + text(path), time)


def task(kind, time):
    return record(kind, struct.pack("<IIIIQ", 8, 7, 8, 7, time), time)


ALL = (record(COMM, struct.pack("<II", 7, 7) + text(b"program"), 5, EXEC) + mmap2(b"/bin/program", 6) + mmap2(b"/data", 7, 1)
       + task(FORK, 9) + record(COMM, struct.pack("<II", 7, 8) + text(b"a name\n"), 8) + task(EXIT, 10)
       + record(LOST, struct.pack("<QQ", 1, 5), 11))


def frame(line, function, file):
    return struct.pack("<III", line, len(function), len(file)) + function + file


def answer(place, *frames):
    return struct.pack("<II", place, len(frames)) + b"".join(frames)


SEEDS = {
    "sideband": {"all": bytes(2) + ALL, "over-the-end": struct.pack("<H", 4096 - 24) + ALL},
    "symbolize": {
        "all": answer(0, frame(5, b"inner", b"/a.c"), frame(6, b"outer\n", b"/a.c")) + answer(1) + answer(2, frame(0, b"f", b"")),
        "another-place": answer(0) + answer(5),
        "cut-off": answer(0, struct.pack("<III", 5, 100, 0) + b"inner"),
    },
}


def main():
    for target, seeds in SEEDS.items():
        place = pathlib.Path(sys.argv[1]) / target
        place.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (place / name).write_bytes(seed)


main()
