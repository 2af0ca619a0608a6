#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_samples: `seed_samples.py tests/fuzz/corpus`."""
import pathlib
import struct
import sys

MMAP, COMM, EXEC, FORK, EXIT, SAMPLE = range(6)
KERNEL, SYSCALL, KTHREAD = 1, 2, 4
# The kinds, from XP_EVENT_SAMPLE on.
WAIT, WAIT_END, WAIT_SUM = 2 << 24, 3 << 24, 4 << 24
TEXT = 0xFFFFFFFF81000000


def step(what, body=b"", time=0, pid=0, tid=None, ppid=0):
    return struct.pack("<BBBBHH", what, pid, pid if tid is None else tid, ppid, len(body), time) + body


def mapping(start, path, time=0, length=0x10000, offset=0, inode=77, **of):
    return step(MMAP, struct.pack("<QQQII", start, length, offset, 1, inode) + path, time, **of)


def sample(ip, time=0, kernel=(), user=(), flags=0, stack=b"", comm=b"program", **of):
    flags |= KERNEL if kernel else 0
    head = struct.pack("<QIIII", time, 0, 0, flags, 0) + struct.pack("<3Q", ip, 0x7FFC00001000, 0x7FFC00001100)
    head += bytes(14 * 8) + struct.pack("<IIII16s", len(kernel), len(user), len(stack), 0, comm)
    frames = list(kernel) + list(user)
    return step(SAMPLE, head + struct.pack("<%dQ" % len(frames), *frames) + stack, time, **of)


def wait_end(began, time, kernel=(), state=1, syscall=-1, chance=65536, **of):
    head = struct.pack("<QIIII", time, 0, 0, WAIT_END, 0)
    head += struct.pack("<QQQQqIIIIII16s16s", began, 5, 6, 0x401000, syscall, chance, state, 0, 1, 1, len(kernel), b"program", b"waker")
    return step(SAMPLE, head + struct.pack("<%dQ" % len(kernel), *kernel), time, **of)


def wait_sum(time, **of):
    return step(SAMPLE, struct.pack("<QIIII5Q16s", time, 0, 0, WAIT_SUM, 0, 100, 20, 30, 2, 0, b"program"), time, **of)


PROGRAM = step(EXEC, b"program", 1) + mapping(0x400000, b"/bin/program", 2)
SEEDS = {
    "user": PROGRAM + sample(0x401000, 3, user=(0x401000, 0x402000)) + sample(0x401000, 4, user=(0x401000,)),
    "kernel": PROGRAM + sample(0x401000, 3, kernel=(TEXT, TEXT + 64), user=(0x401000,), flags=SYSCALL)
    + sample(0, 4, kernel=(TEXT + 128,), flags=KTHREAD, pid=1) + bytes(4)
    + b"\nfirst+0x0/0x40\nsecond+0x0/0x40 [module]\nthird+0x0/0x10\n",
    "jit": PROGRAM + mapping(0x500000, b"//anon", 3, inode=0) + sample(0x500100, 4, user=(0x500100, 0x401000)),
    "fork": PROGRAM + step(FORK, time=3, pid=1) + sample(0x401000, 4, user=(0x401000,), pid=1) + step(EXEC, b"other", 5, pid=1)
    + mapping(0x400000, b"/tmp/an other\n(deleted)", 6, pid=1) + sample(0x401000, 7, user=(0x401000,), pid=1)
    + step(COMM, b"new name", 8) + step(EXIT, time=9, pid=1) + sample(0x401000, 10, user=(0x401000,), tid=2),
    "overlap": PROGRAM + mapping(0x404000, b"/lib/a.so", 3, 0x2000, 0x1000, 78) + mapping(0x3FF000, b"[vdso]", 4, 0x2000, inode=0)
    + sample(0x404500, 5, user=(0x404500, 0x3FF100, 0x409000, 0x10)),
    "waits": PROGRAM + sample(0x401000, 3, user=(0x401000, 0x402000), flags=WAIT) + wait_end(3, 9, (TEXT, TEXT + 64), syscall=202)
    + wait_end(4, 12, state=0, chance=1, pid=1) + sample(0x401000, 13, stack=bytes(64), flags=WAIT) + wait_end(13, 20, state=2)
    + wait_sum(21) + wait_sum(22, pid=1),
    "unknown": sample(0x401000, 3) + sample(2**64 - 1, 4, user=(2**64 - 1, 0)) + sample(5, 5, stack=bytes(64)),
}


def main():
    place = pathlib.Path(sys.argv[1]) / "samples"
    place.mkdir(parents=True, exist_ok=True)
    for name, seed in SEEDS.items():
        (place / name).write_bytes(seed)


main()
