# SPDX-License-Identifier: BSD-2-Clause
"""A short run of every fuzz target, from its corpus; what makes one crash is kept in the output directory."""
import pathlib

import pytest

import house

TARGETS = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("fuzz_*.c"))
SECONDS = 5


@pytest.mark.parametrize("name", TARGETS)
def test_fuzz(name, tmp_path):
    target = house.OUTPUT / "tests" / "fuzz" / name
    assert target.exists(), "not built: run make fuzz"
    corpus = pathlib.Path(__file__).parent / "corpus" / name.removeprefix("fuzz_")
    assert corpus.is_dir() and any(corpus.iterdir()), f"{corpus} has no inputs to start from"
    crashes = house.OUTPUT / "tests" / "fuzz" / "crashes"
    crashes.mkdir(exist_ok=True)
    done = house.run([
        target, tmp_path, corpus, f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=1024",
        f"-artifact_prefix={crashes}/{name}-", "-print_final_stats=1",
    ])
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
