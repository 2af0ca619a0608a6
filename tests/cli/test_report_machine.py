# SPDX-License-Identifier: BSD-2-Clause
"""Checks `xprof report` of many processes: the summary of the machine, and groups other than processes."""
import json
import re

import pytest

import hand_made
from hand_machine import PROCESSES, make
from reported import on_terminal, report


@pytest.fixture
def machine(tmp_path):
    return make(tmp_path, cpus=2)


def parts(text):
    """Returns the paragraphs of the output."""
    return [part.splitlines() for part in text.split("\n\n")]


def test_the_machine_comes_first(xprof, machine):
    found = parts(report(xprof, machine).stdout)
    assert found[1] == [
        "2 CPUs for 1.0 s: 50.0% busy (1.00 s of CPU time), 50.0% idle (1.00 s); 21.0% of the busy time in the kernel",
        "10 processes with fewer than 5 samples each: together 100 ms (10.0%)",
    ]
    assert found[2] == [
        "CPU time    Share   Kernel  Processes  Program",
        "  800 ms   80.00%   12.50%          2  cc1",
        "  100 ms   10.00%   20.00%          1  server",
        " 90.0 ms    9.00%  100.00%          9  sh",
        " 10.0 ms    1.00%    0.00%          1  gone",
    ]
    assert found[3] == [
        "CPU time    Share   Kernel  Processes  Control group",
        "  890 ms   89.00%   21.35%         11  /build.slice",
        "  100 ms   10.00%   20.00%          1  /pod/server",
        " 10.0 ms    1.00%    0.00%          1  [unknown control group]",
    ]
    assert found[4][0] == "all: 100 samples, one every 10 ms, 1.000 s"
    assert [line.split()[0:2] + line.split()[4:] for line in found[4][2:]] == [
        ["70", "70.00%", "cc1+0x10", "cc1"], ["21", "21.00%", "kernel+0x10", "kernel"], ["8", "8.00%", "server+0x10", "server"],
        ["1", "1.00%", "gone+0x10", "gone"]]
    assert found[5][0].split() == ["Samples", "Share", "Process"] and len(found[5]) == 1 + len(PROCESSES)
    assert found[6][0].startswith("cc1 (100): 50 samples")


def test_stacks_that_are_cut_short(xprof, tmp_path):
    made = make(tmp_path, cpus=2, stacks={"seen": 79, "complete": 40, "truncated": 3, "table_late": 36, "no_rule": 0})
    text = "50.6 % of 79 user stacks are complete; 36: unwind table not built in time; 3: deeper than the copied part"
    assert parts(report(xprof, made).stdout)[1][2:] == [text]
    found = json.loads(report(xprof, "--json", made).stdout)
    assert found["machine"]["stacks"] == {"complete": 40, "truncated": 3, "table_late": 36}


def test_a_limit_keeps_the_first_page_short(xprof, tmp_path):
    processes = [(f"p{i}", 1000 + i, f"/g{i}", 7, 0) for i in range(100)]
    found = parts(report(xprof, make(tmp_path, processes, cpus=2)).stdout)
    assert sum(map(len, found[:5])) < 60
    assert found[2][-1] == "  6.30 s   90.00%    0.00%         90  ... and 90 more"
    assert found[3][-1] == "  6.58 s   94.00%    0.00%         94  ... and 94 more"
    assert found[5][-1] == "... and 70 more"
    assert len(found) == 6 + 30
    everything = parts(report(xprof, "--limit", "max", tmp_path).stdout)
    assert [len(part) for part in everything[2:6]] == [101, 101, 102, 101]
    assert len(everything) == 6 + 100


@pytest.mark.parametrize("by, titles", [
    ("comm", {"cc1": 80, "server": 10, "sh": 9, "gone": 1}),
    ("cgroup", {"/build.slice": 89, "/pod/server": 10, "[unknown control group]": 1, "/": None}),
    ("none", {"all": 100}),
])
def test_groups(xprof, machine, by, titles):
    text = report(xprof, "--by", by, machine).stdout
    found = {m[1]: int(m[2]) for m in re.finditer(r"^(.+): (\d+) samples?, one every", text, re.M)}
    assert {name: count for name, count in titles.items() if count} == {k: v for k, v in found.items() if by == "none" or k != "all"}


def test_few_processes_are_listed_as_before(xprof, tmp_path):
    """A report of few processes lists each process, without groups."""
    found = parts(report(xprof, make(tmp_path, PROCESSES[:3])).stdout)
    assert [part[0].split()[0] for part in found[1:]] == ["Samples", "cc1", "cc1", "server"]
    many = parts(report(xprof, make(tmp_path)).stdout)
    assert many[1][0] == "13 processes: 1.00 s of CPU time, 21.0% of it in the kernel (210 ms)"


@pytest.mark.parametrize("by", ["thread", "cpu"])
def test_threads_need_perf_data(xprof, machine, by):
    done = report(xprof, "--by", by, machine, status=1)
    assert "only perf.data has the threads and CPUs of samples" in done.stderr
    assert done.stderr.count("xprof:") == 1 and done.stdout == ""


def test_hostile_names(xprof, tmp_path):
    text = report(xprof, make(tmp_path, [(f"\x1b[31m{i}", i + 1, "/\u202e\nforged\x1b[0m", 6, 0) for i in range(12)], cpus=1)).stdout
    assert "\x1b" not in text and "\u202e" not in text and "\nforged" not in text


def test_names_in_sym_that_no_recorder_gives(xprof, tmp_path):
    (tmp_path / "sym").mkdir()
    for name in ("kernel", "kernel.so", "1.so", "..so", ".1.x.so", "kernel.1.x.so"):
        path = tmp_path / "x.prof"
        path.write_bytes(hand_made.profile([(1, [0x1010])], f"1000-2000 r-xp 00000000 00:00 0 {tmp_path}/sym/{name}\n"))
        shown = "kernel" if name == "kernel.1.x.so" else name
        assert f"{shown}+0x10  {shown}" in report(xprof, path).stdout


def test_narrow_terminal(xprof, tmp_path):
    processes = [(f"p{i}", 1000 + i, "/" + f"kubepods{i}" * 20, 7, 0) for i in range(12)]
    text = on_terminal(xprof, make(tmp_path, processes, cpus=2), columns=80, PAGER="cat", NO_COLOR="1")
    for line in parts(text)[3]:
        assert len(line) <= 80
    assert re.search(r"1  /kubepods0kube.*\.\..*kubepods0$", text, re.M)
