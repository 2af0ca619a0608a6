#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_cfi_build and fuzz_cfi_table: `seed_cfi.py tests/fuzz/corpus` (gcc, ld and objcopy needed)."""
import pathlib
import struct
import subprocess
import sys
import tempfile

FUNCTIONS = {
    "plain": ["push %rbp", ".cfi_def_cfa_offset 16", ".cfi_offset %rbp, -16", "mov %rsp, %rbp", ".cfi_def_cfa_register %rbp", "leave",
              ".cfi_def_cfa %rsp, 8"],
    "remember": ["push %rbx", ".cfi_adjust_cfa_offset 8", ".cfi_remember_state", "pop %rbx", ".cfi_adjust_cfa_offset -8", "ret",
                 ".cfi_restore_state", "pop %rbx"],
    "plt": [".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22", "nop"],
    "realigned": [".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06", ".cfi_escape 0x10, 6, 2, 0x76, 0", "nop"],
    "signal": [".cfi_signal_frame", ".cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06", ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01", "nop"],
    "outermost": [".cfi_undefined %rip", "nop"],
    "personality": [".cfi_personality 0x1b, _start", ".cfi_lsda 0x1b, _start", "nop"],
}


def frames(directory, section, bodies):
    lines = [f".cfi_sections {section}", ".globl _start", "_start: nop"]
    for body in bodies:
        lines += [".balign 16", ".cfi_startproc", *body, "ret", ".cfi_endproc"]
    (directory / "t.s").write_text("\n".join(lines) + "\n")
    for argv in (["gcc", "-c", "t.s"],
                 ["ld", "-o", "t", "-Ttext=0x1000", "--section-start=.eh_frame=0x2000", "t.o"],
                 ["objcopy", "--dump-section", f"{section}=out", "t"]):
        subprocess.run(argv, cwd=directory, check=True)
    return (directory / "out").read_bytes()


def build_seeds(to):
    to.mkdir(parents=True, exist_ok=True)
    bodies = {**{name: [body] for name, body in FUNCTIONS.items()}, "all": list(FUNCTIONS.values())}
    with tempfile.TemporaryDirectory() as temporary:
        for name, body in bodies.items():
            for kind, section in enumerate((".eh_frame", ".debug_frame")):
                (to / f"{name}{section}").write_bytes(bytes([kind]) + frames(pathlib.Path(temporary), section, body))
        plain = frames(pathlib.Path(temporary), ".eh_frame", list(FUNCTIONS.values()))
        (to / "indexed").write_bytes(b"\2" + index(plain) + plain)


def index(eh_frame):
    """Returns the size of .eh_frame_hdr, and the section, for the addresses of fuzz_cfi_build."""
    entries, at = [], 0
    while at + 8 <= len(eh_frame):
        length, cie, start = struct.unpack_from("<IIi", eh_frame, at)
        if not length:
            break
        if cie:
            entries.append((0x2000 + at + 8 + start - 0x8000, 0x2000 + at - 0x8000))
        at += 4 + length
    table = b"".join(struct.pack("<ii", *entry) for entry in sorted(entries))
    table = struct.pack("<BBBBiI", 1, 0x1B, 3, 0x3B, 0x2000 - 0x8000 - 4, len(entries)) + table
    return bytes([len(table)]) + table


def table_seeds(to):
    """Returns tables as struct xp_cfi_header, _row and _deref of cfi_table.h."""
    to.mkdir(parents=True, exist_ok=True)
    rows = [(0x1020, 11, -128, 3), (0x1040, 0, 0, 6), (0x1041, 1, -128, 1), (0x2000, 2, -2, 2), (0x20000, 0, 0, 4), (0x20010, 1, -2, 4),
            (0x20020, 0, 0, 5), (0xfffffff9, 0, 0, 0)]
    derefs = [(-8, 0, 0, 2, 2, 0), (24, 16, 0, 1, 0, 0)]
    blob = struct.pack("<QII9Q", 0x6c62617469666378, len(rows), len(derefs), *range(9))
    blob += b"".join(struct.pack("<IHbB", *row) for row in rows) + b"".join(struct.pack("<iiiBBH", *deref) for deref in derefs)
    (to / "all").write_bytes(blob)
    (to / "smallest").write_bytes(struct.pack("<QII9QIHbB", 0x6c62617469666378, 1, 0, *range(9), 0, 0, 0, 0))


if __name__ == "__main__":
    build_seeds(pathlib.Path(sys.argv[1]) / "cfi_build")
    table_seeds(pathlib.Path(sys.argv[1]) / "cfi_table")
