# SPDX-License-Identifier: BSD-2-Clause
"""Exports and reports of the waits in recordings made by hand, of which every ns is known."""
import json
import re

import pytest

import hand_made
import profiles
import project

GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
HZ, TSC, NS = 1_000_000_000, 10**12, 10**12  # a tick is a ns
US, MS = 1000, 1000000
SERVER, HOLDER = 7, 8

LINES = [
    ("comm", TSC + 1, SERVER, SERVER, "server"),
    ("comm", TSC + 1, SERVER, HOLDER, "holder"),
    ("map", TSC + 2, SERVER, SERVER, "1000", "1000", "0", "-", "/gone/app"),
    ("sample", TSC + MS, SERVER, SERVER, 0, 0, "1500", "1201"),
    # 3 ms for a lock, and 1 ms more for a CPU.
    ("waiting", TSC + 10 * MS, SERVER, SERVER, 0, 3 * MS, MS, "L", HOLDER, "holder", "1011", "1201"),
    ("waiting", TSC + 20 * MS, SERVER, SERVER, 1, 5 * MS, 0, "L", HOLDER, "holder", "1011", "1201"),
    # Preempted: runnable all the time.
    ("waiting", TSC + 30 * MS, SERVER, HOLDER, 1, 0, 7 * MS, "R", 0, "", "1040"),
    # One of four was recorded: 1.5 ms for a lock, 0.5 ms for a CPU.
    ("wait", TSC + 40 * MS, SERVER, HOLDER, 1, 0, "1050", "1301"),
]
WHOLE = 4 * MS + 5 * MS + 7 * MS + 4 * 2 * MS


@pytest.fixture
def directory(tmp_path):
    return made(tmp_path / "recording", LINES)


def made(directory, lines, **manifest):
    directory.mkdir()
    (directory / "server.7.prof").write_bytes(hand_made.profile([], ""))
    profile = {"pid": SERVER, "image": 1, "comm": "server", "file": "server.7.prof"}
    manifest = {"clock": {"start_tsc": TSC, "hz": HZ}, "samples": {"profiles": [profile], "written": 1}, **manifest}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    done = project.run([GENERATOR, directory / "perf.data", 10**9, HZ, TSC, NS, 0, "waits"], stdin=None, input=text)
    assert done.returncode == 0, done.stderr
    return directory


def test_folded(xprof, directory):
    """The time of each stack, each wait times its weight; samples are not among them."""
    done = xprof("export", "--off-cpu", "--folded", "-o", "-", "--by=thread", directory)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "server (7);holder (8);app+0x300;app+0x50 8000000",
        "server (7);holder (8);app+0x40 7000000",
        "server (7);server (7);app+0x200;app+0x11 9000000",
    ]
    done = xprof("export", "--folded", "-o", "-", directory)
    assert done.stdout == "server (7);app+0x200;app+0x500 1\n"


def test_pprof(xprof, directory, tmp_path):
    """Waits and their ns, in a profile of their own; what a thread waited for is a label."""
    path = tmp_path / "waits.pb.gz"
    done = xprof("export", "--off-cpu", "--pprof", "-o", path, directory)
    assert done.returncode == 0, done.stderr
    if not profiles.GO:
        pytest.skip("there is no go")
    raw = project.run([profiles.GO, "tool", "pprof", "-raw", path], env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "PPROF_TMPDIR": "/tmp"})
    assert "waits/count off_cpu/nanoseconds" in raw.stdout, raw.stdout + raw.stderr
    rows = re.findall(r"^ +(\d+) +(\d+): [\d ]+\n.*\bstate:\[(\w+)\].*\bthread_comm:\[(\w+)\]", raw.stdout, re.M)
    assert sorted((thread, state, int(count), int(ns)) for count, ns, state, thread in rows) == [
        ("holder", "lock", 4, 6 * MS),
        ("holder", "runnable", 0, 2 * MS),
        ("holder", "runnable", 1, 7 * MS),
        ("server", "lock", 2, 8 * MS),
        ("server", "runnable", 0, MS),
    ]


def test_what_has_no_waits(xprof, tmp_path):
    directory = made(tmp_path / "recording", LINES[:4])
    refused = xprof("export", "--off-cpu", "--folded", "-o", "-", directory)
    assert refused.returncode == 1 and "no wait was recorded" in refused.stderr
    (directory / "perf.data").unlink()
    refused = xprof("export", "--off-cpu", "--folded", "-o", "-", directory)
    assert refused.returncode == 1 and "only perf.data has the waits" in refused.stderr
    for other in "--calls", "--perfetto":
        refused = xprof("export", "--off-cpu", "--html", other, directory)
        assert refused.returncode == 2 and "--off-cpu" in refused.stderr


def views(xprof, directory, *args):
    """{kind: the data of the view} of the HTML page."""
    done = xprof("export", "--html", "-o", "-", *args, directory)
    assert done.returncode == 0, done.stderr
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', done.stdout, re.S)[1])
    return {view["kind"]: view for view in data["views"]}


def test_html(xprof, directory):
    """Waits are beside the samples, and alone if they are asked for."""
    both, alone = views(xprof, directory), views(xprof, directory, "--off-cpu")
    assert list(both) == ["samples", "waits"] and list(alone) == ["waits"]
    assert both["waits"] == alone["waits"] and both["waits"]["period"] == 0
    assert sorted(both["waits"]["names"]) == ["app+0x11", "app+0x200", "app+0x300", "app+0x40", "app+0x50"]
    assert "waits" not in views(xprof, directory, "--to=5ms")
