# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the cost of complete user stacks, compared with `perf record --call-graph dwarf` and `fp`, for a program
without frame pointers that keeps all CPUs busy.

The CPU time of a sample has two parts, as in sampling.py. One is the tool's own, user and system, from its start to its
last file, for xprof including the making of unwind tables. The interrupted thread pays the other: there, perf and the
BPF program copy the stack. The timer's interrupt, which no tool can avoid, is measured separately and subtracted. The
time that perf needs later to unwind does not count. The throughput of the program, in rounds with and without a tool,
shows the total cost.

The first 32 MB of perf.data are not compressed, except with -z.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import time

import sampling
import tracers
from tracers import DIR, project

RATES_HZ = (99, 999, 4999)
CPU_LIMIT = 1 / 3
DISK_LIMIT = 50


class Load(sampling.Watchful):
    """deep.c while it runs."""

    def numbers(self):
        rounds, *rest = super().numbers()
        self.rounds = rounds
        return rest

    @contextlib.contextmanager
    def measured(self):
        """Gives what becomes a Round when the block ends."""
        result = Round()
        begin = time.monotonic()
        with self.watched() as result.rates:
            before = self.rounds
            yield result
        result.throughput = (self.rounds - before) / (time.monotonic() - begin)


class Round:
    """What the load has seen for some time."""

    def __init__(self):
        self.throughput = 0.0  # of its own rounds a second
        self.rates = []


class Cost:
    def __init__(self):
        self.round = None
        self.samples = 0
        self.cpu_s = 0.0
        self.bpf_s = 0.0  # a part of the interruption
        self.bytes = 0
        self.complete = None

    @property
    def own_us(self):
        return self.cpu_s / max(self.samples, 1) * 1e6


def bpf_seconds(pid):
    """Returns the CPU time of the sampling program of a process."""
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
            if int(fields.get("prog_type", 0)) == sampling.TYPE_PERF_EVENT:
                return int(fields["run_time_ns"]) / 1e9
    raise tracers.BenchError("xprof has no sampling program")


def xprof(load, hz, seconds, *more):
    """xprof record --call-graph auto"""
    directory = DIR / "unwind.out"
    shutil.rmtree(directory, ignore_errors=True)
    cost, recording = Cost(), tracers.Recording()
    argv = [project.XPROF, "record", "--no-sleds", "-p", load.process.pid, "-F", hz, *more, "-o", directory]
    try:
        with tracers.running(argv, signal.SIGINT) as process:
            tracers.wait_until(lambda: "xprof: recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                               "xprof record")
            with load.measured() as cost.round:
                time.sleep(seconds)
            cost.bpf_s = bpf_seconds(process.pid)
            process.send_signal(signal.SIGINT)
            recording.watch_end(process, directory)
        samples = recording.manifest["samples"]
        cost.samples, cost.cpu_s = samples["seen"], recording.cpu_s
        cost.complete = samples["stacks"]["complete"] / max(samples["stacks"]["seen"], 1)
        cost.bytes = sum(sampling.on_disk(x) for x in (directory, directory / "sym"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return cost


def perf(way):
    def tool(load, hz, seconds):
        """perf record"""
        data = DIR / "unwind.data"
        cost, recording = Cost(), tracers.Recording()
        argv = ["perf", "record", "-q", "--call-graph", way, "-e", "cpu-clock", "-F", hz, "-p", load.process.pid, "-o", data]
        try:
            with tracers.running(argv, signal.SIGINT, ok=(0, -signal.SIGINT)) as process:
                time.sleep(0.5)
                with load.measured() as cost.round:
                    time.sleep(seconds)
                process.send_signal(signal.SIGINT)
                recording.wait(process)
            cost.samples, cost.bytes, cost.cpu_s = sampling.perf_samples(data), data.stat().st_size, recording.cpu_s
        finally:
            data.unlink(missing_ok=True)
        return cost

    return tool


TOOLS = {"xprof": xprof, "perf dwarf": perf("dwarf"), "perf fp": perf("fp")}


def plain(load, seconds):
    with load.measured() as result:
        time.sleep(seconds)
    return result


def timer_us(load, hz, seconds, before):
    """Returns the interruption by an event that nothing reads."""
    with tracers.running([DIR / "tick", hz]):
        after = plain(load, seconds)
    return sampling.interruption_us(after.rates, before.rates)


def measure(table, load, hz, rounds, seconds):
    costs = {name: [] for name in TOOLS}
    overheads = {name: [] for name in TOOLS}
    paid = {name: [] for name in TOOLS}
    for _ in range(rounds):
        before = plain(load, seconds / 2)
        timer = timer_us(load, hz, seconds / 2, before)
        for name, tool in TOOLS.items():
            before = plain(load, seconds / 2)
            cost = tool(load, hz, seconds)
            after = plain(load, seconds / 2)
            costs[name].append(cost)
            overheads[name].append(1 - cost.round.throughput / ((before.throughput + after.throughput) / 2))
            paid[name].append(max(sampling.interruption_us(cost.round.rates, before.rates) - timer, 0))
    own = {name: statistics.median(c.own_us for c in each) for name, each in costs.items()}
    paid = {name: statistics.median(each) for name, each in paid.items()}
    us = {name: own[name] + paid[name] for name in TOOLS}
    overhead = {name: statistics.median(each) for name, each in overheads.items()}
    bytes_each = {name: statistics.median(c.bytes / max(c.samples, 1) for c in each) for name, each in costs.items()}
    what = f"unwinding at {hz} Hz"
    bpf_us = statistics.median(c.bpf_s / max(c.samples, 1) * 1e6 for c in costs["xprof"])
    table.add(f"{what}: CPU time of a sample, us, its own and that of who is interrupted",
              ", ".join(f"{name} {own[name]:.1f} + {paid[name]:.1f}" for name in TOOLS) +
              f"; xprof's BPF program {bpf_us:.1f}")
    for name in ("perf dwarf", "perf fp"):
        value = us["xprof"] / us[name]
        limit = ("1/3", value <= CPU_LIMIT) if name == "perf dwarf" else ("", None)
        table.add(f"{what}: xprof / {name}, CPU time", f"{value:.2f}", *limit)
        table.add(f"{what}: xprof / {name}, own CPU time", f"{own['xprof'] / own[name]:.2f}")
    packed = xprof(load, hz, seconds, "-z")
    bytes_each["xprof -z"] = packed.bytes / max(packed.samples, 1)
    value = bytes_each["perf dwarf"] / max(bytes_each["xprof -z"], 1e-9)
    table.add(f"{what}: bytes of a sample",
              ", ".join(f"{name} {size:.1f}" for name, size in bytes_each.items()) + f"; with -z perf dwarf's / {value:.0f}",
              "perf dwarf's / 50", value >= DISK_LIMIT)
    table.add(f"{what}: throughput taken", ", ".join(f"{name} {100 * overhead[name]:.1f} %" for name in TOOLS),
              "perf dwarf's", overhead["xprof"] <= overhead["perf dwarf"])
    complete = min(c.complete for c in costs["xprof"])
    table.add(f"{what}: whole stacks", f"{100 * complete:.2f} %", "99 %", complete >= 0.99)


def bench(table, quick):
    if not shutil.which("perf"):
        return
    old = sampling.STATS.read_text()
    with contextlib.ExitStack() as stack:
        stack.callback(sampling.STATS.write_text, old)
        sampling.STATS.write_text("1")
        process = stack.enter_context(tracers.running([DIR / "deep", len(os.sched_getaffinity(0))]))
        time.sleep(0.5)
        load = Load(process)
        for tool in TOOLS.values():  # what only a first time costs
            tool(load, 99, 1)
        for hz in RATES_HZ:
            measure(table, load, hz, 1 if quick else 3, 3 if quick else 10)
