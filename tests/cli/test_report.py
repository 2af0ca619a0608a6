# SPDX-License-Identifier: BSD-2-Clause
"""Checks `xprof report` with hand-made profiles and logs, against pprof, and on terminals."""
import json
import os
import re
import shutil

import pytest

import hand_made
import project
from reported import on_terminal, report, table, without_colours

SOURCE = hand_made.MARK + r"""
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
namespace shapes {
struct Box {
	int side;
	explicit Box(int s) : side(s) {}
	INLINE int area() const { MARK(1); return side * side; }
	NOINLINE int volume(int by) const;
};
INLINE int outer(const Box &box, int by) { MARK(2); return box.area() + by; }
int Box::volume(int by) const { MARK(3); int r = outer(*this, by); MARK(4); return r; }
}
template <typename T> NOINLINE T twice(T x)
{
	MARK(5);
	T r = shapes::Box((int)x).volume((int)x);
	MARK(6);
	return r * 2;
}
static NOINLINE int hidden(int x) { MARK(7); return x ^ 3; }
extern "C" NOINLINE int plain(int x) { MARK(8); int r = hidden(x) + twice<long>(x); MARK(9); return r; }
int main(int argc, char **argv) { MARK(10); int r = plain(argc); MARK(11); return r == 7; }
"""
LINES = {"area": 10, "outer": 13, "volume": 14, "plain": 24, "main": 25}

AREA, VOLUME, TWICE, HIDDEN = "shapes::Box::area() const", "shapes::Box::volume(int) const", "long twice<long>(long)", "hidden(int)"
OUTER = "shapes::outer(shapes::Box const&, int)"
BASE = 0x555555554000


def build(tmp_path, compiler, *flags, source=SOURCE, name="app"):
    path = tmp_path / name
    text = tmp_path / f"{name}.cpp"
    text.write_text(source)
    done = project.run([compiler, text, "-O2", "-g", *flags, "-o", path], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return path


def chain(marks, base, *ids):
    """Returns PCs: the sampled instruction, then return addresses directly after the calls, which are at the marks."""
    return [base + marks[ids[0]], *(base + marks[i] + 1 for i in ids[1:])]


def records(marks, base=BASE):
    return [
        (50, chain(marks, base, 1, 6, 9, 11)),
        (20, chain(marks, base, 3, 6, 9, 11)),
        (4, chain(marks, base, 2, 6, 9, 11)),
        (10, chain(marks, base, 7, 9, 11)),
        (5, chain(marks, base, 5, 9, 11)),
        (1, chain(marks, base, 10)),
        # the function again, twice: recursion counts once
        (10, chain(marks, base, 5, 6, 6, 9, 11)),
    ]


#        name: (flat, cum)
EXPECTED = {
    AREA: (50, 50),
    VOLUME: (20, 74),
    TWICE: (15, 89),
    HIDDEN: (10, 10),
    OUTER: (4, 54),
    "main": (1, 100),
    "plain": (0, 99),
}


def write_profile(tmp_path, app, base=BASE, marks=None, name="app.7.prof", **options):
    path = tmp_path / name
    path.write_bytes(hand_made.profile(records(marks or hand_made.marks(app), base), hand_made.mappings(app, base), **options))
    return path


def cells(line):
    return re.split(r" {2,}", line.strip())


def samples(text):
    return {name: (int(row["Flat"]), int(row["Cum"])) for name, row in table(text).items()}


# Names and numbers

COMPILERS = ["g++", "clang++"]
STATIC = {"pie": ["-fPIE", "-pie"], "shared": ["-shared", "-fPIC"], "dwarf4": ["-gdwarf-4"], "split": ["-gsplit-dwarf"],
          "sections": ["-ffunction-sections"]}


@pytest.mark.parametrize("flags", STATIC.values(), ids=STATIC)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_inlined_functions(xprof, tmp_path, compiler, flags):
    app = build(tmp_path, compiler, *flags)
    done = report(xprof, write_profile(tmp_path, app))
    found = samples(done.stdout)
    if compiler == "g++":
        # gcc writes no linkage name for a static function of a class or namespace that has no code
        found = {OUTER if name == "shapes::outer" else name: numbers for name, numbers in found.items()}
    assert found == EXPECTED
    assert done.stderr == ""
    assert {row["Object"] for row in table(done.stdout).values()} == {"app"}
    assert done.stdout.startswith("app.7: 100 samples, one every 10 ms, 1.000 s\n")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_fixed_address(xprof, tmp_path, compiler):
    app = build(tmp_path, compiler, "-no-pie", "-fno-pie")
    assert samples(report(xprof, write_profile(tmp_path, app, base=0)).stdout) == EXPECTED


@pytest.mark.parametrize("compiler", COMPILERS)
def test_without_inlines(xprof, tmp_path, compiler):
    app = build(tmp_path, compiler)
    found = samples(report(xprof, "--no-inlines", write_profile(tmp_path, app)).stdout)
    expected = {name: EXPECTED[name] for name in EXPECTED if name not in (AREA, OUTER)}
    assert found == {**expected, VOLUME: (74, 74)}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_lines(xprof, tmp_path, compiler):
    app = build(tmp_path, compiler)
    found = samples(report(xprof, "--lines", write_profile(tmp_path, app)).stdout)
    source = f"{app}.cpp"
    assert found[f"{AREA} {source}:{LINES['area']}"] == (50, 50)
    # The line of the sample, and the line of the call of outer().
    assert found[f"{VOLUME} {source}:{LINES['volume']}"] == (20, 74)
    assert found[f"plain {source}:{LINES['plain']}"] == (0, 99)
    assert found[f"main {source}:{LINES['main']}"] == (1, 100)
    assert sum(flat for flat, _ in found.values()) == 100


def test_short_names(xprof, tmp_path):
    app = build(tmp_path, "clang++")
    found = samples(report(xprof, write_profile(tmp_path, app), short=True).stdout)
    assert found == {short_name(name): numbers for name, numbers in EXPECTED.items()}


def test_symbols_without_debug_information(xprof, tmp_path):
    app = build(tmp_path, "g++", "-g0")
    found = samples(report(xprof, write_profile(tmp_path, app)).stdout)
    expected = {name: EXPECTED[name] for name in EXPECTED if name not in (AREA, OUTER)}
    assert found == {**expected, VOLUME: (74, 74)}


def test_dynamic_symbols_alone(xprof, tmp_path):
    """Exported functions of a stripped library have names; the others are object+0xaddress."""
    lib = build(tmp_path, "g++", "-shared", "-fPIC", name="lib work.so")
    marks = hand_made.marks(lib)
    project.run(["strip", lib])
    link = tmp_path / "libwork.so"
    link.symlink_to(lib.name)
    path = tmp_path / "app.7.prof"
    path.write_bytes(hand_made.profile(records(marks), hand_made.mappings(lib, BASE, name=link)))
    done = report(xprof, path)
    found = samples(done.stdout)
    assert found == {
        VOLUME: (74, 74), TWICE: (15, 89), "plain": (0, 99), "main": (1, 100), f"lib work.so+{marks[7]:#x}": (10, 10)
    }
    # A link is shown as its target.
    assert "  lib work.so\n" in done.stdout


@pytest.mark.parametrize("where", ["debuglink", "build-id"])
def test_separate_debug_file(xprof, tmp_path, where):
    app = build(tmp_path, "g++", "-Wl,--build-id=sha1")
    path = write_profile(tmp_path, app)
    expected = samples(report(xprof, path).stdout)
    debug = tmp_path / ".debug" / "app.debug"
    debug.parent.mkdir()
    project.run(["objcopy", "--only-keep-debug", app, debug])
    project.run(["strip", app])
    if where == "debuglink":
        project.run(["objcopy", f"--add-gnu-debuglink={debug}", app])
        assert samples(report(xprof, path).stdout) == expected
        debug.unlink()
        assert f"app+{hand_made.marks(app)[7]:#x}" in samples(report(xprof, path).stdout)
        return
    if os.geteuid():
        pytest.skip("needs root, to put a file under /usr/lib/debug")
    build_id = re.search(r"Build ID: (\w+)", project.run(["readelf", "-n", app]).stdout).group(1)
    place = project.pathlib.Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    made = [p for p in (place.parent, *place.parent.parents) if not p.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy(debug, place)
        assert samples(report(xprof, path).stdout) == expected
    finally:
        place.unlink(missing_ok=True)
        for directory in made:
            directory.rmdir()


def test_library_beside_program(xprof, tmp_path):
    """Functions with the same name in two objects are two functions."""
    source = hand_made.MARK + 'extern "C" __attribute__((noinline)) int work(int x) { MARK(1); return x; }\n'
    lib = build(tmp_path, "g++", "-shared", "-fPIC", source=source, name="libwork.so")
    app = build(tmp_path, "g++", source=source + "int main(int c, char **) { MARK(2); return work(c); }", name="app")
    text = hand_made.mappings(app, BASE) + hand_made.mappings(lib, 0x7F0000000000)
    in_lib, in_app = hand_made.marks(lib), hand_made.marks(app)
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([
        (3, [0x7F0000000000 + in_lib[1], BASE + in_app[2] + 1]),
        (2, [BASE + in_app[1], BASE + in_app[2] + 1]),
    ], text))
    rows = [cells(line) for line in report(xprof, path).stdout.splitlines()[2:]]
    assert rows == [
        ["3", "60.00%", "3", "60.00%", "work", "libwork.so"],
        ["2", "40.00%", "2", "40.00%", "work", "app"],
        ["0", "0.00%", "5", "100.00%", "main", "app"],
    ]


def test_addresses_without_names(xprof, tmp_path):
    text = "1000-2000 r-xp 00000000 00:00 0 [anon]\n3000-4000 r-xp 00000000 00:00 0\n5000-6000 r--p 00000000 00:00 0 /data\n"
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(1, [0x1010]), (2, [0x3020]), (3, [0x5030]), (4, [1 << 63])], text, period_us=1001))
    done = report(xprof, path)
    assert samples(done.stdout) == {
        "0x8000000000000000": (4, 4), "0x5030": (3, 3), "[anon]+0x20": (2, 2), "[anon]+0x10": (1, 1),
    }
    assert "one every 1.001 ms, 10.010 ms" in done.stdout


@pytest.mark.parametrize("absolute", [True, False])
def test_recording_that_was_moved(xprof, tmp_path, absolute):
    """
    Files of sym/ are found next to the profile after the recording was moved, even if other files are at its former
    path.
    """
    old, new = tmp_path / "xprof.out", tmp_path / "elsewhere"
    (new / "sym").mkdir(parents=True)
    (old / "sym").mkdir(parents=True)
    app = build(tmp_path, "g++")
    name = "lib.app.12.abcdefg.so"
    shutil.copy(app, new / "sym" / name)
    (old / "sym" / name).write_text("another recording's")
    path = new / "app.7.prof"
    said = old / "sym" / name if absolute else f"sym/{name}"
    path.write_bytes(hand_made.profile(records(hand_made.marks(app)), hand_made.mappings(app, BASE, name=said)))
    done = report(xprof, new)
    assert samples(done.stdout)[AREA] == EXPECTED[AREA]
    assert {row["Object"] for row in table(done.stdout).values()} == {"lib.app"}


def test_order_and_limit(xprof, tmp_path):
    path = write_profile(tmp_path, build(tmp_path, "clang++"))
    by_flat = list(samples(report(xprof, path).stdout))
    assert by_flat == [AREA, VOLUME, TWICE, HIDDEN, OUTER, "main", "plain"]
    by_cum = list(samples(report(xprof, "--sort", "cum", "--limit", "max", path).stdout))
    assert by_cum == ["main", "plain", TWICE, VOLUME, OUTER, AREA, HIDDEN]
    short = report(xprof, "--limit", "2", path).stdout
    assert list(samples(short)) == [AREA, VOLUME]
    assert short.endswith("... and 5 more\n")


def test_empty_profile(xprof, tmp_path):
    path = tmp_path / "none.prof"
    path.write_bytes(hand_made.profile([], ""))
    assert report(xprof, path).stdout == "none: 0 samples, one every 10 ms, 0 ns\n"


def test_profile_of_waits(xprof, tmp_path):
    """The microseconds of a profile of waits are not samples."""
    path = tmp_path / "app.7.wait.prof"
    text = "00001000-00002000 r-xp 00000000 00:00 0 /gone/app\n"
    path.write_bytes(hand_made.profile([(1500, [0x1500])], text, period_us=1))
    assert report(xprof, path).stdout.startswith("app.7.wait: 1.500 ms of waits, in us\n")
    assert "app.7.wait.prof: ok, gperftools profile of waits: 1500 us, 1 records, 1 mappings\n" in xprof.check(path).stdout


# What pprof says of the same profile


def short_name(name):
    """Returns the name without parameters and result type, which not all tools print."""
    return re.sub(r"<.*>", "", name.split("(")[0]).split()[-1]


def pprof_top(text, columns):
    """Returns {name: (flat, cum)} of lines with these columns: flat, flat%, sum%, cum, cum%, name."""
    found = {}
    for line in text.splitlines():
        fields = line.split(None, columns - 1)
        if len(fields) == columns and fields[1].endswith("%"):
            found[short_name(fields[5].replace(" (inline)", ""))] = (int(fields[0]), int(fields[3]))
    return found


@pytest.mark.parametrize("compiler", COMPILERS)
def test_like_google_pprof(xprof, tmp_path, compiler):
    if not shutil.which("google-pprof"):
        pytest.skip("google-pprof is not installed")
    app = build(tmp_path, compiler, "-no-pie", "-fno-pie", "-gdwarf-4")
    path = write_profile(tmp_path, app, base=0)
    theirs = project.run(["google-pprof", "--text", "--functions", "--no-auto-signal-frm", app, path]).stdout
    ours = samples(report(xprof, path).stdout)
    assert pprof_top(theirs, 6) == {short_name(name): numbers for name, numbers in ours.items()}


# Go's own pprof reads neither names of C++ methods nor inlined functions.
PLAIN = hand_made.MARK + r"""
#define NOINLINE __attribute__((noinline))
extern "C" {
NOINLINE int inner(int n) { MARK(1); return n * 3; }
NOINLINE int middle(int n) { MARK(2); int r = inner(n); MARK(3); MARK(5); r += inner(r); MARK(6); return r; }
NOINLINE int other(int n) { MARK(7); return n + 1; }
NOINLINE int outer(int n) { MARK(4); int r = middle(n) + other(n); MARK(9); return r; }
}
int main(int argc, char **argv) { MARK(10); int r = outer(argc); MARK(11); return r == 9; }
"""


def test_like_go_tool_pprof(xprof, tmp_path):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    app = build(tmp_path, "clang++", "-gdwarf-4", "-Wl,-z,separate-code", source=PLAIN)
    path = write_profile(tmp_path, app)
    done = project.run(["go", "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", "-sample_index=samples",
                      "-symbolize=local:demangle=full", path], env={**os.environ, "HOME": str(tmp_path)})
    ours = samples(report(xprof, path).stdout)
    assert pprof_top(done.stdout, 6) == {short_name(name): numbers for name, numbers in ours.items()}, done.stderr


# Calls

CALLS = hand_made.MARK + r"""
#define NOINLINE __attribute__((noinline))
struct Machine { NOINLINE int spin(int n); };
int Machine::spin(int n) { MARK(1); return n * 3; }
extern "C" NOINLINE int leaf(int n) { MARK(2); return n + 1; }
int main(int argc, char **argv) { MARK(3); Machine m; int r = m.spin(leaf(argc)); MARK(4); return r == 9; }
"""


@pytest.fixture
def traced(program):
    return program.text("calls", CALLS, "-O2", project.no_runtime(), suffix=".cpp")


def function_ids(xprof, app):
    """Returns {name: ID}."""
    lines = re.findall(r"^ *\d.*", xprof("list", app).stdout, re.M)
    return {line.split(None, 8)[8]: int(line.split()[0]) for line in lines}


def log_of(ids):
    spin, leaf, main = ids["Machine::spin(int)"], ids["leaf"], ids["main"]
    return hand_made.fdr_log({
        71: [(0, main, 1000), (0, leaf, 2000), (1, leaf, 2500), (0, spin, 3000), (1, spin, 4003000), (0, leaf, 4004000),
             (2, leaf, 4005000), (0, spin, 5000000)],
        72: [(1, main, 100), (0, leaf, 1000), (1, leaf, 1250)],
    })


def calls(text):
    return {name: (row["Calls"], row["Total"], row["Mean"]) for name, row in table(text).items()}


EXPECTED_CALLS = {
    "Machine::spin(int)": ("2", "4.000 ms", "4.000 ms"),
    "leaf": ("3", "1.750 us", "583 ns"),
    "main": ("1", "", ""),
}


def manifest(app, **process):
    build_id = re.search(r"Build ID: (\w+)", project.run(["readelf", "-n", app]).stdout)
    objects = [{"path": str(app), "functions": 3, "first_id": 1, **({"build_id": build_id.group(1)} if build_id else {})}]
    return {
        "manifest_version": 1, "started": "2026-01-02T03:04:05.000000006Z", "attached_after_s": 0.25, "duration_s": 2.5,
        "totals": {"seen": 12, "lost": {"total": 2}},
        "samples": {"seen": 11, "lost": 1, "profiles": [{"pid": 71, "image": 1, "comm": "other", "file": "calls.71.prof"}]},
        "processes": [{"pid": 71, "image": 1, "comm": "calls\x1b[31m", "log": "calls.71.fdr", "objects": objects, **process}],
    }


def test_calls_alone(xprof, tmp_path, traced):
    (tmp_path / "calls.71.fdr").write_bytes(log_of(function_ids(xprof, traced)))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest(traced)))
    done = report(xprof, tmp_path)
    assert calls(done.stdout) == EXPECTED_CALLS
    assert list(table(done.stdout)) == ["Machine::spin(int)", "leaf", "main"]
    assert done.stdout.splitlines()[:3] == [
        f"{tmp_path}: 2026-01-02T03:04:05.000000006Z, 2.5 s (from 0.2 s to 2.8 s), 1 of 11 samples lost, 2 of 12 events lost",
        "",
        "calls?[31m (71): 6 calls, 2 of them without an end",
    ]


def test_calls_beside_samples(xprof, tmp_path, traced):
    marks = hand_made.marks(traced)
    (tmp_path / "calls.71.fdr").write_bytes(log_of(function_ids(xprof, traced)))
    (tmp_path / "calls.71.prof").write_bytes(hand_made.profile([
        (6, chain(marks, BASE, 1, 4)), (3, chain(marks, BASE, 2, 4)), (1, chain(marks, BASE, 3)),
    ], hand_made.mappings(traced, BASE)))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest(traced)))
    done = report(xprof, tmp_path)
    assert samples(done.stdout) == {"Machine::spin(int)": (6, 6), "leaf": (3, 3), "main": (1, 10)}
    assert calls(done.stdout) == EXPECTED_CALLS
    assert "10 samples, one every 10 ms, 100.000 ms; 6 calls, 2 of them without an end" in done.stdout
    by_time = report(xprof, "--sort", "time", tmp_path).stdout
    assert list(table(by_time)) == ["Machine::spin(int)", "leaf", "main"]
    alone = report(xprof, tmp_path / "calls.71.prof").stdout
    assert "Calls" not in alone


def test_process_that_changed_its_name(xprof, tmp_path, traced):
    """The manifest lists the profile and the log of each program that a process executed."""
    said = manifest(traced)
    said["processes"][0]["log"] = "late.71.fdr"
    said["samples"]["profiles"] += [
        {"pid": 71, "image": 2, "comm": "next", "file": "next.71.prof"}, {"pid": 0, "comm": "[kernel]", "file": "kernel.0.prof"}]
    (tmp_path / "late.71.fdr").write_bytes(log_of(function_ids(xprof, traced)))
    for name in ("calls.71", "next.71", "kernel.0"):
        (tmp_path / f"{name}.prof").write_bytes(hand_made.profile([(2, [16])], ""))
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    titles = [line.split(";")[0].split(",")[0] for line in report(xprof, tmp_path).stdout.splitlines() if "2 samples" in line]
    assert titles == ["calls?[31m (71): 2 samples", "[kernel]: 2 samples", "next (71): 2 samples"]


def test_names_from_the_instr_map(xprof, tmp_path, traced):
    """Names come from the instr_map if there is no manifest."""
    names = tmp_path / "app.9.xray.so"
    done = project.run([project.OUTPUT / "tests" / "format" / "instr_map_gen", names, traced])
    assert done.returncode == 0, done.stderr
    ids = function_ids(xprof, traced)
    spin, leaf = ids["Machine::spin(int)"], ids["leaf"]
    (tmp_path / "app.9.fdr").write_bytes(
        hand_made.fdr_log({5: [(0, spin, 0), (0, leaf, 5), (1, leaf, 10), (1, spin, 20), (0, 9, 30), (1, 9, 60)]}))
    done = report(xprof, tmp_path)
    assert calls(done.stdout) == {
        "fn_9": ("1", "30 ns", "30 ns"), "Machine::spin(int)": ("1", "20 ns", "20 ns"), "leaf": ("1", "5 ns", "5 ns"),
    }


def test_another_build(xprof, tmp_path, traced):
    """IDs and addresses of one build are not read with the names of another build."""
    said = manifest(traced)
    said["processes"][0]["objects"][0]["build_id"] = "00" * 20
    (tmp_path / "calls.71.fdr").write_bytes(log_of(function_ids(xprof, traced)))
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    done = report(xprof, tmp_path)
    assert set(calls(done.stdout)) == {"fn_1", "fn_2", "fn_3"}
    assert "another build id" in done.stderr


def test_like_llvm_xray(xprof, llvm_xray, tmp_path, traced):
    """Calls, sums and means are those of llvm-xray, for a log in which all calls end."""
    ids = function_ids(xprof, traced)
    main, leaf = ids["main"], ids["leaf"]
    log = tmp_path / "calls.71.fdr"
    events = [(0, main, 1000)]
    for i in range(50):
        events += [(0, leaf, 10000 * i + 2000), (1, leaf, 10000 * i + 2000 + 100 * i)]
    events.append((1, main, 900000))
    log.write_bytes(hand_made.fdr_log({71: events}))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest(traced)))
    account = llvm_xray("account", log, "-instr_map", traced, "-format=csv")
    assert account.returncode == 0, account.stderr
    head, *lines = (line.replace('"', "").split(",") for line in account.stdout.splitlines())
    theirs = {row["function"]: (int(row["count"]), float(row["sum"])) for row in (dict(zip(head, line)) for line in lines)}
    ours = {name: (int(count), seconds(total)) for name, (count, total, _) in calls(report(xprof, tmp_path).stdout).items()}
    assert set(ours) == set(theirs) == {"main", "leaf"}
    for name, (count, total) in ours.items():
        assert count == theirs[name][0]
        assert total == pytest.approx(theirs[name][1], rel=1e-3)


def seconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


# Recordings of many processes, and what goes wrong


def test_calls_left_without_an_exit(xprof, tmp_path):
    """Calls may have no exit, as after longjmp. Calls of different threads are independent."""
    (tmp_path / "x.fdr").write_bytes(hand_made.fdr_log({
        1: [(0, 1, 0), (0, 2, 10), (0, 3, 20), (1, 1, 1000), (1, 2, 2000)],
        2: [(1, 3, 0), (0, 3, 5), (1, 3, 12)],
    }))
    done = report(xprof, tmp_path)
    assert calls(done.stdout) == {"fn_1": ("1", "1.000 us", "1.000 us"), "fn_3": ("2", "7 ns", "7 ns"), "fn_2": ("1", "", "")}
    assert "4 calls, 2 of them without an end" in done.stdout


def test_many_processes(xprof, tmp_path):
    for pid, count in ((1, 5), (2, 15), (3, 0)):
        (tmp_path / f"app.{pid}.prof").write_bytes(hand_made.profile([(count, [16])] if count else [], "0-1000 r-xp 00000000 00:00 0 [x]\n"))
    (tmp_path / "app.1.fdr").write_bytes(hand_made.fdr_log({1: [(0, 1, 0), (1, 1, 5)]}))
    lines = report(xprof, tmp_path).stdout.splitlines()
    assert [cells(line) for line in lines[:4]] == [
        ["Samples", "Share", "Calls", "Process"],
        ["15", "75.00%", "app.2"],
        ["5", "25.00%", "1", "app.1"],
        ["0", "0.00%", "app.3"],
    ]
    assert [line.split(":")[0] for line in lines if ": " in line] == ["app.2", "app.1", "app.3"]
    (tmp_path / "app.1.fdr").unlink()
    assert "Calls" not in report(xprof, tmp_path).stdout


@pytest.mark.parametrize("make, message", [
    (lambda d: None, "No such file"),
    (lambda d: d.mkdir(), "no perf.data, gperftools profile or XRay FDR log in this directory"),
    (lambda d: d.write_text("text"), "neither a gperftools profile nor an XRay FDR log"),
    (lambda d: d.write_text("PERFILE2"), "cannot read perf.data alone: give the directory of the recording"),
    (lambda d: os.mkfifo(d), "not a regular file"),
])
def test_nothing_to_report(xprof, tmp_path, make, message):
    path = tmp_path / "x"
    make(path)
    done = report(xprof, path, status=1)
    assert done.stdout == ""
    assert message in done.stderr


def test_part_without_events(xprof, tmp_path):
    """A part without events, such as that of a program that slept, is complete. The other parts are shown."""
    first, second = (tmp_path / f"20261128T10000{n}Z-00{n}" for n in (1, 2))
    for part in (first, second):
        part.mkdir()
        (part / "manifest.json").write_text('{"format": 1}')
    assert "no sample, call or wait was recorded" in report(xprof, second, status=1).stderr
    (first / "app.prof").write_bytes(hand_made.profile([(1, [16])], "0-1000 r-xp 00000000 00:00 0 [x]\n"))
    assert samples(report(xprof, tmp_path).stdout) == {"[x]+0x10": (1, 1)}


def test_broken_profile(xprof, tmp_path):
    """Records before the damage are shown; the exit code reports the damage."""
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(1, [16]), (2, [32])], "")[:-32])
    done = report(xprof, path, status=1)
    assert samples(done.stdout) == {"0x10": (1, 1)}
    assert str(path) in done.stderr


def test_hostile_names(xprof, tmp_path):
    """Names of files and functions send no escape sequence to the terminal."""
    source = hand_made.MARK + 'extern "C" __attribute__((noinline)) int name_of_a_symbol(int x) { MARK(1); return x; }\n' \
        "int main(int c, char **) { return name_of_a_symbol(c); }"
    app = build(tmp_path, "g++", "-g0", source=source, name="evil\x1b]0;")
    app.write_bytes(app.read_bytes().replace(b"name_of_a_symbol", b"a\x1b[31m\n\x9b\xc2\x9b\r\t\xff.bc"))
    path = tmp_path / "x\x1b[2J.prof"
    path.write_bytes(hand_made.profile([(1, [BASE + hand_made.marks(app)[1]])], hand_made.mappings(app, BASE)))
    done = report(xprof, path)
    assert cells(done.stdout.splitlines()[2]) == ["1", "100.00%", "1", "100.00%", "a?[31m??????.bc", "evil?]0;"]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout)


def test_hostile_debug_information(xprof, tmp_path):
    """A file that crashes libdw loses its names, but does not break the report."""
    app = build(tmp_path, "g++", "-gdwarf-4")
    path = write_profile(tmp_path, app)
    whole = app.read_bytes()
    (section,) = re.findall(r" \.debug_info +PROGBITS +\w+ (\w+) (\w+)", project.run(["readelf", "-SW", app]).stdout)
    offset, size = (int(field, 16) for field in section)
    for step in range(1, 40):
        broken = bytearray(whole)
        for at in range(offset + step, offset + size, 40):
            broken[at] ^= 0xFF >> step % 8
        app.write_bytes(broken)
        found = samples(report(xprof, path).stdout)
        assert sum(flat for flat, _ in found.values()) == 100


def test_32_bit_program(xprof, tmp_path):
    """Names of a 32-bit program come from its symbol table and debug information."""
    (tmp_path / "app.c").write_text("""
static inline __attribute__((always_inline)) void inner(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) void outer(void) { inner(); }
void _start(void) { for (;;) outer(); }
""")
    app = tmp_path / "app"
    done = project.run(["gcc", "-m32", "-O1", "-g", "-ffreestanding", "-nostdlib", "-static", "-no-pie", tmp_path / "app.c", "-o", app])
    assert done.returncode == 0, done.stderr
    addresses = hand_made.symbols(app)
    path = tmp_path / "app.7.prof"
    path.write_bytes(hand_made.profile([(3, [addresses["outer"], addresses["_start"] + 1])], hand_made.mappings(app, 0)))
    assert samples(report(xprof, path).stdout) == {"inner": (3, 3), "outer": (0, 3), "_start": (0, 3)}


def test_libdw_that_dies(xprof, tmp_path):
    """A crash in libdw loses inlined functions and lines, but does not break the report."""
    app = build(tmp_path, "g++")
    path = write_profile(tmp_path, app)
    crash = tmp_path / "crash.c"
    crash.write_text("int dwarf_get_units(void) { __builtin_trap(); }\n")
    project.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "crash.so", crash])
    done = report(xprof, path, env={**os.environ, "LD_PRELOAD": str(tmp_path / "crash.so")})
    expected = {name: EXPECTED[name] for name in EXPECTED if name not in (AREA, OUTER)}
    assert samples(done.stdout) == {**expected, VOLUME: (74, 74)}
    assert "app: cannot read its debug information; using only its symbol table" in done.stderr


def test_files_that_block(xprof, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(1, [0x1010]), (1, [0x3010])],
                                       f"1000-2000 r-xp 00000000 00:00 0 {fifo}\n3000-4000 r-xp 00000000 00:00 0 /dev/zero\n"))
    assert samples(report(xprof, path).stdout) == {"fifo+0x10": (1, 1), "zero+0x10": (1, 1)}


BAD_MANIFESTS = {
    "empty": "", "list": "[]", "cut": "{", "number": '{"processes": 3, "samples": []}', "deep": "[" * 100000,
    "types": '{"processes": [7, {"log": []}], "samples": {"profiles": [1, {"file": 3}, {"file": "x.prof", "pid": "1", "comm": 2}]}}',
}


@pytest.mark.parametrize("text", BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_bad_manifest(xprof, tmp_path, text):
    (tmp_path / "x.prof").write_bytes(hand_made.profile([(1, [16])], ""))
    (tmp_path / "manifest.json").write_text(text)
    assert samples(report(xprof, tmp_path).stdout) == {"0x10": (1, 1)}


@pytest.mark.parametrize("command", [["report"], ["export", "--format=folded", "-o", "-"], ["explain"], ["diff", "old"]])
def test_newer_manifest(xprof, tmp_path, command):
    """A manifest of a newer version is not read, because its members may have another meaning."""
    for name, version in (("old", 1), ("new", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.prof").write_bytes(hand_made.profile([(1, [16])], ""))
        (tmp_path / name / "manifest.json").write_text(
            json.dumps({"manifest_version": version, "xprof_version": "9.1\x1b[m", "started": "2026-01-02T03:04:05Z"}))
    done = xprof(*command, "new", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("xprof: error: new/manifest.json: manifest_version 2 is newer than this xprof, ")
    assert done.stderr.endswith(": use the version that wrote it: 9.1?[m\n")
    assert xprof("report", "new/x.prof", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("command", [["report"], ["export", "--format=folded", "-o", "-"], ["diff", "whole"]])
def test_recording_that_was_cut_off(xprof, tmp_path, command):
    """An interrupted recording is reported, with a note that it is incomplete."""
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.prof").write_bytes(hand_made.profile([(1, [16])], ""))
    assert "cut off" not in xprof(*command, "whole", cwd=tmp_path).stderr
    (tmp_path / "cut" / "y.7.spool").write_bytes(b"calls")
    done = xprof(*command, "cut", cwd=tmp_path)
    assert done.returncode == 0 and "xprof: warning: cut: incomplete: the recording was interrupted, or still runs" in done.stderr, done.stderr


def test_output_full(xprof, tmp_path):
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(1, [16])], ""))
    with open("/dev/full", "w", encoding="ascii") as full:
        done = report(xprof, path, status=1, stdout=full)
    assert "No space left" in done.stderr


# Terminals


@pytest.fixture
def profile_path(tmp_path):
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(99, [16]), (1, [32])], f"0-1000 r-xp 00000000 00:00 0 {'n' * 100}\n"))
    return path


def test_terminal_colours(xprof, profile_path):
    text = on_terminal(xprof, profile_path, PAGER="cat")
    assert "\x1b[1;31m 99.00%\x1b[0m" in text
    assert "\x1b[1mx:\x1b[0m" in text


def test_names_drive_no_terminal(xprof, tmp_path):
    """Names produce no sequence that `less -R` passes to the terminal, such as colours and links."""
    path = tmp_path / "x.prof"
    name = "\033]8;;x\033\\\033[31m\u202e\u2028end"
    path.write_bytes(hand_made.profile([(1, [16])], f"0-1000 r-xp 00000000 00:00 0 /{name}\n"))
    text = on_terminal(xprof, path, PAGER="cat")
    assert "?]8;;x?" in text
    assert set(re.findall(r"\x1b.[^m]*m?", text)) <= {"\x1b[1m", "\x1b[1;31m", "\x1b[0m"}
    assert not set(text) & {"\u202e", "\u2028"}


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours(xprof, profile_path, environment):
    text = on_terminal(xprof, profile_path, PAGER="", **environment)
    assert "99.00%" in text and "\x1b" not in text


def test_pipe_is_plain(xprof, profile_path):
    text = report(xprof, profile_path, env={**os.environ, "TERM": "xterm", "PAGER": "false"}).stdout
    assert "99.00%" in text and "\x1b" not in text
    assert "n" * 100 + "+0x10" in text


def test_own_pager(xprof, profile_path, tmp_path):
    text = on_terminal(xprof, profile_path, PAGER=f"tr n N | tee {tmp_path}/seen", NO_COLOR="1")
    assert "NNN" in text and "nnn" not in text
    assert (tmp_path / "seen").read_text() == text


@pytest.mark.parametrize("pager", ["/nonexistent/pager", "/etc/passwd"])
def test_pager_that_does_not_start(xprof, profile_path, pager):
    assert "99.00%" in without_colours(on_terminal(xprof, profile_path, PAGER=pager))


def test_less_shows_a_short_report_and_ends(xprof, profile_path):
    if not shutil.which("less"):
        pytest.skip("less is not installed")
    assert "99.00%" in without_colours(on_terminal(xprof, profile_path))


def test_names_are_cut_to_the_terminal(xprof, profile_path):
    """Long names are shortened in the middle."""
    text = on_terminal(xprof, profile_path, columns=100, PAGER="", NO_COLOR="1")
    (line,) = [line for line in text.splitlines() if "99.00%" in line]
    assert re.search(r" n+\.\.n+\+0x10  n+$", line)


def test_pager_left_early(xprof, tmp_path):
    path = tmp_path / "x.prof"
    path.write_bytes(hand_made.profile([(1, [16 + i]) for i in range(20000)], ""))
    text = on_terminal(xprof, f"--limit max {path}; echo status $?", PAGER="head -1")
    assert text.splitlines()[-1] == "status 0"
