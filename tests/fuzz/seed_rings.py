#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_rings: `seed_rings.py tests/fuzz/corpus`."""
import pathlib
import struct
import sys

ENTRY, EXIT, TAIL_EXIT, ENTRY_ARGS, CUSTOM, TYPED = range(6)
EXEC, EXIT_THREAD, EXIT_PROCESS, LINK_MAP = 8, 10, 11, 12
BUSY, DISCARD = 1 << 31, 1 << 30


def record(kind, time, fn=0, sp=0, pid=0, tid=0, rest=b"", flags=0):
    body = struct.pack("<QIIII", time, pid, tid, fn | kind << 24, sp) + rest
    return struct.pack("<II", len(body) | flags, 0) + body + bytes(-len(body) % 8)


def event(kind, time, text, beyond=0):
    return record(kind, time, 1, 50, rest=struct.pack("<IIQ", len(text) + beyond, 7, 100) + text)


def call(fn, sp, start, end, pid=0, tid=0, how=EXIT):
    return record(ENTRY, start, fn, sp, pid, tid) + record(how, end, fn, sp, pid, tid)


def task(kind, time, pid=0, tid=0):
    return record(kind, time, 0, 0, pid, tid, struct.pack("<6IQ16s", 1, 0, 0, 1, 0, 0, 1000, b"program"))


def rings(first, second=b"", flags=0, position=0, beyond=0):
    return struct.pack("<HHHHBBBB", position, 0, len(first), len(second), beyond, 0, flags, 0) + first + second


ARGS = record(ENTRY_ARGS, 30, 2, 90, rest=struct.pack("<II6Q", 2, 0, 11, 22, 0, 0, 0, 0))
NESTED = record(ENTRY, 10, 1, 100) + ARGS + record(EXIT, 40, 2, 90) + record(TAIL_EXIT, 2**33, 1, 100)
SEEDS = {
    "calls": rings(NESTED, call(3, 80, 20, 35, 1, 2)),
    "events": rings(event(CUSTOM, 10, b"text") + event(TYPED, 20, b"") + event(CUSTOM, 30, b"x" * 100), flags=1),
    "left-frames": rings(record(ENTRY, 10, 1, 100) + record(ENTRY, 20, 2, 90) + record(ENTRY, 30, 3, 95)
                         + record(EXIT, 40, 1, 100) + record(EXIT, 50, 1, 100)),
    "short-calls": rings(call(1, 100, 10, 20) + call(2, 100, 30, 2000), flags=2),
    "budget": rings(call(1, 100, 10, 20) + call(5, 90, 30, 40) + call(3, 80, 2000, 2001), flags=4),
    "tasks": rings(call(1, 100, 10, 20) + task(EXEC, 30) + call(1, 100, 40, 50, tid=1) + task(EXIT_THREAD, 60, tid=1)
                   + task(EXIT_PROCESS, 70) + record(LINK_MAP, 80), call(2, 90, 25, 75, pid=1)),
    "flight": rings(record(ENTRY, 10, 1, 100) + call(2, 90, 20, 30) + record(LINK_MAP, 40) + call(2, 90, 50, 60)
                    + task(EXIT_PROCESS, 70), call(2, 90, 25, 75, pid=1), flags=8),
    "discarded": rings(record(ENTRY, 10, 1, 100, flags=DISCARD) + call(2, 90, 20, 30) + record(ENTRY, 40, 1, 80, flags=BUSY)),
    "over-the-end": rings(NESTED, position=4096 - 40),
    "beyond": rings(NESTED, beyond=0xff),
    "two-clocks": rings(record(ENTRY, 2**63 | 5, 1, 100) + record(EXIT, 20, 1, 100)),
    # The case that the check exists for.
    "payload-beyond-the-record": rings(event(CUSTOM, 10, b"text", 4000)),
    "arguments-beyond-the-record": rings(record(ENTRY_ARGS, 30, 2, 90, rest=struct.pack("<II6Q", 7, 0, *range(6)))),
    "longer-than-the-ring": rings(struct.pack("<II", 1 << 16, 0) + NESTED, beyond=0xff),
}


def main():
    place = pathlib.Path(sys.argv[1]) / "rings"
    place.mkdir(parents=True, exist_ok=True)
    for name, seed in SEEDS.items():
        (place / name).write_bytes(seed)


main()
