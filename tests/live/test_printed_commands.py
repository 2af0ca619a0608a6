# SPDX-License-Identifier: BSD-2-Clause
"""Every command that the summary of a recording prints works unchanged, with each installed perf and llvm-xray."""
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


@pytest.fixture
def shell(tmp_path):
    """Runs a printed command in bash, with each installed perf or llvm-xray in turn. Returns the last output."""
    installed = {"perf": perf_tool.PATHS, "llvm-xray": [project.LlvmXray(version).path for version in project.LLVM_VERSIONS]}
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "xprof").symlink_to(project.XPROF)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "PAGER": "cat",
                   "PERF_CONFIG": "/dev/null", "LC_ALL": "C"}
    environment.pop("DEBUGINFOD_URLS", None)

    def run(command):
        name, shown = command.split()[0], ""
        for path in installed.get(name, [shutil.which(name, path=environment["PATH"])]):
            if not path:
                continue
            if name in installed:
                (tools / name).unlink(missing_ok=True)
                (tools / name).symlink_to(path)
            done = project.run(["bash", "-c", command], env=environment)
            assert done.returncode == 0, f"{path}: {command}: {done.stdout[-500:]}{done.stderr}"
            wrong = re.search(r"\bERROR\b|failed to process|can't parse|out of order", done.stderr)
            assert not wrong, f"{path}: {command}: {done.stderr}"
            shown = done.stdout
        return shown

    return run


def assert_work(shell, messages, *names):
    """Runs the printed commands and returns their output. The output of llvm-xray must contain all `names`."""
    outputs = {command: shell(command) for command in commands_of(messages)}
    assert outputs, messages
    for command, output in outputs.items():
        if command.startswith("llvm-xray") and output:
            assert all(name in output for name in names), f"{command}: {output}"
    return outputs


KINDS = {
    "samples": ["-F", "499"],
    "waits, compressed": ["-F", "499", "--off-cpu", "--compress"],
    "switches": ["-F", "499", "--switch-events"],
}


def assert_perf_reads(shell, data):
    """Runs perf commands other than `perf report` on the recording."""
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
    recorded = record("-p", process.pid, "-d", "300ms", *KINDS[kind]).finish()
    assert recorded.status == 0
    assert_work(shell, recorded.messages, "leaf")
    assert_perf_reads(shell, recorded.directory / "perf.data")


def test_whole_machine(record, program, start, shell):
    process = start([program(*BUSY), 2])
    assert process.stdout.readline() == "ready\n"
    recorded = record("-a", "-d", "300ms", "--off-cpu").finish()
    assert recorded.status == 0
    assert_work(shell, recorded.messages)


def test_jit(record, start, shell, tmp_path):
    if not shutil.which("node"):
        pytest.skip("no node here")
    node = start(["node", "--perf-basic-prof", PROGRAMS / "hot.js", "60"], cwd=tmp_path)
    perf_map = pathlib.Path(f"/tmp/perf-{node.pid}.map")
    recording.wait_until(lambda: perf_map.exists() and "leaf" in perf_map.read_text(errors="replace"), "no perf map")
    recorded = record("--no-sleds", "-F", "999", "-p", node.pid, "-d", "1").finish()
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
        recorded = record("--no-samples", "-p", process.pid, "-d", "200ms").finish()
    finally:
        process.kill()
        process.wait()
    assert recorded.status == 0
    assert_work(shell, recorded.messages, "the_right_one")
