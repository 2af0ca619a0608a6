# SPDX-License-Identifier: BSD-2-Clause
"""Every command that the summary of a recording prints works as it stands, with each installed perf and llvm-xray."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import perf_tool
import project
import recording

pytestmark = pytest.mark.uprobes

PROGRAMS = pathlib.Path(__file__).parent / "programs"
BUSY = ("live/programs/busy.c", "-O2")
SERVER = """
#include <unistd.h>
__attribute__((noinline)) void NAME(void) { for (volatile int i = 0; i < 2000; i++); }
int main(void) { for (;;) { NAME(); usleep(1000); } }
"""


def commands_of(messages):
    return [line.strip() for line in messages.splitlines() if line.startswith("    ")]


@pytest.fixture(params=range(max(len(perf_tool.PATHS), len(project.LLVM_VERSIONS), 1)))
def shell(request, tmp_path):
    """Runs a printed command in bash, where `perf` and `llvm-xray` are one of those installed."""
    tools = tmp_path / "tools"
    tools.mkdir()
    names = {"xprof": str(project.XPROF)}
    if perf_tool.PATHS:
        names["perf"] = perf_tool.PATHS[min(request.param, len(perf_tool.PATHS) - 1)]
    if project.LLVM_VERSIONS:
        version = project.LLVM_VERSIONS[-1 - min(request.param, len(project.LLVM_VERSIONS) - 1)]
        names["llvm-xray"] = project.LlvmXray(version).path
    for name, path in names.items():
        (tools / name).symlink_to(path)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "PAGER": "cat",
                   "PERF_CONFIG": "/dev/null", "LC_ALL": "C"}
    environment.pop("DEBUGINFOD_URLS", None)

    def run(command):
        name = command.split()[0]
        if name != "xprof" and not shutil.which(name, path=environment["PATH"]):
            return ""
        done = project.run(["bash", "-c", command], env=environment)
        assert done.returncode == 0, f"{command}: {done.stdout[-500:]}{done.stderr}"
        assert not re.search(r"\bERROR\b|failed to process|can't parse|out of order", done.stderr), f"{command}: {done.stderr}"
        return done.stdout

    return run


def assert_work(shell, messages, *names):
    """Returns the output of each printed command. All `names` are in that of llvm-xray."""
    outputs = {command: shell(command) for command in commands_of(messages)}
    assert outputs, messages
    for command, output in outputs.items():
        if command.startswith("llvm-xray") and output:
            assert all(name in output for name in names), f"{command}: {output}"
    return outputs


KINDS = {
    "samples": ["-F", "499"],
    "compressed": ["-F", "499", "--compress"],
    "waits": ["-F", "499", "--off-cpu"],
    "switches": ["-F", "499", "--switch-events"],
}


def assert_perf_reads(shell, data):
    """What users do with a recording besides `perf report`."""
    assert " PERF_RECORD_SAMPLE" in shell(f"perf script -D -i {data}")
    built = data.with_suffix(".ids")
    shell(f"perf inject -b -i {data} -o {built}")
    shell(f"perf report -i {built} --stdio -g none")
    shell(f"perf diff {data} {built}")
    shell(f"perf annotate -i {data} --stdio -s nest")


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(record, program, start, shell, kind):
    process = start([program(*BUSY), 2])
    assert process.stdout.readline() == "ready\n"
    recorded = record("-p", process.pid, "-d", "500ms", *KINDS[kind]).finish()
    assert recorded.status == 0
    assert_work(shell, recorded.messages, "leaf")
    assert_perf_reads(shell, recorded.directory / "perf.data")


def test_whole_machine(record, program, start, shell):
    process = start([program(*BUSY), 2])
    assert process.stdout.readline() == "ready\n"
    recorded = record("-a", "-d", "1", "--off-cpu").finish()
    assert recorded.status == 0
    assert_work(shell, recorded.messages)


def test_jit(record, start, shell, tmp_path):
    if not shutil.which("node"):
        pytest.skip("no node here")
    node = start(["node", "--perf-basic-prof", PROGRAMS / "hot.js", "60"], cwd=tmp_path)
    perf_map = pathlib.Path(f"/tmp/perf-{node.pid}.map")
    recording.wait_until(lambda: perf_map.exists() and "leaf" in perf_map.read_text(errors="replace"), "no perf map")
    recorded = record("--no-sleds", "-F", "999", "-p", node.pid, "-d", "2").finish()
    perf_map.unlink()
    assert recorded.status == 0
    outputs = assert_work(shell, recorded.messages)
    reports = [out for command, out in outputs.items() if command.startswith("perf report") and out]
    assert reports == [] or any("JS:" in out for out in reports), reports


def deleted(right, wrong, place):
    shutil.copy(right, place)
    process = subprocess.Popen([place])
    recording.wait_until(lambda: os.path.realpath(f"/proc/{process.pid}/exe") == str(place), "it does not start")
    place.unlink()
    return process


def replaced(right, wrong, place):
    process = deleted(right, wrong, place)
    shutil.copy(wrong, place)
    return process


def other_mount_namespace(right, wrong, place):
    shutil.copy(wrong, place)
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && cp "$0" "$2" && exec "$2"',
                                right, place.parent, place])
    recording.wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(place), "it does not start")
    return process


@pytest.mark.parametrize("way", [deleted, replaced, other_mount_namespace])
def test_program_not_at_its_path(record, program, shell, way, tmp_path):
    right, wrong = (program.text(name, SERVER, "-O1", f"-DNAME={name}") for name in ("the_right_one", "another_one"))
    (tmp_path / "place").mkdir()
    process = way(right, wrong, tmp_path / "place" / "server")
    try:
        recorded = record("--no-samples", "-p", process.pid, "-d", "500ms").finish()
    finally:
        process.kill()
        process.wait()
    assert recorded.status == 0
    assert_work(shell, recorded.messages, "the_right_one")
