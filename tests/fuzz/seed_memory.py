#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_jit_src_gdb, fuzz_stdio_tail and fuzz_sled_bytes: `seed_memory.py tests/fuzz/corpus`."""
import pathlib
import struct
import sys

BASE = 0x7F0000000000
TEXT = BASE + 0x1000


def symfile(names, text):
    """Returns an ELF file with consecutive functions of 16 bytes, as jit_symfile.h requires."""
    strings = b"\0" + b"".join(name + b"\0" for name in names)
    symbols, at = bytes(24), 1
    for i, name in enumerate(names):
        symbols += struct.pack("<IBBHQQ", at, 2, 0, 1, 16 * i, 16)
        at += len(name) + 1
    header_bytes, sections = 64, 4
    symbols_at = header_bytes + 64 * sections
    strings_at = symbols_at + len(symbols)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, header_bytes, 0, 64, 0, 0, 64, sections, 3)
    table = bytes(64)
    table += struct.pack("<IIQQQQIIQQ", 0, 1, 6, text, 0, 16 * len(names), 0, 0, 16, 0)
    table += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, symbols_at, len(symbols), 3, 1, 8, 24)
    table += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, strings_at, len(strings), 0, 0, 1, 0)
    return header + table + symbols + strings


def gdb(files, change=0, lead_back=True):
    """Returns the descriptor, an entry for each file, the files, and code at BASE + 0x1000."""
    entries, contents = b"", b""
    first = 24
    at = first + 32 * len(files)
    for i, file in enumerate(files):
        following = BASE + first + 32 * (i + 1) if i + 1 < len(files) else 0
        previous = BASE + first + 32 * (i - 1) if i and lead_back else 0
        entries += struct.pack("<4Q", following, previous, BASE + at + len(contents), len(file))
        contents += file
    memory = struct.pack("<IIQQ", 1, 1, BASE + first, BASE + first) + entries + contents
    return bytes([change]) + memory.ljust(0x1000, b"\0") + b"\x90" * 64


def stream(fd=3, flags=0xFBAD2484, text=b"not written yet", change=0):
    buffer = BASE + 128
    words = [0, 0, 0, buffer, buffer + len(text), buffer + 256, buffer, buffer + 256, 0, 0, 0, 0, 0]
    return bytes([change]) + struct.pack("<II", flags, 0) + struct.pack("<13Qi", *words, fd).ljust(120, b"\0") + text


def sled(kind, code, address=0x401000, slot=0x500000):
    return struct.pack("<QQIB3x", address, slot, 7, kind) + code.ljust(24, b"\x90")


NOPS = bytes.fromhex("eb09660f1f840000020000")
SEEDS = {
    "jit_src_gdb": {
        "two": gdb([symfile([b"first", b"second"], TEXT), symfile([b"third"], TEXT + 32)]),
        "changes": gdb([symfile([b"first"], TEXT), symfile([b"second"], TEXT + 16)], change=4),
        "dump": gdb([symfile([b"first", b"second"], TEXT)], change=0x80),
        "broken-list": gdb([symfile([b"first"], TEXT)] * 3, lead_back=False),
    },
    "stdio_tail": {"usual": stream(), "changes": stream(change=3), "other-file": stream(fd=4)},
    "sled_bytes": {
        "entry": sled(0, NOPS),
        "exit": sled(1, bytes.fromhex("c32e660f1f840000020000")),
        "conditional-tail": sled(2, NOPS + b"\x0f\x84"),
        "patched": sled(0, bytes.fromhex("41ba07000000e8f5ef0f00")),
        "custom": sled(4, bytes.fromhex("eb0f57564889c74889d60f1f44000090905e5f")),
        "typed": sled(5, bytes.fromhex("eb145756524889c74889ce4889da0f1f440000905a5e5f")),
        "far": sled(3, NOPS, slot=1 << 40),
    },
}


def main():
    for target, seeds in SEEDS.items():
        place = pathlib.Path(sys.argv[1]) / target
        place.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (place / name).write_bytes(seed)


main()
