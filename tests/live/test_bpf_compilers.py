# SPDX-License-Identifier: BSD-2-Clause
"""The BPF programs that every clang makes pass this kernel's verifier."""
import re
import shutil

import pytest

import project

pytestmark = pytest.mark.uprobes

VERSIONS = range(14, 20)


def programs():
    """The names of all programs, as their sources have them."""
    sources = "".join(path.read_text() for path in (project.REPO / "bpf").glob("*.bpf.c"))
    return set(re.findall(r'^SEC\("[a-z_./]+"\)\nint (?:BPF_PROG\()?(\w+)', sources, re.M))


@pytest.mark.parametrize("version", VERSIONS)
def test_loads(tmp_path, version):
    if not shutil.which(f"clang-{version}"):
        pytest.skip(f"no clang-{version} here")
    if not project.bpftool():
        pytest.skip("no bpftool here")
    targets = [tmp_path / "out" / "xprof.bpf.o", tmp_path / "out" / "bpf" / "wait.bpf.o"]
    made = project.run(["make", "-C", project.REPO, f"O={tmp_path}/out", f"CLANG=clang-{version}", *targets])
    assert made.returncode == 0, made.stderr
    pins = f"/sys/fs/bpf/xprof-test-{version}"
    try:
        for i, target in enumerate(targets):
            loaded = project.run([project.bpftool(), "prog", "loadall", target, f"{pins}-{i}"])
            assert loaded.returncode == 0, loaded.stderr
        names = {name for i in range(2) for name in project.run(["ls", f"{pins}-{i}"]).stdout.split()}
        assert programs() and names == programs()
    finally:
        project.run(["rm", "-rf", f"{pins}-0", f"{pins}-1"])
