# SPDX-License-Identifier: BSD-2-Clause
"""A recording of the whole machine, with many short processes in a control group of their own."""
import os
import pathlib
import shutil

import pytest

import project
import recording

pytestmark = pytest.mark.uprobes

SHORT, CPU_S = 25, 0.03
MOUNTS = [pathlib.Path(path) for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")]


@pytest.fixture(scope="module")
def group():
    """The directory of a new control group of version 2."""
    path = next((m / f"xprof-test-{os.getpid()}.scope" for m in MOUNTS if (m / "cgroup.controllers").exists()), None)
    if os.geteuid() or not path:
        pytest.skip("no control group of version 2 can be made here")
    path.mkdir()
    yield path
    path.rmdir()


@pytest.fixture(scope="module")
def machine(xprof, program, group, tmp_path_factory):
    """The recording."""
    directory = tmp_path_factory.mktemp("machine")
    brief = shutil.copy(program("live/programs/shares.c", "-O1", "-g", instrument=False), directory / "brief")
    loop = f"echo $$ > {group}/cgroup.procs; for i in $(seq {SHORT}); do {brief} {CPU_S} > {directory}/said; done"
    session = recording.Session(xprof, directory / "out", ["--no-sleds", "-F", "999", "-a"]).wait_attached()
    try:
        assert project.run(["sh", "-c", loop]).returncode == 0
    finally:
        recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    return recorded


def test_control_groups_and_cpus(machine, group):
    """Also of processes that are gone before anybody could look at them: they inherit it."""
    said = machine.manifest["samples"]
    entries = [e for e in said["profiles"] if e["comm"] == "brief"]
    assert len(entries) == SHORT
    assert {e.get("cgroup") for e in entries} == {"/" + group.name}
    assert any(e.get("cgroup", "").startswith("/") and e not in entries for e in said["profiles"])
    its = {e["comm"] for e in said["profiles"] if e.get("cgroup") == "/" + group.name}
    assert "brief" in its and not any(comm.startswith("xprof") for comm in its), its
    assert said["cpus"] == len(os.sched_getaffinity(0))
