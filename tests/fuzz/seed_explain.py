#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_explain: `seed_explain.py OUTPUT tests/fuzz/corpus`, after `make build-tests`."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import hand_made  # noqa: E402
from hand_made import ENTER, EXIT  # noqa: E402

HZ, TSC, MS = 1_000_000_000, 10**12, 1_000_000
SERVER, HOLDER = 7, 8
THREADS = [("comm", TSC + 1, SERVER, SERVER, "server"), ("comm", TSC + 1, SERVER, HOLDER, "holder"),
           ("map", TSC + 2, SERVER, SERVER, "1000", "1000", "0", "-", "app")]
WAITS = [*THREADS, ("sample", TSC + MS, SERVER, SERVER, 0, 0, "1500", "1201"),
         ("waiting", TSC + 10 * MS, SERVER, HOLDER, 0, 9 * MS, 0, "S", 0, "", "1021"),
         ("waiting", TSC + 10 * MS, SERVER, SERVER, 0, 3 * MS, MS, "L", HOLDER, "holder", "1011", "1201"),
         ("waiting", TSC + 30 * MS, SERVER, HOLDER, 1, 0, 7 * MS, "R", 0, "", "1040"),
         ("wait", TSC + 40 * MS, SERVER, HOLDER, 1, 0, "1050", "1301")]
USUAL = [call for i in range(20) for call in ((ENTER, 2, TSC + i * 1000), (EXIT, 2, TSC + i * 1000 + 100))]
CALLS = {SERVER: [*USUAL, (ENTER, 1, TSC + MS), (ENTER, 2, TSC + 5 * MS), (EXIT, 2, TSC + 12 * MS), (EXIT, 1, TSC + 13 * MS)]}
MANIFEST = {"clock": {"start_tsc": TSC, "hz": HZ}, "duration_s": 1, "samples": {
                "written": 1, "period_ns": MS, "profiles": [{"pid": SERVER, "image": 1, "comm": "server", "file": "server.7.prof", "cgroup": "group"}]},
            "processes": [{"pid": SERVER, "image": 1, "comm": "server", "log": "server.7.fdr", "threads": [{"tid": SERVER, "name": "worker"}]}],
            "waits": {"seen": 12, "written": 4, "filtered": {"shorter": 5}, "lost": 1, "missed": 2, "thread_count": 2, "running_s": 0.5, "runnable_s": 0.1,
                      "blocked_s": 0.02, "threads": [{"pid": SERVER, "tid": SERVER, "name": "server", "running_s": 0.25, "runnable_s": 0.1, "blocked_s": 0.02}]}}


HELPER = 9
LOCK, QUEUE, DISK, SLEEP, SPIN = "1011", "1021", "1031", "1041", "1050"


def waits(at, tid, ns, runnable, state, waker, name, *stack):
    """A wait of `ns` that ends with a wake-up, and then without a CPU for `runnable`."""
    return ("waiting", TSC + at + ns + runnable, SERVER, tid, 0, ns, runnable, state, waker, name, *stack)


def requests():
    """20 requests of server: holder works for each, and wakes helper. Some wait for a lock, a disk or a CPU instead: (lines, calls)."""
    lines, calls = [("comm", TSC + 1, SERVER, HELPER, "helper"), *THREADS], {SERVER: [], HOLDER: []}
    for i in range(20):
        at, ns = (10 + 20 * i) * MS, 8 * MS if i % 5 == 4 else MS // 10
        calls[SERVER] += [(ENTER, 1, TSC + at), (ENTER, 3, TSC + at + 10), (EXIT, 3, TSC + at + 20), (EXIT, 1, TSC + at + ns + 500)]
        calls[HOLDER] += [(ENTER, 2, TSC + at + 300), (EXIT, 2, TSC + at + ns)]
        lines += [("usdt", TSC + at, SERVER, SERVER, 0, f"shop:begin arg1={i} arg2=-{i}"), ("usdt", TSC + at, SERVER, SERVER, 0, f"shop:queued arg1=1 arg2={i}"),
                  ("usdt", TSC + at + ns + 400, SERVER, SERVER, 1, f"shop:end arg1=? arg2={i}"),
                  waits(at - 1000, HOLDER, 1200, 0, "S", SERVER, "server", QUEUE, "1301"),
                  waits(at - 1000, HELPER, 1400, 0, "S", HOLDER, "holder", QUEUE, "1401"),
                  waits(at + 300, SERVER, ns - 300, 50, "S", HOLDER, "holder", QUEUE, "1201", "1301")]
        if i % 5 == 4:
            state, stack = (("L7f00", LOCK), ("D", DISK), ("R", SPIN), ("S", SLEEP))[i // 5]
            lines += [waits(at + 500, HOLDER, ns - MS, MS // 2, state, HELPER, "helper", stack, "1301"),
                      waits(at + 600, HELPER, ns - 2 * MS, 0, state, 0, "", stack, "1401"),
                      ("sample", TSC + at + MS, SERVER, HOLDER, 0, 0, SPIN, "1301")]
    return sorted(lines, key=lambda line: line[1]), calls


def perf_data(generator, lines, level=0, *more):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "perf.data"
        text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
        subprocess.run([generator, path, "1000000000", str(HZ), str(TSC), str(TSC), str(level), "waits", *more], input=text, text=True, check=True)
        return path.read_bytes()


def seed(how, manifest=b"", log=b"", perf=b""):
    return struct.pack("<HHB", len(manifest), len(log), how) + manifest + log + perf


def main():
    generator = pathlib.Path(sys.argv[1]) / "tests" / "format" / "perfdata_gen"
    place = pathlib.Path(sys.argv[2]) / "explain"
    place.mkdir(exist_ok=True)
    manifest, log, perf = json.dumps(MANIFEST).encode(), hand_made.fdr_log(CALLS, HZ), perf_data(generator, WAITS)
    seeds = {"calls-and-waits": seed(1, manifest, log, perf), "waits": seed(0, manifest, b"", perf), "calls": seed(0, manifest, log),
             "no-manifest": seed(2, b"", log, perf), "by-cpu": seed(64 + 3, manifest, b"", perf), "by-cgroup": seed(64 + 5, manifest, log, perf),
             "html": seed(64 + 6, manifest, log, perf), "timeline": seed(8, manifest, log, perf),
             "compressed": seed(1, manifest, log, perf_data(generator, WAITS, 3))}
    lines, calls = requests()
    log, perf = hand_made.fdr_log(calls, HZ), perf_data(generator, lines, 3, "usdt")
    seeds |= {"requests": seed(0, manifest, log, perf), "requests-tail": seed(32 + 6, manifest, log, perf), "requests-timeline": seed(8, manifest, log, perf),
              "usdt": seed(128, manifest, b"", perf), "usdt-and-calls": seed(128 + 6, manifest, log, perf)}
    for name, data in seeds.items():
        (place / name).write_bytes(data)


if __name__ == "__main__":
    main()
