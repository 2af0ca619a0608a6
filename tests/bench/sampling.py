# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the cost of sampling, compared with `perf record -a -g`, on CPUs that are all busy. Both follow frame pointers;
copies of stacks have their own rows.

The CPU time of a sample has two parts. One is the tool's own, user and system, from its start to its last file, divided
by the samples. The interrupted thread pays the other part, which no clock of the tool shows: see busy.c. It is the
median of the interruptions that are more frequent than in a round without sampling, and the mean of both kinds of
threads. A part of it is the timer's interrupt itself, which no tool can avoid; an event that nothing reads (tick.c)
shows how much.
"""
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import threading
import time

import tracers
from tracers import DIR, project

RATES_HZ = (99, 999, 4999)
STACK_RATES_HZ = (99, 999)  # with snapshots perf writes 8 KB for each sample
BIN_US = 0.25
IDLE_PROCESSES = 300
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
TYPE_PERF_EVENT = 7  # BPF_PROG_TYPE_PERF_EVENT


class Watchful:
    """A load that watches its clock: busy.c, or deep.c."""

    KINDS = 1

    def __init__(self, process):
        self.process = process

    def numbers(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = [int(x) for x in self.process.stdout.readline().split()]
        if not answer:
            raise tracers.BenchError(f"{self.process.args[0]} has ended")
        return answer

    @contextlib.contextmanager
    def watched(self):
        """Gives a list that holds, after the block, for each kind the interruptions a second of CPU time, by length."""
        rates = []
        before = self.numbers()
        yield rates
        cpu_ns, *counts = (b - a for a, b in zip(before, self.numbers()))
        each = len(counts) // self.KINDS
        for begin in range(0, len(counts), each):
            rates.append([x / cpu_ns * 1e9 for x in counts[begin:begin + each]])


class Busy(Watchful):
    """busy.c while it runs."""

    KINDS = 2


@contextlib.contextmanager
def busy():
    with tracers.running([DIR / "busy", len(os.sched_getaffinity(0))]) as process:
        time.sleep(0.5)
        yield Busy(process)


def interruption_us(sampled, plain):
    """Returns the median length of the interruptions that sampling has added: the mean of the kinds of threads."""
    medians = []
    for more, less in zip(sampled, plain):
        added = [max(a - b, 0) for a, b in zip(more, less)]
        left = sum(added) / 2
        for i, count in enumerate(added):
            left -= count
            if left <= 0:
                medians.append((i + 0.5) * BIN_US)
                break
    return statistics.mean(medians)


class Cost:
    """The figures of one recording."""

    def __init__(self):
        self.samples = 0
        self.cpu_s = 0.0
        self.unwind_cpu_s = 0.0  # afterwards
        self.peak_rss_bytes = 0
        self.bytes = 0
        self.profile_bytes = 0
        self.lost = 0
        self.rates = []

    @property
    def tool_us(self):
        return self.cpu_s / self.samples * 1e6


def on_disk(directory):
    """Returns the disk space of the files in a directory, without holes and without the rest of a block."""
    states = [x.stat() for x in directory.glob("*") if x.is_file()]
    return sum(min(x.st_size, x.st_blocks * 512) for x in states)


@contextlib.contextmanager
def xprof(hz, way="fp"):
    """xprof record -a until the end of the block; its cost is complete then."""
    directory = DIR / "samples.out"
    shutil.rmtree(directory, ignore_errors=True)
    cost, recording = Cost(), tracers.Recording()
    try:
        argv = [project.XPROF, "record", "-q", "-a", "-F", hz, "--call-graph", way, "-o", directory]
        with tracers.running(argv, signal.SIGINT) as process:
            yield cost
            process.send_signal(signal.SIGINT)
            recording.watch_end(process, directory)
        samples = recording.manifest["samples"]
        cost.samples, cost.lost = samples["seen"], samples["lost"] + samples["sideband_lost"]
        cost.cpu_s, cost.peak_rss_bytes = recording.cpu_s, recording.peak_rss_bytes
        cost.profile_bytes = sum(x.stat().st_size for x in directory.glob("*.prof"))
        cost.bytes = cost.profile_bytes + on_disk(directory / "sym")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def perf_samples(data):
    for line in project.run(["perf", "report", "--stats", "-i", data]).stdout.splitlines():
        if "SAMPLE events:" in line:
            return int(line.split()[2])
    raise tracers.BenchError("perf has taken no sample")


def unwind_cpu_s(data):
    """Measures the cost of making call chains from the stack copies in a perf.data."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    project.run(["perf", "script", "--no-inline", "-F", "ip", "-i", data], timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextlib.contextmanager
def perf(hz, way="fp"):
    """perf record -a -g"""
    data = DIR / "samples.data"
    cost, recording = Cost(), tracers.Recording()
    try:
        argv = ["perf", "record", "-q", "-a", "--call-graph", way, "-F", hz, "-o", data]
        with tracers.running(argv, signal.SIGINT, ok=(0, -signal.SIGINT)) as process:
            yield cost
            process.send_signal(signal.SIGINT)
            recording.wait(process)
        cost.samples, cost.bytes, cost.cpu_s = perf_samples(data), data.stat().st_size, recording.cpu_s
        if way == "dwarf":
            cost.unwind_cpu_s = unwind_cpu_s(data)
    finally:
        data.unlink(missing_ok=True)


def record(load, tool, hz, seconds, way="fp"):
    with load.watched() as rates:
        with tool(hz, way) as cost:
            time.sleep(seconds)
    cost.rates = rates
    return cost


def bare_interruptions(load, hz, seconds):
    with load.watched() as rates:
        with tracers.running([DIR / "tick", hz]):
            time.sleep(seconds)
    return rates


def measure_cost(table, load, hz, rounds, seconds):
    figures = {}

    def note(name, value):
        figures.setdefault(name, []).append(value)

    for _ in range(rounds):
        with load.watched() as plain:
            time.sleep(seconds / 2)
        bare = interruption_us(bare_interruptions(load, hz, seconds / 2), plain)
        ours, theirs = record(load, xprof, hz, seconds), record(load, perf, hz, seconds)
        for name, cost in (("xprof", ours), ("perf", theirs)):
            note(f"{name} tool", cost.tool_us)
            note(f"{name} task", interruption_us(cost.rates, plain))
        note("bare", bare)
        note("lost", ours.lost)
        note("rss", ours.peak_rss_bytes)
    middle = {name: statistics.median(values) for name, values in figures.items()}
    what = f"sampling at {hz} Hz for {seconds} s"

    def spread(name):
        values = figures[name]
        return f"{middle[name]:.1f}" + (f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else "")

    for name in ("xprof", "perf"):
        table.add(f"{what}: a sample of {name}, us",
                  f"{spread(f'{name} tool')} of its own, {spread(f'{name} task')} of who is interrupted")
    table.add(f"{what}: the timer's interrupt alone, us", spread("bare"))
    own = middle["xprof tool"] / middle["perf tool"]
    table.add(f"{what}: xprof / perf, own CPU time", f"{own:.2f}")
    value = (middle["xprof tool"] + middle["xprof task"]) / (middle["perf tool"] + middle["perf task"])
    table.add(f"{what}: xprof / perf, all CPU time", f"{value:.2f}", "0.5", value <= 0.5)
    above = {name: middle[f"{name} tool"] + max(middle[f"{name} task"] - middle["bare"], 0) for name in ("xprof", "perf")}
    table.add(f"{what}: xprof / perf, without the timer's interrupt", f"{above['xprof'] / above['perf']:.2f}")
    table.add(f"{what}: lost", ", ".join(map(str, figures["lost"])), "0", not any(figures["lost"]))
    table.add(f"{what}: peak RSS", f"{max(figures['rss']) / 1e6:.1f} MB", "64 MB", max(figures["rss"]) < 64e6)


def measure_stacks(table, load, hz, rounds, seconds):
    """
    Measures code without frame pointers: xprof's default, and the method of perf that shows the same stacks but unwinds
    later.
    """
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(record(load, xprof, hz, seconds, "auto"))
        theirs.append(record(load, perf, hz, seconds, "dwarf"))
    what = f"unwinding at {hz} Hz for {seconds} s"
    own = statistics.median(x.tool_us for x in ours)
    recording = statistics.median(x.tool_us for x in theirs)
    later = statistics.median(x.unwind_cpu_s / x.samples * 1e6 for x in theirs)
    table.add(f"{what}: a sample, us of its own",
              f"xprof {own:.1f}, perf --call-graph dwarf {recording:.1f}, and perf script {later:.1f}")
    value = own / (recording + later)
    table.add(f"{what}: xprof / perf, own CPU time", f"{value:.2f}", "0.5", value <= 0.5)
    table.add(f"{what}: lost", ", ".join(str(x.lost) for x in ours), "0", not any(x.lost for x in ours))
    peak = max(x.peak_rss_bytes for x in ours)
    table.add(f"{what}: peak RSS", f"{peak / 1e6:.1f} MB", "64 MB", peak < 64e6)


def measure_bytes(table, seconds):
    """
    Both at the same time: they see the same. Each process that ends meanwhile has a profile, and each binary that is
    gone by then a copy in sym/, so what else runs on the machine shows here more than elsewhere.
    """
    with busy():
        with xprof(999) as ours, perf(999) as theirs:
            time.sleep(seconds)
    for what, count in (("profiles", ours.profile_bytes), ("profiles and sym/", ours.bytes)):
        value = theirs.bytes / count
        table.add(f"{seconds} s at 999 Hz: bytes of {what}", f"{count} = perf.data's {theirs.bytes} / {value:.1f}",
                  "perf.data's / 20", value >= 20)


def disk_bytes(directory):
    """Returns the size of a directory and everything in it. Files with several names count once."""
    states = {x.lstat().st_ino: x.lstat() for x in directory.rglob("*")}
    return sum(x.st_blocks * 512 for x in states.values())


@contextlib.contextmanager
def new_processes(rate):
    """Starts this many short processes a second while the block runs."""
    ended = threading.Event()

    def start():
        while rate and not ended.wait(1 / rate):
            subprocess.run(["/bin/true"], check=True)

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure_parts(table, seconds, rate):
    """A recording that is left on, of the machine as it is: what its disk and CPU pay. rate: of new processes."""
    directory, recording = DIR / "parts.out", tracers.Recording()
    shutil.rmtree(directory, ignore_errors=True)
    argv = [project.XPROF, "record", "-q", "-a", "-F", 99, "--rotate", "60s", "-o", directory]
    with tracers.running(argv, signal.SIGINT) as process:
        with new_processes(rate):
            time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        recording.wait(process)
    what = f"record -a -F 99 --rotate 60s for {seconds} s{f', {rate} new processes a second' if rate else ''}"
    share, limit, peak = recording.cpu_s / seconds, 0.02 if rate else 0.01, recording.peak_rss_bytes
    table.add(f"{what}: MB per hour", f"{disk_bytes(directory) / seconds * 3600 / 1e6:.0f}")
    table.add(f"{what}: of a core", f"{share:.2%}", f"{limit:.0%}", share <= limit)
    table.add(f"{what}: peak RSS", f"{peak / 1e6:.1f} MB", "64 MB", peak < 64e6)
    shutil.rmtree(directory, ignore_errors=True)


def sample_runs(pid):
    """How often the sampling program has run in the process that holds it; None before it is loaded."""
    with contextlib.suppress(OSError):
        for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
            fields = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
            if int(fields.get("prog_type", 0)) == TYPE_PERF_EVENT:
                return int(fields["run_cnt"])
    return None


def first_sample_ms():
    directory = DIR / "samples.out"
    shutil.rmtree(directory, ignore_errors=True)
    begin = time.monotonic()
    with tracers.running([project.XPROF, "record", "-q", "-a", "-o", directory], signal.SIGINT) as process:
        while not sample_runs(process.pid):
            if process.poll() is not None or time.monotonic() > begin + 10:
                raise tracers.BenchError("no sample")
            time.sleep(0.002)
        took = time.monotonic() - begin
    shutil.rmtree(directory, ignore_errors=True)
    return took * 1e3


def measure_start(table, rounds):
    """An idle CPU has samples, too, so the machine is left as it is; a period is 10 ms of time."""
    old = STATS.read_text()
    with contextlib.ExitStack() as stack:
        stack.callback(STATS.write_text, old)
        STATS.write_text("1")
        for _ in range(IDLE_PROCESSES):
            process = subprocess.Popen(["sleep", "1000"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        times = sorted(first_sample_ms() for _ in range(rounds))
    value = statistics.median(times)
    table.add(f"first sample after start, beside {IDLE_PROCESSES} idle processes",
              f"{value:.0f} of " + ", ".join(f"{x:.0f}" for x in times) + " ms", "200 ms", value <= 200)


def bench(table, quick):
    if shutil.which("perf"):
        with busy() as load:
            for tool in (xprof, perf):  # what only a first time costs: perf's cache of build ids, the page cache
                record(load, tool, 99, 1)
            for hz in RATES_HZ:
                measure_cost(table, load, hz, 1 if quick else 3, 5 if quick else 10)
            for hz in STACK_RATES_HZ:
                measure_stacks(table, load, hz, 1 if quick else 3, 5 if quick else 10)
        measure_bytes(table, 10 if quick else 60)
    for rate in (0, 45):
        measure_parts(table, 60 if quick else 300, rate)
    measure_start(table, 3 if quick else 9)
