# SPDX-License-Identifier: BSD-2-Clause
"""
Virtual machines without hardware support: qemu, a kernel, and an initial RAM disk with busybox, xprof, the libraries of
both, and programs to record. The init, tests/kernels/guest, writes the results to a disk, as a tar file.
"""
import gzip
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile

import project
import recording

QEMU = "qemu-system-x86_64"
BUSYBOX = "/bin/busybox"
# Two machines on two idle CPUs need 3 s until their init and 80 s for all steps; with other load, twice as long.
BOOT_S = 60
DEADLINE_S = 270
# The last step may use its full time limit.
LIMIT_S = DEADLINE_S + 80
DISK_BYTES = 1 << 30
CONSOLE_LINES = 60


def why_not():
    """The reason why virtual machines cannot run here, or an empty string."""
    if not shutil.which(QEMU) or not pathlib.Path(BUSYBOX).exists():
        return f"no {QEMU} or no busybox here: `sudo make test-kernels` installs them"
    return ""


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
        """Adds a program and its shared objects."""
        self.add(name, path)
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", project.run(["ldd", path]).stdout):
            self.add(library.lstrip("/"), library)

    def compressed(self):
        self._entry("TRAILER!!!", 0, b"")
        return gzip.compress(bytes(self.data), 1)


class Machine:
    """
    A running virtual machine, in one thread. With a thread for each CPU, qemu's own translation may let one CPU execute
    a breakpoint that another has just removed from the kernel's code, and the kernel crashes.
    """

    def __init__(self, kernel, initrd, directory):
        self.kernel = kernel
        self.directory = directory
        self.console = directory / "console"
        self.disk = directory / "disk"
        self.console.touch()
        self.disk.touch()
        os.truncate(self.disk, DISK_BYTES)
        self.process = subprocess.Popen(
            [QEMU, "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "1536", "-nographic", "-no-reboot", "-nic", "none"]
            + ["-monitor", "none", "-serial", f"file:{self.console}"]
            + ["-drive", f"file={self.disk},format=raw,if=none,id=disk", "-device", "nvme,serial=out,drive=disk"]
            + ["-kernel", kernel, "-initrd", initrd]
            + ["-append", f"console=ttyS0 quiet panic=-1 DEADLINE_S={DEADLINE_S}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self):
        """Waits until it ends and returns a Guest."""
        out = self.directory / "out"
        ended = self._wait(BOOT_S)
        booted = self._has_booted()
        if not ended and booted:
            ended = self._wait(LIMIT_S - BOOT_S)
        self.end()
        _, messages = self.process.communicate()
        if self._has_archive():
            with tarfile.open(self.disk) as tar:
                tar.extractall(out, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(out)
            failure = ""
        else:
            what = "left nothing on its disk" if booted else "did not get to its init"
            limit_s = LIMIT_S if booted else BOOT_S
            what += f": {QEMU} ended with status {self.process.returncode}" if ended else f" within {limit_s} s"
            said = self.console.read_text(errors="replace").splitlines()[-CONSOLE_LINES:]
            failure = "\n".join([f"{self.kernel.name} {what}. {messages}Its console:", *said])
        self.disk.unlink()
        return Guest(self.kernel, out, failure)

    def _has_archive(self):
        """For Python a disk full of zeros is an archive without members."""
        with self.disk.open("rb") as disk:
            return disk.read(512)[257:262] == b"ustar"

    def _has_booted(self):
        """Whether the init has printed its first words."""
        return "guest: " in self.console.read_text(errors="replace")

    def _wait(self, timeout_s):
        """Whether it ended."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        return self.process.poll() is not None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()


class Guest:
    """The results of a virtual machine."""

    def __init__(self, kernel, directory, failure):
        self.release = kernel.name.replace("vmlinuz-", "")
        self.version = tuple(int(n) for n in re.findall(r"\d+", self.release)[:2])
        self.directory = directory
        self.failure = failure

    def path(self, name):
        path = self.directory / name
        assert path.exists(), f"the guest left no {name}. {self.steps()}"
        return path

    def text(self, name):
        return self.path(name).read_text(errors="replace")

    def status(self, name):
        return int(self.text(f"{name}.status"))

    def steps(self):
        """The steps that failed, as text."""
        lines = (self.directory / "steps").read_text().splitlines()
        bad = [line for line in lines if not line.endswith("with status 0")]
        hangs = [f"--- {path.name}\n{path.read_text(errors='replace')}" for path in self.directory.glob("*.hang")]
        return "\n".join([f"{len(lines) - len(bad)} steps ended well.", *bad, *hangs])

    def recording(self, name):
        status, messages = self.status(name), self.text(f"{name}.messages")
        return recording.Recording(self.directory / name, status, messages, self.text(f"{name}.output"))
