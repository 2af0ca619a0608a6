# SPDX-License-Identifier: BSD-2-Clause
"""
Virtual machines without hardware support: qemu, a kernel, and an initial RAM disk with busybox, xprof, their libraries,
and programs to record. The init, tests/kernels/guest, writes the results to a disk as a tar file.
"""
import gzip
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile
import time

import project
import recording

QEMU = "qemu-system-x86_64"
BUSYBOX = "/bin/busybox"
# Time limits in seconds. On two idle CPUs, two machines at a time start in 3 s, and all steps take 2 minutes; on a busy
# machine, much longer. The console shows a dead machine earlier.
BOOT_S = 120
STEP_S = 300
SILENCE_S = STEP_S + 60
DEADLINE_S = 900
LIMIT_S = DEADLINE_S + SILENCE_S
# After these lines on the console, the machine has this much time to end.
FATAL = re.compile(r"Oops|Kernel panic|BUG: |soft lockup|hard LOCKUP")
FATAL_S = 20
ATTACHING_KILLED = re.compile(r": (first-guard|attaching|attaching-late): (guard|both)$")
COMPLAINT = re.compile(r"Oops|BUG:|WARNING:|Call Trace|RIP:|soft lockup|hard LOCKUP|rcu: INFO|uprobe|blocked for more than")
POLL_S = 0.5
# The kernel restarts the machine after an oops or a lock-up; with -no-reboot, qemu then exits. Warnings are only shown.
PANIC = "panic=-1 oops=panic softlockup_panic=1 hung_task_panic=1 sysctl.kernel.hung_task_timeout_secs=60 loglevel=5"
DISK_BYTES = 1 << 30
CONSOLE_LINES = 60


def why_not():
    """Returns the reason why virtual machines cannot run here, or an empty string."""
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
    A virtual machine, emulated in one thread. With a thread per CPU, qemu's translation may let one CPU execute a
    breakpoint that another CPU has just removed from the kernel's code, which crashes the kernel.
    """

    def __init__(self, kernel, initrd, directory, parameters, steps):
        self.kernel = kernel
        self.directory = directory
        self.console = directory / "console"
        self.disk = directory / "disk"
        self.process = None
        self.argv = (
            [QEMU, "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "1536", "-nographic", "-no-reboot", "-nic", "none"]
            + ["-monitor", "none", "-serial", f"file:{self.console}"]
            + ["-drive", f"file={self.disk},format=raw,if=none,id=disk", "-device", "nvme,serial=out,drive=disk"]
            + ["-kernel", kernel, "-initrd", initrd, "-append"]
            + [f"console=ttyS0 {PANIC} {' '.join(parameters)} DEADLINE_S={DEADLINE_S} STEP_S={STEP_S} STEPS={','.join(steps)}"]
        )

    def run(self):
        """Starts the machine, waits until it ends, and returns a Guest."""
        self.console.touch()
        self.disk.touch()
        os.truncate(self.disk, DISK_BYTES)
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(self.argv, **quiet) as self.process:
            failure = self._watch()
            self.end()
            messages = self.process.stderr.read()
        out = self.directory / "out"
        if not failure and self._has_archive():
            with tarfile.open(self.disk) as tar:
                tar.extractall(out, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(out)
        else:
            failure = failure or f"ended too early: {QEMU} ended with status {self.process.returncode}"
            failure = "\n".join([f"{self.kernel.name} {failure}. {messages}{self.tail()}"])
        self.disk.unlink()
        return Guest(self, out, failure)

    def text(self):
        """Returns the text on the console."""
        return self.console.read_text(errors="replace")

    def tail(self):
        return "\n".join(["The end of its console:", *self.text().splitlines()[-CONSOLE_LINES:]])

    def _watch(self):
        """Waits until the machine ends. Returns an empty string, or why it must be killed."""
        begun = changed = time.monotonic()
        fatal, size = None, 0
        while not self._wait(POLL_S):
            now, text = time.monotonic(), self.text()
            if len(text) != size:
                changed, size = now, len(text)
            if not fatal and FATAL.search(text):
                fatal = now
            if fatal and now > fatal + FATAL_S:
                return "is dead"
            if "guest: " not in text and now > begun + BOOT_S:
                return f"did not get to its init within {BOOT_S} s"
            if now > changed + SILENCE_S:
                return f"hangs: its console has shown nothing new for {SILENCE_S} s"
            if now > begun + LIMIT_S:
                return f"has not ended within {LIMIT_S} s"
        return ""

    def _has_archive(self):
        """Returns whether the disk holds an archive. Python accepts a disk of zeros as an empty archive."""
        with self.disk.open("rb") as disk:
            return disk.read(512)[257:262] == b"ustar"

    def _wait(self, timeout_s):
        """Returns whether the machine ended."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        return self.process.poll() is not None

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()


class Guest:
    """The results of a virtual machine."""

    def __init__(self, machine, directory, failure):
        self.release = machine.kernel.name.replace("vmlinuz-", "")
        self.machine = machine
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

    def complaints(self):
        """
        Returns the lines of the kernel's log that report a fault of the kernel. After the kill of a guard that attaches
        (kills.c), some uprobes leak (shield.h).
        """
        found, killed = [], ""
        for line in self.text("kernel-log").splitlines():
            killed = line if "kills: " in line else killed
            expected = "leaking uprobe" in line and ATTACHING_KILLED.search(killed)
            if COMPLAINT.search(line) and not expected:
                found.append(line)
        return "\n".join(found)

    def steps(self):
        """Returns the steps that failed, as text."""
        lines = (self.directory / "steps").read_text().splitlines()
        bad = [line for line in lines if not line.endswith("with status 0")]
        hangs = [f"--- {path.name}\n{path.read_text(errors='replace')}" for path in self.directory.glob("*.hang")]
        return "\n".join([f"{len(lines) - len(bad)} steps ended well.", *bad, *hangs])

    def recording(self, name):
        status, messages = self.status(name), self.text(f"{name}.messages")
        return recording.Recording(self.directory / name, status, messages, self.text(f"{name}.output"))
