# SPDX-License-Identifier: BSD-2-Clause
"""The programs under measurement, and what traces them. Everything here is a context that undoes what it did."""
import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import project

DIR = project.OUTPUT / "bench"
TRACEFS = pathlib.Path("/sys/kernel/tracing")
EVENT = "xprof_bench/entry"
BREAKPOINT, PATCH = b"\xcc", b"\x41"
STOP_S = 30


class BenchError(Exception):
    """Why there is no figure."""


def wait_until(condition, what, timeout_s=20):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"{what}: not within {timeout_s} s")
        time.sleep(0.01)


def stop(process, signal_number=None):
    """Ends a process, by a signal or, without one, by the end of its input; by force when that does not help."""
    try:
        if signal_number:
            process.send_signal(signal_number)
        else:
            process.stdin.close()
        process.wait(STOP_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def running(argv, signal_number=None, ok=(0,), **options):
    """A process until the end of the block, which must then end well."""
    name = pathlib.Path(str(argv[0])).name
    with open(DIR / f"{name}.err", "w+", encoding="utf-8", errors="replace") as errors:
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors, **options}
        process = subprocess.Popen([str(a) for a in argv], text=True, **options)
        try:
            yield process
        finally:
            stop(process, signal_number)
        if process.returncode not in ok:
            errors.seek(0)
            raise BenchError(f"{name}: exit status {process.returncode}: {errors.read().strip()}")


class Target:
    """A program of this directory while it runs."""

    def __init__(self, name, process):
        self.path = DIR / name
        self.process = process
        self.pid = process.pid

    def ask(self, command):
        """The number with which it answers: see target.c."""
        return int(self.answer(command))

    def answer(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise BenchError(f"{self.path.name} ended at '{command}'")
        return answer

    @functools.cached_property
    def sleds(self):
        """File offset of each sled, in the order of xprof's list."""
        listed = project.run([project.XPROF, "list", "--sleds", self.path])
        if listed.returncode:
            raise BenchError(f"xprof list: {listed.stderr.strip()}")
        return [line.split()[3] for line in listed.stdout.splitlines() if not line.startswith("#")]

    def traced(self):
        """Whether its first sled has a breakpoint or is patched."""
        address = self.address(int(self.sleds[0], 0))
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(1) in (BREAKPOINT, PATCH)

    def address(self, offset):
        """Returns the address of the code at this file offset."""
        for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            fields = line.split()
            start, end = (int(x, 16) for x in fields[0].split("-"))
            into = offset - int(fields[2], 16)
            if fields[-1] == str(self.path) and 0 <= into < end - start:
                return start + into
        raise BenchError(f"{self.path.name} has no sled in its memory")


@contextlib.contextmanager
def target(name, cpu=None):
    """Runs a program of the bench until the `with` block ends. cpu: the CPU on which it runs, or None for any."""
    pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
    with running([DIR / name], preexec_fn=pin) as process:
        yield Target(name, process)


# Ways of tracing: contexts with the target's first sled under a breakpoint while the block runs. Each one's line of
# documentation is its name in the table. xprof and the empty program are on all sleds, the others on the first.


@contextlib.contextmanager
def nothing(_):
    """no probe"""
    yield


@contextlib.contextmanager
def empty(traced):
    """empty BPF program"""
    with running([DIR / "empty", DIR / "empty.bpf.o", traced.pid, traced.path, *traced.sleds]) as process:
        if process.stdout.readline() != "attached\n":
            raise BenchError("the empty program cannot be attached")
        yield


def peak_rss_bytes(pid):
    """The most memory that the process has had so far; 0 when it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


class Recording:
    """xprof record, and what it did, once its block has ended."""

    def __init__(self):
        self.process = None
        self.manifest = None
        self.cpu_s = None
        self.peak_rss_bytes = 0

    def cpu_now_s(self):
        """Returns the CPU time of its main thread so far."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e9

    @contextlib.contextmanager
    def standing_still(self):
        """Stops xprof while the block runs."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def wait(self, process):
        """Waits for the process, which is about to exit."""
        while True:
            # Not ru_maxrss: over exec, the kernel keeps the peak of the process that it was forked from, which is ours.
            self.peak_rss_bytes = max(self.peak_rss_bytes, peak_rss_bytes(process.pid))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s = usage.ru_utime + usage.ru_stime

    def watch_end(self, process, directory):
        """Waits for xprof, which writes its files now."""
        self.wait(process)
        if process.returncode == 0:
            self.manifest = json.loads((directory / "manifest.json").read_text())


@contextlib.contextmanager
def xprof(traced, mode="probe", *options):
    """xprof record"""
    directory = DIR / "xprof.out"
    shutil.rmtree(directory, ignore_errors=True)
    recording = Recording()
    try:
        argv = [project.XPROF, "record", f"--call-mode={mode}", "-p", traced.pid, "-o", directory, *options]
        with running(argv, signal.SIGINT) as process:
            recording.process = process
            # It says when it is ready; the first breakpoint is there a little earlier.
            wait_until(lambda: "recording" in (DIR / "xprof.err").read_text() or process.poll() is not None,
                       "xprof record")
            yield recording
            process.send_signal(signal.SIGINT)
            recording.watch_end(process, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def change_events(command):
    """Adds a uprobe event to tracefs or removes one. Opened for writing, the file would lose all events."""
    fd = os.open(TRACEFS / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, command.encode())
    finally:
        os.close(fd)


def remove_event():
    """Takes our event away, if there is one."""
    if EVENT in (TRACEFS / "uprobe_events").read_text():
        change_events(f"-:{EVENT}")


@contextlib.contextmanager
def uprobe_event(traced):
    """A tracefs event on the first sled."""
    remove_event()
    change_events(f"p:{EVENT} {traced.path}:{traced.sleds[0]}")
    try:
        yield EVENT.replace("/", ":")
    finally:
        remove_event()


@contextlib.contextmanager
def perf_record(traced, *options):
    data, control, answer = DIR / "perf.data", DIR / "perf.control", DIR / "perf.ack"
    with contextlib.ExitStack() as stack:
        event = stack.enter_context(uprobe_event(traced))
        for file in (data, control, answer):
            file.unlink(missing_ok=True)
            stack.callback(file.unlink, missing_ok=True)
        for fifo in (control, answer):
            os.mkfifo(fifo)
        argv = ["perf", "record", "-q", "-e", event, "-p", traced.pid, "-o", data, *options]
        # Disabled until told by the fifo, which then answers: so we know that it is ready. perf ends by our signal.
        argv += ["-D", "-1", f"--control=fifo:{control},{answer}"]
        process = stack.enter_context(running(argv, signal.SIGINT, ok=(0, -signal.SIGINT)))
        wait_until(lambda: traced.traced() or process.poll() is not None, "perf record")
        if process.poll() is None:
            control.write_text("enable\n")
            with open(answer, encoding="ascii") as answers:
                answers.readline()
        yield


def perf(traced):
    """perf record"""
    return perf_record(traced)


def perf_call_graph(traced):
    """perf record -g"""
    return perf_record(traced, "-g")


@contextlib.contextmanager
def bpftrace(traced):
    """bpftrace, counting"""
    program = f"uprobe:{traced.path}:{traced.sleds[0]} {{ @ = count(); }}"
    with running(["bpftrace", "-p", traced.pid, "-e", program], signal.SIGINT):
        wait_until(traced.traced, "bpftrace")
        yield


# Tracers of both ends of the function.


@contextlib.contextmanager
def perf_both(traced):
    """perf record, uprobe and uretprobe"""
    events = [f"xprof_bench/{name}" for name in ("entry", "exit")]
    remove_events(events)
    with contextlib.ExitStack() as stack:
        stack.callback(remove_events, events)
        for event, kind in zip(events, "pr"):
            change_events(f"{kind}:{event} {traced.path}:{traced.sleds[0]}")
        data = DIR / "perf.data"
        stack.callback(data.unlink, missing_ok=True)
        argv = ["perf", "record", "-q", "-p", traced.pid, "-o", data]
        argv += [word for event in events for word in ("-e", event.replace("/", ":"))]
        process = stack.enter_context(running(argv, signal.SIGINT, ok=(0, -signal.SIGINT)))
        wait_until(lambda: traced.traced() or process.poll() is not None, "perf record")
        time.sleep(0.3)
        yield


def remove_events(events):
    there = (TRACEFS / "uprobe_events").read_text()
    for event in events:
        if event in there:
            change_events(f"-:{event}")


@contextlib.contextmanager
def bpftrace_both(traced):
    """bpftrace, counting, uprobe and uretprobe"""
    places = f"uprobe:{traced.path}:traced, uretprobe:{traced.path}:traced"
    with running(["bpftrace", "-p", traced.pid, "-e", f"{places} {{ @ = count(); }}"], signal.SIGINT):
        wait_until(traced.traced, "bpftrace")
        time.sleep(0.3)
        yield


@contextlib.contextmanager
def runtime():
    """XRay's runtime, FDR mode (in the process)"""
    options = ("patch_premain=true xray_mode=xray-fdr verbosity=0 xray_fdr_log_func_duration_threshold_us=0 "
               f"xray_logfile_base={DIR}/runtime.")
    try:
        with running([DIR / "target-runtime"], env={**os.environ, "XRAY_OPTIONS": options}) as process:
            yield Target("target-runtime", process)
    finally:
        for log in DIR.glob("runtime.*"):
            log.unlink()


@contextlib.contextmanager
def uftrace():
    """uftrace record -P (in the process)"""
    directory = DIR / "uftrace.data"
    shutil.rmtree(directory, ignore_errors=True)
    try:
        with running(["uftrace", "record", "-P", "traced", "-d", directory, DIR / "target-uftrace"]) as process:
            yield Target("target-uftrace", process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
