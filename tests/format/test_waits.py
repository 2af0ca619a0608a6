# SPDX-License-Identifier: BSD-2-Clause
"""Checks exports and reports of waits with hand-made recordings, in which every ns is known."""
import collections
import json
import re
import shutil

import pytest

import browser
import hand_made
import perfetto
import profiles
import project

GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
HZ, TSC, NS = 1_000_000_000, 10**12, 10**12  # a tick is 1 ns
US, MS = 1000, 1000000
SERVER, HOLDER = 7, 8

LINES = [
    ("comm", TSC + 1, SERVER, SERVER, "server"),
    ("comm", TSC + 1, SERVER, HOLDER, "holder"),
    ("map", TSC + 2, SERVER, SERVER, "1000", "1000", "0", "-", "/gone/app"),
    ("sample", TSC + MS, SERVER, SERVER, 0, 0, "1500", "1201"),
    # 3 ms for a lock, and then 1 ms for a CPU.
    ("waiting", TSC + 10 * MS, SERVER, SERVER, 0, 3 * MS, MS, "L", HOLDER, "holder", "1011", "1201"),
    ("waiting", TSC + 20 * MS, SERVER, SERVER, 1, 5 * MS, 0, "L", HOLDER, "holder", "1011", "1201"),
    # Preempted: runnable for the whole wait.
    ("waiting", TSC + 30 * MS, SERVER, HOLDER, 1, 0, 7 * MS, "R", 0, "", "1040"),
    # One of four waits was recorded: 1.5 ms for a lock, 0.5 ms for a CPU.
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
    """A stack has the time of its waits, each multiplied by its weight. Samples are not included."""
    done = xprof("export", "--off-cpu", "--format=folded", "-o", "-", "--by=thread", directory)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "server (7);holder (8);app+0x300;app+0x50 8000000",
        "server (7);holder (8);app+0x40 7000000",
        "server (7);server (7);app+0x200;app+0x11 9000000",
    ]
    done = xprof("export", "--format=folded", "-o", "-", directory)
    assert done.stdout == "server (7);app+0x200;app+0x500 1\n"


def test_pprof(xprof, directory, tmp_path):
    """Waits and their ns are in a separate profile. The reason of the wait is a label."""
    path = tmp_path / "waits.pb.gz"
    done = xprof("export", "--off-cpu", "--format=pprof", "-o", path, directory)
    assert done.returncode == 0, done.stderr
    if not profiles.GO:
        pytest.skip("there is no go")
    raw = project.run([profiles.GO, "tool", "pprof", "-raw", path], env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "PPROF_TMPDIR": "/tmp"})
    assert "waits/count off_cpu/nanoseconds" in raw.stdout, raw.stdout + raw.stderr
    rows = re.findall(r"^ +(\d+) +(\d+): ([\d ]+)\n.*\bstate:\[(\w+)\].*\bthread_comm:\[(\w+)\]", raw.stdout, re.M)
    sums = collections.defaultdict(lambda: [0, 0])
    for count, ns, stack, state, thread in rows:  # Go 1.24 prints equal entries separately
        of_stack = sums[thread, state, stack]
        of_stack[0] += int(count)
        of_stack[1] += int(ns)
    assert sorted((thread, state, *values) for (thread, state, _), values in sums.items()) == [
        ("holder", "futex", 4, 6 * MS),
        ("holder", "runnable", 0, 2 * MS),
        ("holder", "runnable", 1, 7 * MS),
        ("server", "futex", 2, 8 * MS),
        ("server", "runnable", 0, MS),
    ]


def test_what_has_no_waits(xprof, tmp_path):
    directory = made(tmp_path / "recording", LINES[:4])
    refused = xprof("export", "--off-cpu", "--format=folded", "-o", "-", directory)
    assert refused.returncode == 1 and "no wait was recorded" in refused.stderr
    (directory / "perf.data").unlink()
    refused = xprof("export", "--off-cpu", "--format=folded", "-o", "-", directory)
    assert refused.returncode == 1 and "only perf.data has the waits of threads, and there is none" in refused.stderr
    refused = xprof("export", "--off-cpu", "--format=html", "--calls", directory)
    assert refused.returncode == 2 and "--off-cpu" in refused.stderr


ACCOUNTS = {"seen": 12, "written": 4, "filtered": {"shorter": 5, "not_chosen": 3}, "lost": 0, "missed": 0, "thread_count": 2,
            "running_s": 0.5, "runnable_s": 0.013, "blocked_s": 0.02,
            "threads": [{"pid": SERVER, "tid": SERVER, "image": 1, "name": "server", "waits": 8, "missed": 1, "running_s": 0.25, "runnable_s": 0.003, "blocked_s": 0.009},
                        {"pid": SERVER, "tid": HOLDER, "image": 1, "name": "holder", "waits": 5, "missed": 0, "running_s": 0.25, "runnable_s": 0.01, "blocked_s": 0.011}]}


def test_sums_do_not_wrap(xprof, tmp_path):
    """A file can claim waits of 292 years each."""
    ever = ("waiting", TSC + MS, SERVER, SERVER, 0, 2**63 - 1, 2**63 - 1, "L", HOLDER, "holder", "1011", "1201")
    directory = made(tmp_path / "recording", [*LINES, *[ever] * 3])
    (process,) = json.loads(reported(xprof, "--json", directory))["groups"]
    assert process["waits"]["total_ns"] == process["waits"]["places"][0]["total_ns"] == 2**63 - 1
    assert process["waits"]["runnable_ns"] == 2**63 - 1


def test_sums_of_accounts_and_models_do_not_wrap(xprof, tmp_path):
    """
    A file can claim threads that ran for 31 years each: sums of a report, a tree, an export and a page stop at the
    maximum.
    """
    ever = ("waiting", TSC + MS, SERVER, SERVER, 0, 2**63 - 1, 10, "L", HOLDER, "holder", "1011", "1201")
    threads = [{"pid": SERVER, "tid": SERVER + i, "image": 1, "name": "x", "running_s": 1e9, "runnable_s": 1e9, "blocked_s": 1e9} for i in range(30)]
    directory = made(tmp_path / "recording", [*LINES, *[ever] * 3], waits={**ACCOUNTS, "threads": threads})
    (process,) = json.loads(reported(xprof, "--json", directory))["groups"]
    assert process["waits"]["account"] == {"threads": 30, "seen": 0, "running_ns": 2**63 - 1, "runnable_ns": 2**63 - 1, "blocked_ns": 2**63 - 1}
    tree = json.loads(reported(xprof, "--json", "--tree", "--off-cpu", directory))
    assert tree["whole_ns"] == tree["nodes"][0]["total_ns"] == 2**63 - 1
    done = xprof("export", "--off-cpu", "--format=folded", "-o", "-", directory)
    assert sum(int(line.split()[-1]) for line in done.stdout.splitlines()) == 2**63 - 1


def test_rows_of_all_tables_are_bounded(xprof, tmp_path):
    """
    Each of 1100 threads has 1000 functions. Functions without a row are counted as [others]; the table of all threads
    has all functions.
    """
    stack = [f"{0x1500 + 16 * i:x}" for i in range(1000)]
    lines = [("map", TSC + 2, SERVER, SERVER, "1000", "10000000", "0", "-", "/gone/app")]
    lines += [("sample", TSC + MS + 1000 * i, SERVER, SERVER + i, 0, 0, *stack) for i in range(1100)]
    done = xprof("report", "--json", "--by=thread", made(tmp_path / "recording", lines, clock={"start_tsc": TSC, "hz": HZ}))
    assert done.returncode == 0 and "count as [others], since there are at most 1048576 rows" in done.stderr, done.stderr
    report = json.loads(done.stdout)
    rows = collections.Counter(row["function"] == "[others]" for group in report["groups"] for row in group["functions"])
    assert rows[False] == 1 << 20 and rows[True] == 1100 - (1 << 20) // 1000
    assert all(sum(row["flat"] for row in group["functions"]) == group["samples"] == 1 for group in report["groups"])
    assert len(report["all"]["functions"]) == 1000 and all(row["cum"] == 1100 for row in report["all"]["functions"])


def reported(xprof, *args):
    done = xprof("report", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_report(xprof, tmp_path):
    """
    The report shows, in addition to samples, how threads spent their time and where they waited. Each wait is
    multiplied by its weight.
    """
    directory = made(tmp_path / "recording", LINES, waits=ACCOUNTS)
    (process,) = json.loads(reported(xprof, "--json", directory))["groups"]
    assert process["waits"]["account"] == {"threads": 2, "seen": 12, "running_ns": 500 * MS, "runnable_ns": 13 * MS, "blocked_ns": 20 * MS}
    assert (process["waits"]["recorded"], process["waits"]["count"]) == (4, 7)
    assert (process["waits"]["total_ns"], process["waits"]["runnable_ns"]) == (WHOLE, MS + 7 * MS + 4 * MS // 2)
    lock, of_many, preempted = process["waits"]["places"]
    assert lock == {
        "state": "futex", "count": 2, "total_ns": 9 * MS, "runnable_ns": MS, "max_ns": 5 * MS, "longest_start_ns": 15 * MS,
        "wakers": 1, "waker": {"tid": HOLDER, "name": "holder", "in_softirq": False, "ns": 9 * MS}, "by_interrupt": False,
        "is_over": True, "stack": ["app+0x11", "app+0x200"]}
    assert (of_many["count"], of_many["total_ns"], of_many["runnable_ns"], of_many["max_ns"]) == (4, 8 * MS, 2 * MS, 2 * MS)
    assert (preempted["state"], preempted["total_ns"], preempted["waker"]) == ("preempted", 7 * MS, None)
    text = reported(xprof, directory)
    assert "not in the tables of waits: 5 shorter than the minimum\n" in text
    assert "2 threads: 500 ms on a CPU, 13.0 ms runnable, 20.0 ms blocked\n" in text
    assert "12 waits seen, 4 written, which represent about 7: 24.0 ms\n" in text
    assert re.search(r"^ +2 +9.00 ms +37.50% +1.00 ms +5.00 ms  futex +holder \(8\) +app\+0x11 < app\+0x200$", text, re.M)


def test_report_reads_a_file_once(xprof, tmp_path):
    """
    A binary is read once, for names of samples and waits together. A second open only checks the type of the file.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace here")
    build_id = re.search(r"Build ID: (\w+)", project.run(["readelf", "-n", GENERATOR]).stdout)[1]
    lines = [line if line[0] != "map" else (*line[:-2], build_id, GENERATOR) for line in LINES]
    directory = made(tmp_path / "recording", lines)
    traced = tmp_path / "opened"
    done = project.run(["strace", "-f", "-e", "trace=openat", "-o", traced, xprof.path, "report", "--by=thread", directory])
    assert done.returncode == 0 and "7.00 ms" in done.stdout, done.stderr
    assert traced.read_text().count(f'"{GENERATOR}"') == 2


def test_report_of_groups(xprof, tmp_path):
    directory = made(tmp_path / "recording", LINES, waits=ACCOUNTS)
    threads = json.loads(reported(xprof, "--json", "--off-cpu", "--by=thread", directory))
    assert {group["tid"]: group["waits"]["total_ns"] for group in threads["groups"]} == {SERVER: 9 * MS, HOLDER: 15 * MS}
    assert {group["tid"]: group["waits"]["account"]["blocked_ns"] for group in threads["groups"]} == {SERVER: 9 * MS, HOLDER: 11 * MS}
    assert threads["all"]["waits"]["total_ns"] == WHOLE and threads["all"]["waits"]["account"]["running_ns"] == 500 * MS
    assert all("samples" not in group for group in threads["groups"])
    cpus = json.loads(reported(xprof, "--json", "--off-cpu", "--by=cpu", directory))
    assert {group["name"]: group["waits"]["total_ns"] for group in cpus["groups"]} == {"cpu 0": 4 * MS, "cpu 1": 20 * MS}
    text = reported(xprof, "--by=thread", directory)
    assert re.search(r"^ +1 +100.00% +3.00 ms +9.00 ms  server \(7\)$", text, re.M)
    assert re.search(r"^ +0 +0.00% +10.0 ms +11.0 ms  holder \(8\)$", text, re.M)


def test_report_without_accounts(xprof, directory):
    """Without a manifest, the times come from the records."""
    (directory / "manifest.json").unlink()
    assert "waits: 10.0 ms runnable, 14.0 ms blocked\n" in reported(xprof, directory)


def test_report_of_a_thread_that_only_waits(xprof, tmp_path):
    directory = made(tmp_path / "recording", LINES[:2] + LINES[4:5], waits={})
    (directory / "server.7.prof").write_bytes(hand_made.profile([], ""))
    assert "1 wait written: 4.00 ms\n" in reported(xprof, directory)


def test_tree(xprof, directory):
    """The tree shows times and numbers of waits, from the outermost function, and from a function to its callers."""
    tree = reported(xprof, "--off-cpu", "--tree", directory)
    assert tree.startswith("  Total     Self         Waits      Time  Function\n100.00%    0.00%             0   24.0 ms  server\n")
    assert re.search(r"^ 37.50%   37.50%             2   9.00 ms .* app\+0x11$", tree, re.M)
    found = json.loads(reported(xprof, "--off-cpu", "--callers=app+0x11", "--json", directory))
    assert (found["of"], found["whole_ns"], found["nodes"][1]["total_ns"]) == ("waits", WHOLE, 9 * MS)


def test_report_that_has_no_waits(xprof, tmp_path):
    directory = made(tmp_path / "recording", LINES[:4])
    for args in (["--off-cpu"], ["--off-cpu", "--tree"]):
        refused = xprof("report", *args, directory)
        assert refused.returncode == 1 and "`xprof record --off-cpu`" in refused.stderr
    assert "together" not in reported(xprof, directory)
    for other in "--calls", "--lines", "--no-inlines", directory:
        refused = xprof("report", "--off-cpu", directory, other)
        assert refused.returncode == 2 and ("--off-cpu" in refused.stderr or other == "--calls"), refused.stderr
    refused = xprof("report", "--off-cpu", "--calls", "--tree", directory)
    assert refused.returncode == 2 and "--calls cannot be used with --off-cpu" in refused.stderr


def views(xprof, directory, *args):
    """Returns {kind: the data of the view} of the HTML page."""
    done = xprof("export", "--format=html", "-o", "-", *args, directory)
    assert done.returncode == 0, done.stderr
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', done.stdout, re.S)[1])
    return {view["kind"]: view for view in data["views"]}


def test_html(xprof, directory):
    """The page shows waits in addition to samples, or alone with --off-cpu."""
    both, alone = views(xprof, directory), views(xprof, directory, "--off-cpu")
    assert list(both) == ["samples", "waits"] and list(alone) == ["waits"]
    assert both["waits"] == alone["waits"] and both["waits"]["period"] == 0
    assert sorted(name for name in both["waits"]["names"] if not name.startswith("woken by")) == ["app+0x11", "app+0x200", "app+0x300", "app+0x40", "app+0x50"]
    assert "waits" not in views(xprof, directory, "--to=5ms")


def timeline(xprof, directory, *args):
    """Returns {(thread, name, start, ns): arguments} of the waits, and the trace."""
    path = directory / "trace.pftrace"
    done = xprof("export", "--format=perfetto", "-o", path, *args, directory)
    assert done.returncode == 0, done.stderr
    trace = perfetto.Trace(path.read_bytes())
    start = trace.clocks[3]
    return {(s.tid, s.name, s.start - start, s.ns): s.arguments for s in trace.waits}, trace


def test_perfetto(xprof, directory):
    """
    A wait has a slice until the thread is woken, a slice until it runs, and an arrow from the thread that woke it.
    """
    waits, trace = timeline(xprof, directory)
    lock, lone = {"where": "app+0x11 < app+0x200", "woken by": "holder (8)"}, {"where": "app+0x40"}
    of_many = {"where": "app+0x50 < app+0x300", "woken by": "a waker (10)", "weight": "4"}
    assert waits == {
        (SERVER, "futex", 6 * MS, 3 * MS): lock, (SERVER, "runnable", 9 * MS, MS): lock, (SERVER, "futex", 15 * MS, 5 * MS): lock,
        (HOLDER, "runnable", 23 * MS, 7 * MS): lone,
        (HOLDER, "futex", 38 * MS, 3 * MS // 2): of_many, (HOLDER, "runnable", 79 * MS // 2, MS // 2): of_many,
    }
    (wake,) = trace.wakes  # the other wait ends with a thread that runs immediately
    start = trace.clocks[3]
    assert (wake.tid, wake.time_ns - start, wake.arguments) == (HOLDER, 9 * MS, {"thread": "server (7)"})
    assert trace.flow_ends == {wake.flow: (SERVER, start + 9 * MS)}
    assert len(trace.samples) == 1 and sum(ns * float(a.get("weight", 1)) for (_, _, _, ns), a in waits.items()) == WHOLE


def test_perfetto_of_a_selection(xprof, directory):
    """Waits can be selected by thread, by function, and by time; --from cuts off the part before."""
    alone, trace = timeline(xprof, directory, "--off-cpu")
    assert len(alone) == 6 and not trace.samples
    of_holder, trace = timeline(xprof, directory, "--tid=8")
    assert {tid for tid, *_ in of_holder} == {HOLDER} == trace.threads.keys() and len(of_holder) == 3
    assert {key[1] for key in timeline(xprof, directory, "--functions=app+0x300")[0]} == {"futex", "runnable"}
    cut, _ = timeline(xprof, directory, "--from=7ms", "--to=25ms")
    assert cut.keys() == {(SERVER, "futex", 7 * MS, 2 * MS), (SERVER, "runnable", 9 * MS, MS), (SERVER, "futex", 15 * MS, 5 * MS)}
    assert not timeline(xprof, directory, "--to=5ms")[0]


def test_perfetto_of_records_that_contradict_each_other(xprof, tmp_path):
    """Waits of a thread may overlap, or start before the recording: all slices end, in order of time."""
    lines = [*LINES[:3], ("waiting", TSC + 10 * MS, SERVER, SERVER, 0, 8 * MS, MS, "S", HOLDER, "holder", "1011"),
             ("waiting", TSC + 9 * MS, SERVER, SERVER, 0, 5 * MS, 2 * MS, "S", HOLDER, "holder", "1011"),
             ("waiting", TSC + 20 * MS, SERVER, SERVER, 0, 2**63, 2**62, "S", SERVER, "server", "1011")]
    waits, trace = timeline(xprof, made(tmp_path / "recording", lines))
    assert trace.open == 0 and len(waits) >= 4


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    if not browser.PATH:
        pytest.skip("no chromium here")
    return browser.Browser(tmp_path_factory.mktemp("browser"))


def test_page(xprof, tmp_path, browse):
    """A browser shows the sums of the report, by function and by state. Names are only text."""
    lines = [line if line[0] != "comm" or line[3] == SERVER else (*line[:4], "<img src=x>") for line in LINES]
    directory = made(tmp_path / "recording", lines)
    path = tmp_path / "page.html"
    done = xprof("export", "--format=html", "-o", path, directory)
    assert done.returncode == 0, done.stderr
    table = browse(path, view="waits", mode="table", scope="merged")
    assert (table.body["view"], int(table.body["waits"]), int(table.body["ns"])) == ("waits", 7, WHOLE)
    rows = {row["name"]: (row["waits"], row["self"], row["total"]) for row in table.rows}
    assert rows == {"app+0x200": (2, 0, 9 * MS), "app+0x11": (2, 9 * MS, 9 * MS), "app+0x300": (4, 0, 8 * MS),
                    "app+0x50": (4, 8 * MS, 8 * MS), "app+0x40": (1, 7 * MS, 7 * MS)}
    # 3 + 5 + 6 ms for locks, 1 + 7 + 2 ms without a CPU.
    assert table.texts["legend"] == "futex 58.3 %runnable 41.7 %"
    whole = browse(path, view="waits", scope="threads")
    assert "24.0 ms (100.0 %) \u00b7 7 waits \u00b7 futex 14.0 ms \u00b7 runnable 10.0 ms" in whole.texts["numbers"]
    assert "img" not in whole.tags and "<img src=x> (8)" in path.read_text().replace("\\u003c", "<").replace("\\u003e", ">")


@pytest.mark.parametrize("late, is_warned", [(50, False), (51, True)])
def test_page_tells_of_stacks_that_are_cut_short(xprof, tmp_path, browse, late, is_warned):
    directory = made(tmp_path / "recording", LINES, samples={"stacks": {"seen": 1000, "complete": 1000 - late, "table_late": late}})
    path = tmp_path / "page.html"
    done = xprof("export", "--format=html", "-o", path, directory)
    assert done.returncode == 0, done.stderr
    text = f"{100 - late / 10:.1f} % of 1000 user stacks are complete; {late}: unwind table not built in time"
    assert text in browse(path).texts["summary"] and (f'"lackMany":{str(is_warned).lower()}' in path.read_text())


def test_diff(xprof, tmp_path):
    """The diff shows the time waited per second, in A and B, by function and by caller."""
    longer = [line if line[0] != "waiting" or line[5] != 5 * MS else (*line[:5], 25 * MS, *line[6:]) for line in LINES]
    before = made(tmp_path / "a", LINES, duration_s=1.0, started="2026-01-01T00:00:00Z")
    after = made(tmp_path / "b", longer, duration_s=2.0, started="2026-01-01T00:00:00Z")
    done = xprof("diff", "--off-cpu", "--json", before, after)
    assert done.returncode == 0, done.stderr
    (view,) = json.loads(done.stdout)["views"]
    assert (view["of"], view["unit"]) == ("waits", "ms/s") and "test" not in view
    assert [side["waits_ns"] for side in view["sides"]] == [WHOLE, WHOLE + 20 * MS]
    # Code without a name is one function of its file.
    assert [(f["function"], f["values"]) for f in view["functions"]] == [("[app]", [24.0, 22.0])]
    assert view["all"]["values"] == [24.0, 22.0]
    text = xprof("diff", "--off-cpu", before, after).stdout
    assert re.search(r"^    24.00     22.00     -2.00    -8.3 %  \[app\] +app$", text, re.M), text
    assert text.startswith(f"A: {before}, 0.02 s of waits in 1.00 s\n") and "samples" not in text
    without = made(tmp_path / "c", LINES[:4])
    refused = xprof("diff", "--off-cpu", without, without)
    assert refused.returncode == 1 and "both recordings need waits; `xprof record --off-cpu` records them" in refused.stderr
