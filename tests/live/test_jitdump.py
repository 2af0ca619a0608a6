# SPDX-License-Identifier: BSD-2-Clause
"""
Checks a recording's jitdump and perf.data together: perf shows JIT functions as the profile does, and their lines.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import perf_tool
import profiles
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

PROGRAMS = pathlib.Path(__file__).parent / "programs"


@pytest.fixture(**perf_tool.fixture_params())
def perf(request, tmp_path):
    return perf_tool.Perf(request.param, tmp_path / "home")


@pytest.fixture
def run(start, tmp_path):
    """Starts a program and removes its perf map afterwards. V8 writes a log to its working directory."""
    started = []

    def start_one(argv, **options):
        started.append(start(argv, **{"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()
        pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")


class Injected:
    """A finished recording of a process with JIT code, after `perf inject --jit`."""

    def __init__(self, xprof, perf, recorded, pid, path):
        assert recorded.status == 0, recorded.messages
        self.messages = recorded.messages
        checked = xprof.check(recorded.directory)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        self.perf, self.path, self.directory = perf, path, recorded.directory
        (self.entry,) = [e for e in recorded.manifest["samples"]["profiles"] if e["pid"] == pid]
        assert self.entry["jit"]["dump_functions"] and not self.entry["jit"]["dump_functions_lost"], recorded.messages
        self.dump = self.directory / self.entry["jit"]["dump"]
        next_data = self.directory / "perf.jit.data"
        assert f"perf inject --jit -i {self.directory}/perf.data -o {next_data}\n    perf report -i {next_data}\n" in recorded.messages
        # Names that perf finds in perf maps do not come from the recording.
        pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
        perf("inject", "--jit", "-i", self.directory / "perf.data", "-o", path)
        self.pid = pid

    def assert_like_profile(self, pattern):
        """Checks that each JIT function has as many samples as in the profile, and the hot function the most."""
        if not profiles.GO:
            pytest.skip("no go here")
        named, unnamed = profiles.jit_samples(self.messages)
        assert named >= 10 and named >= 0.9 * (named + unnamed)
        loaded = {name.replace(" ", "_") for name in re.findall(r" code \d+ at \w+ \d+ bytes (.*)$", self.text(), re.M)}
        by_perf = {}
        for (symbol, dso), count in self.perf.report(self.path, "sym", "dso").items():
            if re.match(rf"jitted-{self.pid}-\d+\.so", dso):
                by_perf[symbol.replace(" ", "_")] = by_perf.get(symbol.replace(" ", "_"), 0) + count
        top = profiles.go_top(self.directory / self.entry["file"])
        by_profile = {name: flat for name, (flat, _) in top.items() if name in loaded and flat}
        assert by_perf == by_profile
        assert sum(n for name, n in by_perf.items() if re.search(pattern, name)) > 0.7 * sum(by_perf.values())

    def text(self):
        return project.run([project.CHECK, "--dump", self.dump]).stdout


@pytest.fixture
def injected(xprof, perf, record, tmp_path):
    """
    Records a running process, injected(pid, ...), or a command, injected(None, "--", ...). Calls behind() afterwards.
    """

    def record_one(pid, *args, behind=None):
        target = ("-p", pid, "-d", "1") if pid else ()
        recorded = record("--no-sleds", "-F", "999", *target, *args).finish()
        if behind:
            behind()
        if not pid:
            (pid,) = [e["pid"] for e in recorded.manifest["samples"]["profiles"] if e.get("jit")]
        return Injected(xprof, perf, recorded, pid, tmp_path / "injected.data")

    return record_one


HOT = "JS:.*(hotLoop|leaf|main)_"


def is_gone(pid):
    """Returns whether the process has released its memory and files."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] in "ZX"
    except OSError:
        return True


def test_node_perf_map(run, injected):
    need("node")
    node = run(["node", "--perf-basic-prof", PROGRAMS / "hot.js", "60"])
    perf_map = pathlib.Path(f"/tmp/perf-{node.pid}.map")
    recording.wait_until(lambda: perf_map.exists() and "leaf" in perf_map.read_text(errors="replace"), "no perf map")
    injected(node.pid).assert_like_profile(HOT)


def test_node_from_its_start(injected):
    """Memory and code appear during the recording, and the perf map contains no times."""
    need("node")
    no_log = ("--no-logfile-per-isolate", "--logfile=/dev/null")
    injected(None, "--", "node", "--perf-basic-prof", *no_log, PROGRAMS / "hot.js", "2").assert_like_profile(HOT)


def test_node_jitdump(run, injected, tmp_path):
    """perf must not read the runtime's own jitdump: it would write images next to it."""
    need("node")
    place = tmp_path / "place"
    place.mkdir()
    node = run(["node", "--perf-prof", PROGRAMS / "hot.js", "60"], cwd=place)
    recording.wait_until(lambda: (place / f"jit-{node.pid}.dump").exists(), "node writes no jitdump")
    targets.wait_for_cpu_time(node.pid, seconds=0.5)
    found = injected(node.pid)
    found.assert_like_profile(HOT)
    assert not list(place.glob("jitted-*"))
    assert re.search(r" debug of \w+, \d+ lines\n +0x\w+ node:internal/\S+:\d+", found.text())


def test_disk_full(run, record, xprof, tmpfs):
    """The jitdump leaves the last space on the disk to the other files, and xprof reports what is missing."""
    need("node")
    node = run(["node", "--perf-basic-prof", PROGRAMS / "hot.js", "60"])
    perf_map = pathlib.Path(f"/tmp/perf-{node.pid}.map")
    recording.wait_until(lambda: perf_map.exists() and "leaf" in perf_map.read_text(errors="replace"), "no perf map")
    disk = tmpfs("size=4m")
    (disk / "filler").write_bytes(bytes(2800 * 1024))  # perf.data reserves 1 MiB in advance
    recorded = record("--no-sleds", "-d", "2", "-p", node.pid, directory=disk / "out").finish()
    assert recorded.status == 0, recorded.messages
    (entry,) = recorded.manifest["samples"]["profiles"]
    lost = entry["jit"]["dump_functions_lost"]
    assert lost > 100 and f"{lost} functions are not in the jitdumps" in recorded.messages
    assert not list((disk / "out").glob("jit-*"))
    checked = xprof.check(disk / "out")
    assert checked.returncode == 0 and checked.stdout.count(": ok, ") >= 2, checked.stdout


@pytest.mark.parametrize("version", [14, 19])
def test_lli(run, injected, perf, tmp_path, version):
    """GDB's interface: the code that LLVM compiled."""
    need(f"lli-{version}", f"clang-{version}")
    code = tmp_path / "interpreted.ll"
    made = project.run([f"clang-{version}", "-O1", "-g", "-S", "-emit-llvm", PROGRAMS / "interpreted.c", "-o", code])
    assert made.returncode == 0, made.stderr
    lli = run([f"lli-{version}", code], env={**os.environ, "JITDUMPDIR": str(tmp_path)})
    recording.wait_until(lambda: targets.cpu_s(lli.pid) >= 1, "it gets no CPU time")
    found = injected(lli.pid)
    found.assert_like_profile("hot_loop")
    annotated = perf("annotate", "-i", found.path, "--stdio", "-s", "hot_loop")
    assert re.search(r"\b(add|imul|xor|lea)\b", annotated) and "int3" not in annotated


def test_container(run, injected, tmp_path):
    """The process has another PID and /tmp in its container. While it runs, perf searches its images there."""
    need("node", "unshare")
    unshare = run(["unshare", "-m", "-p", "-f", "sh", "-c",
                   'text=$(cat "$0") && mount -t tmpfs none /tmp && echo "$text" > /tmp/hot.js && '
                   "exec node --perf-basic-prof /tmp/hot.js 60", PROGRAMS / "hot.js"])
    children = pathlib.Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    recording.wait_until(lambda: children.read_text().split(), "unshare starts nothing")
    (pid,) = map(int, children.read_text().split())
    perf_map = pathlib.Path(f"/proc/{pid}/root/tmp/perf-1.map")
    recording.wait_until(lambda: perf_map.exists() and "leaf" in perf_map.read_text(errors="replace"), "no perf map")

    def end():
        unshare.kill()
        os.kill(pid, 9)
        recording.wait_until(lambda: is_gone(pid), "the program does not end")

    try:
        injected(pid, behind=end).assert_like_profile(HOT)
    finally:
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, 9)
