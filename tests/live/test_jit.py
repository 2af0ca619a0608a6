# SPDX-License-Identifier: BSD-2-Clause
"""
Functions of JIT code have names, from any source that the runtime offers, and a hostile target cannot confuse xprof.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import leftovers
import profiles
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

PROGRAMS = pathlib.Path(__file__).parent / "programs"
SECONDS = 0.3
NAMED = 0.9
OPCACHE = ("-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=64M", "-d", "opcache.jit=tracing")


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")


def maps_of(pid):
    return [pathlib.Path(f"/tmp/perf-{pid}.map"), pathlib.Path(f"/tmp/perf-{pid}.map.other")]


def left_by(pid):
    """Returns the files that the programs of these tests leave in /tmp when they are killed."""
    return [*maps_of(pid), pathlib.Path(f"/tmp/.java_pid{pid}"), *pathlib.Path("/tmp").glob(f"hsperfdata_*/{pid}")]


@pytest.fixture
def run(start, tmp_path):
    """Starts a program and removes its perf map with it."""
    started = []

    def start_one(argv, **options):
        options = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
        started.append(start(argv, **options))
        return started[-1]

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for path in left_by(process.pid):
            path.unlink(missing_ok=True)


def wait_for_text(path, text):
    recording.wait_until(
        lambda: path.exists() and text in path.read_text(errors="replace"), f"{path} does not tell of {text}"
    )


class Jit:
    """A finished recording of one process with JIT code."""

    def __init__(self, xprof, recorded, pid):
        assert recorded.status == 0, recorded.messages
        self.messages = recorded.messages
        self.directory = recorded.directory
        (self.entry,) = [e for e in recorded.manifest["samples"]["profiles"] if e["pid"] == pid]
        self.jit = self.entry["jit"]
        self.named, self.unnamed = profiles.jit_samples(recorded.messages)
        checked = xprof.check(self.directory)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        self.report = xprof("report", self.directory).stdout

    def tops(self, by_each=True):
        path = self.directory / self.entry["file"]
        if profiles.GO:
            yield profiles.go_top(path)
        # Of larger programs it takes seconds.
        if profiles.GOOGLE_PPROF and self.entry["comm"].startswith("jit") and (by_each or not profiles.GO):
            yield profiles.perl_top(path, "/bin/true")

    def assert_hot(self, pattern, share=0.8):
        """
        Checks that every reader shows the name of the hot function, and that nearly all samples in JIT code have a
        name.
        """
        samples = self.named + self.unnamed
        assert samples >= 20, (self.entry, self.messages)
        assert self.named >= NAMED * samples, (self.entry, self.messages)
        for top in self.tops():
            found = [counts for name, counts in top.items() if re.search(pattern, name)]
            # One function may have several names, for its versions; what interrupts it is below it.
            hot = max([sum(flat for flat, _ in found), *(cum for _, cum in found)])
            assert hot >= share * self.named, (pattern, top)
        rows = re.findall(r"^ *\d+ +[\d.]+% +\d+ +[\d.]+% +(.+?)(?:  .*)?$", self.report, re.M)
        names = [name.replace(" ", "_") for name in rows]
        assert any(re.search(pattern, name) for name in names), self.report


@pytest.fixture
def jit(xprof, record):
    """Records a process for some of its CPU time: jit(pid, ...) -> Jit."""

    def record_one(pid, *args, seconds=SECONDS):
        session = record("-p", pid, "--no-sleds", "-F", "999", *args).wait_attached()
        targets.wait_for_cpu_time(pid, seconds=seconds)
        return Jit(xprof, session.stop(), pid)

    return record_one


# ---- runtimes ----


def test_node_jitdump(run, jit, tmp_path):
    """Node writes its own jitdump, in the directory where it was started, and no perf map."""
    need("node")
    node = run(["node", "--perf-prof", PROGRAMS / "hot.js", "60"])
    wait_for_text(tmp_path / f"jit-{node.pid}.dump", "hotLoop")
    targets.wait_for_cpu_time(node.pid, seconds=1)
    jit(node.pid).assert_hot("JS:.*(hotLoop|leaf|main)_")


def test_lli(run, jit, tmp_path):
    """lli provides GDB's interface without an option."""
    need("lli-19", "clang-19")
    code = tmp_path / "interpreted.ll"
    made = project.run(["clang-19", "-O1", "-g", "-S", "-emit-llvm", PROGRAMS / "interpreted.c", "-o", code])
    assert made.returncode == 0, made.stderr
    lli = run(["lli-19", code])
    targets.wait_for_cpu_time(lli.pid, seconds=1)
    done = jit(lli.pid)
    done.assert_hot("^hot_loop$")
    assert done.jit["functions"] == 2
    leftovers.assert_no_orphans()


def test_lli_from_its_start(xprof, record, tmp_path):
    """The code is compiled during the recording: the compiler's call of __jit_debug_register_code() reports it."""
    need("lli-14", "clang-14")
    code = tmp_path / "interpreted.ll"
    assert project.run(["clang-14", "-O1", "-S", "-emit-llvm", PROGRAMS / "interpreted.c", "-o", code]).returncode == 0
    recorded = record("--no-sleds", "-F", "199", "--", "lli-14", code, "2").finish()
    (entry,) = [e for e in recorded.manifest["samples"]["profiles"] if e.get("jit")]
    Jit(xprof, recorded, entry["pid"]).assert_hot("^hot_loop$")


def test_php(run, jit):
    need("php")
    if "Zend OPcache" not in project.run(["php", *OPCACHE, "-m"]).stdout:
        pytest.skip("php has no opcache here")
    php = run(["php", *OPCACHE, "-d", "opcache.jit_debug=16", PROGRAMS / "hot.php", "60"])
    wait_for_text(maps_of(php.pid)[0], "leaf")
    targets.wait_for_cpu_time(php.pid, seconds=0.5)
    jit(php.pid).assert_hot(r"\$(leaf|hot_loop)\$")


@pytest.fixture(scope="module")
def java_classes(tmp_path_factory):
    need("java", "javac")
    path = tmp_path_factory.mktemp("classes")
    made = project.run(["javac", "-d", path, PROGRAMS / "Hot.java"])
    assert made.returncode == 0, made.stderr
    return path


def handles(pid, number):
    caught = re.search(r"^SigCgt:\t(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(caught[1], 16) & 1 << number - 1


@pytest.fixture
def java(run, java_classes):
    """Starts a JVM that accepts attach requests, or with -Xrs one that never does."""

    def start_one(*options):
        process = run(["java", *options, "-cp", java_classes, "Hot", "60"])
        maps = pathlib.Path(f"/proc/{process.pid}/maps")
        if "-Xrs" in options:
            recording.wait_until(lambda: "libjvm" in maps.read_text(), "java loads no JVM")
        else:
            recording.wait_until(lambda: handles(process.pid, signal.SIGQUIT), "the JVM does not handle SIGQUIT")
        return process

    return start_one


def test_jvm(java, jit):
    """The JVM writes its perf map when xprof requests it. Without the option, xprof writes no file and sends no signal."""
    jvm = java()
    done = jit(jvm.pid)
    assert done.unnamed > 20 and not done.named, done.entry
    assert not maps_of(jvm.pid)[0].exists() and not pathlib.Path(f"/tmp/.java_pid{jvm.pid}").exists()
    jit(jvm.pid, "--jvm-attach").assert_hot(r"Hot\.(hotLoop|leaf)")
    assert jvm.poll() is None
    assert not list(pathlib.Path("/tmp").glob(f".attach_pid{jvm.pid}"))


def test_jvm_without_a_handler(java, jit):
    """With -Xrs, SIGQUIT would kill the JVM, so xprof does not send it."""
    jvm = java("-Xrs")
    done = jit(jvm.pid, "--jvm-attach")
    assert jvm.poll() is None
    assert not done.named and "did not write its perf map" in done.messages


def test_no_jvm(run, program, jit):
    """xprof does not send the signal to other programs."""
    victim_path = program("live/programs/jit.c", "-O1", "-pthread", "-rdynamic", instrument=False)
    other = run([victim_path, "none", "60"])
    assert not jit(other.pid, "--jvm-attach").named
    assert other.poll() is None


def test_erlang(run, jit, tmp_path):
    need("erl", "erlc")
    flavor = project.run(["erl", "-noshell", "-eval", "io:format(erlang:system_info(emu_flavor)), halt()."])
    if flavor.stdout != "jit":
        pytest.skip("this erlang has no JIT")
    assert project.run(["erlc", "-o", tmp_path, PROGRAMS / "hot.erl"]).returncode == 0
    erl = run(["erl", "+JPperf", "true", "-noinput", "-pa", tmp_path, "-s", "hot", "start"])
    wait_for_text(maps_of(erl.pid)[0], "hot:loop")
    targets.wait_for_cpu_time(erl.pid, seconds=1)
    jit(erl.pid).assert_hot("hot:loop/2")


def test_container(run, jit, tmp_path):
    """The process has its own /tmp and another PID in its namespace."""
    need("node", "unshare")
    unshare = run(
        ["unshare", "-m", "-p", "-f", "sh", "-c",
         'text=$(cat "$0") && mount -t tmpfs none /tmp && echo "$text" > /tmp/hot.js && '
         "exec node --perf-basic-prof /tmp/hot.js 60", PROGRAMS / "hot.js"]
    )  # fmt: skip
    children = pathlib.Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    recording.wait_until(lambda: children.read_text().split(), "unshare starts nothing")
    (pid,) = map(int, children.read_text().split())
    wait_for_text(pathlib.Path(f"/proc/{pid}/root/tmp/perf-1.map"), "hotLoop")
    assert not maps_of(pid)[0].exists()
    try:
        jit(pid).assert_hot("JS:.*(hotLoop|leaf|main)_")
    finally:
        os.kill(pid, 9)


# ---- by time ----


@pytest.fixture
def ours(run, program):
    """Starts live/programs/jit.c: ours(way, seconds) -> Popen."""

    def start_one(way, seconds=60):
        path = program("live/programs/jit.c", "-O1", "-pthread", "-rdynamic", instrument=False)
        process = run([path, way, str(seconds)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        return process

    return start_one


@pytest.fixture
def two_functions(ours, xprof, record):
    """
    Records a program that runs a first and then a second JIT function, for `before` and `after` seconds of CPU time:
    two_functions(way, before, after) -> Jit.
    """

    def record_one(way, before, after):
        process = ours(way, after)
        session = record("-p", process.pid, "--no-sleds", "-F", "199").wait_attached()
        targets.wait_for_cpu_time(process.pid, seconds=before)
        process.send_signal(signal.SIGUSR1)
        return Jit(xprof, session.finish(), process.pid)

    return record_one


def test_compiled_while_recording(two_functions):
    """The map grows during the recording, and its process ends before the recording does."""
    done = two_functions("late", 0.5, 2)
    for top in done.tops(by_each=False):
        assert profiles.share(top, "newcomer") > 0.6, top
    assert done.named > 2 * done.unnamed > 0, done.entry


def test_brief(ours, jit):
    """Code is registered, runs for a tenth of a second and is unregistered. The call that registers it is noticed."""
    process = ours("brief")
    done = jit(process.pid, seconds=2)
    for top in done.tops(by_each=False):
        functions = {name for name in top if name.startswith("brief_")}
        assert sum(top[name][0] for name in functions) >= 0.7 * done.named
    assert done.jit["functions"] >= 5, done.entry
    assert done.named >= 0.4 * (done.named + done.unnamed), done.entry


def test_samples_are_all_there(ours, jit):
    """No sample is lost, including samples that waited for a name."""
    process = ours("named")
    done = jit(process.pid)
    # A few hit the program itself, and the vDSO that it asks for the time.
    assert 0.9 * done.entry["samples"] <= done.named + done.unnamed <= done.entry["samples"], done.entry
    assert profiles.Profile(done.directory / done.entry["file"]).samples == done.entry["samples"]
    done.assert_hot("^count_down$", 0.9)


# ---- hostile targets ----


def test_hostile(ours, xprof, record):
    """A malformed map or list provides no names, and does not block xprof."""
    ways = ("none", "fifo", "symlink", "hardlink", "foreign", "huge", "list", "trap")
    processes = [ours(way) for way in ways]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    pids = ",".join(str(process.pid) for process in processes)
    session = record("-p", pids, "--no-sleds", "-F", "999").wait_attached()
    for process in processes:
        process.send_signal(signal.SIGCONT)
        targets.wait_for_cpu_time(process.pid, seconds=0.1)
        process.send_signal(signal.SIGSTOP)
    recorded = session.stop()
    done = Jit(xprof, recorded, processes[0].pid)
    assert not done.named and "lie" not in done.report, done.report
    samples = {entry["pid"]: entry["samples"] for entry in recorded.manifest["samples"]["profiles"]}
    for way, process in zip(ways, processes):
        assert samples[process.pid] >= 10 and process.poll() is None, (way, samples)


def test_control_characters(ours, jit):
    """A name cannot send control characters to a terminal, or end a line of a file."""
    done = jit(ours("control").pid)
    assert done.named >= 20
    assert "?]0;title??[31mred?<script>" in done.report
    for text in (done.report, done.messages):
        assert not set(text) & set(map(chr, [*range(10), *range(11, 32), 127]))
