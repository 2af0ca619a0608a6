# SPDX-License-Identifier: BSD-2-Clause
"""Checks the Makefile, the list of packages, and the generated kernel types."""
import os
import pathlib
import re
import shutil

import pytest

import project


def make(*args, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS")) and k != "CLANG"}
    output = os.environ.get("O", ".output")
    return project.run(["make", f"O={output}", *args], cwd=options.pop("cwd", project.REPO), env=environment, timeout=110, **options)


def test_second_make_does_nothing(xprof):
    before = xprof.path.stat().st_mtime_ns
    done = make()
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("", "make: Nothing to be done for 'all'.\n")
    assert xprof.path.stat().st_mtime_ns == before


def test_install_and_uninstall(xprof, tmp_path):
    pages = [path.stem for path in (project.REPO / "user" / "man").glob("*.in")]
    assert {"xprof.1", "xprof-record.1", "xprof-formats.5"} <= set(pages)
    done = make("install", f"DESTDIR={tmp_path}", "PREFIX=/opt/x")
    assert done.returncode == 0, done.stderr
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "opt/x/bin/xprof",
        "opt/x/share/bash-completion/completions/xprof",
        *sorted(f"opt/x/share/man/man{page[-1]}/{page}" for page in pages),
        "opt/x/share/zsh/site-functions/_xprof",
    ]
    for page in pages:
        installed = tmp_path / "opt" / "x" / "share" / "man" / f"man{page[-1]}" / page
        assert installed.read_bytes() == (project.OUTPUT / "man" / page).read_bytes()
    installed = project.run([tmp_path / files[0], "version"])
    assert installed.stdout == xprof("version").stdout
    assert make("uninstall", f"DESTDIR={tmp_path}", "PREFIX=/opt/x").returncode == 0
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_verbose_make_shows_commands():
    done = make("-n", "-W", "user/main.c", "V=1")
    assert re.search(r"^gcc .*-c user/main.c", done.stdout, re.M)


def test_objects_follow_the_version():
    """When the version changes, objects that contain the version are rebuilt, although no source changed."""
    assert "-DXPROF_VERSION" in (project.OUTPUT / "flags").read_text()
    done = make("-n", "-W", os.environ.get("O", ".output") + "/flags")
    assert "user/cmd_version.c" in done.stdout


def test_package_has_the_version(repo):
    version = re.search(r"^VERSION := (.*)", (repo / "Makefile").read_text(), re.M).group(1)
    assert (repo / "packaging/debian/changelog").read_text().startswith(f"xprof ({version}) ")


def test_packages_are_all_here_or_named(tmp_path):
    """
    With DEPS=0, make names the missing packages and installs none. With an empty dpkg database, all packages are
    missing.
    """
    for tool in ("dpkg-query", "apt-get"):
        script = tmp_path / tool
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/{tool}.called\nexit 1\n")
        script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DEPS": "0"}
    done = project.run([project.REPO / "packages.sh", "build", "test"], env=environment)
    assert done.returncode == 0
    assert not (tmp_path / "apt-get.called").exists()
    named = {line.split()[0] for line in done.stderr.splitlines()[1:]}
    assert {"gcc", "clang", "libbpf-dev", "libdw-dev", "libcmocka-dev", "python3-pytest"} <= named
    assert "bpftrace" not in named


def test_packages_install_nothing_when_all_is_here(tmp_path):
    done = project.run(["bash", "-c", "apt-get() { echo called; }; dpkg-query() { echo installed; }; "
                      f"export -f apt-get dpkg-query; {project.REPO}/packages.sh build test bench"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_packages_chosen_by_what_apt_knows(tmp_path):
    """
    Of alternative packages, the first one that apt knows is installed. Optional packages that apt does not know are
    omitted.
    """
    fakes = {
        "id": "echo 0",
        "dpkg-query": '[ "$3" = gcc ] && echo installed',
        "apt-cache": 'case $3 in bpftool | clang-14 | clang-19) echo "  Candidate: (none)" ;; zsh) ;; *) echo "  Candidate: 1" ;; esac',
        "apt-get": f'echo "$@" >> {tmp_path}/log',
    }
    for tool, body in fakes.items():
        script = tmp_path / tool
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DEPS": "1"}
    done = project.run([project.REPO / "packages.sh", "build", "test"], env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (tmp_path / "log").read_text().splitlines()
    installed = line.split()
    assert installed[0] == "install" and "--no-install-recommends" in installed
    assert {"linux-tools-generic", "clang-17", "clang-18", "libbpf-dev"} <= set(installed)
    assert not {"bpftool", "clang-14", "clang-19", "zsh", "gcc", "optional"} & set(installed)


def test_kernel_types_regenerate():
    """The script generates the committed file from this kernel's BTF."""
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        pytest.skip("this kernel has no BTF")
    if not shutil.which("bpftool"):
        pytest.skip("bpftool is not in PATH")
    done = project.run([project.REPO / "vmlinux" / "regenerate"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == (project.REPO / "vmlinux" / "vmlinux.h").read_text()


def test_kernel_types_of_the_extract():
    """The loader's extract of the kernel's BTF has the structs of types.txt with all their fields."""
    listed = {}
    for line in (project.REPO / "vmlinux" / "types.txt").read_text().splitlines():
        if line.startswith("struct "):
            name, fields = line.removeprefix("struct ").split(":")
            listed[name] = fields.split()
    table = re.search(r"xp_kernel_structs\[\] = \{(.*?)\n\};", (project.REPO / "user" / "kernel" / "btf.c").read_text(), re.S)
    entries = re.findall(r'\{\s*"(\w+)",\s*\{(.*?)\}\s*\}', table[1], re.S)
    assert listed and {name: re.findall(r"\w+", fields) for name, fields in entries} == listed


SOURCES = ["Makefile", "*.sh", "bpf/*", "user/*", "user/*/*", "user/*/*/*", "include/*/*", "vmlinux/*", "examples/*",
           "tests/*/*.c", "tests/*/*.py", "tests/*.py"]


def test_every_source_names_its_licence():
    missing = [
        str(path.relative_to(project.REPO))
        for pattern in SOURCES
        for path in project.REPO.glob(pattern)
        if path.is_file() and not any("SPDX-License-Identifier: " in line for line in head(path))
    ]
    assert missing == []


def head(path: pathlib.Path):
    with path.open(encoding="utf-8") as file:
        return [file.readline() for _ in range(2)]


def test_recorder_is_known():
    """
    The list of BPF programs in the model, by which it recognizes xprof's own cost, has each program that runs in
    targets.
    """
    found = set()
    for path in (project.REPO / "bpf").glob("*.bpf.c"):
        for section, name in re.findall(r'^SEC\("([^"]+)"\)\nint (?:BPF_PROG\()?(\w+)', path.read_text(), re.M):
            if not section.startswith(("iter", "syscall", "socket")):
                found.add(name)
    known = set(re.findall(r'"(\w+)"', (project.REPO / "user/model/recorder.c").read_text().split("is_own_program")[1].split("};")[0]))
    assert found and found == known
