# SPDX-License-Identifier: BSD-2-Clause
"""The BPF programs of every installed clang pass this kernel's verifier and use little stack."""
import re
import shutil

import pytest

import project

pytestmark = pytest.mark.uprobes

VERSIONS = range(14, 20)


def programs():
    """Returns the names of all BPF programs from their sources."""
    sources = "".join(path.read_text() for path in (project.REPO / "bpf").glob("*.bpf.c"))
    return set(re.findall(r'^SEC\("[a-z_./]+"\)\nint (?:BPF_PROG\()?(\w+)', sources, re.M))


def uprobe_programs():
    sources = "".join(path.read_text() for path in (project.REPO / "bpf").glob("*.bpf.c"))
    return set(re.findall(r'^SEC\("uprobe[a-z_./]*"\)\nint (\w+)', sources, re.M))


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    if not shutil.which(f"clang-{request.param}"):
        pytest.skip(f"no clang-{request.param} here")
    if not project.bpftool():
        pytest.skip("no bpftool here")
    return request.param


@pytest.fixture(scope="module")
def objects(version, tmp_path_factory):
    """Returns the object files of a compiler."""
    out = tmp_path_factory.mktemp("out")
    targets = [out / "xprof.bpf.o", out / "bpf" / "wait.bpf.o"]
    made = project.run(["make", "-C", project.REPO, f"O={out}", f"CLANG=clang-{version}", *targets])
    assert made.returncode == 0, made.stderr
    return targets


def test_loads(objects, version):
    pins = f"/sys/fs/bpf/xprof-test-{version}"
    try:
        for i, target in enumerate(objects):
            loaded = project.run([project.bpftool(), "prog", "loadall", target, f"{pins}-{i}"])
            assert loaded.returncode == 0, loaded.stderr
        names = {name for i in range(2) for name in project.run(["ls", f"{pins}-{i}"]).stdout.split()}
        assert programs() and names == programs()
    finally:
        project.run(["rm", "-rf", f"{pins}-0", f"{pins}-1"])


# See bpf/common.bpf.h.
STACK_MAX = 48


def test_stacks_of_uprobe_programs(objects, program):
    tool = program("kernels/stack_depths.c", "-O1", "-lbpf", instrument=False)
    done = project.run([tool, objects[0]])
    assert done.returncode == 0, done.stdout + done.stderr
    depths = {name: [int(n) for n in text.split("+")] for name, text in map(str.split, done.stdout.splitlines())}
    assert len(depths) > 10 and set(depths) == uprobe_programs()
    assert {name: depth for name, depth in depths.items() if max(depth) > STACK_MAX} == {}
