# SPDX-License-Identifier: BSD-2-Clause
"""
Measures how much CPU time --max-overhead leaves to a busy program, and how exact the forecast is. The program has 4
threads at full speed with functions of all degrees of heat (graded.c). The budget is kept with patched sleds, and with
sleds that record in memory, in turns.

The cost of calls for the threads is the difference of their CPU time with and without a recording. The CPU time of
xprof is in a separate row: if all CPUs are busy, it is lost to the threads, too. Anything else that slows the threads
down shows in the work per second of CPU time, unless other virtual machines hide it.
"""
import contextlib
import json
import shutil
import signal
import statistics
import struct
import time

import tracers
from tracers import DIR, project

THREADS = 4
SHARE = 0.05
MARGIN = 0.01
FORECAST_HOT_CALLS = 600


class Measured:
    """A recording between two looks without one: shares of the CPU time, and of a CPU."""

    def __init__(self, before, during, after, loader_s, seconds, manifest):
        calls_s, work_s = ((a + b) / 2 for a, b in zip(before, after))
        self.taken = (during[0] - calls_s) / during[1]
        self.slower = 1 - work_s / during[1]
        self.loader = loader_s / seconds
        self.manifest = manifest
        # A stopped thread does not run; that it stands still is in a row of its own.
        self.told = manifest["budget"]["spent"] - manifest["budget"]["spent_in_stops"] if "budget" in manifest else None


class Load:
    """graded.c or tests/live/programs/load.c while it runs."""

    def __init__(self, process, counters):
        self.process = process
        self.counters = counters

    def state(self):
        """Returns rounds, CPU time in calls if the program reports it, and total CPU time."""
        rounds, calls_ns = struct.unpack_from("=QQ", self.counters.read_bytes())
        return rounds, calls_ns / 1e9, cpu_s(self.process.pid)

    def of_a_round(self, seconds):
        """The CPU time of a round: in calls, in all."""
        rounds, *before = self.state()
        time.sleep(seconds)
        rounds_then, *then = self.state()
        return [(b - a) / (rounds_then - rounds) for a, b in zip(before, then)]


def cpu_s(pid):
    return time.clock_gettime((~pid << 3) | 2)


@contextlib.contextmanager
def running(name, *arguments):
    counters = DIR / f"{name}.counters"
    counters.unlink(missing_ok=True)
    with tracers.running([DIR / name, *arguments, counters], signal.SIGKILL, ok=(-signal.SIGKILL,)) as process:
        tracers.wait_until(lambda: counters.exists() and counters.stat().st_size, name)
        yield Load(process, counters)
    counters.unlink()


def cost(target, options, seconds):
    directory = DIR / "budget.out"
    shutil.rmtree(directory, ignore_errors=True)
    before = target.of_a_round(seconds / 2)
    argv = [project.XPROF, "record", "--no-samples", "-p", target.process.pid, "-o", directory, *options]
    with tracers.running(argv, signal.SIGINT) as process:
        tracers.wait_until(lambda: "xprof: recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                           "xprof record")
        loader_s = cpu_s(process.pid)
        during = target.of_a_round(seconds)
        loader_s = cpu_s(process.pid) - loader_s
    after = target.of_a_round(seconds / 2)
    manifest = json.loads((directory / "manifest.json").read_text())
    shutil.rmtree(directory)
    return Measured(before, during, after, loader_s, seconds, manifest)


def functions_out(manifest):
    """How many were out for at least half of the recording, and which part of the time that they were out is counted."""
    taken = [f for p in manifest["processes"] for o in p["objects"] for f in o.get("taken_out", [])]
    out = sum(f["out_s"] > manifest["duration_s"] / 2 for f in taken)
    return out, sum(f["counted_s"] for f in taken) / max(sum(f["out_s"] for f in taken), 1e-9)


def percent(values):
    return f"{100 * statistics.median(values):.1f} of " + ", ".join(f"{100 * x:.1f}" for x in sorted(values)) + " %"


def add_budget(table, mode, measured):
    manifests = [m.manifest for m in measured]
    lost = sum(m["totals"]["lost"]["total"] for m in manifests)
    out, counted = (statistics.median(column) for column in zip(*map(functions_out, manifests)))
    functions = manifests[0]["processes"][0]["objects"][0]["functions"]
    what = f"{THREADS} busy threads, budget {100 * SHARE:g} %, {mode}"
    taken = [m.taken for m in measured]
    table.add(f"{what}: taken by the calls", percent(taken), f"{100 * (SHARE + MARGIN):g} %",
              statistics.median(taken) <= SHARE + MARGIN)
    wrong = statistics.median(m.taken - m.told for m in measured)
    table.add(f"{what}: taken by xprof's own account", percent([m.told for m in measured]))
    table.add(f"{what}: the account is short by", f"{100 * wrong:.1f} points", "±1", abs(wrong) <= MARGIN)
    table.add(f"{what}: CPU time of the loader", percent([m.loader for m in measured]) + " of a CPU")
    table.add(f"{what}: less work in a second of CPU time", percent([m.slower for m in measured]))
    table.add(f"{what}: functions out", f"{out:g} of {functions}, counted {100 * counted:.0f} % of that time")
    stops = sum(m["attach"]["stopped_ms"] for m in manifests) / len(manifests)
    longest = max(m["attach"]["longest_stop_ms"] for m in manifests)
    if stops:
        table.add(f"{what}: the target stands still", f"{stops:.1f} ms a recording, {longest:.1f} ms at most")
    table.add(f"{what}: lost", str(lost), "0", not lost)


def bench(table, quick):
    rounds, seconds = (2, 2) if quick else (5, 4)
    modes = {"patch": [], "memory": []}
    # Calls that cost so little have to be many to exceed a budget.
    for calls, mode in ((64, "patch"), (6400, "memory")):
        with running("graded", THREADS, calls) as target:
            for _ in range(rounds):
                options = [f"--max-overhead={100 * SHARE:g}%", f"--call-mode={mode}"]
                modes[mode].append(cost(target, options, seconds))
    for mode, measured in modes.items():
        found = measured[0].manifest["processes"][0]["objects"][0]["call_mode"]
        add_budget(table, found, measured)

    with running("load", "run", THREADS, 0, FORECAST_HOT_CALLS) as target:
        measured = [cost(target, [], min(seconds, 2)) for _ in range(rounds)]
    ratios = [m.manifest["forecast"]["cost_share"] / m.slower for m in measured]
    value = statistics.median(ratios)
    table.add("forecast / cost of the recording", f"{value:.2f} of " + ", ".join(f"{x:.2f}" for x in sorted(ratios)),
              "0.67 to 1.5", 0.67 <= value <= 1.5)
