# SPDX-License-Identifier: BSD-2-Clause
"""What the tests know of the project and the machine."""
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

REPO = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = REPO / os.environ.get("O", ".output")
XPROF = REPO / os.environ.get("XPROF", "xprof")
CLANG = os.environ.get("CLANG", "clang")


def run(argv, timeout=60, **options):
    """A finished process with text output; input from /dev/null."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([str(a) for a in argv], text=True, errors="replace", timeout=timeout, check=False, **options)


class Xprof:
    def __init__(self, path):
        self.path = path

    def __call__(self, *args, **options):
        return run([self.path, *args], **options)


def llvm_versions():
    """LLVM versions whose llvm-xray is here, as numbers."""
    found = {int(m.group(1)) for p in pathlib.Path("/usr/bin").glob("llvm-xray-*") if (m := re.search(r"-(\d+)$", p.name))}
    return sorted(found)


LLVM_VERSIONS = llvm_versions()


def clang_versions():
    """Versions of clang that are here with an llvm-xray of the same version."""
    return [v for v in LLVM_VERSIONS if shutil.which(f"clang-{v}")]


class LlvmXray:
    def __init__(self, version):
        self.version = version
        self.path = f"/usr/bin/llvm-xray-{version}"

    def __call__(self, *args, **options):
        return run([self.path, *args], **options)


class Programs:
    """Programs with sleds, built once and kept under the output directory."""

    FLAGS = ("-g", "-fxray-instrument", "-fxray-instruction-threshold=1", "-pthread")

    def __init__(self, directory):
        self.directory = directory

    def __call__(self, source, *flags, clang=None, instrument=True):
        """From a file, relative to tests/. flags follow ours."""
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
        if path.exists():
            return path
        self.directory.mkdir(parents=True, exist_ok=True)
        source = self.directory / f"{name}.{key}{suffix}"
        source.write_text(text)
        new = path.with_suffix(f".{os.getpid()}")
        # Sources first: libraries among the flags must follow them.
        made = run([clang, source, *flags, "-o", new])
        if made.returncode:
            raise AssertionError(f"{clang} {' '.join(flags)}\n{made.stderr}")
        new.rename(path)
        return path


@functools.lru_cache(maxsize=None)
def version_of(tool):
    return run([tool, "--version"]).stdout


@functools.lru_cache(maxsize=None)
def no_runtime(clang=None):
    """The flag that leaves XRay's runtime out of the link; older clangs spell it in another way."""
    new = "-fno-xray-link-deps"
    known = run([clang or CLANG, new, "-E", "-x", "c", "/dev/null"]).returncode == 0
    return new if known else "-fnoxray-link-deps"


def mount_kernel_filesystems():
    """As init does on most machines; containers and small guests may lack them."""
    for kind, place in (("tracefs", "/sys/kernel/tracing"), ("bpf", "/sys/fs/bpf")):
        if os.path.isdir(place) and not os.path.ismount(place):
            run(["mount", "-t", kind, kind, place])


@functools.lru_cache(maxsize=None)
def why_no_uprobes():
    """Why no process can be probed here; an empty text when one can."""
    for path, what in (
        ("/sys/bus/event_source/devices/uprobe/type", "this kernel has no uprobes"),
        ("/sys/kernel/btf/vmlinux", "this kernel has no BTF"),
    ):
        if not os.path.exists(path):
            return what
    return ""


def breakpoints(pid):
    """The number of [uprobes] areas of a process: what a recording leaves, and a mark that it was probed."""
    return pathlib.Path(f"/proc/{pid}/maps").read_text().count("[uprobes]")
