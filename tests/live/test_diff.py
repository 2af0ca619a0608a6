# SPDX-License-Identifier: BSD-2-Clause
"""`xprof diff` of two recordings. tests/cli/test_diff.py has its statistics."""
import json
import re
import shutil

import pytest

pytestmark = pytest.mark.uprobes


def test_recordings(xprof, program, tmp_path):
    """
    Compares samples by CPU time, and calls: the program calls hot() and rest() once per round of 100 ms of CPU time.
    """
    two_parts = program("live/programs/two_parts.c", "-O1", "-g")
    for name, share in ("a", 30), ("b", 60):
        binary = shutil.copy(two_parts, tmp_path / "two_parts")
        options = ["-q", "-F", "2000", "-o", tmp_path / name]
        done = xprof("record", *options, "--", binary, share, 100 - share, 0.5)
        assert done.returncode == 0, done.stderr
        (tmp_path / "two_parts").unlink()
    samples, calls = json.loads(xprof("diff", "--json", "a", "b", cwd=tmp_path).stdout)["views"]
    found = {row["function"]: row for row in samples["functions"]}
    assert (found["hot"]["verdict"], found["rest"]["verdict"]) == ("grew", "shrank"), found
    # In ms of a second of CPU time.
    assert found["hot"]["values"] == [pytest.approx(300, rel=0.2), pytest.approx(600, rel=0.2)]
    assert calls["of"] == "calls" and calls["sides"][0]["calls"] > 9
    found = {row["function"]: row for row in calls["functions"]}
    assert found["hot"]["calls"] == found["rest"]["calls"] == [5, 5]
    for times in ("p50_ns", "p90_ns", "p99_ns", "max_ns"):
        assert all(value > 1e6 for value in found["hot"][times])
    assert found["hot"]["mean_ns"] == pytest.approx([ns / 5 for ns in found["hot"]["total_ns"]])
    text = xprof("diff", "a", "b", cwd=tmp_path).stdout
    assert re.search(r"^A +\S+ +\S+ .*  hot\nB .*  two_parts\n", text, re.M)
    # The sums of B are those of its own folded stacks.
    exported = xprof("export", "--format=folded", "--by", "none", "-o", "-", tmp_path / "b").stdout
    stacks = [line.rsplit(" ", 2) for line in xprof("diff", "--folded", "a", "b", cwd=tmp_path).stdout.splitlines()]
    assert sum(int(count) for *_, count in stacks) == sum(int(line.rsplit(" ", 1)[1]) for line in exported.splitlines())
    assert xprof("diff", "a", "a", "a", cwd=tmp_path).returncode == 2
