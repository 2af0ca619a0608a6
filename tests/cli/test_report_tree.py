# SPDX-License-Identifier: BSD-2-Clause
"""Checks `xprof report --tree`, `--callers` and `--json` with hand-made recordings of known sums."""
import json

import pytest

import hand_made
from hand_machine import PROCESSES, make
from reported import report

MAPS = "1000-9000 r-xp 00000000 00:00 0 /bin/app\na000-b000 r-xp 00000000 00:00 0 {}/sym/kernel.1.x.so\n"
# The innermost function comes first. A return address is one byte after the call instruction's address.
MAIN, RUN, PARSE, READ, SYSCALL = 0x1010, 0x1020, 0x1030, 0x1040, 0xa010
STACKS = [(60, [PARSE, RUN + 1, MAIN + 1]), (20, [SYSCALL, READ + 1, PARSE + 1, RUN + 1, MAIN + 1]), (19, [READ, RUN + 1, MAIN + 1]),
          (1, [RUN, MAIN + 1])]


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "app.7.prof"
    path.write_bytes(hand_made.profile(STACKS, MAPS.format(tmp_path)))
    return path


@pytest.fixture
def log(tmp_path):
    """Makes a log in which 1 calls 2 twice, and one of these calls 3, at 1000 Hz."""
    path = tmp_path / "calls.fdr"
    path.write_bytes(hand_made.fdr_log(
        {7: [(0, 1, 0), (0, 2, 10), (1, 2, 20), (0, 2, 30), (0, 3, 40), (1, 3, 60), (1, 2, 70), (1, 1, 100)]}, hz=1000))
    return path


def test_tree(xprof, app):
    assert report(xprof, "--tree", app).stdout == """\
  Total     Self  Function
100.00%    0.00%  app.7
100.00%    0.00%    app+0x10  [app]
100.00%    1.00%    app+0x20
 80.00%   60.00%      app+0x30
 20.00%    0.00%      | app+0x40
 20.00%   20.00%      | kernel+0x10  [kernel]
 19.00%   19.00%      app+0x40
"""


def test_functions_without_a_branch_stand_at_one_depth(xprof, tmp_path):
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(3, [READ, PARSE + 1, RUN + 1, MAIN + 1]), (1, [SYSCALL, MAIN + 1])], MAPS.format(tmp_path)))
    assert report(xprof, "--tree", path).stdout == """\
  Total     Self  Function
100.00%    0.00%  x
100.00%    0.00%    app+0x10  [app]
 75.00%    0.00%      app+0x20
                      app+0x30
 75.00%   75.00%      app+0x40
 25.00%   25.00%      kernel+0x10  [kernel]
"""


def test_callers(xprof, app):
    assert report(xprof, "--callers", "app+0x40", app).stdout == """\
  Total  Function
 39.00%  app+0x40  [app]
 20.00%    app+0x30
           app+0x20
 20.00%    app+0x10
 19.00%    app+0x20
 19.00%    app+0x10
"""
    nobody = report(xprof, "--callers", "app+0x04", app, status=2)
    assert "--callers 'app+0x04' matches no function; the nearest names are app+0x" in nobody.stderr


def test_calls(xprof, log):
    assert report(xprof, "--tree", "--calls", log).stdout == """\
  Total     Self         Calls      Time  Function
100.00%    0.00%             0    100 ms  calls
100.00%   50.00%             1    100 ms    fn_1
 50.00%   30.00%             2   50.0 ms      fn_2
 20.00%   20.00%             1   20.0 ms        fn_3
"""
    assert report(xprof, "--callers", "fn_2", "--calls", log).stdout == """\
  Total         Calls      Time  Function
 50.00%             2   50.0 ms  fn_2
 50.00%             2   50.0 ms  fn_1
"""


def test_small_branches_are_summed_up(xprof, tmp_path):
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(1000, [MAIN]), *((1, [PARSE + 16 * i, RUN + 1]) for i in range(20))], MAPS.format(tmp_path)))
    lines = report(xprof, "--tree", path).stdout.splitlines()
    assert lines[-2:] == ["  1.96%    0.00%    app+0x20  [app]", "  1.96%               ... and 20 more"]
    assert len(report(xprof, "--tree", "--limit", "max", path).stdout.splitlines()) == len(lines) + 19


@pytest.mark.parametrize("args, error", [
    (["--calls"], "--calls requires --tree or --callers"),
    (["--tree", "--lines"], "--lines or --no-inlines, which change tables"),
    (["--tree", "x"], "can be used with only one recording"),
    (["--tree", "--calls", "--by", "cpu"], "--calls cannot be used with --by cpu"),
])
def test_usage(xprof, app, args, error):
    assert error in report(xprof, *args, app, status=2).stderr


# JSON. The members of each object with their types; members with a '?' are optional.

NUMBER, TEXT, NAME = int, str, (str, type(None))
SHARE = {"processes": NUMBER, "samples": NUMBER, "kernel_samples": NUMBER, "cpu_ns": NUMBER}
NAMED = {**SHARE, "name": NAME}
DURATIONS = {"p50_ns?": NUMBER, "p90_ns?": NUMBER, "p99_ns?": NUMBER, "max_error?": (int, float), "max_ns": NUMBER,
             "slowest_start_ns": NUMBER, "slowest_tid": NUMBER}
FUNCTION = {"function": TEXT, "object": NAME, "file?": TEXT, "line?": NUMBER, "flat?": NUMBER, "cum?": NUMBER, "calls?": NUMBER,
            "ended?": NUMBER, "total_ns?": NUMBER, "durations?": DURATIONS,
            "taken_out?": {"out_ns": NUMBER, "counted_ns": NUMBER, "calls_counted": NUMBER}}
TABLE = {"name": TEXT, "pid?": NUMBER, "image?": NUMBER, "tid?": NUMBER, "samples?": NUMBER, "kernel_samples?": NUMBER, "cpu_ns?": NUMBER,
         "calls?": NUMBER, "open_calls?": NUMBER, "functions": [FUNCTION]}
STACK_ENDS = {f"{end}?": NUMBER for end in ("complete", "truncated", "not_resident", "no_snapshot", "no_table", "no_rule", "table_late",
                                             "other_stack", "loop", "too_deep", "bad_return", "32_bit")}
REPORT = {"xprof_report": NUMBER, "recordings": [TEXT], "by": TEXT, "all?": TABLE, "groups": [TABLE],
          "machine?": {**SHARE, "length_ns?": NUMBER, "cpus?": NUMBER, "idle_ns?": NUMBER, "stacks": STACK_ENDS, "short": {**SHARE, "below_samples": NUMBER},
                       "programs": [NAMED], "cgroups": [NAMED]}}
NODE = {"parent?": NUMBER, "group?": TEXT, "function?": TEXT, "object?": TEXT, "inlined?": bool, "self": NUMBER, "self_ns": NUMBER,
        "total": NUMBER, "total_ns": NUMBER}
TREE = {"xprof_report": NUMBER, "by": TEXT, "of": TEXT, "callers?": TEXT, "whole": NUMBER, "whole_ns": NUMBER, "nodes": [NODE]}


def check(value, schema, where="$"):
    if isinstance(schema, list):
        assert isinstance(value, list), where
        for i, element in enumerate(value):
            check(element, schema[0], f"{where}[{i}]")
    elif isinstance(schema, dict):
        assert isinstance(value, dict), where
        known = {key.rstrip("?"): its for key, its in schema.items()}
        assert set(value) <= set(known), (where, set(value) - set(known))
        missing = {key for key in schema if not key.endswith("?")} - set(value)
        assert not missing, (where, missing)
        for key, its in known.items():
            if key in value:
                check(value[key], its, f"{where}.{key}")
    else:
        assert isinstance(value, schema), (where, value)


def documented(repo):
    return (repo / "user" / "man" / "xprof-formats.5.in").read_text()


def keys(schema):
    if isinstance(schema, list):
        yield from keys(schema[0])
    elif isinstance(schema, dict):
        for key, its in schema.items():
            yield key.rstrip("?")
            yield from keys(its)


def test_json_of_a_machine(xprof, tmp_path):
    found = json.loads(report(xprof, "--json", make(tmp_path, cpus=2), "--limit", "1").stdout)
    check(found, REPORT)
    assert found["xprof_report"] == 1 and found["by"] == "process"
    machine = found["machine"]
    assert (machine["cpus"], machine["samples"], machine["kernel_samples"], machine["cpu_ns"], machine["idle_ns"]) == (
        2, 100, 21, 10**9, 10**9)
    assert {p["name"]: p["samples"] for p in machine["programs"]} == {"cc1": 80, "server": 10, "sh": 9, "gone": 1}
    assert {p["name"]: p["processes"] for p in machine["cgroups"]} == {"/build.slice": 11, "/pod/server": 1, None: 1}
    assert machine["short"] == {"processes": 10, "samples": 10, "kernel_samples": 9, "cpu_ns": 10**8, "below_samples": 5}
    assert [(g["name"], g["pid"], g["samples"]) for g in found["groups"][:3]] == [("cc1 (100)", 100, 50), ("cc1 (101)", 101, 30),
                                                                                ("server (102)", 102, 10)]
    assert len(found["groups"]) == len(PROCESSES)
    assert found["all"]["functions"][0] == {"function": "cc1+0x10", "object": "cc1", "flat": 70, "cum": 70}


def test_json_of_calls(xprof, log):
    found = json.loads(report(xprof, "--json", log).stdout)
    check(found, REPORT)
    (table,) = found["groups"]
    assert (table["calls"], table["open_calls"]) == (4, 0)
    assert table["functions"][1] == {
        "function": "fn_2", "object": None, "calls": 2, "ended": 2, "total_ns": 50000000, "durations": {
            "p50_ns": 40000000, "p90_ns": 40000000, "p99_ns": 40000000, "max_error": 0.0, "max_ns": 40000000,
            "slowest_start_ns": 30000000, "slowest_tid": 7}}


def test_json_of_trees(xprof, app, log):
    found = json.loads(report(xprof, "--json", "--tree", app).stdout)
    check(found, TREE)
    assert (found["by"], found["of"], found["whole"], found["whole_ns"]) == ("comm", "samples", 100, 10**9)
    nodes = found["nodes"]
    assert all(node["parent"] < i for i, node in enumerate(nodes) if i)
    assert sum(node["self"] for node in nodes) == 100 == nodes[0]["total"]
    callers = json.loads(report(xprof, "--json", "--callers", "fn_2", "--calls", log).stdout)
    check(callers, TREE)
    assert callers["callers"] == "fn_2" and callers["nodes"][0]["total"] == 2 and callers["nodes"][0]["total_ns"] == 5 * 10**7


def test_json_is_text_of_whatever_is_in_it(xprof, tmp_path):
    make(tmp_path, [('"\\\x1b<b>', 1, '/"\n\\\u2028', 6, 0)])
    found = json.loads(report(xprof, "--json", tmp_path).stdout)
    check(found, REPORT)
    assert found["machine"]["programs"][0]["name"] == '"\\?<b>'
    assert found["machine"]["cgroups"][0]["name"] == '/"?\\\u2028'


def test_the_manual_has_each_member(repo):
    text = documented(repo).replace("\\", "")
    assert [key for key in {*keys(REPORT), *keys(TREE)} if key not in text] == []
