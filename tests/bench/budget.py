# SPDX-License-Identifier: BSD-2-Clause
"""
What --max-overhead leaves a busy program, and how near the forecast comes: 4 threads at full speed, see
tests/live/programs/load.c. The tracing's share of their CPU time shows in the work that a second of it does, measured in
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
from tracers import DIR, house

THREADS = 4
SHARE = 0.05
MARGIN = 0.01
HOT_CALLS = 200
FORECAST_HOT_CALLS = 60
SETTLE_S = 1


class Load:
    """load.c while it runs."""

    def __init__(self, process, counters):
        self.process = process
        self.counters = counters

    def state(self):
        return struct.unpack("=4Q", self.counters.read_bytes())[0], time.clock_gettime((~self.process.pid << 3) | 2)

    def work_rate(self, seconds):
        """Rounds in a second of its CPU time."""
        rounds, cpu_s = self.state()
        time.sleep(seconds)
        rounds_then, cpu_s_then = self.state()
        return (rounds_then - rounds) / (cpu_s_then - cpu_s)


@contextlib.contextmanager
def load(hot_calls):
    counters = DIR / "load.counters"
    counters.unlink(missing_ok=True)
    with tracers.running([DIR / "load", "run", THREADS, 0, hot_calls, counters], signal.SIGKILL,
                         ok=(-signal.SIGKILL,)) as process:
        tracers.wait_until(lambda: counters.exists() and counters.stat().st_size, "load")
        yield Load(process, counters)
    counters.unlink()


def cost(target, options, seconds):
    """(share of the CPU time that the tracing took, manifest) of a recording between two looks without one."""
    directory = DIR / "budget.out"
    shutil.rmtree(directory, ignore_errors=True)
    before = target.work_rate(seconds / 2)
    argv = [house.XPROF, "record", "--no-samples", "-p", target.process.pid, "-o", directory, *options]
    with tracers.running(argv, signal.SIGINT) as process:
        tracers.wait_until(lambda: "xprof: recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                           "xprof record")
        time.sleep(SETTLE_S if options else 0)
        during = target.work_rate(seconds)
    after = target.work_rate(seconds / 2)
    manifest = json.loads((directory / "manifest.json").read_text())
    shutil.rmtree(directory)
    return 1 - 2 * during / (before + after), manifest


def bench(table, quick):
    rounds, seconds = (2, 2) if quick else (7, 6)
    with load(HOT_CALLS) as target:
        measured = [cost(target, [f"--max-overhead={100 * SHARE:g}%"], seconds) for _ in range(rounds)]
    costs = [share for share, _ in measured]
    value = statistics.median(costs)
    what = f"{THREADS} busy threads, budget {100 * SHARE:g} %"
    without = statistics.median(m["forecast"]["cost_share"] for _, m in measured)
    table.add(f"{what}: forecast without it", f"{100 * without:.0f} % of the CPU time")
    table.add(f"{what}: taken", f"{100 * value:.1f} of " + ", ".join(f"{100 * x:.1f}" for x in sorted(costs)) + " %",
              f"{100 * (SHARE + MARGIN):g} %", value <= SHARE + MARGIN)
    told = statistics.median(m["budget"]["spent"] for _, m in measured)
    table.add(f"{what}: taken by xprof's own account", f"{100 * told:.1f} %")
    lost = sum(m["totals"]["lost"]["total"] for _, m in measured)
    table.add(f"{what}: lost", str(lost), "0", not lost)

    with load(FORECAST_HOT_CALLS) as target:
        measured = [cost(target, [], min(seconds, 2)) for _ in range(rounds)]
    ratios = [m["forecast"]["cost_share"] / share for share, m in measured]
    value = statistics.median(ratios)
    table.add("forecast / cost of the recording", f"{value:.2f} of " + ", ".join(f"{x:.2f}" for x in sorted(ratios)),
              "0.5 to 2", 0.5 <= value <= 2)
