#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_unwind: seed_unwind.py DIRECTORY"""
import pathlib
import struct
import sys

NONE, RSP, RBP, PLT, DEREF, SIGNAL, END = range(7)
CODE, JIT, STACK = 1 << 24, 2 << 24, 3 << 24
SAME = 0x80


def seed(rows, stack, ip, bp=0, missing=0, flags=2 | 8):
    """rows: (pc step minus 1, cfa, rbp, rule); stack: words."""
    derefs = struct.pack("<iiiBBH", -8, 0, 0, 1, 2, 0) + struct.pack("<iiiBBH", 8, 16, 0, 0, 0, 0) * 3
    head = struct.pack("<QQHBBI", 0, bp, ip, len(rows), flags, missing) + derefs
    table = b"".join(struct.pack("<BHBBB", step, cfa, rbp & 0xFF, 0, rule) for step, cfa, rbp, rule in rows)
    return head + table + struct.pack(f"<{len(stack)}Q", *stack)


ROWS = [
    (0xFF, 2, SAME, RSP),  # at 0x100
    (0xFF, 3, -2, RSP),
    (0xFF, 2, -2, RBP),
    (0xFF, 11, SAME, PLT),
    (0xFF, 0, 0, DEREF),
    (0xFF, 0, 0, SIGNAL),  # at 0x600
    (0xFF, 0, 0, END),
]
SEEDS = {
    "rsp": seed(ROWS, [0, CODE | 0x120, 0, CODE | 0x220, 0, 7, CODE | 0x701], 0x104),
    "rbp": seed(ROWS, [0] * 8 + [STACK | 128, CODE | 0x330] + [0] * 6 + [0, CODE | 0x701], 0x304, bp=64),
    "frame-pointers": seed(ROWS, [STACK | 32, JIT | 5, 0, 0, STACK | 64, JIT | 9, 0, 0, 0, 0], 0x20, bp=0),
    "signal": seed(ROWS, [0] * 20 + [STACK | 240, CODE | 0x300] + [0] * 8 + [0, CODE | 0x701] * 8, 0x600, bp=240),
    "loop": seed(ROWS, [0] * 20 + [STACK, CODE | 0x600], 0x600),
    "jit": seed(ROWS, [0, JIT | 0x120, 0, JIT | 0x220, 0, 7, JIT | 0x320, 0, CODE | 0x701], 0x104, flags=2 | 8 | 16),
    "late-jit": seed(ROWS, [0, JIT | 0x121, 0, JIT | 0x121, 0, 7, CODE | 0x701], 0x104, flags=2 | 8 | 16 | 32),
    "late": seed(ROWS, [0, CODE | 0x120] * 8, 0x104, flags=4),
    "missing": seed(ROWS, [0, CODE | 0x120] * 300, 0x104, missing=2),
    "deep": seed(ROWS, [0, CODE | 0x120] * 1100, 0x104),
}

for name, data in SEEDS.items():
    (pathlib.Path(sys.argv[1]) / name).write_bytes(data)
