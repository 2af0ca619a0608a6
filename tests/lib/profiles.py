# SPDX-License-Identifier: BSD-2-Clause
"""Reads gperftools CPU profiles: by hand following the specification, and with google-pprof and go tool pprof."""
import re
import shutil
import struct

import project


class Profile:
    """A 64-bit little-endian profile."""

    def __init__(self, path):
        self.path = path
        data = path.read_bytes()
        slots = [s for (s,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8])]
        assert slots[0] == 0 and slots[1] == 3 and slots[2] == 0 and slots[4] == 0, slots[:5]
        self.period_us = slots[3]
        self.records = []
        at = 5
        while slots[at : at + 3] != [0, 1, 0]:
            count, depth = slots[at : at + 2]
            self.records.append((count, slots[at + 2 : at + 2 + depth]))
            at += 2 + depth
        self.mappings = data[(at + 3) * 8 :].decode().splitlines()

    @property
    def samples(self):
        return sum(count for count, _ in self.records)

    @property
    def seconds(self):
        return self.samples * self.period_us / 1e6


GO = shutil.which("go")
GOOGLE_PPROF = shutil.which("google-pprof")


def go_top(path, program=None, index="samples"):
    """Returns {function: (flat, cumulative)} of `go tool pprof`, in samples or calls."""
    done = project.run(
        [GO, "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", f"-sample_index={index}"]
        + ([program] if program else [])
        + [path],
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "PPROF_TMPDIR": "/tmp"},
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+(\d+)\s+[\d.]+%\s+(.+?)(?: \(inline\))?$", done.stdout, re.M)
    return {name: (int(flat), int(cum)) for flat, cum, name in rows}


def perl_top(path, program):
    """Returns {function: (flat, cumulative)} of google-pprof."""
    done = project.run([GOOGLE_PPROF, "--text", program, path])
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+(\d+)\s+[\d.]+%\s+(.+)$", done.stdout, re.M)
    return {name: (int(flat), int(cum)) for flat, cum, name in rows}


def jit_samples(messages):
    """Returns the samples in JIT code that `record` prints: in functions with a name, and without."""
    found = re.search(r"samples? in JIT code = (\d+) in a known function \+ (\d+) without a name", messages)
    return tuple(map(int, found.groups())) if found else (0, 0)


def share(top, name):
    total = sum(flat for flat, _ in top.values())
    return top[name][1] / total
