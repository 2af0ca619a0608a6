# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the cost of calls that patched sleds record in memory, for the target and for xprof, and compares it with other
modes in one run.
"""
import contextlib
import pathlib
import shutil
import statistics

import tracers
from patching import memory, patch, probe

MIB = 1 << 20
PLAIN = ("--no-samples",)
CROWD = 500  # so many that the rings run out, though some threads get none for lack of a slot
RING_CALLS = 65536  # of a large ring


def median_ratio(ns, way, to):
    """Returns the median of the rounds' ratios. The figures of a round are measured within a second or two."""
    return statistics.median(a / b for a, b in zip(ns[way], ns[to]))


def burst_ns(target, calls, command="calls"):
    return statistics.median(target.ask(f"{command} {calls}") / calls for _ in range(3))


# What an entry and an exit cost


def bench_calls(table, quick, spread):
    """The modes of xprof, and the tracers that start their program themselves, in turns."""
    inside = [tracers.runtime] + ([tracers.uftrace] if shutil.which("uftrace") else [])
    ways = {memory: 200000, patch: 20000, probe: 2000}
    ns = {way: [] for way in [*ways, *inside]}
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(tracers.target("target"))
        others = {way: stack.enter_context(way()) for way in inside}
        for traced in [target, *others.values()]:
            traced.ask("calls 1000")
        for _ in range(3 if quick else 9):
            for way, calls in ways.items():
                with way(target, *PLAIN):
                    ns[way].append(burst_ns(target, calls))
            for way, traced in others.items():
                ns[way].append(burst_ns(traced, 200000))
    for way, figures in ns.items():
        table.add(f"entry and exit at full speed: {way.__doc__}", spread(figures))
    for way, limit in ((tracers.runtime, 0.4), (patch, 0.08)):
        value = median_ratio(ns, memory, way)
        table.add(f"entry and exit at full speed: memory / {way.__doc__}", f"{value:.3f}", f"{limit}", value <= limit)


def find_threads(target):
    """The command of a thread that has no ring, and of one that has: xprof decides which ones have."""
    for without, within in (("last", "calls"), ("calls", "last")):
        with memory(target, *PLAIN) as recording:
            target.ask(f"{without} 100")
        totals = recording.manifest["totals"]
        if totals["seen"] == 200 and recording.manifest["processes"][0]["without_ring"] == 200:
            return without, within
    raise tracers.BenchError("both the first thread and the last have a ring")


def bench_fallback(table, quick, spread):
    """
    Measures a thread without a ring, and a thread whose ring is full because xprof is stopped; compares both with mode
    patch.
    """
    calls = 3000
    ns = {"no ring": [], "full ring": [], "patch, no ring": [], "patch, full ring": []}
    with tracers.target("target") as target:
        target.ask(f"crowd {CROWD}")
        without, within = find_threads(target)
        for _ in range(3 if quick else 9):
            with patch(target, *PLAIN):
                ns["patch, no ring"].append(burst_ns(target, calls, without))
                ns["patch, full ring"].append(burst_ns(target, calls, within))
            with memory(target, *PLAIN) as recording:
                ns["no ring"].append(burst_ns(target, calls, without))
                with recording.standing_still():
                    target.ask(f"{within} {2 * RING_CALLS}")
                    ns["full ring"].append(burst_ns(target, calls, within))
            fallen = recording.manifest["processes"][0]
            if fallen["without_ring"] != 3 * 2 * calls or fallen["full_ring"] < 3 * 2 * calls:
                raise tracers.BenchError(f"calls that were to fall through did not: {fallen['without_ring']} without "
                                         f"a ring, {fallen['full_ring']} with a full one")
    for what in ("no ring", "full ring"):
        value = median_ratio(ns, what, f"patch, {what}")
        table.add(f"memory mode, a thread with {what}", spread(ns[what]))
        table.add(f"memory mode, a thread with {what} / patch", f"{value:.2f}", "1.1", value <= 1.1)


# Full speed


def record_threads(threads, calls):
    """(recording, ns of the target a call) of threads that only make calls."""
    with tracers.target("target") as target:
        with memory(target, *PLAIN) as recording:
            begin_s = recording.cpu_now_s()
            ns = target.ask(f"threads {threads} {calls}") / (threads * calls)
            recording.busy_s = recording.cpu_now_s() - begin_s
    return recording, ns


def bench_loader(table, quick):
    calls = 2000000 if quick else 20000000
    live, whole, fell, lost = [], [], [], []
    for _ in range(1 if quick else 5):
        recording, _ = record_threads(1, calls)
        totals = recording.manifest["totals"]
        if totals["seen"] < 2 * calls:
            raise tracers.BenchError(f"xprof has seen {totals['seen']} of {2 * calls} records")
        live.append(recording.busy_s * 1e9 / totals["seen"])
        whole.append(recording.cpu_s * 1e9 / totals["seen"])
        fell.append(totals["seen"] - totals["in_memory"])
        lost.append(totals["lost"]["total"])
    what = f"one thread, {calls / 1e6:.0f} million calls at full speed"
    value = statistics.median(live)
    table.add(f"{what}: CPU time of xprof a record", f"{value:.1f} ns of " + ", ".join(f"{x:.1f}" for x in sorted(live)),
              "10 ns", value <= 10)
    table.add(f"{what}: the same, with start, end and the log", f"{statistics.median(whole):.1f} ns")
    table.add(f"{what}: lost", ", ".join(map(str, lost)), "0", not any(lost))
    table.add(f"{what}: records through the kernel, since the ring was full",
              ", ".join(f"{100 * x / (2 * calls):.2f} %" for x in sorted(fell)))


def bench_flight(table, quick):
    """
    A flight recorder that is left on: what a million calls a second cost xprof until a request is slow. There are 1000
    requests a second.
    """
    seconds, rate, shares = 5 if quick else 30, 1000000, []
    for _ in range(1 if quick else 5):
        with tracers.target("target") as target:
            with memory(target, *PLAIN, "--flight", "64M", "--trigger", "request>1s") as recording:
                begin_s = recording.cpu_now_s()
                made = target.ask(f"requests {rate} {1000 * seconds}")
                shares.append((recording.cpu_now_s() - begin_s) / seconds)
        if made < 0.95 * rate * seconds or recording.manifest["totals"]["seen"] < 2 * made:
            raise tracers.BenchError(f"{made} calls in {seconds} s, and {recording.manifest['totals']['seen']} records of them")
    value = statistics.median(shares)
    table.add("flight recorder with a trigger, 1 million calls a second: of a core",
              f"{value:.2%} of " + ", ".join(f"{x:.2%}" for x in sorted(shares)), "2 %", value <= 0.02)


def bench_two_threads(table, quick):
    calls = 1000000 if quick else 5000000
    ratios, lost = [], []
    for _ in range(1 if quick else 5):
        one, alone_ns = record_threads(1, calls)
        two, both_ns = record_threads(2, calls)
        ratios.append(both_ns / alone_ns)
        lost += [recording.manifest["totals"]["lost"]["total"] for recording in (one, two)]
    value = statistics.median(ratios)
    what = "two threads at full speed"
    table.add(f"{what}: CPU time a call / one alone", f"{value:.2f} of " + ", ".join(f"{x:.2f}" for x in sorted(ratios)),
              "1.3", value <= 1.3)
    table.add(f"{what}: lost", str(sum(lost)), "0", not any(lost))


# Attaching, and memory


def bench_attach(table, quick):
    times = {(mode, key): [] for mode in ("memory", "patch") for key in ("attach_ms", "detach_ms")}
    for _ in range(1 if quick else 5):
        for mode, way in (("memory", memory), ("patch", patch)):
            with tracers.target("many") as target, way(target, *PLAIN) as recording:
                pass
            sleds = recording.manifest["processes"][0]["objects"][0]["sleds_attached"]
            for key in ("attach_ms", "detach_ms"):
                times[mode, key].append(recording.manifest["attach"][key])
    for key in ("attach_ms", "detach_ms"):
        value = statistics.median(a / b for a, b in zip(times["memory", key], times["patch", key]))
        figures = [statistics.median(times[mode, key]) for mode in ("memory", "patch")]
        table.add(f"{sleds} sleds, {key[:-3]}: memory / patch",
                  f"{value:.2f} ({figures[0]:.0f} and {figures[1]:.0f} ms)", "1.3", value <= 1.3)


def rings_bytes(pid):
    """Measures the memory of a target's call rings: pages of a file that are shared, and charged to xprof."""
    taken, inside = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = " rw-s " in line and "/memfd:xprof" in line
        elif inside and line.startswith("Rss:"):
            taken += int(line.split()[1]) * 1024
    return taken


def bench_memory(table, quick):
    del quick
    for threads, limit_mib in ((0, 2.25), (CROWD, 66)):
        with tracers.target("target") as target:
            if threads:
                target.ask(f"crowd {threads}")
            with memory(target, *PLAIN) as recording:
                taken = rings_bytes(recording.process.pid) / MIB
        table.add(f"rings of a process with {threads + 1} threads", f"{taken:.1f} MiB", f"{limit_mib} MiB",
                  taken <= limit_mib)


def bench(table, quick, spread):
    bench_calls(table, quick, spread)
    bench_fallback(table, quick, spread)
    bench_loader(table, quick)
    bench_flight(table, quick)
    bench_two_threads(table, quick)
    bench_attach(table, quick)
    bench_memory(table, quick)
