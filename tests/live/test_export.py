# SPDX-License-Identifier: BSD-2-Clause
"""Checks that the files of `xprof export` agree with `xprof report` for the same recording, and need no other file."""
import collections
import json
import re
import shutil
import struct
import subprocess
import time

import pytest

import perfetto
import profiles
import project
import reported
from exported import NAME, PRICE, SOURCE, Made, folded

pytestmark = [pytest.mark.uprobes, pytest.mark.together("exports")]


def plain(frame):
    return re.sub(r"_\[[kji]\]$", "", frame)


def test_report_is_as_expected(made):
    """The recording has samples and calls, which the other tests compare."""
    assert made.samples > 300 and made.calls > 100
    assert made.rows[PRICE][0] > made.samples / 3
    assert made.rows["random_numbers"][1] > made.samples / 8


def test_folded(made):
    stacks = folded(made.export("--format=folded", "-o", "-").stdout)
    assert sum(stacks.values()) == made.samples
    flat, cum = collections.Counter(), collections.Counter()
    for (process, *frames), value in stacks.items():
        assert re.fullmatch(rf"{NAME} \(\d+\)", process)
        flat[plain(frames[-1])] += value
        for name in {plain(frame) for frame in frames}:
            cum[name] += value
    assert dict(flat) == {name: row[0] for name, row in made.rows.items() if row[0]}
    # With two rows of the same name, a stack counts twice.
    assert cum["main"] == made.rows["main"][1] and cum["priced"] == made.rows["priced"][1]
    ends = [frames for frames in stacks if frames[-1] == PRICE]
    assert ends and all(frames[-3:] == ("priced", "quick_[i]", PRICE) for frames in ends)


@pytest.mark.skipif(not profiles.GO, reason="no go here")
@pytest.mark.parametrize("source", ["perf.data", "profiles"])
def test_pprof_without_anything_else(made, tmp_path, source):
    """The exported profile has all names without the binary and the recording."""
    directory = tmp_path / "copy"
    shutil.copytree(made.directory, directory, symlinks=True)
    if source == "profiles":
        (directory / "perf.data").unlink()
    made.export("--format=pprof", "-o", tmp_path / "p.pb.gz", directory=directory)
    shutil.rmtree(directory)
    hidden = made.program.with_name("hidden")
    made.program.rename(hidden)
    try:
        top = profiles.go_top(tmp_path / "p.pb.gz")
    finally:
        hidden.rename(made.program)
    assert {name: flat for name, (flat, _) in top.items() if flat} == {
        name: row[0] for name, row in made.rows.items() if row[0]
    }
    assert {name: top[name][1] for name in made.callers()} == made.callers()


def go_pprof(*args):
    done = project.run([profiles.GO, "tool", "pprof", *args])
    assert done.returncode == 0, done.stderr
    return done.stdout


GCC_SOURCE = r"""
#include <stdlib.h>
#include <time.h>
struct Box { int bytes[64]; };
__attribute__((noipa)) static long weigh(Box const &box, unsigned long rounds)
{
	volatile long sum = 0;
	while (rounds--)
		sum = sum + box.bytes[rounds % 64];
	return sum;
}
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main()
{
	static int numbers[20000];
	static Box box;
	long sum = 0;
	while (clock() < CLOCKS_PER_SEC * 6 / 10) {
		for (int &number : numbers)
			number = rand();
		for (int i = 0; i < 20000; i += 5000)
			qsort(numbers + i, 5000, sizeof(int), compare);
		sum += weigh(box, 200000);
		for (volatile int i = 0; i < 1000000; i = i + 1)
			;
	}
	return sum == 1;
}
"""


@pytest.mark.skipif(not profiles.GO, reason="no go here")
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_pprof_beyond_dwarf(xprof, tmp_path):
    """
    Finds names with spaces, gcc's main, and a C library without debug information; go's own symbolizer finds none of
    them.
    """
    program, directory, profile = (tmp_path / name for name in ("boxes", "recording", "p.pb.gz"))
    (tmp_path / "boxes.cc").write_text(GCC_SOURCE)
    assert project.run(["g++", "-O2", "-g", "-o", program, tmp_path / "boxes.cc"]).returncode == 0
    assert xprof("record", "-F", "499", "-o", directory, "--", program).returncode == 0
    bare = ["unshare", "-m", "sh", "-c", '[ ! -d /usr/lib/debug ] || mount -t tmpfs none /usr/lib/debug; exec "$@"', "sh"]
    shown = project.run([*bare, xprof.path, "report", "--limit", "max", "--full-names", directory]).stdout
    done = project.run([*bare, xprof.path, "export", "--format=pprof", "--full-names", "-o", profile, directory])
    assert done.returncode == 0, done.stderr
    program.unlink()
    rows = {row["Function"]: (int(row["Flat"]), int(row["Cum"])) for row in reported.rows(shown)}
    assert rows["weigh(Box const&, unsigned long)"][0] > 1 and rows["main"][0] > 1
    assert sum(flat for name, (flat, _) in rows.items() if name.startswith("libc.so.6+0x")) > 1
    # A system call without a name: its return address in perf.data is reduced by one in the gperftools profile.
    assert all_but_calls_without_names(rows) == all_but_calls_without_names(profiles.go_top(profile))


def all_but_calls_without_names(rows):
    return {name: values for name, values in rows.items() if values[0] or "+0x" not in name}


@pytest.mark.skipif(not profiles.GO, reason="no go here")
def test_pprof_details(made, tmp_path):
    path = tmp_path / "p.pb.gz"
    made.export("--format=pprof", "-o", path)
    raw = go_pprof("-raw", path)
    assert "PeriodType: cpu nanoseconds" in raw and "samples/count cpu/nanoseconds" in raw
    period = int(re.search(r"^Period: (\d+)$", raw, re.M)[1])
    values = re.findall(r"^ *(\d+) +(\d+): [\d ]+$", raw, re.M)
    assert sum(int(n) for n, _ in values) == made.samples and all(int(ns) == int(n) * period for n, ns in values)
    # pprof does not search for names, because each location has one.
    locations = re.findall(r"^ *\d+: 0x\w+ (.*)$", raw.partition("\nLocations\n")[2].partition("\nMappings\n")[0], re.M)
    assert locations and not [line for line in locations if not re.match(r"M=\d+ \S", line)]
    # The mangled name, and the line of the inlined call.
    assert re.search(rf"M=1 {PRICE} \S+orders\S*\.cpp:9:\d* s=0\(_ZN4shop5OrderIlE5priceEl\)|"
                     rf"M=1 {PRICE} \S+orders\S*\.cpp:9 s=0\(_ZN4shop5OrderIlE5priceEl\)", raw), raw
    tags = go_pprof("-tags", "-sample_index=samples", path)
    assert {"pid", "tid", "comm", "thread_comm"} == set(re.findall(r"^ *(\w+): Total", tags, re.M))
    assert re.search(r"the helper$", tags, re.M) and re.search(rf"{NAME}$", tags, re.M)
    listing = go_pprof("-list", "random_numbers", path)
    assert re.search(r"^ +\S+ +\S*[1-9]\S* +\d+:\s+sum \+= rand\(\);", listing, re.M)
    assert "accounting for 0, 0% of" in go_pprof("-top", f"-diff_base={path}", path)


def test_selection(made):
    total = folded(made.export("--format=folded", "-o", "-", "--by", "none").stdout)
    assert sum(total.values()) == made.samples
    threads = folded(made.export("--format=folded", "-o", "-", "--by", "thread").stdout)
    names = {re.sub(r" \(\d+\)", "", frames[1]) for frames in threads}
    assert names == {NAME, "the helper"}
    helper = folded(made.export("--format=folded", "-o", "-", "--by", "none", "--comm", "*helper").stdout)
    assert 0 < sum(helper.values()) < made.samples and not [s for s in helper if "main" in s]
    length_s = json.loads((made.directory / "manifest.json").read_text())["duration_s"]
    begin = folded(made.export("--format=folded", "-o", "-", "--to", f"{0.6 * length_s:.3f}").stdout)
    rest = folded(made.export("--format=folded", "-o", "-", "--from", f"{0.6 * length_s:.3f}").stdout)
    assert sum(begin.values()) > 0 and sum(begin.values()) + sum(rest.values()) == made.samples
    priced = folded(made.export("--format=folded", "-o", "-", "--functions", "priced*").stdout)
    others = folded(made.export("--format=folded", "-o", "-", "--functions", "!priced*").stdout)
    assert sum(priced.values()) == made.rows["priced"][1]
    assert sum(priced.values()) + sum(others.values()) == made.samples
    done = made.export("--format=folded", "-o", "-", "-p", "1", status=1)
    assert done.stdout == "" and "nothing to export" in done.stderr


PRINTED = 1e-6  # llvm-xray prints seven digits


def account(made):
    """
    Returns llvm-xray's account of functions with names that report does not shorten: ({number: name}, {number:
    seconds}).
    """
    log = next(made.directory.glob("*.fdr"))
    done = project.LlvmXray(project.LLVM_VERSIONS[-1])("account", log, "-instr_map", made.program, "-format=csv")
    assert done.returncode == 0, done.stderr
    sums = {fields[0]: float(fields[7]) for fields in (line.split(",") for line in done.stdout.splitlines()[1:])}
    listed = re.findall(r"^ *(\d+) .*0x[0-9a-f]+ +(\S.*)$", made.xprof("list", made.program).stdout, re.M)
    names = {number: name.split("(")[0] for number, name in listed if "<" not in name}
    assert {names[number] for number in sums if number in names} >= {"random_numbers", "priced"}
    return names, sums


def test_calls(made):
    """The tree of calls is exact: its numbers are those of the report, and its times those of llvm-xray."""
    stacks = folded(made.export("--calls", "--format=folded", "-o", "-", "--by", "none").stdout)
    # Only functions that are not inlined have sleds.
    assert not [frame for frames in stacks for frame in frames if frame.endswith("_[i]")]
    names, sums = account(made)
    for number in sums.keys() & names.keys():
        ns = sum(value for frames, value in stacks.items() if names[number] in frames)
        assert abs(ns / 1e9 - sums[number]) < 2e-6 + PRINTED * sums[number], (names[number], ns, sums[number])
    if profiles.GO:
        path = made.directory.with_name("calls.pb.gz")
        made.export("--calls", "--format=pprof", "-o", path)
        raw = go_pprof("-raw", path)
        assert "calls/count wall/nanoseconds" in raw
        top = profiles.go_top(path, index="calls")
        assert {name: flat for name, (flat, _) in top.items() if flat} == {
            name: row[2] for name, row in made.rows.items() if row[2]
        }
        assert sum(int(n) for n in re.findall(r"^ *(\d+) +\d+: [\d ]+$", raw, re.M)) == made.calls


def trace(made, *args, **how):
    path = made.directory.with_name("made.pftrace")
    made.export("--format=perfetto", "-o", path, *args, **how)
    return perfetto.Trace(path.read_bytes())


@pytest.fixture(scope="module")
def whole(made):
    """Returns the whole trace, which is expensive to read."""
    return trace(made)


def test_perfetto(made, whole):
    """Calls agree with the report and with llvm-xray to the ns per call; samples agree with the folded stacks."""
    names, sums = account(made)
    count, ns = collections.Counter(), collections.Counter()
    for call in whole.slices:
        count[call.name] += 1
        ns[call.name] += call.ns
    assert len(whole.slices) + whole.open == made.calls
    for number in sums.keys() & names.keys():
        name = names[number]
        assert abs(ns[name] / 1e9 - sums[number]) < 2e-6 + PRINTED * sums[number] + 1e-9 * count[name], (name, ns[name], sums[number])
    stacks = collections.Counter()
    for frame in folded(made.export("--format=folded", "-o", "-", "--by", "none").stdout).items():
        stacks[tuple(plain(name) for name in frame[0])] += frame[1]
    assert collections.Counter(sample.frames for sample in whole.samples) == stacks
    assert whole.kinds["main"] == 1 and "inlined" in whole.kinds.values()
    assert {name for pid, name in whole.threads.values()} == {NAME[:15], "the helper"}
    assert {sample.tid for sample in whole.samples} == {call.tid for call in whole.slices} == whole.threads.keys()
    facts = json.loads((made.directory / "manifest.json").read_text())
    assert whole.system == {1: "Linux", 3: facts["kernel"]["release"], 4: facts["kernel"]["machine"]}
    assert abs(whole.clocks[3] - facts["clock"]["start_tsc"] * 10**9 // facts["clock"]["hz"]) <= 1
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole.clocks[1] // 10**9)) == facts["started"][:19]


def test_selection_of_a_timeline(made, whole):
    """--from and --to cut calls at the ends of the window. A selected function is shown with its callees."""
    start, helper = whole.clocks[3], next(tid for tid, (pid, name) in whole.threads.items() if name == "the helper")
    quarter = len(whole.samples) // 4
    from_ms, to_ms = ((whole.samples[i * quarter].time_ns - start) // 10**6 for i in (1, 3))
    first, last = start + from_ms * 10**6, start + to_ms * 10**6
    part = trace(made, "--from", f"{from_ms}ms", "--to", f"{to_ms}ms")
    inside = [c for c in whole.slices if c.start + c.ns >= first and c.start < last]
    cut = collections.Counter(
        (c.tid, c.name, max(c.start, first) // 100, (min(c.start + c.ns, last) - max(c.start, first)) // 100) for c in inside
    )
    shown = collections.Counter((c.tid, c.name, c.start // 100, c.ns // 100) for c in part.slices)
    # A call that was open at the end of the recording is not in the whole.
    assert sum((cut - shown).values()) <= 4 and sum((shown - cut).values()) <= 4 + whole.open and len(inside) > 100
    assert [s for s in whole.samples if first <= s.time_ns < last] == part.samples and part.samples
    one = trace(made, "--tid", str(helper))
    assert one.slices == [c for c in whole.slices if c.tid == helper] and one.threads.keys() == {helper}
    assert one.samples == [s for s in whole.samples if s.tid == helper]
    assert trace(made, "--comm", "the help*").slices == one.slices
    named = trace(made, "--functions", "priced*", "--calls")
    assert not named.samples and {c.name for c in named.slices if c.depth == 0} == {"priced"}
    assert sum(c.name == "priced" for c in named.slices) == sum(c.name == "priced" for c in whole.slices)
    none = trace(made, "--functions", "!priced*")
    assert "priced" not in {c.name for c in none.slices} and not [s for s in none.samples if "priced" in s.frames]
    assert "nothing to export" in made.export("--format=perfetto", "-o", "-", "-p", "1", status=1).stderr


def test_timeline_of_a_log_that_is_broken(made, whole, tmp_path):
    directory = tmp_path / "copy"
    shutil.copytree(made.directory, directory, symlinks=True)
    log = next(directory.glob("*.fdr"))
    data = log.read_bytes()
    (buffer_bytes,) = struct.unpack_from("<Q", data, 16)
    log.write_bytes(data[:-buffer_bytes] + bytes(buffer_bytes))
    done = made.export("--format=perfetto", "-o", tmp_path / "part", directory=directory, status=1)
    assert f"{log.name}: 0x" in done.stderr
    part = perfetto.Trace((tmp_path / "part").read_bytes())
    assert 0 < len(part.slices) < len(whole.slices) and part.samples == whole.samples


def test_export_of_an_idle_recording_at_its_end(xprof, tmp_path):
    """A target that was idle has no samples: export reports that without failing."""
    done = xprof("record", "-o", tmp_path / "recording", "-F", "1", "--export", "folded,perfetto,html", "--", "sleep", "0.01")
    assert done.returncode == 0, done.stderr
    assert "nothing to export: no sample was recorded" in done.stderr


def test_export_of_a_recording_at_its_end(made, xprof, tmp_path):
    """record --export writes the same files as `xprof export`. The next recording reuses the directory."""
    directory = tmp_path / "recording"
    args = ["record", "-F", "997", "-o", directory, "--export", "pprof,folded", "--", made.program]
    for _ in range(2):
        done = xprof(*args)
        assert done.returncode == 0 and str(directory / "samples.pb.gz") in done.stderr, done.stderr
        written = folded((directory / "samples.folded").read_text())
        assert written == folded(xprof("export", "--format=folded", "-o", "-", directory).stdout)
    assert (directory.with_name("recording.old") / "samples.pb.gz").exists()
    done = xprof("record", "-o", directory, "--", "sleep", "0.01")
    assert done.returncode == 0, done.stderr
    for args, words in (
        (["--export", "pprof,svg", "-p", "1"], "not 'pprof,svg'"),
        (["--export", "pprof", "--no-samples", "-p", "1"], "cannot be used with --no-samples, which records no samples; use html or perfetto"),
        (["--export", "folded,html", "--exec", "/bin/ls"], "cannot be used with --exec, which records no samples; use html or perfetto"),
        (["--export", "html", "--dry-run", "-p", "1"], "--export and --open cannot be used with --dry-run, which records nothing"),
    ):
        done = xprof("record", *args)
        assert done.returncode == 2 and words in done.stderr


def test_files_beside_the_recording(made, tmp_path):
    directory = tmp_path / "copy"
    shutil.copytree(made.directory, directory, symlinks=True)
    done = made.export("--format=folded,pprof", directory=directory)
    for name in ("samples.folded", "samples.pb.gz"):
        assert str(directory / name) in done.stderr
        assert (directory / name).stat().st_mode & 0o777 == 0o600
    assert not list(directory.glob("*.part"))
    made.export("--format=folded", directory=directory)
    assert made.xprof("report", directory).returncode == 0


def test_changed_binary(made, tmp_path, program):
    """If the recording has no names, another build of the program gives none, and export reports that."""
    directory = tmp_path / "copy"
    shutil.copytree(made.directory, directory, symlinks=True)
    (names,) = [b["names"] for b in json.loads((directory / "manifest.json").read_text())["binaries"] if b["path"] == str(made.program)]
    (directory / "sym" / names).unlink()
    other = program.text("orders", SOURCE.replace("200000", "200001"), "-O2", "-g", project.no_runtime(), suffix=".cpp")
    kept = made.program.with_name("kept")
    made.program.rename(kept)
    shutil.copy(other, made.program)
    try:
        whole = made.export("--format=folded", "-o", "-")
        done = made.export("--format=folded", "-o", "-", directory=directory)
    finally:
        kept.rename(made.program)
    assert "not the file" not in whole.stderr and PRICE in whole.stdout
    assert "not the file that was recorded (another build id)" in done.stderr
    stacks = folded(done.stdout)
    assert sum(stacks.values()) == made.samples
    assert not [frames for frames in stacks if "main" in frames or PRICE in frames]
    assert [frames for frames in stacks if [f for f in frames if re.fullmatch(rf"{NAME}\+0x[0-9a-f]+", f)]]


def test_output_that_fails(made, tmp_path):
    for form in ("--format=folded", "--format=pprof", "--format=perfetto"):
        done = made.export(form, "-o", "/dev/full", status=1)
        assert "/dev/full: cannot write it: No space left on device" in done.stderr
    pipe = f"{made.xprof.path} export --format=folded -o - {made.directory} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", pipe], stderr=subprocess.DEVNULL).returncode in (0, 1, 141)
    done = made.export("--format=folded", "-o", tmp_path / "missing" / "file", status=1)
    assert "No such file or directory" in done.stderr


def test_recording_that_was_cut_off(made, tmp_path):
    """export reads the existing part of an incomplete perf.data, and its exit status reports the incomplete file."""
    directory = tmp_path / "copy"
    shutil.copytree(made.directory, directory, symlinks=True)
    data = (directory / "perf.data").read_bytes()
    (directory / "perf.data").write_bytes(data[: len(data) // 2])
    done = made.export("--format=folded", "-o", "-", directory=directory, status=1)
    assert "perf.data: 0x" in done.stderr
    assert made.samples / 4 < sum(folded(done.stdout).values()) < made.samples


SCRIPT = """
function price(n) { let sum = 0; for (let i = 0; i < n; i++) sum += i % 7; return sum; }
const end = Date.now() + 1500;
let sum = 0;
while (Date.now() < end) sum += price(5000);
"""


@pytest.mark.skipif(not shutil.which("node"), reason="no node here")
def test_jit(xprof, tmp_path):
    """Names of JIT functions, also of node's own, come from the jitdump, with their spaces."""
    (tmp_path / "price.js").write_text(SCRIPT)
    command = ["node", "--perf-prof", "--no-always-sparkplug", "price.js"]
    done = xprof("record", "-F", "499", "-o", "recording", "--", *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    stacks = folded(xprof("export", "--format=folded", "-o", "-", tmp_path / "recording").stdout)
    here, there = collections.Counter(), collections.Counter()
    for frames, count in stacks.items():
        if frames[-1].startswith("JS:"):
            assert re.search(r" \S+:\d+:\d+_\[j\]$", frames[-1]), frames[-1]
            here[plain(frames[-1]).replace(" ", "_")] += count
    shown = xprof("report", "--limit", "max", tmp_path / "recording").stdout
    for count, name in re.findall(r"^ *([1-9]\d*) .*(JS:\S* \S+:\d+:\d+) +jit$", shown, re.M):
        there[name.replace(" ", "_")] += int(count)
    assert sum(count for name, count in here.items() if "price.js" in name) > 20 and here == there
    assert sum(stacks.values()) == int(re.search(r"(\d+) samples,", shown)[1])
