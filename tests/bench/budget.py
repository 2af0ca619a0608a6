# SPDX-License-Identifier: BSD-2-Clause
"""
What --max-overhead leaves a busy program, and how near the forecast comes: 4 threads at full speed with functions of all
degrees of heat (graded.c), whose budget is kept by patched sleds and by probes, in turns: with patched sleds more of them
stay in the recording. The tracing's share of their CPU time shows in the work that a second of it does, measured in
turns with and without a recording, since what neighbours leave to this machine changes from minute to minute.
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
SETTLE_S = 1


class Load:
    """graded.c or tests/live/programs/load.c while it runs."""

    def __init__(self, process, counters):
        self.process = process
        self.counters = counters

    def state(self):
        return struct.unpack_from("=Q", self.counters.read_bytes())[0], time.clock_gettime((~self.process.pid << 3) | 2)

    def work_rate(self, seconds):
        """Rounds in a second of its CPU time."""
        rounds, cpu_s = self.state()
        time.sleep(seconds)
        rounds_then, cpu_s_then = self.state()
        return (rounds_then - rounds) / (cpu_s_then - cpu_s)


@contextlib.contextmanager
def running(name, *arguments):
    counters = DIR / f"{name}.counters"
    counters.unlink(missing_ok=True)
    with tracers.running([DIR / name, *arguments, counters], signal.SIGKILL, ok=(-signal.SIGKILL,)) as process:
        tracers.wait_until(lambda: counters.exists() and counters.stat().st_size, name)
        yield Load(process, counters)
    counters.unlink()


def cost(target, options, seconds):
    """(share of the CPU time that the tracing took, manifest) of a recording between two looks without one."""
    directory = DIR / "budget.out"
    shutil.rmtree(directory, ignore_errors=True)
    before = target.work_rate(seconds / 2)
    argv = [project.XPROF, "record", "--no-samples", "-p", target.process.pid, "-o", directory, *options]
    with tracers.running(argv, signal.SIGINT) as process:
        tracers.wait_until(lambda: "xprof: recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                           "xprof record")
        time.sleep(SETTLE_S if options else 0)
        during = target.work_rate(seconds)
    after = target.work_rate(seconds / 2)
    manifest = json.loads((directory / "manifest.json").read_text())
    shutil.rmtree(directory)
    return 1 - 2 * during / (before + after), manifest


def functions_out(manifest):
    """How many were out for at least half of the recording, and which part of the time that they were out is counted."""
    taken = [f for p in manifest["processes"] for o in p["objects"] for f in o.get("taken_out", [])]
    out = sum(f["out_s"] > manifest["duration_s"] / 2 for f in taken)
    return out, sum(f["counted_s"] for f in taken) / max(sum(f["out_s"] for f in taken), 1e-9)


def add_budget(table, mode, measured):
    costs = sorted(share for share, _ in measured)
    manifests = [manifest for _, manifest in measured]
    value = statistics.median(costs)
    told = statistics.median(m["budget"]["spent"] for m in manifests)
    lost = sum(m["totals"]["lost"]["total"] for m in manifests)
    out, counted = (statistics.median(column) for column in zip(*map(functions_out, manifests)))
    functions = manifests[0]["processes"][0]["objects"][0]["functions"]
    what = f"{THREADS} busy threads, budget {100 * SHARE:g} %, {mode}"
    without = statistics.median(m["forecast"]["cost_share"] for m in manifests)
    table.add(f"{what}: forecast without it", f"{100 * without:.0f} % of the CPU time")
    table.add(f"{what}: taken", f"{100 * value:.1f} of " + ", ".join(f"{100 * x:.1f}" for x in costs) + " %",
              f"{100 * (SHARE + MARGIN):g} %", value <= SHARE + MARGIN)
    table.add(f"{what}: taken by xprof's own account", f"{100 * told:.1f} %")
    table.add(f"{what}: functions out", f"{out:g} of {functions}, counted {100 * counted:.0f} % of that time")
    stops = sum(m["attach"]["stopped_ms"] for m in manifests) / len(manifests)
    longest = max(m["attach"]["longest_stop_ms"] for m in manifests)
    if stops:
        table.add(f"{what}: the target stands still", f"{stops:.1f} ms a recording, {longest:.1f} ms at most")
    table.add(f"{what}: lost", str(lost), "0", not lost)


def bench(table, quick):
    rounds, seconds = (2, 2) if quick else (5, 4)
    modes = {"patch": [], "probe": []}
    with running("graded", THREADS) as target:
        for _ in range(rounds):
            for mode, measured in modes.items():
                options = [f"--max-overhead={100 * SHARE:g}%", *(["--sled-mode=probe"] if mode == "probe" else [])]
                measured.append(cost(target, options, seconds))
    for mode, measured in modes.items():
        found = measured[0][1]["processes"][0]["objects"][0]["sled_mode"]
        add_budget(table, found, measured)

    with running("load", "run", THREADS, 0, FORECAST_HOT_CALLS) as target:
        measured = [cost(target, [], min(seconds, 2)) for _ in range(rounds)]
    ratios = [m["forecast"]["cost_share"] / share for share, m in measured]
    value = statistics.median(ratios)
    table.add("forecast / cost of the recording", f"{value:.2f} of " + ", ".join(f"{x:.2f}" for x in sorted(ratios)),
              "0.5 to 2", 0.5 <= value <= 2)
