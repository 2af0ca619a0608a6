# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the cost of reading a large recording: 10 million calls and 100 000 samples of a program of 100 MB, most of it
debug information. Compares `report` and each export with `llvm-xray account` of the same log, and the naming of 10 000
addresses with `perf script` of the same perf.data.

CPU time is user and system time of all processes of a command, including confined readers: the median of alternating
runs. Memory is that of the largest process of a command.
"""
import contextlib
import os
import shutil
import signal
import statistics
import subprocess

import tracers
from tracers import DIR, project

CALLS = 10_000_000
SAMPLES = 100_000
HZ = 4999
SPARE = 1.2  # samples are less than CPU time says
NAMED_SAMPLES = 8_000  # at some 10 000 addresses
MEMORY_MAX = 512e6
RUN_S = 600
START_S = 60  # beside others


class Used:
    """What a command took."""

    def __init__(self, argv):
        errors = DIR / "exports.err"
        with open(errors, "w", encoding="utf-8") as file:
            process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=file)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise tracers.BenchError(f"{argv}: exit status {process.returncode}: {errors.read_text().strip()}")
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.peak_rss_bytes = usage.ru_maxrss * 1024


def in_turns(commands, rounds):
    """{name: [Used of each round]}, after a round that only fills the page cache."""
    for argv in commands.values():
        Used(argv)
    used = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            used[name].append(Used(argv))
    return used


def middle_s(used):
    return statistics.median(x.cpu_s for x in used)


def ratio(used, to):
    """Returns the median of the rounds' ratios. The figures of a round are measured within seconds."""
    return statistics.median(a.cpu_s / b.cpu_s for a, b in zip(used, to))


@contextlib.contextmanager
def recorded(calls, samples, *options):
    """A recording of `large` while it makes these calls and is sampled so often. Its directory lives for the block."""
    directory = DIR / "exports.out"
    shutil.rmtree(directory, ignore_errors=True)
    measured = tracers.Recording()
    try:
        with tracers.running([DIR / "large", calls, int(samples * SPARE * 1000 / HZ)]) as large:
            argv = [project.XPROF, "record", "-p", large.pid, "-F", HZ, "-o", directory, *options]
            with tracers.running(argv, signal.SIGINT) as process:
                tracers.wait_until(
                    lambda: "xprof: recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                    "xprof record", START_S)
                large.stdin.write("\n")
                large.stdin.flush()
                large.stdout.readline()
                process.send_signal(signal.SIGINT)
                measured.watch_end(process, directory)
        seen = measured.manifest["totals"]["seen"], measured.manifest["samples"]["seen"]
        if seen[0] < 2 * calls or seen[1] < samples:
            raise tracers.BenchError(f"{seen[0]} events and {seen[1]} samples of {2 * calls} and {samples}")
        yield directory, seen[1]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def bench_large(table, quick):
    output = DIR / "exports.file"
    calls, samples = (x // (10 if quick else 1) for x in (CALLS, SAMPLES))
    with recorded(calls, samples) as (directory, samples):
        log, = directory.glob("*.fdr")
        account = "llvm-xray account"
        commands = {account: ["llvm-xray", "account", log, f"-instr_map={DIR / 'large'}"],
                    "report": [project.XPROF, "report", directory]}
        for form in ("html", "pprof", "perfetto"):
            commands[f"export --format {form}"] = [project.XPROF, "export", directory, f"--format={form}", "-o", output]
        used = in_turns(commands, 1 if quick else 3)
        output.unlink()
    what = f"{calls / 1e6:.0f} million calls and {samples} samples of {(DIR / 'large').stat().st_size / 1e6:.0f} MB"
    for name, each in used.items():
        peak = max(x.peak_rss_bytes for x in each)
        table.add(f"{what}: {name}", f"{middle_s(each):.2f} s CPU, {peak / 1e6:.0f} MB")
        if name != account:
            value = ratio(each, used[account])
            # The time of account is that of the calls alone: with a tenth of them, the limit says nothing.
            limit = ("", None) if quick else ("1", value <= 1)
            table.add(f"{what}: {name} / {account}, CPU time", f"{value:.2f}", *limit)
            table.add(f"{what}: {name}, peak RSS", f"{peak / 1e6:.0f} MB", "512 MB", peak <= MEMORY_MAX)


def bench_names(table, quick):
    with recorded(0, NAMED_SAMPLES, "--no-sleds") as (directory, _):
        data = directory / "perf.data"
        listed = project.run(["perf", "script", "-F", "ip", "-i", data], timeout=RUN_S).stdout
        addresses = len(set(listed.split()))
        commands = {"perf script": ["perf", "script", "-i", data],
                    "export --format folded": [project.XPROF, "export", directory, "--format=folded", "-o", os.devnull],
                    "report": [project.XPROF, "report", directory]}
        used = in_turns(commands, 3 if quick else 9)
    what = f"names of {addresses} addresses"
    for name, each in used.items():
        table.add(f"{what}: {name}", f"{middle_s(each):.2f} s CPU")
    for name in ("export --format folded", "report"):
        value = ratio(used[name], used["perf script"])
        table.add(f"{what}: {name} / perf script, CPU time", f"{value:.2f}", "0.5", value <= 0.5)


def bench(table, quick):
    bench_large(table, quick)
    if shutil.which("perf"):
        bench_names(table, quick)
