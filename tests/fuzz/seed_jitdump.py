#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Writes the seeds of fuzz_jitdump_reader and fuzz_jit_src_dump, each with a record of every kind: `seed_jitdump.py
tests/fuzz/corpus`.
"""
import pathlib
import struct
import sys

HEADER = b"\x01\x1b\x03\x3b" + bytes(16)
FRAME = struct.pack("<II", 20, 0) + b"\x01zR\0\x01x\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0"


def dump(version, big):
    order = ">" if big else "<"

    def record(kind, form, *values, data=b""):
        body = struct.pack(order + form, *values) + data
        return struct.pack(order + "IIQ", kind, 16 + len(body), 1000) + body

    def line(address, number, name):
        return struct.pack(order + "QII", address, number, 0) + name + b"\0"

    parts = (FRAME, HEADER) if version == 1 else (HEADER, FRAME)
    return b"".join([
        struct.pack(order + "6I2Q", 0x4A695444, version, 40, 62, 0, 42, 999, version - 1),
        record(2, "QQ", 0x7000, 2, data=line(0x7000, 1, b"a.js") + line(0x7004, 2, b"\xff") + bytes(3)),
        record(4, "QQQ", len(FRAME + HEADER), len(HEADER), len(FRAME + HEADER), data=b"".join(parts)),
        record(0, "II4Q", 42, 43, 0x7000, 0x7000, 8, 1, data=b"hot\0" + bytes(range(8))),
        record(1, "II5Q", 42, 43, 0x9000, 0x7000, 0x9000, 8, 1),
        record(7, "Q", 1),
        record(3, ""),
    ])


def main():
    for target, before in (("jitdump_reader", b""), ("jit_src_dump", b"\x40")):
        corpus = pathlib.Path(sys.argv[1]) / target
        corpus.mkdir(parents=True, exist_ok=True)
        for version in (1, 2):
            for big in (False, True):
                (corpus / f"v{version}-{'big' if big else 'little'}").write_bytes(before + dump(version, big))


main()
