# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the cost of an entry and an exit with patched sleds, with probes on the sleds, and with other tracers of the
same function.
"""
import contextlib
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import time

import tracers
from tracers import DIR, project

STUB = re.compile(r"^([0-9a-f]+-[0-9a-f]+) .*/memfd:xprof \(deleted\)$", re.M)
SLED_BYTES = 11
GUARD_BYTES = 9  # before the place of the probe, see user/arch/x86_64/stub.h


@contextlib.contextmanager
def probe(target, *options):
    """xprof record --call-mode probe"""
    with tracers.xprof(target, "probe", *options) as recording:
        yield recording


@contextlib.contextmanager
def patch(target, *options):
    """xprof record --call-mode patch"""
    with tracers.xprof(target, "patch", *options) as recording:
        yield recording


@contextlib.contextmanager
def memory(target, *options):
    """xprof record --call-mode memory"""
    with tracers.xprof(target, "memory", *options) as recording:
        yield recording


def stub_slot(target):
    """(file, offset) of the place in the stub that the first patched sled leads to."""
    ranges = STUB.findall(pathlib.Path(f"/proc/{target.pid}/maps").read_text())
    address = target.address(int(target.sleds[0], 0))
    with open(f"/proc/{target.pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        code = memory.read(SLED_BYTES)
    leads_to = address + SLED_BYTES + struct.unpack("<i", code[7:])[0]
    for stub in ranges:
        start, end = (int(x, 16) for x in stub.split("-"))
        if start <= leads_to < end:
            return f"/proc/{target.pid}/map_files/{stub}", hex(leads_to - start + GUARD_BYTES)
    raise tracers.BenchError("the patched sled leads to no stub")


def leave_patched(target):
    """A killed xprof leaves sleds patched, and no probe on the stub."""
    directory, messages = DIR / "xprof.out", DIR / "xprof.err"
    with open(messages, "w", encoding="utf-8") as errors:
        argv = [project.XPROF, "record", "--call-mode=patch", "--no-samples", "-p", target.pid, "-o", directory]
        process = subprocess.Popen([str(a) for a in argv], stderr=errors)
        try:
            tracers.wait_until(lambda: "recording process" in messages.read_text(), "xprof record")
        finally:
            process.kill()
            process.wait()
    shutil.rmtree(directory, ignore_errors=True)
    time.sleep(0.3)


@contextlib.contextmanager
def empty(target):
    """empty BPF program on the stub's probe"""
    leave_patched(target)
    try:
        with tracers.running([DIR / "empty", DIR / "empty.bpf.o", target.pid, *stub_slot(target)]) as process:
            if process.stdout.readline() != "attached\n":
                raise tracers.BenchError("the empty program cannot be attached")
            yield
    finally:
        project.run([project.XPROF, "restore", "-p", target.pid])


def bench_stops(table, quick):
    """Measures how long a target with many sleds is stopped."""
    stopped, longest, sleds = [], [], 0
    for _ in range(1 if quick else 3):
        with tracers.target("many") as target, patch(target) as recording:
            time.sleep(0.5)
        attach = recording.manifest["attach"]
        stopped.append(attach["stopped_ms"])
        longest.append(attach["longest_stop_ms"])
        sleds = recording.manifest["processes"][0]["objects"][0]["sleds_attached"]
    value = statistics.median(stopped)
    table.add(f"{sleds} sleds patched and restored: the target stands still",
              f"{value:.1f} ms, at once {max(longest):.1f} ms", "50 ms", value <= 50)


def others():
    """The tracers that can trace both ends of a function of a running process."""
    found = []
    if shutil.which("perf"):
        found.append(tracers.perf_both)
    if shutil.which("bpftrace"):
        found.append(tracers.bpftrace_both)
    return found


def bench_launched(table, quick, spread):
    """Those that start their program themselves."""
    rounds, calls = (3, 20000) if quick else (9, 200000)
    for way in [tracers.runtime] + ([tracers.uftrace] if shutil.which("uftrace") else []):
        with way() as target:
            target.ask("calls 1000")
            ns = [target.ask(f"calls {calls}") / calls for _ in range(rounds)]
        table.add(f"entry and exit: {way.__doc__}", spread(ns))


def bench(table, quick, measure_calls, ratio, spread):
    ways = [tracers.nothing, probe, empty, patch, *others()]
    ns = measure_calls("target", ways, 3 if quick else 9, 3000)
    for way in ways:
        table.add(f"entry and exit: {way.__doc__}", spread(ns[way]))
    bench_launched(table, quick, spread)
    value = ratio(ns, patch, empty)
    table.add("entry and exit: patch / empty program on the stub's probe", f"{value:.2f}", "1.60", value <= 1.6)
    value = ratio(ns, probe, patch)
    table.add("entry and exit: probe / patch", f"{value:.1f}", "at least 15", value >= 15)
    bench_stops(table, quick)
