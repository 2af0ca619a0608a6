# SPDX-License-Identifier: BSD-2-Clause
"""A recording of the whole machine, with many short processes in a cgroup of their own."""
import json
import os
import pathlib
import shutil

import pytest

import profiles
import project
import recording

pytestmark = [pytest.mark.uprobes, pytest.mark.together("machine")]

SHORT, CPU_S = 25, 0.03
BRIEF = f"brief-{os.getpid()}" # unique: another worker's processes are on the machine, too
MOUNTS = [pathlib.Path(path) for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")]


@pytest.fixture(scope="module")
def group():
    """Creates a cgroup (v2) and returns its directory."""
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
    brief = shutil.copy(program("live/programs/shares.c", "-O1", "-g", instrument=False), directory / BRIEF)
    loop = f"echo $$ > {group}/cgroup.procs; for i in $(seq {SHORT}); do {brief} {CPU_S} > {directory}/said; done"
    session = recording.Session(xprof, directory / "out", ["--no-sleds", "-F", "999", "-a"]).wait_attached()
    try:
        assert project.run(["sh", "-c", loop]).returncode == 0
    finally:
        recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    return recorded


def test_control_groups_and_cpus(machine, group):
    """Also correct for processes that ended before xprof could read their cgroup: they inherit it from their parent."""
    said = machine.manifest["samples"]
    entries = [e for e in said["profiles"] if e["comm"] == BRIEF]
    assert len(entries) == SHORT
    assert {e.get("cgroup") for e in entries} == {"/" + group.name}
    assert any(e.get("cgroup", "").startswith("/") and e not in entries for e in said["profiles"])
    its = {e["comm"] for e in said["profiles"] if e.get("cgroup") == "/" + group.name}
    assert BRIEF in its and not any(comm.startswith("xprof") for comm in its), its
    assert said["cpus"] == len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def reported(machine, xprof):
    done = xprof("report", "--json", machine.directory)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_report_of_the_machine(xprof, reported, machine, group):
    """Each way to group the samples contains all samples once."""
    said, found = machine.manifest["samples"], reported["machine"]
    assert (found["samples"], found["cpus"]) == (said["written"], said["cpus"])
    # Another xprof may record beside this one. Its traps are in the kernel, but belong to the frame of recorders.
    traps = sum(f["flat"] for f in reported["all"]["functions"] if f["function"] == "xprof's recording")
    assert found["kernel_samples"] <= said["kernel"] <= found["kernel_samples"] + traps
    assert found["idle_ns"] == max(found["cpus"] * found["length_ns"] - found["cpu_ns"], 0)
    # All samples are of the time that the recording lasted.
    assert found["cpu_ns"] <= found["cpus"] * (found["length_ns"] + said["period_ns"])
    assert xprof("export", "--format=folded", "-o", "-", f"--to={machine.manifest['attached_after_s']:.9f}s", machine.directory).stdout == ""
    for shares in (found["programs"], found["cgroups"]):
        assert sum(s["samples"] for s in shares) == said["written"]
        assert sum(s["processes"] for s in shares) == len(said["profiles"])
    (brief,) = [p for p in found["programs"] if p["name"] == BRIEF]
    assert brief["processes"] == SHORT and brief["cpu_ns"] >= 0.9 * SHORT * CPU_S * 1e9
    (its,) = [p for p in found["cgroups"] if p["name"] == "/" + group.name]
    assert its["processes"] >= SHORT and its["samples"] >= brief["samples"]
    spin = [f for f in reported["all"]["functions"] if f["function"] == "spin" and f["object"].startswith(BRIEF)]
    assert len(spin) == 1 and spin[0]["flat"] > brief["samples"] / 2


@pytest.mark.parametrize("by", ["thread", "cpu"])
def test_groups_have_all_samples(xprof, machine, reported, by):
    done = xprof("report", "--json", "--by", by, machine.directory)
    groups = json.loads(done.stdout)["groups"]
    assert sum(g["samples"] for g in groups) == reported["machine"]["samples"], done.stderr
    if by == "cpu":
        assert {g["name"] for g in groups} <= {f"cpu {i}" for i in range(os.cpu_count())} and len(groups) > 1
    if by == "thread":
        assert all(g["tid"] for g in groups) and sum(g["name"].startswith(f"{BRIEF} (") for g in groups) == SHORT


def test_tree_has_all_samples(xprof, machine, reported):
    done = xprof("report", "--json", "--tree", "--by", "comm", machine.directory)
    nodes = json.loads(done.stdout)["nodes"]
    assert sum(n["self"] for n in nodes) == nodes[0]["total"] == reported["machine"]["samples"], done.stderr


def test_exports_by_control_group(xprof, machine, reported, group):
    """The cgroup is a line of folded stacks, and the label that perf_data_converter uses."""
    (its,) = [p for p in reported["machine"]["cgroups"] if p["name"] == "/" + group.name]
    done = xprof("export", "--format=folded", "--by", "cgroup", "-o", "-", machine.directory)
    lines = [line.rpartition(" ") for line in done.stdout.splitlines() if line.startswith(f"/{group.name};")]
    assert sum(int(count) for _, _, count in lines) == its["samples"], done.stderr
    path = machine.directory.parent / "cgroups.pb.gz"
    assert xprof("export", "--format=pprof", "--by", "cgroup", "-o", path, machine.directory).returncode == 0
    if profiles.GO:
        assert f"/{group.name}" in project.run([profiles.GO, "tool", "pprof", "-tags", path]).stdout
