# SPDX-License-Identifier: BSD-2-Clause
"""
Checks FDR logs: llvm-xray reads the output of the encoder, the spool and the layout with every subcommand, without -k
or -d; xprof reads the logs of XRay's own runtime.
"""
import collections
import fcntl
import json
import os
import re
import resource
import shlex
import signal
import struct

import pytest

import project
import recording

SHAPES = ("none", "small", "threads", "uneven", "wraps", "args", "events", "typed", "open", "chunks")
GENERATOR = project.OUTPUT / "tests" / "format" / "fdr_gen"

# Functions 1 to 4 of the generator's logs.
MAP_SOURCE = r"""
#define F __attribute__((noinline, xray_always_instrument))
F int one(int a) { return a + 1; }
F int two(int a) { return a + 2; }
F int three(int a) { return a + 3; }
F int four(int a) { return a + 4; }
int main(void) { return one(1) + two(2) + three(3) + four(4); }
"""
NAMES = {1: "one", 2: "two", 3: "three", 4: "four"}


@pytest.fixture(scope="module")
def instr_map(program):
    return program.text("fdr_map", MAP_SOURCE, "-O1", project.no_runtime())


class Made:
    """A log of the generator, and its expected content."""

    def __init__(self, shape, version, directory):
        done = project.run([GENERATOR, shape, version, directory])
        assert done.returncode == 0, done.stderr
        self.path = directory / "log.fdr"
        self.truth = json.loads(done.stdout)
        self.entries = {int(k): v for k, v in self.truth["entries"].items() if v}
        self.exits = {int(k): v for k, v in self.truth["exits"].items() if v}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs the generator, once for each shape and version: made(shape, version) -> Made."""
    logs = {}

    def make(shape, version):
        if (shape, version) not in logs:
            logs[shape, version] = Made(shape, version, tmp_path_factory.mktemp(f"{shape}-{version}-"))
        return logs[shape, version]

    return make


@pytest.fixture(params=(1, 5), ids=lambda v: f"v{v}")
def fdr_version(request):
    return request.param


@pytest.fixture(params=SHAPES)
def log(request, made, fdr_version):
    return made(request.param, fdr_version)


def good(done):
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# llvm-xray


@pytest.fixture
def reader(request):
    """
    One of the installed versions of llvm-xray. Each reads each shape in one of the two versions of FDR logs; across the
    shapes, it reads both.
    """
    if not project.LLVM_VERSIONS:
        pytest.skip("no llvm-xray here")
    params = request.node.callspec.params
    turn = SHAPES.index(params["log"]) + (params["fdr_version"] == 5)
    return project.LlvmXray(project.LLVM_VERSIONS[turn % len(project.LLVM_VERSIONS)])


def test_account(log, reader, instr_map):
    """Checks the counts of closed calls."""
    rows = good(reader("account", f"-instr_map={instr_map}", "-f", "csv", log.path)).splitlines()
    found = {int(row.split(",")[0]): (int(row.split(",")[1]), row) for row in rows[1:]}
    assert {fn_id: count for fn_id, (count, _) in found.items()} == log.exits
    for fn_id, (_, row) in found.items():
        assert NAMES[fn_id] in row


def test_stack(log, reader, instr_map):
    done = reader("stack", f"-instr_map={instr_map}", log.path)
    if not log.entries:
        assert "No instrumented calls were accounted" in done.stderr  # llvm-xray treats an empty result as an error
        return
    assert "Unique Stacks" in good(done)


def test_graph(log, reader, instr_map):
    out = good(reader("graph", f"-instr_map={instr_map}", log.path))
    assert set(re.findall(r'^F\d+ \[label="(\w+)"', out, re.M)) == {NAMES[i] for i in log.exits or log.entries}


RECORD = re.compile(r"^  - \{ type: (\d+), func-id: (\d+),.* thread: (\d+),.* kind: ([\w-]+),.* tsc: (\d+)", re.M)
ARGUMENTS = re.compile(r" args: \[ ([^\]]*) \]")
KINDS = {"function-enter": "entries", "function-enter-arg": "entries", "function-exit": "exits",
         "function-tail-exit": "exits"}


def test_convert_yaml(log, reader):
    out = good(reader("convert", "-f", "yaml", log.path))
    found = {"entries": collections.Counter(), "exits": collections.Counter()}
    events = 0
    for _, fn_id, _, kind, _ in RECORD.findall(out):
        if kind in KINDS:
            found[KINDS[kind]][int(fn_id)] += 1
        else:
            events += 1
    assert found["entries"] == log.entries
    assert found["exits"] == log.exits
    assert events == log.truth["events"] + max(log.truth["threads"], 1)  # with the names of the threads
    assert sum(len(m.split(",")) for m in ARGUMENTS.findall(out)) == log.truth["arguments"]


def test_convert_trace_event(log, reader, instr_map):
    out = good(reader("convert", "-f", "trace_event", "-symbolize", f"-instr_map={instr_map}", log.path))
    phases = collections.Counter(e["ph"] for e in json.loads(out)["traceEvents"])
    assert phases["B"] == sum(log.entries.values())
    assert phases["E"] == sum(log.exits.values())


def test_fdr_dump(log, reader):
    out = good(reader("fdr-dump", log.path))
    assert len(re.findall("<Function Enter", out)) == sum(log.entries.values())
    assert len(re.findall("<Function (?:Tail )?Exit", out)) == sum(log.exits.values())


def test_dump_agrees_with_llvm(log, reader, xprof):
    """Compares thread, ID, kind and TSC of every function record."""
    path = log.path
    theirs = collections.Counter(
        (int(tid), int(fn_id), kind.removeprefix("function-").replace("enter-arg", "enter-args"), int(tsc))
        for _, fn_id, tid, kind, tsc in RECORD.findall(good(reader("convert", "-f", "yaml", path)))
        if kind in KINDS)
    ours = collections.Counter()
    for line in good(xprof.dump(path)).splitlines():
        fields = line.split()
        if "function" in fields:
            ours[int(fields[1]), int(fields[7]), fields[5], int(fields[3])] += 1
    assert ours == theirs
    assert bool(ours) == bool(log.entries)


# A thread with 400 000 records. llvm-xray is slow, so each subcommand runs once, with one version.

LONG_CALLS = 200_000


@pytest.fixture(scope="module")
def long_log(made):
    return made("long", 1)


@pytest.mark.together("long")
def test_long_check(long_log, xprof):
    out = good(xprof.check(long_log.path))
    assert re.search(rf": ok, .* 1 threads, 16 buffers, {2 * LONG_CALLS} function records", out)


def long_account(llvm_xray, log, instr_map):
    out = good(llvm_xray("account", f"-instr_map={instr_map}", "-f", "csv", log))
    assert [int(row.split(",")[1]) for row in out.splitlines()[1:]] == [LONG_CALLS // 4] * 4


def long_stack(llvm_xray, log, instr_map):
    flame = ("-all-stacks", "-stack-format=flame", "-aggregation-type=count")
    out = good(llvm_xray("stack", f"-instr_map={instr_map}", *flame, log))
    assert sum(int(n) for n in re.findall(r"; (\d+)$", out, re.M)) == LONG_CALLS


def long_graph(llvm_xray, log, instr_map):
    out = good(llvm_xray("graph", f"-instr_map={instr_map}", "-edge-label=count", log))
    assert sum(int(n) for n in re.findall(r'F\d+ -> F\d+ \[label="(\d+)', out)) == LONG_CALLS


def long_convert(llvm_xray, log, _):
    """The log is converted to one form: for the other forms, reading the log is the same."""
    data = recording.basic_records(log, llvm_xray.version)
    kinds, functions = (collections.Counter(data[at::32]) for at in (3, 4))
    assert kinds[0] == LONG_CALLS == kinds[1] + kinds[2]  # entries; exits and tail exits
    assert functions == {fn_id: LONG_CALLS // 2 for fn_id in NAMES}


def long_fdr_dump(llvm_xray, log, _):
    command = f"{shlex.join([llvm_xray.path, 'fdr-dump', str(log)])} | LC_ALL=C grep -c '^<Function '"
    assert good(project.run(["bash", "-c", f"set -o pipefail; {command}"])) == f"{2 * LONG_CALLS}\n"


@pytest.mark.together("long")
@pytest.mark.parametrize("read", [long_account, long_stack, long_graph, long_convert, long_fdr_dump])
def test_long(read, newest_llvm_xray, long_log, instr_map):
    read(newest_llvm_xray, long_log.path, instr_map)


# The form of the files


def buffers_per_thread(dump):
    tids = [line.split()[1] for line in dump.splitlines() if line.endswith(" NewBuffer")]
    return collections.Counter(tids)


def test_at_most_16_buffers(log, fdr_version, xprof):
    buffers = buffers_per_thread(good(xprof.dump(log.path)))
    assert len(buffers) == max(log.truth["threads"], 1)
    assert max(buffers.values()) <= (16 if log.truth["version"] == 1 else 1)


def test_typed_events_need_version_5(made):
    assert made("typed", 1).truth["version"] == 5
    assert made("events", 1).truth["version"] == 1


def test_rests_of_buffers_take_no_disk(made):
    stat = made("uneven", 1).path.stat()
    assert stat.st_blocks * 512 < 0.6 * stat.st_size
    assert stat.st_size < 4 * made("uneven", 5).path.stat().st_size


# check, dump and recover


def test_check(log, xprof):
    out = good(xprof.check(log.path))
    records = sum(log.entries.values()) + sum(log.exits.values())
    threads = max(log.truth["threads"], 1)
    assert out == f"{log.path}: ok, XRay FDR log of version {log.truth['version']}: {threads} threads, " + (
        f"{sum(buffers_per_thread(good(xprof.dump(log.path))).values())} buffers, {records} function records, "
        f"{log.truth['arguments']} arguments, {log.truth['events'] + threads} events\n")


def test_check_names_the_first_violation(made, xprof, tmp_path):
    data = bytearray(made("small", 5).path.read_bytes())
    data[0x70] = 0xFF
    bad = tmp_path / "bad.fdr"
    bad.write_bytes(data)
    done = xprof.check(bad)
    assert done.returncode == 1
    assert done.stdout == f"{bad}: 0x70: Metadata record of unknown kind 127\n"
    done = xprof.dump(bad)
    assert done.returncode == 1
    assert "NewCPUId" in done.stdout.splitlines()[-1]
    assert f"{bad}: 0x70: Metadata record of unknown kind 127" in done.stderr


def test_payload_is_escaped(xprof, tmp_path):
    payload = b'\x1b[31m"\\\n\xff ok'
    body = (struct.pack("<BI11x", 1, 5) + struct.pack("<BQI3x", 9, 0, 0) + struct.pack("<BHQ5x", 5, 0, 1)
            + struct.pack("<BiI7x", 11, len(payload), 0) + payload)
    path = tmp_path / "log"
    path.write_bytes(struct.pack("<HHIQQQ", 5, 1, 3, 1000, 0, 0) + struct.pack("<BQ7x", 15, len(body)) + body)
    assert good(xprof.dump(path)).splitlines()[-1].endswith(r'CustomEvent 12 bytes "\x1b[31m\"\\\x0a\xff ok"')


def test_recover(xprof, llvm_xray, instr_map, tmp_path):
    done = project.run([GENERATOR, "killed", 1, tmp_path])
    assert done.returncode == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == ["log.spool"]
    assert "8 function records" in xprof("recover", tmp_path).stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.fdr", "manifest.json"]
    good(xprof.check(tmp_path))
    good(llvm_xray("account", f"-instr_map={instr_map}", tmp_path / "log.fdr"))
    done = xprof("recover", tmp_path)
    assert "nothing to recover" in done.stderr
    assert done.returncode == 0


def test_recover_beside_the_manifest_of_a_newer_xprof(xprof, tmp_path):
    """
    recover leaves the manifest and the spool of a newer xprof unchanged: rewriting may lose what this version does not
    know.
    """
    assert project.run([GENERATOR, "killed", 1, tmp_path]).returncode == -signal.SIGKILL
    manifest = tmp_path / "manifest.json"
    newer = json.dumps({"manifest_version": 2, "xprof_version": "9.1", "processes": [], "files": [], "of_the_future": 1})
    manifest.write_text(newer)
    done = xprof("recover", tmp_path)
    assert done.returncode == 1
    assert f"{manifest}: manifest_version 2 is newer than this xprof, " in done.stderr
    assert ": use the version that wrote it: 9.1\n" in done.stderr
    assert manifest.read_text() == newer and (tmp_path / "log.spool").exists() and not (tmp_path / "log.fdr").exists()
    manifest.write_text(newer.replace(": 2", ": 1"))
    assert xprof("recover", tmp_path).returncode == 0
    assert json.loads(manifest.read_text())["of_the_future"] == 1


def test_recover_of_nothing(xprof, tmp_path):
    """recover succeeds for a recording that was killed before its first sample, and refuses a running one."""
    samples = tmp_path / "perf.data"
    with samples.open("w") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        assert "nothing to recover" in xprof("recover", tmp_path).stderr
        assert samples.exists()
    done = xprof("recover", tmp_path)
    assert done.returncode == 0 and "before anything was stored; removed" in done.stderr
    assert not samples.exists()


def test_recover_of_something_else(xprof, tmp_path):
    (tmp_path / "x.spool").write_text("hello")
    done = xprof("recover", tmp_path)
    assert done.returncode == 1
    assert "not a spool" in done.stderr
    assert (tmp_path / "x.spool").exists()


def test_large_file_takes_little_memory(xprof, tmp_path):
    """The file has 5 GiB, mostly a hole."""
    event = 1 << 30
    head = (struct.pack("<BI11x", 1, 5) + struct.pack("<BQI3x", 9, 0, 0) + struct.pack("<BHQ5x", 5, 0, 1)
            + b"\x03".ljust(16, b"\0"))
    size = len(head) + 5 * event
    path = tmp_path / "large.fdr"
    with open(path, "wb") as out:
        out.write(struct.pack("<HHIQQQ", 1, 1, 3, 1000, size, 0) + head)
        for i in range(5):
            out.seek(32 + len(head) + i * event)
            out.write(struct.pack("<BiQ3x", 11, event - 16, 1))
        out.truncate(32 + size)
    assert "ok, " in good(xprof.check(path))
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    pid = os.posix_spawn(project.CHECK, [str(project.CHECK), str(path)], os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    # After exec, the peak of a child starts at the peak of its parent.
    assert usage.ru_maxrss < resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + (32 << 10)


# XRay's own runtime

RUNTIME_SOURCE = r"""
#include <thread>
#include <vector>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>
#define F __attribute__((noinline, xray_always_instrument))
#define N __attribute__((xray_never_instrument))
F int leaf(int a) { asm volatile(""); return a + 1; }
F int middle(int a) { asm volatile(""); return leaf(a) + 2; }
F void events() {
	asm volatile("");
#ifdef CUSTOM
	static const char text[] = "custom";
	__xray_customevent(text, sizeof(text));
#endif
#ifdef TYPED
	static const char data[] = "typed";
	__xray_typedevent(7, data, sizeof(data));
#endif
}
N void work() { for (int i = 0; i < 500; i++) { middle(i); events(); } }
N int main(int argc, char **argv) {
	__xray_log_select_mode("xray-fdr");
	__xray_log_init_mode("xray-fdr", "func_duration_threshold_us=0");
	__xray_patch();
	std::vector<std::thread> threads;
	for (int i = 1; i < argc; i++)
		threads.emplace_back(work);
	work();
	for (auto &thread : threads)
		thread.join();
	__xray_log_finalize();
	__xray_log_flushLog();
}
"""


@pytest.fixture(params=project.clang_versions() or [None], ids=lambda v: f"clang-{v}")
def runtime_log(request, program, tmp_path):
    """Runs a program with XRay's own runtime: runtime_log("-DCUSTOM", threads=3) -> its log."""
    if request.param is None:
        pytest.skip("no clang with an llvm-xray of its version here")

    def make(*flags, threads=0):
        path = program.text("fdr_runtime", RUNTIME_SOURCE, "-O1", *flags, clang=f"clang-{request.param}", suffix=".cc")
        base = f"{tmp_path}/xray-log."
        options = f"patch_premain=false xray_logfile_base={base}"
        done = project.run([path, *["x"] * threads], env={"XRAY_OPTIONS": options})
        if done.returncode < 0:
            pytest.skip(f"XRay's runtime dies of signal {-done.returncode} here")
        logs = list(tmp_path.glob("xray-log.*"))
        if not logs:
            pytest.skip("XRay's runtime writes no log here")
        return logs[0]

    return make


def test_log_of_the_runtime(runtime_log, xprof, llvm_xray):
    path = runtime_log()
    out = good(xprof.check(path))
    assert re.search(r": ok, XRay FDR log of version 5: 1 threads, \d+ buffers, 3000 function records", out)
    names = collections.Counter(line.split()[5] for line in good(xprof.dump(path)).splitlines()[2:])
    theirs = good(llvm_xray("fdr-dump", path))
    assert names["enter"] == len(re.findall("<Function Enter", theirs)) == 1500
    assert names["exit"] + names["tail-exit"] == len(re.findall("<Function (?:Tail )?Exit", theirs)) == 1500
    assert names["NewBuffer"] == len(re.findall("<Thread ID", theirs))


def test_log_of_the_runtime_with_custom_events(runtime_log, xprof):
    path = runtime_log("-DCUSTOM")
    assert re.search(r": ok, .* 500 events", good(xprof.check(path)))
    assert good(xprof.dump(path)).count(r'CustomEvent 7 bytes "custom\x00"') == 500


def test_log_of_the_runtime_with_typed_events(runtime_log, xprof):
    """XRay's runtime writes too small extents for typed events."""
    path = runtime_log("-DTYPED")
    done = xprof.check(path)
    assert done.returncode == 1
    assert "typed events" in done.stdout
    assert r'TypedEvent type 7 6 bytes "typed\x00"' in xprof.dump(path).stdout


def test_log_of_the_runtime_with_threads(runtime_log, xprof):
    """llvm-xray account rejects this log, and so does check. The format is valid, so dump reads all of it."""
    path = runtime_log(threads=3)
    done = xprof.check(path)
    assert done.returncode == 1
    assert re.search(r": 0x[0-9a-f]+: llvm-xray: ", done.stdout)
    assert len(buffers_per_thread(good(xprof.dump(path)))) == 4
