# SPDX-License-Identifier: BSD-2-Clause
"""Checks user stacks without frame pointers: complete and right, with bounded work for any target."""
import collections
import json
import os
import pathlib
import random
import re
import shutil
import struct
import time

import pytest

import profiles
import project
import recording

pytestmark = pytest.mark.uprobes

BUILD = ("-O2", "-g", "-fomit-frame-pointer", "-pthread")
STOPS_TOOL = project.OUTPUT / "tests" / "format" / "unwind_stops"
ENTRY_BYTES = 64  # of _start


class Recorded:
    """A finished recording of samples."""

    def __init__(self, recorded):
        assert recorded.status == 0, recorded.messages
        self.directory = recorded.directory
        self.totals = recorded.manifest["samples"]
        assert self.totals["seen"] == self.totals["written"] + self.totals["lost"], self.totals
        self.stacks = self.totals.get("stacks")
        if self.stacks:
            reasons = sum(n for name, n in self.stacks.items() if name != "seen")
            assert self.stacks["seen"] == reasons <= self.totals["written"], self.totals

    def entries(self, comm):
        found = [e for e in self.totals["profiles"] if e["comm"] == comm]
        assert found, self.totals["profiles"]
        return found

    def profiles(self, comm):
        return [profiles.Profile(self.directory / e["file"]) for e in self.entries(comm)]

    def share(self, comm, reason="complete"):
        """Returns the share of the user stacks of all processes with this name that ended in this way."""
        stacks = [e["stacks"] for e in self.entries(comm)]
        return sum(s.get(reason, 0) for s in stacks) / max(sum(s["seen"] for s in stacks), 1)

    def in_time(self, comm):
        """Returns the share of stacks whose tables were ready in time, which depends on other load."""
        return 1 - self.share(comm, "table_late")


@pytest.fixture
def sampled(record):
    return lambda *args: Recorded(record("--no-sleds", "--buffer=16m", *args).finish())


@pytest.fixture
def stacks(program):
    return program("live/programs/stacks.cpp", *BUILD, instrument=False)


def entry_of(path):
    """Returns the offset of the first instruction in an ELF file."""
    with open(path, "rb") as file:
        head = file.read(64)
        entry, table = struct.unpack_from("<QQ", head, 24)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(table)
        for _ in range(count):
            kind, _, offset, address, _, bytes_in_file = struct.unpack_from("<IIQQQQ", file.read(size))
            if kind == 1 and address <= entry < address + bytes_in_file:
                return offset + entry - address
    return None


def begins_at_start(profile):
    """
    Returns the share of samples whose outermost frame is _start of the program or of the dynamic linker, or a thread's
    start.
    """
    places = []
    for line in profile.mappings:
        bounds, _, offset, *_, path = line.split(None, 5)
        start, end = (int(n, 16) for n in bounds.split("-"))
        # For programs, too, a copy in sym/ may replace the file.
        entry = entry_of(path) if path.startswith("/") else 0
        if not entry:
            continue
        first = start - int(offset, 16) + entry
        if start <= first < end:
            places.append((first, first + ENTRY_BYTES))
    outermost = collections.Counter()
    for count, chain in profile.records:
        outermost[chain[-1]] += count
    found = sum(n for at, n in outermost.items() if any(a <= at <= b for a, b in places))
    # All threads start after the same system call.
    rest = [n for at, n in outermost.items() if not any(a <= at <= b for a, b in places)]
    return (found + max(rest, default=0)) / profile.samples if found else 0


def assert_whole(recorded, comm, least=0.99):
    """
    Checks that all stacks are complete, except those whose tables were not ready in time: these depend on other load,
    and are counted.
    """
    in_time = recorded.in_time(comm)
    seen = sum(e["stacks"]["seen"] for e in recorded.entries(comm))
    assert seen * in_time >= 100, recorded.totals
    assert recorded.share(comm) >= least * in_time, recorded.entries(comm)
    for profile in recorded.profiles(comm):
        if profile.samples >= 100:
            assert begins_at_start(profile) >= least * in_time, collections.Counter(c[-1] for _, c in profile.records)


def functions(xprof, recorded):
    """Returns {function: cumulative samples} of `xprof report`."""
    report = xprof("report", "--limit", "max", "--full-names", recorded.directory).stdout
    rows = re.finditer(r"^ *\d+ +[\d.]+% +(\d+) +[\d.]+% +(.+?) {2,}\S+$", report, re.M)
    return {row[2]: int(row[1]) for row in rows}


@pytest.mark.parametrize("what", ["exceptions", "signal", "read", "vdso", "threads"])
def test_whole_stacks(sampled, stacks, what):
    recorded = sampled("-F", "999", "--", stacks, what, 0.8)
    assert_whole(recorded, stacks.name[:15])


def test_chain_of_functions(xprof, sampled, stacks):
    """Each function of the chain has its caller, below libc's qsort."""
    recorded = sampled("-F", "999", "--", stacks, "chain", 0.6)
    assert_whole(recorded, stacks.name[:15])
    (profile,) = recorded.profiles(stacks.name[:15])
    least = 0.9 * recorded.in_time(stacks.name[:15]) * profile.samples
    assert sum(count for count, chain in profile.records if len(chain) >= 35) > least > 100
    links = [n for name, n in functions(xprof, recorded).items() if re.fullmatch(r"int link<\d+>\(int\)", name)]
    assert len(links) == 31 and min(links) > least, links


def test_recursion_is_seen_whole(sampled, stacks):
    """The program is at its full depth for 92 % of the time."""
    recorded = sampled("-F", "999", "--", stacks, "recursion", 0.6)
    (profile,) = recorded.profiles(stacks.name[:15])
    assert_whole(recorded, stacks.name[:15])
    least = 0.85 * recorded.in_time(stacks.name[:15]) * profile.samples
    assert sum(count for count, chain in profile.records if 900 < len(chain) < 915) > least > 100


def test_handler_on_a_stack_of_its_own(xprof, sampled, stacks):
    """
    The unwinder finds the instruction that a handler interrupted, but not its callers; such stacks are counted. All
    other stacks are complete.
    """
    recorded = sampled("-F", "999", "--", stacks, "altstack", 0.7)
    comm = stacks.name[:15]
    other, in_time = recorded.share(comm, "other_stack"), recorded.in_time(comm)
    assert other + recorded.share(comm) >= 0.95 * in_time, recorded.entries(comm)
    cum = functions(xprof, recorded)
    handled = cum["on_signal(int)"] / sum(e["stacks"]["seen"] for e in recorded.entries(comm))
    # At the start and end of a handler, the kernel also uses its stack.
    assert 0.95 * in_time * handled <= other <= handled + 0.1 and handled > 0.5, (recorded.entries(comm), cum)
    told = xprof("report", recorded.directory).stdout
    assert re.search(r"^[\d.]+ % of \d+ user stacks are complete; \d+: continued on another stack", told, re.M), told


PROGRAMS = {
    "python3": ["/usr/bin/python3", "-c", "f = lambda n: n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(32))"],
    "gdb": ["gdb", "-batch", "-ex", "info functions a", "-ex", "info types a", project.XPROF],
    # A loop in assembly that aligns the stack and keeps the former stack pointer in a register.
    "openssl": ["openssl", "enc", "-chacha20", "-K", "0" * 64, "-iv", "0" * 32, "-out", "/dev/null", "-in"],
    "node": [
        "node",
        "-e",
        "f = n => n < 2 ? n : f(n - 1) + f(n - 2); f(37); for (i = 0; i < 1500; i++) JSON.stringify([...Array(2000).keys()])",
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_stacks_of_programs(sampled, tmp_path, name):
    command = PROGRAMS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"no {name} here")
    if name == "openssl":
        command = [*command, tmp_path / "zeros"]
        (tmp_path / "zeros").touch()
        os.truncate(tmp_path / "zeros", 1 << 30)
    recorded = sampled("-F", "999", "--", *command)
    (comm,) = {e["comm"] for e in recorded.totals["profiles"] if e["samples"] > 100}
    assert_whole(recorded, comm)


def test_storm_of_short_processes(xprof, record, start, program):
    shares = program("live/programs/shares.c", *BUILD, instrument=False)
    session = record("--no-sleds", "-F", "4999", "--follow", "--", "sh", "-c", f"for i in $(seq 80); do {shares} 0.002; done")
    recorded = Recorded(session.finish())
    comm = shares.name[:15]
    assert recorded.share(comm) >= 0.9 * recorded.in_time(comm), recorded.totals["stacks"]


MUSL = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile unsigned long sink;
static volatile int signals;
__attribute__((noinline)) static void spin(int n) { for (int i = 0; i < n; i++) sink += i; }
static void on_signal(int s) { (void)s; spin(1000000); signals++; }
/* Without calls of the C library, whose own functions have no unwind tables, either. */
__attribute__((noipa)) int interrupted(int count)
{
	while (signals < count)
		spin(100000);
	return sink;
}
int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval every = { { 0, 4000 }, { 0, 4000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	return interrupted(250) == 1;
}
"""


def test_signal_frame_of_musl(xprof, sampled, tmp_path):
    """musl's signal trampoline has no unwind table."""
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc here")
    source = tmp_path / "alarms.c"
    source.write_text(MUSL)
    binary = tmp_path / "alarms"
    made = project.run(["musl-gcc", "-O2", "-g", "-fomit-frame-pointer", "-static", source, "-o", binary])
    assert made.returncode == 0, made.stderr
    cum = functions(xprof, sampled("-F", "999", "--", binary))
    total = max(cum.values())
    assert cum["on_signal"] > 0.05 * total, cum
    assert cum["interrupted"] > 0.9 * total and cum["main"] > 0.9 * total, cum


def test_ways(sampled, stacks):
    """--call-graph none gives no callers, fp those of frame pointers, which this program lacks."""
    comm = stacks.name[:15]
    none = sampled("-F", "999", "--call-graph", "none", "--", stacks, "chain", 0.3)
    assert none.totals["call_graph"] == "none" and none.stacks is None
    assert {len(chain) for profile in none.profiles(comm) for _, chain in profile.records} == {1}
    walked = sampled("-F", "999", "--call-graph", "fp", "--", stacks, "chain", 0.3)
    assert walked.totals["call_graph"] == "fp" and walked.stacks is None
    (profile,) = walked.profiles(comm)
    assert sum(count for count, chain in profile.records if len(chain) >= 30) / profile.samples < 0.1
    assert_whole(sampled("-F", "999", "--call-graph", "dwarf", "--", stacks, "chain", 0.5), comm)


@pytest.mark.parametrize("version, way, kind", [(14, "auto", "orc"), (19, "dwarf", "mcjit")])
def test_jit_code_without_frame_pointers(xprof, sampled, start, tmp_path, version, way, kind):
    """LLVM's JIT registers unwind data; its code uses rbp as a general register."""
    tools = [f"clang-{version}", f"lli-{version}"]
    if not all(map(shutil.which, tools)):
        pytest.skip(f"no {' and '.join(tools)} here")
    code = tmp_path / "deep.ll"
    source = pathlib.Path(__file__).parent / "programs" / "interpreted_deep.c"
    made = project.run([tools[0], "-O1", "-fomit-frame-pointer", "-S", "-emit-llvm", source, "-o", code])
    assert made.returncode == 0, made.stderr
    lli = start([tools[1], f"-jit-kind={kind}", code, 2])
    maps = pathlib.Path(f"/proc/{lli.pid}/maps")
    recording.wait_until(lambda: re.search(r" r-xp 0+ 00:00 0 *$", maps.read_text(), re.M), "nothing is compiled")
    recorded = sampled("-F", "999", "--call-graph", way, "-p", lli.pid)
    assert_whole(recorded, tools[1])
    in_time = recorded.in_time(tools[1])
    cum = functions(xprof, recorded)
    assert min(cum[name] for name in ("link_1", "link_2", "main", "_start")) >= in_time * cum["leaf"] > 0, cum


# Compares with gdb's backtraces of the same stops.

GDB_COMMANDS = {
    "exceptions": None,
    "signal": None,
    "perl": ["perl", "-e", 'for ($i = 0; $i < 2e9; $i++) { $h{$i % 1000} .= lc("X$i"); %h = () if $i % 1e5 == 0 }'],
    "chacha20": ["openssl", "speed", "-seconds", "60", "-bytes", "8192", "-evp", "chacha20-poly1305"],
    "aes": ["openssl", "speed", "-seconds", "60", "-bytes", "8192", "-evp", "aes-128-gcm"],
}


@pytest.mark.parametrize("name", GDB_COMMANDS)
def test_same_as_gdb(stacks, tmp_path, name):
    if not shutil.which("gdb"):
        pytest.skip("no gdb here")
    command = GDB_COMMANDS[name] or [stacks, name, 60]
    done = project.run(
        ["gdb", "-q", "-nx", "-batch", "-x", project.REPO / "tests/live/gdb_stops.py", "--args", *command],
        env={**os.environ, "STOPS": "25", "TOOL": str(STOPS_TOOL), "DIRECTORY": str(tmp_path)},
    )
    path = tmp_path / "result.json"
    if not path.exists() and "No module named" in done.stderr or "Python scripting is not supported" in done.stderr:
        pytest.skip("this gdb has no Python")
    result = json.loads(path.read_text())
    assert len(result["gdb"]) == len(result["ours"]) == 25
    complete = 0
    for theirs, (end, *ours) in zip(result["gdb"], result["ours"]):
        # gdb continues into memory that is not code.
        code = [any(start <= pc < stop for start, stop in result["code"]) for pc in theirs]
        theirs = theirs[: code.index(False)] if False in code else theirs
        # Walks that ended early, as in the last instruction of an unwinder that has left its frame, must be right up to
        # their end.
        theirs = theirs if end == "complete" else theirs[: len(ours)]
        assert [int(pc, 16) for pc in ours] == theirs, (end, ours, list(map(hex, theirs)))
        complete += end == "complete"
    assert complete >= 24, collections.Counter(end for end, *_ in result["ours"])


# Hostile targets.


def section(path, name):
    """Returns (offset, size) of a section of an ELF file."""
    listed = project.run(["readelf", "-SW", path]).stdout
    fields = re.search(rf" {re.escape(name)} +\w+ +\w+ (\w+) (\w+)", listed)
    return int(fields[1], 16), int(fields[2], 16)


@pytest.mark.parametrize("seed", range(3))
def test_corrupt_tables(xprof, sampled, stacks, tmp_path, seed):
    """All samples exist, and the sampled function is right."""
    binary = pathlib.Path(shutil.copy(stacks, tmp_path / "corrupt"))
    offset, size = section(binary, ".eh_frame")
    random.seed(seed)
    data = bytearray(binary.read_bytes())
    for _ in range((1, 100, size)[seed]):
        data[offset + random.randrange(size)] = random.randrange(256)
    binary.write_bytes(data)
    recorded = sampled("-F", "999", "--", binary, "chain", 0.5)
    assert recorded.totals["written"] > 100 and recorded.totals["lost"] == 0, recorded.totals
    cum = functions(xprof, recorded)
    assert cum["spin(int)"] > 0.5 * max(cum.values()), cum


REPLACED = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* The code of two files, alternately at one place. */
int main(int argc, char **argv)
{
	int fds[2] = { open(argv[1], O_RDONLY), open(argv[2], O_RDONLY) };
	size_t bytes = strtoul(argv[3], NULL, 0);
	int (*code)(int) = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int sum = 0;

	for (int i = 0; clock() < CLOCKS_PER_SEC; i++) {
		if (mmap(code, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fds[i % 2], 0) != code)
			return 1;
		sum += ((int (*)(int))((char *)code + strtoul(argv[4 + i % 2], NULL, 0)))(1000);
	}
	return sum == 1;
}
"""
FUNCTION = "__attribute__((noinline)) int work(int n) {{ volatile int s = {0}; for (int i = 0; i < n; i++) s += i; return s; }}\n"


def test_mapping_that_is_replaced(sampled, program):
    path = program.text("replaced", REPLACED, *BUILD, instrument=False)
    libraries = [
        program.text(f"replaced{i}", FUNCTION.format(i), *BUILD, "-shared", "-fPIC", instrument=False) for i in range(2)
    ]
    offsets = []
    for library in libraries:
        address = int(re.search(r"^(\w+) T work$", project.run(["nm", library]).stdout, re.M)[1], 16)
        listed = project.run(["readelf", "-lW", library]).stdout
        (load,) = re.findall(r"LOAD +(\w+) (\w+) \w+ \w+ \w+ R E", listed)
        offsets.append(address - int(load[1], 16) + int(load[0], 16))
    size = max(library.stat().st_size for library in libraries)
    recorded = sampled("-F", "4999", "--buffer=64M", "--", path, *libraries, size, *offsets)
    assert recorded.totals["written"] > 1000 and recorded.totals["lost"] == 0, recorded.totals


MANY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void spin(void) { for (int i = 0; i < 100000; i++) sink += i; }
int main(int argc, char **argv)
{
	long count = atol(argv[1]), done = 0;
	char *room = mmap(NULL, count * 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = open("/proc/self/exe", O_RDONLY);

	/* With gaps, so that none is joined to the next. */
	for (; done < count; done++)
		if (mmap(room + done * 8192, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
			break;
	printf("%ld\n", done);
	for (clock_t end = clock() + CLOCKS_PER_SEC; clock() < end;)
		spin();
	return 0;
}
"""


@pytest.fixture
def max_map_count():
    path = pathlib.Path("/proc/sys/vm/max_map_count")
    before = path.read_text()
    try:
        path.write_text("300000")
    except OSError:
        pytest.skip("vm.max_map_count cannot be raised here")
    yield
    path.write_text(before)


def test_many_mappings(record, program, max_map_count):
    path = program.text("many", MANY, *BUILD, instrument=False)
    session = record("--no-sleds", "-F", "999", "--", path, 100000)
    peak_kib = 0
    while session.process.poll() is None:
        status = pathlib.Path(f"/proc/{session.process.pid}/status").read_text()
        peak_kib = max([peak_kib, *map(int, re.findall(r"^VmHWM:\s+(\d+)", status, re.M))])
        time.sleep(0.05)
    finished = session.finish()
    assert finished.output.split() == ["100000"]
    recorded = Recorded(finished)
    comm = path.name[:15]
    assert recorded.share(comm) > 0.9, recorded.totals
    assert 0 < peak_kib < 256 << 10, peak_kib
