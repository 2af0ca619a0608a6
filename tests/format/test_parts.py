# SPDX-License-Identifier: BSD-2-Clause
"""Times of day select exactly what happened in them, in hand-made parts of two days."""
import json
import re

import pytest

import project

GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
HZ, TSC, NS = 1_000_000_000, 10**12, 10**12  # a tick is 1 ns
MINUTE = 60 * 10**9


def make_part(directory, day, hour, program):
    """Ten minutes with a sample in the middle of each minute."""
    part = directory / f"{day.replace('-', '')}T{hour}0000Z"
    part.mkdir()
    lines = [
        ("comm", TSC + 1, 7, 7, program),
        ("map", TSC + 2, 7, 7, "1000", "1000", "0", "-", f"/gone/{program}"),
        *(("sample", TSC + i * MINUTE + MINUTE // 2, 7, 7, 0, 0, f"10{i}0") for i in range(10)),
    ]
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    made = project.run([GENERATOR, part / "perf.data", 10**9, HZ, TSC, NS, 0], stdin=None, input=text)
    assert made.returncode == 0, made.stderr
    manifest = {
        "manifest_version": 1,
        "started": f"{day}T{hour}:00:00.000000000Z",
        "duration_s": 600.0,
        "clock": {"hz": HZ, "start_tsc": TSC},
        "samples": {"seen": 10, "written": 10, "lost": 0, "period_ns": 10**9},
    }
    (part / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def parts(tmp_path):
    directory = tmp_path / "parts"
    directory.mkdir()
    for day, hour in (("2026-11-26", "14"), ("2026-11-26", "15"), ("2026-11-27", "14")):
        make_part(directory, day, hour, f"p{day[-2:]}-{hour}")
    return directory


@pytest.mark.parametrize("times", [
    ("@2026-11-26T14:08..15:01:30",),
    ("", "--from=2026-11-26T14:08", "--to=15:01:30"),
    ("", "--from=2026-11-26T14:07:30.000000001Z", "--to=2026-11-26T15:01:30Z"),
    ("@2026-11-26", "--from=8m", "--to=3690s"),
    ("@2026-11-26T14:08..15:09", "--to=2026-11-26T15:01:30"),
])
def test_export(xprof, parts, times):
    """The first moment belongs to a time, the last one does not."""
    done = xprof("export", "--format=folded", "--by=none", "-o", "-", f"{parts}{times[0]}", *times[1:])
    assert sorted(done.stdout.splitlines()) == ["p26-14+0x80 1", "p26-14+0x90 1", "p26-15+0x0 1"]


def test_report(xprof, parts):
    """A report of a time has the processes, samples and CPU time of this time."""
    done = json.loads(xprof("report", "--json", f"{parts}@2026-11-26T14:08..15:01:30").stdout)
    assert {group["name"]: group["samples"] for group in done["groups"]} == {"p26-14 (7)": 2, "p26-15 (7)": 1}
    tree = xprof("report", "--tree", parts / "20261126T140000Z", "--from=8m").stdout
    assert re.findall(r"p26-14\+0x\w+", tree) == ["p26-14+0x80", "p26-14+0x90"]
    nothing = xprof("report", parts, "--from=2026-11-26T15:10", "--to=2026-11-26T15:20")
    assert nothing.returncode == 1 and "no sample, call or wait is selected" in nothing.stderr


@pytest.mark.parametrize("by", ["process", "thread", "comm", "cpu", "cgroup", "none"])
def test_process_of_several_parts(xprof, parts, by):
    """A process that goes on has one table; a later process with its PID has another one."""
    make_part(parts, "2026-11-27", "15", "p27-14")
    report = json.loads(xprof("report", "--by", by, "--json", parts).stdout)
    whole = {"cpu": {"cpu 0": 40}, "cgroup": {"[unknown control group]": 40}, "none": {"all": 40}}
    expected = whole.get(by) or {name + ("" if by == "comm" else " (7)"): count for name, count in (("p26-14", 10), ("p26-15", 10), ("p27-14", 20))}
    assert {group["name"]: group["samples"] for group in report["groups"]} == expected
    tree = xprof("report", "--tree", "--by", by, "--json", parts)
    assert tree.returncode == 0 and json.loads(tree.stdout)["whole"] == 40
    callers = xprof("report", "--callers", "p27-14+0x10", parts, "--from=2026-11-27T15:00")
    assert "p27-14+0x10" in callers.stdout, callers.stderr


def test_yesterday_against_today(xprof, parts):
    done = xprof("diff", "--json", f"{parts}@2026-11-26T14:00..14:05", f"{parts}@2026-11-27T14:02..14:04")
    (view,) = json.loads(done.stdout)["views"]
    assert [side["samples"] for side in view["sides"]] == [5, 2]


def test_without_a_start(xprof, parts):
    """No time of day is known of a part without manifest.json."""
    for manifest in parts.glob("*/manifest.json"):
        manifest.unlink()
    for times in ("@2026-11-26T14:00..15:00", "@2026-11-26T15:00"):
        done = xprof("export", "--format=folded", "-o", "-", f"{parts}{times}")
        assert done.returncode == 1 and "no sample is selected" in done.stderr, done.stderr
