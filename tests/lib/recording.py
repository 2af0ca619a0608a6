# SPDX-License-Identifier: BSD-2-Clause
"""Runs recordings, and reads their files with the tools that users have."""
import array
import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import project

# Seconds to wait for events that occur immediately if the process gets a CPU. Shorter than the time limit of a test.
READY_S = 60
END_S = 100

ENTER, EXIT, TAIL, ENTER_ARGS = "function-enter", "function-exit", "function-tail-exit", "function-enter-arg"
BASIC_KINDS = (ENTER, EXIT, TAIL)  # count entries with arguments as entries
FUNCTION_KINDS = {ENTER, EXIT, TAIL, ENTER_ARGS}

RECORD = re.compile(
    r"- \{ type: \d+, func-id: (?P<id>\d+), function: (?P<quote>'?)(?P<name>.*?)(?P=quote)"
    r"(?:, args: \[ ?(?P<args>[^\]]*?) ?\])?, cpu: (?P<cpu>\d+),"
    r" thread: (?P<thread>-?\d+),(?: process: (?P<process>-?\d+),)? kind: (?P<kind>[a-z-]+), tsc: (?P<tsc>\d+)"
    r"(?:, data: (?P<data>.*))? \}$"
)
RECORDING = re.compile(r"^xprof: recording\b", re.M)
SEEN = re.compile(r"(\d+) events? seen = (\d+) written \+ (\d+) filtered \+ (\d+) lost(?: \+ (\d+) overwritten)?$", re.M)

FILTERED = re.compile(r"\nxprof:   (\d+) filtered = (\d+ .*)$", re.M)
# Members of totals.filtered in the manifest, and their labels in the summary.
REASONS = {
    "unmatched_exit": "exits without an entry", "min_duration": "of calls shorter than --min-duration",
    "too_deep": "of too deep calls", "outside": "while sleds were attached or detached",
    "other_process": "of other processes",
}


class Record:
    __slots__ = ("id", "name", "args", "cpu", "thread", "kind", "tsc")

    def __init__(self, match):
        self.id = int(match["id"])
        self.name = match["name"]
        self.args = [int(a) for a in match["args"].split(",")] if match["args"] else []
        self.cpu = int(match["cpu"])
        self.thread = int(match["thread"])
        self.kind = match["kind"]
        self.tsc = int(match["tsc"])


def filtered(messages, at):
    """Returns {reason: number} of the line after the line that ends at `at`. Empty if that line lists no reasons."""
    found = FILTERED.match(messages, at)
    if not found:
        return {}
    reasons = {text: int(number) for number, text in (part.split(" ", 1) for part in found[2].split(" + "))}
    assert int(found[1]) == sum(reasons.values()), messages
    return reasons


def signal_twice(process, number, pause_s):
    """
    Sends a signal twice, more than a second apart: xprof counts signals with less than a second between them as one.
    Stops xprof in between, so that the second signal arrives before xprof reacts further.
    """
    process.send_signal(number)
    time.sleep(pause_s)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)


def assert_ended_by(process, number, messages, directory):
    """Checks that two signals ended the recording: xprof itself, or the attaching, which leaves no files."""
    if process.returncode == 1:
        assert "stopped while attaching: nothing was recorded" in messages, messages
        assert not directory.exists()
    else:
        assert process.returncode in (0, -number), messages


def read_log(path, instr_map=None, version=None):
    """Returns the records of an XRay log of any mode, as llvm-xray prints them."""
    tool = project.LlvmXray(version or project.LLVM_VERSIONS[-1])
    names = ["-symbolize", f"-instr_map={instr_map}"] if instr_map else []
    done = tool("convert", "-f", "yaml", *names, path)
    assert done.returncode == 0, f"{tool.path} convert {path}: exit status {done.returncode}\n{done.stderr}"
    records = [Record(m) for m in map(RECORD.search, done.stdout.splitlines()) if m]
    listed = done.stdout.count("func-id:")
    assert len(records) == listed, f"{listed - len(records)} lines of llvm-xray's are not understood"
    return records


def basic_records(path, version=None, timeout=project.RUN_S):
    """Converts all records to XRay's basic mode, 32 bytes each: llvm-xray's fastest output for a large log."""
    tool = project.LlvmXray(version or project.LLVM_VERSIONS[-1])
    raw = path.with_suffix(".raw")
    done = tool("convert", "-f", "raw", "-o", raw, path, timeout=timeout)
    assert done.returncode == 0, f"{tool.path} convert {path}: exit status {done.returncode}\n{done.stderr}"
    data = raw.read_bytes()[32:]  # after the header
    raw.unlink()
    assert len(data) % 32 == 0
    return data


@functools.lru_cache(maxsize=16)
def function_names(instr_map, changed):
    """Returns {function ID: name}."""
    done = project.LlvmXray(project.LLVM_VERSIONS[-1])("extract", "-symbolize", instr_map)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^- \{ id: (\d+), .* function-name: ('?)(.*?)\2, version: \d+ \}$", done.stdout, re.M)
    return {int(number): name for number, _, name in found}


def calls(records):
    """Returns how often each function was entered and left: {(function, kind): count}."""
    return collections.Counter((r.name, r.kind) for r in records if r.kind in FUNCTION_KINDS)


def calls_by_thread(records):
    """Returns calls() of each thread, without thread IDs, which differ from run to run."""
    threads = collections.defaultdict(list)
    for record in records:
        threads[record.thread].append(record)
    return sorted(sorted(calls(r).items()) for r in threads.values())


def runtime_records(program, directory, *args, threshold_us=0):
    """Runs the program with XRay's own runtime in basic mode, which loses no call, and returns its records."""
    done = project.run(
        [program, *args],
        cwd=directory,
        env={
            "XRAY_OPTIONS": "patch_premain=true xray_mode=xray-basic xray_logfile_base=truth.",
            "XRAY_BASIC_OPTIONS": (
                f"func_duration_threshold_us={threshold_us} max_stack_depth=1024 thread_buffer_size=4096"
            ),
        },
    )
    assert done.returncode == 0, done.stderr
    (log,) = pathlib.Path(directory).glob("truth.*")
    return read_log(log, program)


def printed_calls(output):
    """Returns the calls that the program itself counted: {function: calls}."""
    return {m[1]: int(m[2]) for m in re.finditer(r"^calls (.+) (\d+)$", output, re.M)}


MODES = ("probe", "patch", "memory")
CLANGS = [f"clang-{v}" for v in project.clang_versions()] or [None]


def in_turn(names, *values):
    """
    Returns a mark that runs the test with each value of each list, but not with each combination. Shorter lists start
    again.
    """
    rows = [[of_name[i % len(of_name)] for of_name in values] for i in range(max(map(len, values)))]
    return pytest.mark.parametrize(names, rows, indirect=[name for name in names.split(", ") if name == "clang"])


class Log:
    """The log of one program, and its entry in the manifest."""

    def __init__(self, directory, entry):
        self.entry = entry
        self.pid = entry["pid"]
        self.path = directory / entry["log"]
        side = self.path.with_suffix(".xray.so")
        self.side = side if side.exists() else None
        self.instr_map = self.side or entry["exe"]

    def records(self, version=None):
        return read_log(self.path, self.instr_map, version)

    def calls(self):
        """Returns calls(self.records()) faster, for large logs. Counts an entry with arguments as an entry."""
        names = function_names(self.instr_map, os.stat(self.instr_map).st_mtime_ns)
        data = basic_records(self.path)
        ids = array.array("I", data)[1::8]
        found = collections.Counter()
        for (kind, number), count in collections.Counter(zip(data[3::32], ids)).items():
            if kind < len(BASIC_KINDS):
                found[names.get(number, str(number)), BASIC_KINDS[kind]] += count
        return found

    def synthesized(self, records):
        """Returns {function: count} of exits in the log that xprof synthesized."""
        names = {r.id: r.name for r in records}
        return {names[one["id"]]: one["exits"] for one in self.entry["synthesized_by_function"]}


class Recording:
    """A finished recording: xprof's status and messages, and the output of the command with `-- CMD`."""

    def __init__(self, directory, status, messages, output):
        self.directory = directory
        self.status = status
        self.messages = messages
        self.output = output

    @functools.cached_property
    def manifest(self):
        path = self.directory / "manifest.json"
        assert path.exists(), f"xprof ended with status {self.status} and no manifest:\n{self.messages}"
        return json.loads(path.read_text())

    @property
    def totals(self):
        return self.manifest["totals"]

    @property
    def logs(self):
        return [Log(self.directory, p) for p in self.manifest["processes"] if p.get("log")]

    def log(self):
        """Returns the log of a recording that has one log."""
        logs = self.logs
        assert len(logs) == 1, f"{len(logs)} logs instead of one:\n{self.messages}"
        return logs[0]

    def ok(self):
        """Checks that the recording succeeded, lost no events, and that its numbers add up. Returns itself."""
        assert self.status == 0, f"xprof ended with status {self.status}:\n{self.messages}"
        self.adds_up()
        assert self.totals["lost"]["total"] == 0, f"records were lost:\n{self.totals}\n{self.messages}"
        return self

    def adds_up(self):
        """
        Checks that seen = written + filtered + lost + overwritten: in total, for each process and thread, and in the
        summary.
        """
        processes = self.manifest["processes"]
        for part in [self.totals, *processes, *(t for p in processes for t in p["threads"])]:
            elsewhere = part["filtered"]["total"] + part["lost"]["total"] + part["overwritten"]
            assert part["seen"] == part["written"] + elsewhere, part
            reasons = {k: v for k, v in part["filtered"].items() if k != "total"}
            assert part["filtered"]["total"] == sum(reasons.values()), part
        totals = self.totals
        summary = (totals["seen"], totals["written"], totals["filtered"]["total"], totals["lost"]["total"])
        summary += (totals["overwritten"],)
        found = SEEN.search(self.messages)
        assert found and tuple(map(int, found.groups("0"))) == summary, f"{summary} and the summary:\n{self.messages}"
        reasons = {text: totals["filtered"][name] for name, text in REASONS.items() if totals["filtered"][name]}
        assert filtered(self.messages, found.end()) == reasons, f"{reasons} and the summary:\n{self.messages}"
        return self


LOWERED = {}  # nice values of threads before lower_priority()


def lower_priority(pid):
    """Lowers the priority of a process that its test does not need any more, but may look at."""
    with contextlib.suppress(OSError, ValueError):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            tid = int(thread.name)
            LOWERED.setdefault(tid, os.getpriority(os.PRIO_PROCESS, tid))
            os.setpriority(os.PRIO_PROCESS, tid, 15)


def restore_priority(pid):
    """Restores the priority of a process that its test records again."""
    with contextlib.suppress(OSError, ValueError):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if int(thread.name) in LOWERED:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWERED.pop(int(thread.name)))


class Session:
    """A running `xprof record`. After it, its targets get a low priority: analyzers have the CPU."""

    def __init__(self, xprof, directory, args):
        self.directory = directory
        self.targets = [pid for before, pid in zip(args, args[1:]) if before == "-p"]
        for pid in self.targets:
            restore_priority(pid)
        self.messages_path = directory.parent / f"{directory.name}.messages"
        with open(self.messages_path, "wb") as messages:
            self.process = subprocess.Popen(
                [xprof.path, "record", "-o", directory, *map(str, args)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
            )

    def messages(self):
        return self.messages_path.read_text(errors="replace")

    def wait_attached(self):
        wait_until(
            lambda: RECORDING.search(self.messages()) or self.process.poll() is not None,
            lambda: f"xprof does not attach:\n{self.messages()}",
        )
        assert self.process.poll() is None, f"xprof ended:\n{self.messages()}"
        return self

    def stop(self):
        """Sends SIGINT, as ^C does, and returns the recording."""
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self):
        output, _ = self.process.communicate(timeout=END_S)
        for pid in self.targets:
            lower_priority(pid)
        return Recording(self.directory, self.process.returncode, self.messages(), output)


def wait_until(condition, message, limit_s=READY_S):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, message() if callable(message) else message
        time.sleep(0.01)
