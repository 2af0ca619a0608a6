# SPDX-License-Identifier: BSD-2-Clause
"""Facts about the project and the machine that tests use."""
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import warm_start

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
OUTPUT = REPO / os.environ.get("O", ".output")
XPROF = REPO / os.environ.get("XPROF", "xprof")
CHECK = OUTPUT / "tests" / "check" / "xprof-check"
CLANG = os.environ.get("CLANG", "clang")


# Longer than the time limit of a test, which excludes time spent waiting for a CPU.
RUN_S = 400


def run(argv, timeout=RUN_S, **options):
    """Runs a command with text output and input from /dev/null. Returns the finished process."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([a if isinstance(a, bytes) else str(a) for a in argv], text=True, errors="replace", timeout=timeout, check=False, **options)


class Xprof:
    def __init__(self, path):
        self.path = path

    def __call__(self, *args, **options):
        return run([self.path, *args], **options)

    @staticmethod
    def check(*args, **options):
        """Checks files with the strict checkers of tests/check."""
        return run([CHECK, *args], **options)

    @staticmethod
    def dump(*args, **options):
        """Prints files record by record."""
        return run([CHECK, "--dump", *args], **options)


def wrapped(xprof, tmp_path, *before):
    """Returns a script that runs xprof through another program: wrapped(xprof, tmp_path, "prlimit", "--fsize=1000")."""
    path = tmp_path / f"xprof-by-{os.path.basename(before[0])}"
    path.write_text(f"#!/bin/sh\nexec {shlex.join(map(str, before))} {shlex.quote(str(xprof.path))} \"$@\"\n")
    path.chmod(0o755)
    return Xprof(path)


def llvm_versions():
    """Returns the LLVM versions with an installed llvm-xray, as numbers."""
    found = {int(m.group(1)) for p in pathlib.Path("/usr/bin").glob("llvm-xray-*") if (m := re.search(r"-(\d+)$", p.name))}
    return sorted(found)


LLVM_VERSIONS = llvm_versions()


def clang_versions():
    """Returns the installed clang versions that have an llvm-xray of the same version."""
    return [v for v in LLVM_VERSIONS if shutil.which(f"clang-{v}")]


class LlvmXray:
    def __init__(self, version):
        self.version = version
        self.path = f"/usr/bin/llvm-xray-{version}"

    warm = {}

    def __call__(self, *args, timeout=RUN_S, cwd=None):
        key = os.getpid(), self.path
        if key not in self.warm:
            preload = Programs(OUTPUT / "tests" / "programs")("lib/warm_start.c", "-shared", "-fPIC", "-ldl", instrument=False)
            self.warm[key] = warm_start.WarmProgram(self.path, preload)
        try:
            return self.warm[key].run(args, timeout, cwd)
        except BaseException:
            self.warm.pop(key).close()
            raise


class Programs:
    """Builds programs with sleds once, and keeps them in the output directory."""

    FLAGS = ("-g", "-fxray-instrument", "-fxray-instruction-threshold=1", "-pthread")

    def __init__(self, directory):
        self.directory = directory

    def __call__(self, source, *flags, clang=None, instrument=True):
        """Builds a file, relative to tests/, and returns the program. flags follow the standard flags."""
        path = REPO / "tests" / source
        return self._build(path.stem, path.read_text(), path.suffix, flags, clang, instrument, path.parent)

    def text(self, name, source, *flags, clang=None, instrument=True, suffix=".c"):
        return self._build(name, source, suffix, flags, clang, instrument, None)

    def _build(self, name, text, suffix, flags, clang, instrument, include):
        clang = clang or CLANG
        if suffix in (".cpp", ".cc"):
            clang = clang.replace("clang", "clang++")
        flags = [*(self.FLAGS if instrument else ()), *map(str, flags)]
        if include:
            flags.append(f"-I{include}")
        key = hashlib.sha256("\0".join([version_of(clang), text, suffix, *flags]).encode()).hexdigest()[:12]
        path = self.directory / f"{name}.{key}"
        if not path.exists():
            self._compile_once(path, text, suffix, flags, clang)
        return self._own_copy(path)

    def _own_copy(self, path):
        """Returns a copy for this worker: a probe is in a file, so it is in all processes that run this file."""
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        if not worker:
            return path
        copy = path.parent / worker / path.name
        if not copy.exists() or copy.stat().st_mtime < path.stat().st_mtime:
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(path, copy)
        return copy

    def _compile_once(self, path, text, suffix, flags, clang):
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(path.with_name(path.name + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():  # another worker has built it meanwhile
                self._compile(path, text, suffix, flags, clang)

    def _compile(self, path, text, suffix, flags, clang):
        source = path.with_name(path.name + suffix)
        source.write_text(text)
        new = path.with_name(path.name + ".new")
        # Sources first: libraries among the flags must follow the sources.
        made = run([clang, source, *flags, "-o", new])
        if made.returncode:
            raise AssertionError(f"{clang} {' '.join(flags)}\n{made.stderr}")
        new.rename(path)


@functools.lru_cache(maxsize=None)
def version_of(tool):
    return run([tool, "--version"]).stdout


@functools.lru_cache(maxsize=None)
def no_runtime(clang=None):
    """Returns the flag that keeps XRay's runtime out of the link. Older versions of clang spell it differently."""
    new = "-fno-xray-link-deps"
    known = run([clang or CLANG, new, "-E", "-x", "c", "/dev/null"]).returncode == 0
    return new if known else "-fnoxray-link-deps"


def mount_kernel_filesystems():
    """Mounts what init mounts on most machines; containers and small guests may lack it."""
    for kind, place in (("tracefs", "/sys/kernel/tracing"), ("bpf", "/sys/fs/bpf")):
        if os.path.isdir(place) and not os.path.ismount(place):
            run(["mount", "-t", kind, kind, place])


@functools.lru_cache(maxsize=None)
def why_no_uprobes():
    """Returns the reason why no process can be probed here, or an empty string."""
    for path, what in (
        ("/sys/bus/event_source/devices/uprobe/type", "this kernel has no uprobes"),
        ("/sys/kernel/btf/vmlinux", "this kernel has no BTF"),
    ):
        if not os.path.exists(path):
            return what
    return ""


def bpftool():
    for tool in ("bpftool", "/usr/sbin/bpftool"):
        if shutil.which(tool):
            return tool
    return None
