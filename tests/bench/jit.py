# SPDX-License-Identifier: BSD-2-Clause
"""What the names of JIT code cost: a node process with 5000 functions, with its perf map and without."""
import contextlib
import json
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

from tracers import BenchError, project

import profiles

PROGRAM = pathlib.Path(__file__).with_name("functions.js")
WARM_UP_S = 4
LIMIT_MS = 50


@contextlib.contextmanager
def node(*options):
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(["node", *options, PROGRAM], cwd=directory, stderr=subprocess.DEVNULL)
        try:
            time.sleep(WARM_UP_S)
            yield process.pid
        finally:
            process.kill()
            process.wait()
            pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record(pid, seconds):
    """CPU time of xprof and all its children, the known functions, and the samples in them and without a name."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out"
        before = children_cpu_s()
        done = project.run([project.XPROF, "record", "--no-sleds", "-p", pid, "-d", seconds, "-o", out])
        used = children_cpu_s() - before
        if done.returncode:
            raise BenchError(f"xprof record: {done.stderr}")
        (profile,) = json.loads((out / "manifest.json").read_text())["samples"]["profiles"]
        return used, profile["jit"]["functions"], *profiles.jit_samples(done.stderr)


def bench(table, quick):
    if not shutil.which("node"):
        print("  skipped: no node here")
        return
    rounds, seconds = (1, 5) if quick else (5, 10)
    extra_ms, functions, named, samples = [], 0, 0, 0
    for _ in range(rounds):
        with node() as pid:
            plain_s, *_ = record(pid, seconds)
        with node("--perf-basic-prof") as pid:
            named_s, known, its_named, its_unnamed = record(pid, seconds)
        extra_ms.append((named_s - plain_s) * 1e3)
        functions = max(functions, known)
        named += its_named
        samples += its_named + its_unnamed
    what = f"node, 5000 functions ({functions} pieces of code), {seconds} s"
    value = statistics.median(extra_ms)
    table.add(f"{what}: CPU time that their names add",
              f"{value:.0f} of " + ", ".join(f"{x:.0f}" for x in sorted(extra_ms)) + " ms", f"{LIMIT_MS} ms",
              value < LIMIT_MS)
    table.add(f"{what}: samples in JIT code with a name", f"{named} of {samples}", "90 %", named >= 0.9 * samples)
