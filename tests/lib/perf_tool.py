# SPDX-License-Identifier: BSD-2-Clause
"""Runs perf as users do: returns its output for a perf.data, and checks that perf prints no warnings."""
import os
import pathlib
import re
import shutil

import pytest

import project


def paths():
    """Returns the paths of the machine's perf and of those in XPROF_PERFS (separated by colons)."""
    found = [shutil.which("perf"), *os.environ.get("XPROF_PERFS", "").split(":")]
    return [path for path in found if path and project.run([path, "--version"]).returncode == 0]


PATHS = paths()


def version_of(path):
    return project.run([path, "--version"]).stdout.split()[-1]


def fixture_params():
    """Returns the parameters for pytest.fixture(params=...): each perf, or None."""
    return {"params": PATHS or [None], "ids": [f"perf-{version_of(path)}" for path in PATHS] or ["perf"]}


class Perf:
    """perf with its cache of binaries (~/.debug) in `home`. The cache is initially empty."""

    def __init__(self, path, home):
        if path is None:
            pytest.skip("no perf here (Debian's linux-perf)")
        self.path, self.home = path, home

    def __call__(self, *args, warnings=False, **options):
        """Returns perf's output. Any output on standard error fails the test, unless `warnings`."""
        environment = {**os.environ, "HOME": str(self.home), "PERF_CONFIG": "/dev/null", "PAGER": "cat", "LC_ALL": "C"}
        environment.pop("DEBUGINFOD_URLS", None)
        done = project.run([self.path, "--no-pager", *args], env=environment, **options)
        assert done.returncode == 0, f"perf {args}: {done.stdout[-2000:]}{done.stderr}"
        # perf 7.2 prints this for each incomplete file, and then uses the machine's maximum number of CPUs.
        complaints = re.sub(r"^WARNING: perf\.data is missing HEADER_NRCPUS, .*\n", "", done.stderr, flags=re.M)
        assert warnings or not complaints.strip(), f"perf {args}: {done.stderr}"
        return done.stdout

    def report(self, path, *keys, children=False, args=()):
        """Returns {(key, ...): samples}, or with children {(key, ...): share of the period}. keys: comm, dso, sym..."""
        first = "overhead_children" if children else "sample"
        text = self("report", "-i", path, "--stdio", "-g", "none", "--percent-limit", "0", "--no-inline", "-t", "\x01",
                    "--children" if children else "--no-children", "-F", ",".join([first, *keys]), *args)
        rows = {}
        for line in text.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            number, *names = [field.strip() for field in line.split("\x01")]
            names = tuple(re.sub(r"^\[.\] ", "", name) for name in names)
            value = float(number.rstrip("%")) / 100 if children else sum(map(int, number.split()))  # one per event
            rows[names] = rows.get(names, 0) + value
        return rows

    def script(self, path, *args):
        """Returns [Sample]."""
        text = self("script", "-i", path, "--no-inline", "--ns", "-F", "comm,pid,tid,cpu,time,period,event,ip,sym,dso", *args)
        return [Sample(block) for block in text.split("\n\n") if block.strip()]

    def cache(self, *args):
        """Runs perf buildid-cache in this home directory."""
        return self("buildid-cache", *args)


class Sample:
    HEAD = re.compile(r"^(.*?)\s+(\d+)/(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\d+)\s+(\S+):\s*$")
    FRAME = re.compile(r"^\s*([0-9a-f]+) (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)$")

    def __init__(self, text):
        head, *frames = text.strip("\n").split("\n")  # splitlines() would also split names at U+2028
        match = self.HEAD.match(head)
        assert match, head
        comm, pid, tid, cpu, seconds, ns, period, self.event = match.groups()
        self.comm, self.pid, self.tid, self.cpu = comm.strip(), int(pid), int(tid), int(cpu)
        self.time_ns, self.period = int(seconds + ns), int(period)
        matches = [self.FRAME.match(frame) for frame in frames]
        assert all(matches), frames
        self.names = [match.group(2) for match in matches]
        self.objects = [match.group(3) for match in matches]


def kernel_build_id():
    """Returns the build ID of the running kernel in hex, or None."""
    notes = pathlib.Path("/sys/kernel/notes")
    if not notes.exists():
        return None
    data, at = notes.read_bytes(), 0
    while at + 12 <= len(data):
        name, size, kind = (int.from_bytes(data[at + i:at + i + 4], "little") for i in (0, 4, 8))
        start = at + 12 + (name + 3 & ~3)
        if kind == 3 and data[at + 12:at + 12 + name] == b"GNU\0":
            return data[start:start + size].hex()
        at = start + (size + 3 & ~3)
    return None


def build_id(path):
    """Returns the build ID of an ELF file in hex, or None."""
    found = re.search(r"Build ID: (\w+)", project.run(["readelf", "-n", path]).stdout)
    return found and found.group(1)


def kernel_symbols():
    """Returns {name: address} of the kernel's code; empty if the kernel hides addresses."""
    symbols = {}
    for line in pathlib.Path("/proc/kallsyms").open():
        address, kind, name = line.split()[:3]
        if kind in "tT" and "\t[" not in line:
            symbols.setdefault(name, int(address, 16))
    return symbols if any(symbols.values()) else {}
