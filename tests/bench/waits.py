# SPDX-License-Identifier: BSD-2-Clause
"""
What the waits of a program that switches 100 000 times a second cost it: two threads on one CPU that wake each other
through pipes. Beside it, an empty program on sched_switch, and a recording without waits. CPU time counts, not time: other load does not.
"""
import contextlib
import os
import statistics

import tracers

SWITCHES_PER_S = 100_000


@contextlib.contextmanager
def nothing(_):
    """nothing"""
    yield


@contextlib.contextmanager
def empty(_):
    """empty BPF program on sched_switch"""
    with tracers.running([tracers.DIR / "empty", tracers.DIR / "empty_switch.bpf.o"]) as process:
        if process.stdout.readline() != "attached\n":
            raise tracers.BenchError("the empty program cannot be attached")
        yield


def xprof(target):
    """xprof record --off-cpu"""
    return tracers.xprof(target, "auto", "--no-sleds", "--off-cpu")


def xprof_without(target):
    """xprof record"""
    return tracers.xprof(target, "auto", "--no-sleds")


def switching(target):
    """The command for a second's switches at that rate, by CPU time."""
    rounds = SWITCHES_PER_S // 2
    steps = 0
    for _ in range(4):
        ns = target.ask(f"rounds {rounds // 5} {steps}") * 5
        if steps and abs(ns / 1e9 - 1) < 0.02:
            break
        more = target.ask(f"rounds {rounds // 5} {steps + 10000}") * 5
        steps = max(0, round(steps + (1e9 - ns) / (more - ns) * 10000))
    return lambda part: target.ask(f"rounds {int(rounds * part)} {steps}") / int(rounds * part)


def measure(target, ways, rounds, switch, recordings):
    """ns of CPU time of a round trip, by the way of recording, of each round."""
    ns = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            with way(target) as recording:
                # By then the bursts that are recorded wholly are over, and sampling has seen how often the threads
                # switch, and chosen its events (SLICES_LOOK_NS).
                switch(1.6 if recording else 0.3)
                ns[way].append(statistics.median(switch(0.1) for _ in range(3)))
            if way is xprof:
                recordings.append(recording)
    return ns


def bench(table, quick, spread):
    ways = [nothing, empty, xprof, xprof_without]
    recordings = []
    with tracers.target("pingpong", max(os.sched_getaffinity(0))) as target:
        ns = measure(target, ways, 2 if quick else 15, switching(target), recordings)
    for way, figures in ns.items():
        table.add(f"round trip of two switches: {way.__doc__}", spread(figures))
    for way in ways[2:]:
        loss = 100 * (statistics.median(a / b for a, b in zip(ns[way], ns[empty])) - 1)
        limit = ("2 %", loss <= 2) if way is xprof else ()
        table.add(f"{SWITCHES_PER_S} switches a second: {way.__doc__} more than the empty program", f"{loss:.1f} %", *limit)
    peak = max(recording.peak_rss_bytes for recording in recordings)
    table.add("the same: peak RSS of xprof", f"{peak / (1 << 20):.1f} MiB", "64 MB", peak < 64e6)
    lost = sum(recording.manifest["waits"]["lost"] for recording in recordings)
    seen = sum(recording.manifest["waits"]["seen"] for recording in recordings)
    written = sum(recording.manifest["waits"]["written"] for recording in recordings)
    table.add("the same: waits seen, written, lost", f"{seen}, {written}, {lost}", "0 lost", not lost)
