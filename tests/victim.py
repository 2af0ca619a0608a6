# SPDX-License-Identifier: BSD-2-Clause
"""Targets that notice when they are harmed, and what must not remain of a recording."""
import functools
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import time

import house
import recording

OUR_PROGRAMS = re.compile(r"(sled_|stub_|task_(exec|fork|exit)$|link_map_chan|jit_changed)")


class Busy:
    """live/programs/victim.c at work."""

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def rounds(self):
        fields = self.progress.read_text().split()
        assert not fields or fields[1] == "0", f"{fields[1]} results of the target were wrong"
        return int(fields[0]) if fields else 0

    def assert_works(self):
        """It lives, goes on, and what it computes is right."""
        before = self.rounds()
        recording.wait_until(
            lambda: self.process.poll() is not None or self.rounds() > before + 20, "the target makes no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"

    def assert_unharmed(self):
        """What has to be true after every recording of it, however that ended."""
        self.assert_works()
        assert_nothing_left(self.pid)
        self.assert_works()


class Load:
    """live/programs/load.c at work."""

    ROUNDS, HOT, WARM, COLD = range(4)

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def words(self):
        """The four counters, and the rounds of each thread."""
        return [word for (word,) in struct.iter_unpack("=Q", self.progress.read_bytes())]

    def counters(self):
        return self.words()[:4]

    def wait_without_hot(self):
        """Until no thread calls hot() any more, also none that was put aside in the middle of its calls."""
        since = self.words()

        def each_had_a_round():
            nonlocal since
            now = self.words()
            if now[self.HOT] != since[self.HOT]:
                since = now
            # The first may have begun, and had its calls counted, before.
            return all(done >= before + 2 for done, before in zip(now[4:], since[4:]))

        recording.wait_until(each_had_a_round, "no rounds without hot()", 60)

    def cpu_s(self):
        return time.clock_gettime((~self.pid << 3) | 2)  # CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) has it

    def work_rate(self, seconds):
        """Rounds in a second of its CPU time."""
        rounds, cpu_s = self.counters()[self.ROUNDS], self.cpu_s()
        time.sleep(seconds)
        return (self.counters()[self.ROUNDS] - rounds) / (self.cpu_s() - cpu_s)

    def assert_works(self):
        before = self.counters()[self.ROUNDS]
        recording.wait_until(
            lambda: self.process.poll() is not None or self.counters()[self.ROUNDS] > before + 3, "no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"


class Churn:
    """live/programs/churn.c at work."""

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def generations(self):
        return self.progress.stat().st_size if self.progress.exists() else 0

    def assert_works(self):
        before = self.generations()
        recording.wait_until(
            lambda: self.process.poll() is not None or self.generations() > before + 3, "the target makes no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"


def assert_nothing_left(pid):
    """No breakpoint in the process, and no BPF program without a process. When xprof was killed, that takes a moment."""
    recording.wait_until(lambda: not changed_code(pid), lambda: f"left behind: {changed_code(pid)}")
    recording.wait_until(lambda: not orphans(), lambda: f"left behind: {orphans()}")


def code_differences(pid):
    """Where the code in a process's memory differs from that in its files: (path, address, byte in memory)."""
    for _ in range(100):
        try:
            return compare_code(pid)
        except OSError:
            pass  # it has executed something else meanwhile
    raise AssertionError(f"process {pid} cannot be read")


SLED_BYTES = {"custom": 17, "typed": 22}


@functools.lru_cache(maxsize=64)
def sled_tails(path, inode, changed):
    """File offsets of the bytes of sleds that are not put back: never executed, as with XRay's own runtime."""
    listed = house.run([house.XPROF, "list", "--sleds", path]).stdout.splitlines()
    tails = set()
    for line in listed:
        fields = line.split()
        if fields and fields[0].isdigit():
            offset = int(fields[3], 0)
            tails.update(range(offset + 1 + (fields[1] != "exit"), offset + SLED_BYTES.get(fields[1], 11)))
    return tails


def tails_of(map_file):
    status = os.stat(map_file)
    return sled_tails(map_file, status.st_ino, status.st_ctime_ns)


def compare_code(pid):
    differences = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if "x" not in fields[1] or len(fields) < 6 or not fields[5].startswith("/"):
                continue
            if fields[5].startswith("/memfd:xprof "):
                continue  # xprof's own, which stays; in a child it is as its parent's was
            start, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(start)
            here = memory.read(end - start)
            with open(f"/proc/{pid}/map_files/{start:x}-{end:x}", "rb") as file:
                file.seek(int(fields[2], 16))
                there = file.read(end - start)
            if here == there:
                continue
            tails = tails_of(f"/proc/{pid}/map_files/{start:x}-{end:x}")
            differences += [
                (fields[5], start + i, a)
                for i, (a, b) in enumerate(zip(here, there))
                if a != b and int(fields[2], 16) + i not in tails
            ]
    return differences


def changed_code(pid):
    """The first places of those, as text."""
    return [f"{path} {address:#x}: {byte:#x}" for path, address, byte in code_differences(pid)[:5]]


def breakpoints(pid):
    """Those of them where a breakpoint stands."""
    return [place for place in code_differences(pid) if place[2] == 0xCC]


def restore(xprof, pid):
    """It waits until the last of a killed xprof is gone."""
    return xprof("restore", "-p", pid)


def children(pid):
    """The process ids of its children."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            pass  # ended meanwhile
    return found


def runs(pid, path):
    """Does the process run this program?"""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", path)
    except OSError:
        return False


def held_programs():
    """Ids of the BPF programs that processes hold."""
    held = set()
    # Unlike pathlib's, this glob passes over a process that ends while it looks.
    for info in glob.glob("/proc/[0-9]*/fdinfo/*"):
        try:
            held.update(int(m) for m in re.findall(r"^prog_id:\s*(\d+)", pathlib.Path(info).read_text(), re.M))
        except OSError:
            pass  # closed meanwhile
    return held


def bpftool():
    for tool in ("bpftool", "/usr/sbin/bpftool"):
        if shutil.which(tool):
            return tool
    return None


def orphans():
    """BPF programs of xprof that no process holds any more."""
    if not bpftool():
        return []
    listed = json.loads(house.run([bpftool(), "-j", "prog", "show"]).stdout or "[]")
    ours = {p["id"]: p["name"] for p in listed if OUR_PROGRAMS.match(p.get("name", ""))}
    held = held_programs() if ours else set()
    return [f"{name} ({number})" for number, name in ours.items() if number not in held]


def uprobe_links(pid):
    """The links of uprobes that a process holds: (descriptor, name of the program), as many as there are."""
    names = {p["id"]: p.get("name", "") for p in json.loads(house.run([bpftool(), "-j", "prog", "show"]).stdout)}
    found = []
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        if fields.get("link_type", "").strip() in ("uprobe_multi", "perf"):
            found.append((int(info.name), names[int(fields["prog_id"])]))
    return sorted(found)


def wrapped(xprof, tmp_path, *before):
    """xprof run by another program: wrapped(xprof, tmp_path, "prlimit", "--fsize=1000")."""
    path = tmp_path / f"xprof-by-{os.path.basename(before[0])}"
    path.write_text(f"#!/bin/sh\nexec {shlex.join(map(str, before))} {shlex.quote(str(xprof.path))} \"$@\"\n")
    path.chmod(0o755)
    return house.Xprof(path)
