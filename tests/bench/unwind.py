# SPDX-License-Identifier: BSD-2-Clause
"""
What whole user stacks cost, beside `perf record --call-graph dwarf` and `fp`, of a program without frame pointers that
keeps all CPUs busy.

CPU time of a sample is the tool's own, user and system, from its start to its last file; of xprof also that of its BPF
program, as the kernel measures it, and that of the making of unwind tables. perf's time in the interrupt is not counted,
for nothing measures it. What all of it takes from the program shows in the program's throughput, in rounds that
alternate with such without a tool. What perf needs afterwards, to unwind, is not counted either.
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
from tracers import DIR, house

RATES_HZ = (99, 999, 4999)
CPU_LIMIT = 1 / 3
DISK_LIMIT = 50


class Load:
    """deep.c while it runs."""

    def __init__(self, process):
        self.process = process

    def rounds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise tracers.BenchError("deep has ended")
        return int(answer)

    def throughput(self, seconds):
        """Rounds a second."""
        begin, before = time.monotonic(), self.rounds()
        time.sleep(seconds)
        return (self.rounds() - before) / (time.monotonic() - begin)


class Cost:
    def __init__(self):
        self.throughput = 0.0
        self.samples = 0
        self.cpu_s = 0.0
        self.bpf_s = 0.0
        self.bytes = 0
        self.perf_data_bytes = 0  # that xprof writes for perf's sake
        self.complete = None

    @property
    def sample_us(self):
        return (self.cpu_s + self.bpf_s) / max(self.samples, 1) * 1e6


def bpf_seconds(pid):
    """What the sampling program of a process has taken."""
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
            if int(fields.get("prog_type", 0)) == sampling.TYPE_PERF_EVENT:
                return int(fields["run_time_ns"]) / 1e9
    raise tracers.BenchError("xprof has no sampling program")


def xprof(load, hz, seconds):
    """xprof record --call-graph auto"""
    directory = DIR / "unwind.out"
    shutil.rmtree(directory, ignore_errors=True)
    cost, recording = Cost(), tracers.Recording()
    argv = [house.XPROF, "record", "--no-sleds", "-p", load.process.pid, "-F", hz, "-o", directory]
    try:
        with tracers.running(argv, signal.SIGINT) as process:
            tracers.wait_until(lambda: "xprof: recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                               "xprof record")
            cost.throughput = load.throughput(seconds)
            cost.bpf_s = bpf_seconds(process.pid)
            process.send_signal(signal.SIGINT)
            recording.watch_end(process, directory)
        samples = recording.manifest["samples"]
        cost.samples, cost.cpu_s = samples["seen"], recording.cpu_s
        cost.complete = samples["stacks"]["complete"] / max(samples["stacks"]["seen"], 1)
        cost.bytes = sum(x.stat().st_size for x in directory.glob("*.prof")) + sampling.on_disk(directory / "sym")
        cost.perf_data_bytes = sum(x.stat().st_size for x in directory.glob("perf.data"))
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
                cost.throughput = load.throughput(seconds)
                process.send_signal(signal.SIGINT)
                recording.wait(process)
            cost.samples, cost.bytes, cost.cpu_s = sampling.perf_samples(data), data.stat().st_size, recording.cpu_s
        finally:
            data.unlink(missing_ok=True)
        return cost

    return tool


TOOLS = {"xprof": xprof, "perf dwarf": perf("dwarf"), "perf fp": perf("fp")}


def measure(table, load, hz, rounds, seconds):
    costs = {name: [] for name in TOOLS}
    overheads = {name: [] for name in TOOLS}
    for _ in range(rounds):
        for name, tool in TOOLS.items():
            before = load.throughput(seconds / 2)
            costs[name].append(tool(load, hz, seconds))
            after = load.throughput(seconds / 2)
            overheads[name].append(1 - costs[name][-1].throughput / ((before + after) / 2))
    us = {name: statistics.median(c.sample_us for c in each) for name, each in costs.items()}
    overhead = {name: statistics.median(each) for name, each in overheads.items()}
    bytes_each = {name: statistics.median(c.bytes / max(c.samples, 1) for c in each) for name, each in costs.items()}
    what = f"unwinding at {hz} Hz"
    bpf_us = statistics.median(c.bpf_s / max(c.samples, 1) * 1e6 for c in costs["xprof"])
    table.add(f"{what}: CPU time of a sample, us",
              ", ".join(f"{name} {us[name]:.1f}" for name in TOOLS) + f"; of xprof's, in BPF {bpf_us:.1f}")
    for name in ("perf dwarf", "perf fp"):
        value = us["xprof"] / us[name]
        limit = ("1/3", value <= CPU_LIMIT) if name == "perf dwarf" else ("", None)
        table.add(f"{what}: xprof / {name}, CPU time", f"{value:.2f}", *limit)
    value = bytes_each["perf dwarf"] / max(bytes_each["xprof"], 1e-9)
    also = statistics.median(c.perf_data_bytes / max(c.samples, 1) for c in costs["xprof"])
    table.add(f"{what}: bytes of a sample",
              ", ".join(f"{name} {bytes_each[name]:.1f}" for name in TOOLS) + f"; in xprof's own perf.data {also:.1f} more",
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
        for hz in RATES_HZ:
            measure(table, Load(process), hz, 1 if quick else 3, 3 if quick else 10)
