# SPDX-License-Identifier: BSD-2-Clause
"""
Checks that the fields that BPF programs read exist in the running kernel and in each kernel of `make test-kernels`. The
programs must guard a field that a kernel lacks with bpf_core_field_exists().
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil

import pytest

import kernel_image
import project

RUNNING = pathlib.Path("/sys/kernel/btf/vmlinux")
KERNELS = project.REPO / os.environ.get("KERNELS", project.OUTPUT / "kernels")
IMAGES = sorted(KERNELS.glob("vmlinuz-*"))


def module(path):
    loader = importlib.machinery.SourceFileLoader("regenerate", str(path))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader("regenerate", loader))
    loader.exec_module(made)
    return made


regenerate = module(project.REPO / "vmlinux" / "regenerate")


def bpf_text():
    paths = sorted((project.REPO / "bpf").glob("*.bpf.[ch]"))
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", "".join(path.read_text() for path in paths), flags=re.S)


def listed():
    """Returns {struct: [field]} of types.txt."""
    found = {}
    for line in (project.REPO / "vmlinux" / "types.txt").read_text().splitlines():
        if line.startswith("struct "):
            name, fields = line.removeprefix("struct ").split(":")
            found[name] = fields.split()
    return found


def wanted():
    """Returns {struct: [field]} of types.txt and of the structs that the programs declare."""
    found = listed()
    for name, body in re.findall(r"^struct (\w+) \{([^}]*)\} __attribute__\(\(preserve_access_index\)\);", bpf_text(), re.M):
        fields = re.findall(r"(\w+)(?: : \d+)?;", body)
        found.setdefault(name.split("___")[0], []).extend(fields)
    return found


def guarded():
    """Returns the names of fields whose existence the programs check."""
    return {m.split(".")[-1] for m in re.findall(r"bpf_core_field_exists\(([\w>.-]+)\)", bpf_text().replace("->", "."))}


def sizes(btf):
    """Returns {(struct, field): bytes} of the integers in types.txt. The programs assume these sizes."""
    found = {}
    for name, fields in listed().items():
        known = dict(regenerate.Header(btf).members(btf.find("STRUCT", name)))
        for field in fields:
            t = btf.resolve(btf.types[known[field]["type_id"]]) if field in known else None
            while t and t["kind"] == "TYPEDEF":
                t = btf.target(t)
            if t and t["kind"] == "INT":
                found[name, field] = t["size"]
    return found


@pytest.fixture(scope="module")
def sizes_here():
    if not RUNNING.exists():
        pytest.skip("this kernel has no BTF")
    if not shutil.which("bpftool"):
        pytest.skip("bpftool is not in PATH")
    return sizes(regenerate.Btf(RUNNING))


@pytest.mark.parametrize("kernel", [RUNNING, *IMAGES], ids=lambda path: path.name)
def test_fields(kernel, sizes_here, tmp_path):
    path = kernel
    if kernel in IMAGES:
        path = tmp_path / "btf"
        kernel_image.write_btf(kernel, path)
    btf = regenerate.Btf(path)
    header = regenerate.Header(btf)
    assert len(wanted()) > 15 and "on_cpu" in wanted()["task_struct"]
    missing = []
    for name, fields in wanted().items():
        known = dict(header.members(btf.find("STRUCT", name)))
        missing += [f"{name}.{field}" for field in fields if field not in known and field not in guarded()]
    assert missing == []
    assert sizes(btf).items() <= sizes_here.items()
