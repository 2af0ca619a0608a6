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


def perf_data(generator, lines, level=0):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "perf.data"
        text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
        subprocess.run([generator, path, "1000000000", str(HZ), str(TSC), str(TSC), str(level), "waits"], input=text, text=True, check=True)
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
    for name, data in seeds.items():
        (place / name).write_bytes(data)


if __name__ == "__main__":
    main()
