# SPDX-License-Identifier: BSD-2-Clause
"""What a call of a function without sleds costs, beside one with sleds and other tracers in one run."""
import contextlib
import shutil
import statistics

import tracers
from patching import memory, others

# Calls a burst: an uprobe costs a thousand times as much as a jump.
FAST, SLOW = 200000, 2000


@contextlib.contextmanager
def functions(target):
    """xprof record --functions, a function without sleds"""
    with tracers.xprof(target, "memory", "--functions", "traced", "--no-samples") as recording:
        yield
    totals = recording.manifest["totals"]
    if not totals["in_memory"] or totals["lost"]["total"]:
        raise tracers.BenchError(f"the calls were not recorded in memory: {totals}")


def sleds(target):
    """xprof record, a function with sleds"""
    return memory(target, "--functions", "traced", "--no-samples")


def measure(quick):
    """Returns {way: ns of a call in each round}."""
    launched = [tracers.uftrace] if shutil.which("uftrace") else []
    ns = {way: [] for way in [functions, sleds, *others(), *launched]}
    with contextlib.ExitStack() as stack:
        plain, target = (stack.enter_context(tracers.target(name)) for name in ("target-plain", "target"))
        running = {way: stack.enter_context(way()) for way in launched}
        for _ in range(3 if quick else 9):
            for way, figures in ns.items():
                traced = running.get(way) or (plain if way is functions else target)
                calls = SLOW if way in others() else FAST
                with contextlib.nullcontext() if way in running else way(traced):
                    traced.ask("calls 1000")
                    figures.append(statistics.median(traced.ask(f"calls {calls}") / calls for _ in range(3)))
    return ns


def bench(table, quick, ratio, spread):
    ns = measure(quick)
    for way, figures in ns.items():
        table.add(f"a call: {way.__doc__}", spread(figures))
    limits = {sleds: 1.5, tracers.uftrace: 0.5, tracers.perf_both: 0.1, tracers.bpftrace_both: 0.1}
    for way, limit in limits.items():
        if way in ns:
            value = ratio(ns, functions, way)
            table.add(f"a call: without sleds / {way.__doc__}", f"{value:.3f}", f"{limit}", value <= limit)
