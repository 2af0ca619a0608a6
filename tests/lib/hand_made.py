# SPDX-License-Identifier: BSD-2-Clause
"""Builds profiles, logs and manifests byte by byte, and finds the addresses in programs that they contain."""
import re
import struct

import project

# MARK(7) in a program is an instruction of one byte. marks() finds its address, even if the compiler moved it to
# another function.
MARK = r"""
#define MARK(id) __asm__ volatile("1:\tnop\n\t.pushsection marks,\"a\"\n\t.quad " #id ", 1b - .\n\t.popsection")
"""


def marks(path):
    """Returns {id: address as linked} of the MARKs of a program."""
    (section,) = re.findall(r" marks +PROGBITS +(\w+) (\w+) (\w+)", project.run(["readelf", "-SW", path]).stdout)
    address, offset, size = (int(field, 16) for field in section)
    data = path.read_bytes()[offset:offset + size]
    return {number: address + at + 8 + relative
            for at in range(0, size, 16) for number, relative in [struct.unpack_from("<Qq", data, at)]}


def symbols(path):
    """Returns {name: address as linked} of the functions of a program."""
    return {name: int(address, 16) for address, name in re.findall(r"^(\w+) [tTwW] (\S+)$", project.run(["nm", path]).stdout, re.M)}


def mappings(path, base, name=None):
    """Returns lines of /proc/PID/maps for the executable segments of a program that is mapped at `address`."""
    lines = []
    for offset, vaddr, size in re.findall(r"LOAD +(\w+) (\w+) \w+ (\w+) \w+ R E", project.run(["readelf", "-lW", path]).stdout):
        offset, vaddr, size = int(offset, 16), int(vaddr, 16), int(size, 16)
        first, end = vaddr & ~0xfff, (vaddr + size + 0xfff) & ~0xfff
        lines.append(f"{base + first:08x}-{base + end:08x} r-xp {offset & ~0xfff:08x} fe:01 42 {name or path}\n")
    return "".join(lines)


def profile(records, text, period_us=10000):
    """Returns a 64-bit gperftools profile. records: [(count, [pc, ...])]; text: the list of mapped objects."""
    slots = [0, 3, 0, period_us, 0]
    for count, pcs in records:
        slots += [count, len(pcs), *pcs]
    slots += [0, 1, 0]
    return struct.pack(f"<{len(slots)}Q", *slots) + text.encode()


ENTER, EXIT, TAIL_EXIT = range(3)


def fdr_log(threads, hz=1000000000):
    """
    Returns an XRay FDR log of version 1 with a buffer per thread. threads: {tid: [(kind, function id, tsc), ...]}.
    """
    size = 16 * 4 + 16 + 8 * max(map(len, threads.values()))
    log = struct.pack("<HHIQQ8x", 1, 1, 3, hz, size)
    for tid, calls in threads.items():
        tsc = calls[0][2]
        buffer = struct.pack("<Bi11x", 0 << 1 | 1, tid)
        buffer += struct.pack("<BQI3x", 4 << 1 | 1, 1700000000, 0)
        buffer += struct.pack("<BHQ5x", 2 << 1 | 1, 0, tsc)
        for kind, function, at in calls:
            buffer += struct.pack("<II", function << 4 | kind << 1, at - tsc)
            tsc = at
        buffer += struct.pack("<B15x", 1 << 1 | 1)
        log += buffer.ljust(size, b"\0")
    return log
