# SPDX-License-Identifier: BSD-2-Clause
"""
Recordings on other kernels than this one, in virtual machines without hardware support: qemu, a kernel of Debian's that
`make test-kernels` has fetched, and an initial RAM disk with busybox, xprof, what both need, and programs to record.
"""
import collections
import gzip
import json
import os
import pathlib
import re
import shutil
import stat
import tarfile

import pytest

import house
import recording
import victim

KERNELS = os.environ.get("KERNELS")
QEMU = "qemu-system-x86_64"
BOOT_S = 240


def kernels():
    return sorted((house.REPO / KERNELS).glob("vmlinuz-*")) if KERNELS else []


def version_of(kernel):
    return tuple(int(n) for n in re.findall(r"\d+", kernel.name)[:2])


@pytest.fixture(scope="module", params=kernels() or [None], ids=lambda k: k.name.replace("vmlinuz-", "") if k else "none")
def kernel(request):
    if request.param is None:
        pytest.skip("takes minutes for each kernel: `make test-kernels` runs it" if not KERNELS else "no kernel was fetched")
    if not shutil.which(QEMU) or not pathlib.Path("/bin/busybox").exists():
        pytest.skip(f"no {QEMU} or no busybox here: `sudo make test-kernels` installs them")
    return request.param


class Archive:
    """A cpio archive in the format of initial RAM disks: Documentation/driver-api/early-userspace/buffer-format.rst."""

    def __init__(self):
        self.data = bytearray()
        self.names = set()

    def _entry(self, name, mode, content):
        encoded = name.encode() + b"\0"
        fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08X" % f for f in fields) + encoded
        self.data += bytes(-len(self.data) % 4) + content
        self.data += bytes(-len(self.data) % 4)

    def _directories(self, name):
        for parent in reversed(pathlib.PurePath(name).parents):
            if str(parent) != "." and str(parent) not in self.names:
                self.names.add(str(parent))
                self._entry(str(parent), stat.S_IFDIR | 0o755, b"")

    def add(self, name, path):
        if name not in self.names:
            self.names.add(name)
            self._directories(name)
            self._entry(name, stat.S_IFREG | 0o755, pathlib.Path(path).read_bytes())

    def add_program(self, name, path):
        """With the shared objects that it needs."""
        self.add(name, path)
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", house.run(["ldd", path]).stdout):
            self.add(library.lstrip("/"), library)

    def compressed(self):
        self._entry("TRAILER!!!", 0, b"")
        return gzip.compress(bytes(self.data), 1)


@pytest.fixture(scope="module")
def programs(program):
    # Two with XRay's runtime, which tells the truth about their calls on the machine that runs the tests. clang 14
    # crashes on events when it optimizes.
    no_events = "-Wl,--defsym=__xray_CustomEvent=0,--defsym=__xray_TypedEvent=0"
    return {
        "calls": program("live/programs/calls.c", "-O2"),
        "throws": program("live/programs/throws.cpp", "-O2"),
        "events": program("live/programs/events.c", "-O0", "-DTYPED_EVENTS", house.no_runtime(), no_events),
        "victim": program("live/programs/victim.c", "-O2", house.no_runtime()),
        "stacks": program("live/programs/stacks.cpp", "-O2", "-g", "-fomit-frame-pointer", instrument=False),
    }


@pytest.fixture(scope="module")
def disk(xprof, programs, tmp_path_factory):
    """The initial RAM disk."""
    archive = Archive()
    archive.add("init", house.REPO / "tests/kernels/guest")
    archive.add("bin/busybox", "/bin/busybox")
    archive.add_program("bin/xprof", xprof.path)
    archive.add_program("bin/bpftool", shutil.which(victim.bpftool()))
    for name, path in programs.items():
        archive.add_program(f"bin/{name}", path)
    objects = tmp_path_factory.mktemp("bpf")
    for version in range(14, 20):
        if shutil.which(f"clang-{version}"):
            made = objects / str(version) / "xprof.bpf.o"
            done = house.run(["make", "-C", house.REPO, f"O={made.parent}", f"CLANG=clang-{version}", made])
            assert done.returncode == 0, done.stderr
            archive.add(f"bpf/clang-{version}.bpf.o", made)
    path = tmp_path_factory.mktemp("disk") / "initrd.gz"
    path.write_bytes(archive.compressed())
    return path


class Guest:
    """What a virtual machine has sent."""

    def __init__(self, release, directory, console):
        self.release = release
        self.directory = directory
        self.console = console

    def text(self, name):
        path = self.directory / name
        assert path.exists(), f"no {name} came from the guest:\n{self.console}"
        return path.read_text()

    def status(self, name):
        return int(self.text(f"{name}.status"))

    def recording(self, name):
        return recording.Recording(
            self.directory / name, self.status(name), self.text(f"{name}.messages"), self.text(f"{name}.output")
        )


@pytest.fixture(scope="module")
def guest(kernel, disk, tmp_path_factory):
    """Boots the kernel once and lets the guest do all its work."""
    directory = tmp_path_factory.mktemp("guest")
    console, archive = directory / "console", directory / "out.tar"
    done = house.run(
        [QEMU, "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1536", "-nographic", "-no-reboot", "-nic", "none"]
        + ["-monitor", "none", "-serial", f"file:{console}", "-serial", f"file:{archive}"]
        + ["-kernel", kernel, "-initrd", disk, "-append", "console=ttyS0 quiet panic=-1"],
        timeout=BOOT_S,
    )
    said = console.read_text(errors="replace") + done.stderr
    assert done.returncode == 0 and archive.exists() and tarfile.is_tarfile(archive), said
    out = directory / "out"
    with tarfile.open(archive) as tar:
        tar.extractall(out, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(out)
    return Guest(version_of(kernel), out, said)


pytestmark = pytest.mark.time_limit(BOOT_S + 60)


@pytest.fixture(scope="module")
def truth(programs, tmp_path_factory):
    def of(name):
        return recording.runtime_records(programs[name], tmp_path_factory.mktemp("truth"))

    return of


def has_multi(guest):
    return guest.release >= (6, 6)


def test_doctor(guest, kernel):
    assert guest.text("release").strip() == kernel.name.replace("vmlinuz-", "")
    assert guest.status("doctor") == 0
    doctor = guest.text("doctor")
    assert re.search(r"^ok +uprobes", doctor, re.M)
    assert re.search(r"^(ok|degraded) +uprobe_multi", doctor, re.M)[1] == ("ok" if has_multi(guest) else "degraded")


def test_programs_of_every_compiler_load(guest):
    loads = sorted(guest.directory.glob("load-*.status"))
    assert loads
    failed = {p.name: p.with_suffix("").read_text() for p in loads if int(p.read_text())}
    assert not failed, failed


@pytest.mark.parametrize("name", ["command", "shell", "running", "single", "arguments"])
def test_counts_are_exact(guest, xprof, programs, truth, name):
    recorded = guest.recording(name).ok()
    assert xprof("check", recorded.directory).returncode == 0
    log = recorded.log()
    found = recording.read_log(log.path, programs["calls"])
    calls = recording.calls(found)
    if name == "arguments":
        calls = collections.Counter({(f, recording.ENTER if k == recording.ENTER_ARGS else k): n for (f, k), n in calls.items()})
    assert calls == recording.calls(truth("calls"))
    assert recorded.totals["seen"] == recorded.totals["written"]
    single = name == "single" or not has_multi(guest)
    assert recorded.manifest["attach"]["method"] == ("perf_uprobe" if single else "uprobe_multi")
    assert recorded.manifest["kernel"]["release"] == guest.text("release").strip()
    if name in ("running", "single"):
        assert guest.text(f"{name}.target").strip() == "0"


def test_exceptions(guest, programs, truth):
    log = guest.recording("throws").ok().log()
    found = recording.calls(recording.read_log(log.path, programs["throws"]))
    expected = recording.calls(truth("throws"))
    entered = {name: n for (name, kind), n in expected.items() if kind == recording.ENTER}
    assert {name: found[name, recording.ENTER] for name in entered} == entered
    assert guest.text("throws.target").strip() == "0"


def test_events(guest, xprof):
    recorded = guest.recording("events").ok()
    assert xprof("check", recorded.directory).returncode == 0
    dump = xprof("dump", recorded.log().path).stdout
    # Three sizes, through five functions and six; the log has some custom events of its own.
    assert dump.count("TypedEvent") == 18 and dump.count("CustomEvent") >= 15


def test_whole_stacks(guest):
    """Of a program without frame pointers."""
    recorded = guest.recording("stacks")
    assert recorded.status == 0, recorded.messages
    samples = recorded.manifest["samples"]
    assert samples["lost"] == 0 and samples["stacks"]["seen"] >= 100, samples
    assert samples["stacks"]["complete"] >= 0.99 * samples["stacks"]["seen"], samples["stacks"]


def test_target_survives(guest):
    """A busy one, recorded and left by killed recorders; of what they left, nothing remains."""
    assert guest.text("survives").splitlines() == ["auto 1 0", "single 1 0"]
    recorded = guest.recording("busy")
    assert recorded.status == 0 and recorded.adds_up().totals["written"] > 0
    links = json.loads(guest.text("links") or "[]")
    assert not [link for link in links if link.get("type") in ("perf_event", "uprobe_multi", "kprobe_multi")]
    assert guest.text("kernel-messages") == ""
