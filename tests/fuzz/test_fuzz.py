# SPDX-License-Identifier: BSD-2-Clause
"""
Runs every fuzz target for a short time, starting from its corpus. Inputs that crash a target are kept in the output
directory.
"""
import os
import pathlib

import pytest

import project

TARGETS = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("fuzz_*.c"))
# One second reaches 8888 of the 8890 edges that two seconds reach, and 98 % of the features. `make fuzz-long` runs longer.
SECONDS = int(os.environ.get("XPROF_FUZZ_SECONDS", "1"))
# Each run of the tests uses the same inputs, so a crash comes from the tested change. To search for unknown faults,
# XPROF_FUZZ_SEED=0 uses new inputs each time, and XPROF_FUZZ_SECONDS runs longer.
SEED = os.environ.get("XPROF_FUZZ_SEED", "1")
RUNS = 100_000


def run(name, found):
    target = project.OUTPUT / "tests" / "fuzz" / name
    assert target.exists(), "not built: run make fuzz"
    corpus = pathlib.Path(__file__).parent / "corpus" / name.removeprefix("fuzz_")
    assert corpus.is_dir() and any(corpus.iterdir()), f"{corpus} has no inputs to start from"
    crashes = project.OUTPUT / "tests" / "fuzz" / "crashes"
    crashes.mkdir(exist_ok=True)
    # Run by a shell, because libFuzzer measures ru_maxrss, which a program inherits from the process that executes it,
    # here pytest.
    return project.run([
        "sh", "-c", '"$@"; exit $?', "sh", target, found, corpus, f"-max_total_time={SECONDS}", f"-seed={SEED}", f"-runs={RUNS if SEED == '1' else -1}", "-timeout=10", "-rss_limit_mb=1024",
        f"-artifact_prefix={crashes}/{name}-", "-print_final_stats=1",
    ], timeout=SECONDS + 100)


@pytest.mark.time_limit(SECONDS + 120)
@pytest.mark.parametrize("name", TARGETS)
def test_fuzz(name, tmp_path):
    done = run(name, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
