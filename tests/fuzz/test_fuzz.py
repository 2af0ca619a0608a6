# SPDX-License-Identifier: BSD-2-Clause
"""A short run of every fuzz target, from its corpus; what makes one crash is kept in the output directory."""
import os
import pathlib

import pytest

import house

TARGETS = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("fuzz_*.c"))
SECONDS = int(os.environ.get("XPROF_FUZZ_SECONDS", "5"))
# The same inputs at each run of the tests: what they find belongs to the change that is tested. XPROF_FUZZ_SEED=0 takes
# others each time, XPROF_FUZZ_SECONDS more of them: that is how to look for what is not known yet.
SEED = os.environ.get("XPROF_FUZZ_SEED", "1")
RUNS = 100_000


@pytest.mark.parametrize("name", TARGETS)
def test_fuzz(name, tmp_path):
    target = house.OUTPUT / "tests" / "fuzz" / name
    assert target.exists(), "not built: run make fuzz"
    corpus = pathlib.Path(__file__).parent / "corpus" / name.removeprefix("fuzz_")
    assert corpus.is_dir() and any(corpus.iterdir()), f"{corpus} has no inputs to start from"
    crashes = house.OUTPUT / "tests" / "fuzz" / "crashes"
    crashes.mkdir(exist_ok=True)
    done = house.run([
        target, tmp_path, corpus, f"-max_total_time={SECONDS}", f"-seed={SEED}", f"-runs={RUNS if SEED == '1' else -1}", "-timeout=10", "-rss_limit_mb=1024",
        f"-artifact_prefix={crashes}/{name}-", "-print_final_stats=1",
    ])
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
