# SPDX-License-Identifier: BSD-2-Clause
"""Checks the flight recorder: it keeps the newest records in bounded memory and writes them on request."""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import project
import recording
import targets
from recording import ENTER, EXIT, TAIL

pytestmark = pytest.mark.uprobes

BITS = 16


def truth(first, rounds):
    """Returns the calls of live/programs/rounds.c, from the first round on."""
    for i in range(first, first + rounds):
        yield "round_of", ENTER
        for bit in range(BITS):
            name = "one" if i >> bit & 1 else "zero"
            yield name, ENTER
            yield name, TAIL
        yield "round_of", "left"


PER_ROUND = 2 * BITS + 2


@pytest.fixture
def rounds(program, waiting):
    """Starts the program, which waits for SIGUSR1: rounds(count, "crash") -> Popen."""
    path = program("live/programs/rounds.c", "-O2", project.no_runtime())
    return lambda count, what: waiting(path, count, what)


class FlightLog:
    def __init__(self, recorded, flight, exe):
        self.flight = flight
        self.path = recorded.directory / flight["log"]
        self.records = [r for r in recording.read_log(self.path, exe) if r.kind in recording.FUNCTION_KINDS]
        self.entries = flight["synthesized_entries"]
        self.calls = [(r.name, "left" if r.name == "round_of" and r.kind != ENTER else r.kind) for r in self.records]
        assert len(self.calls) == flight["records"] + self.entries + flight["synthesized_exits"]

    def lead(self):
        """Returns the entries of calls that were open at the first record, whose time they have."""
        assert {r.tsc for r in self.records[: self.entries + 1]} == {self.records[0].tsc}
        return self.calls[: self.entries]

    def body(self):
        return self.calls[self.entries :]


def flights(recorded):
    (process,) = recorded.manifest["processes"]
    assert "log" not in process
    return [FlightLog(recorded, f, process["exe"]) for f in process.get("flights", [])]


def logs_written(session):
    return len(re.findall(r"flight\d+\.fdr: the newest", session.messages()))


def wait_written(session, count):
    recording.wait_until(
        lambda: logs_written(session) >= count,
        lambda: f"no flight is written:\n{session.messages()}",
    )


def check(xprof, recorded):
    checked = xprof.check(recorded.directory)
    assert checked.returncode == 0, checked.stdout + checked.stderr


# Of which the newest calls are the hardest to find. test_slow_call_is_written() uses each mode.
MEMORY = "--call-mode=memory"


def test_killed_by_a_signal(xprof, record, rounds):
    """
    After a crash, the log has the last calls up to the crash, and the calls that were open. The other records are
    counted as overwritten.
    """
    count = 12000
    process = rounds(count, "crash")
    # Rings for all calls: on a busy machine the reader may be late.
    session = record("--no-samples", MEMORY, "--flight=1M", "--buffer=16M", "-p", process.pid)
    session.wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == -signal.SIGSEGV
    recorded = session.finish().ok()
    (log,) = flights(recorded)
    assert log.flight["cause"] == "killed" and log.flight["signal"] == signal.SIGSEGV
    # The program crashed in last(), called by all_rounds(), called by main() before the recording.
    said = "in last, called by all_rounds"
    assert f"which was killed by signal 11 (SEGV) {said}\n" in recorded.messages
    assert re.search(rf"{re.escape(log.path.name)}  [\d.]+ [KM]B, killed by SIGSEGV {said}\n", recorded.messages)
    (caller,) = log.flight["open_calls"]
    assert caller["tid"] == process.pid and [call["name"] for call in caller["calls"]] == ["last", "all_rounds"]
    everything = [*truth(0, count), ("last", ENTER)]
    body = log.body()
    assert body == everything[-len(body) :]
    assert 100000 < len(body) < len(everything)
    lead = log.lead()
    assert lead[0] == ("all_rounds", ENTER)
    assert lead[1:] in ([], [("round_of", ENTER)], [("round_of", ENTER), ("one", ENTER)], [("round_of", ENTER), ("zero", ENTER)])
    totals = recorded.totals
    assert totals["seen"] == len(everything) + 1
    assert totals["written"] == len(body) and totals["overwritten"] == len(everything) + 1 - len(body)
    check(xprof, recorded)


def test_asked_twice(xprof, record, rounds):
    """Each log has the records since the previous log. The recording continues, and its end writes the rest."""
    count = 500
    process = rounds(count, "again")
    session = record("--no-samples", MEMORY, "--flight=1M", "-p", process.pid).wait_attached()
    for turn in range(1, 4):
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
        if turn < 3:
            session.process.send_signal(signal.SIGUSR2)
            wait_written(session, turn)
    recorded = session.stop().ok()
    logs = flights(recorded)
    assert [log.flight["cause"] for log in logs] == ["asked", "asked", "end"]
    for number, log in enumerate(logs):
        body = [call for call in log.body() if call[0] != "all_rounds"]
        assert body == list(truth(number * count, count))
        assert log.entries == 0
    assert [log.path.name for log in logs] == [f"{logs[0].path.name.split('.flight')[0]}.flight{n}.fdr" for n in (1, 2, 3)]
    assert recorded.totals["overwritten"] == 0
    assert recorded.totals["written"] == 3 * (count * PER_ROUND + 2)
    assert ", one of 3 logs" in recorded.messages
    assert not list(recorded.directory.glob("*.spool"))
    check(xprof, recorded)
    report = xprof("report", recorded.directory)
    assert report.returncode == 0 and ", flight 3:" in report.stdout
    assert f"{count * BITS + count + 1} calls" in report.stdout


def test_normal_end_leaves_nothing(record, rounds):
    process = rounds(50, "exit")
    session = record("--no-samples", "--flight=1M", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(30) == 0
    recorded = session.finish().ok()
    assert not flights(recorded) and not list(recorded.directory.glob("*.fdr"))
    assert recorded.totals["written"] == 0
    assert recorded.totals["overwritten"] == recorded.totals["seen"] - recorded.totals["filtered"]["total"] > 50 * PER_ROUND


def anonymous_kib(pid):
    """Returns the anonymous memory of a process, without files and ring buffers."""
    found = re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


@pytest.mark.parametrize("mode,calls", [("patch", 250000), ("memory", 8000000)])
def test_memory_is_bounded(program, record, waiting, mode, calls):
    """8 MB or 256 MB of records pass through 1 MiB, and xprof's memory stays small, also while it writes logs."""
    threads = 2
    process = waiting(program("live/programs/hot.c", "-O2", project.no_runtime()), threads, calls)
    session = record("--no-samples", f"--call-mode={mode}", "--flight=1M", "-p", process.pid).wait_attached()
    before_kib = peak_kib = anonymous_kib(session.process.pid)
    process.send_signal(signal.SIGUSR1)
    asked = written = 0
    while process.poll() is None:
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
        # Send the second signal after the first log exists: two pending signals would be one.
        written = logs_written(session)
        if asked == written < 2:
            session.process.send_signal(signal.SIGUSR2)
            asked += 1
        peak_kib = max(peak_kib, anonymous_kib(session.process.pid))
    recorded = session.finish().adds_up()
    totals = recorded.totals
    assert recorded.status == 0 and totals["seen"] == 2 * threads * calls
    # The process may end before the last request.
    assert max(written, 1) <= len(flights(recorded)) <= asked
    # A log has at most 1 MiB of records, of 8 bytes or more.
    assert totals["written"] <= len(flights(recorded)) * (1 << 20) / 8
    assert totals["overwritten"] + totals["lost"]["total"] > 0.5 * totals["seen"]
    # The buffer that fills, the buffer that is written, and the memory of the writer.
    assert peak_kib - before_kib < 6 * 1024, f"{before_kib} KiB before, {peak_kib} KiB then"


def test_children_have_their_own(record, program):
    """With --follow, a killed child has a log; its parent, which exits normally, has none."""
    source = """
    #include <signal.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) void step(int n) { __asm__ volatile("" : : "r"(n)); }
    __attribute__((noinline)) void in_child(void) { for (int i = 0; i < 10; i++) step(i); raise(SIGABRT); __asm__ volatile(""); }
    int main(void) {
        for (int i = 0; i < 5; i++) step(i);
        if (!fork()) in_child();
        wait(NULL);
        return 0;
    }
    """
    path = program.text("flightfork", source, "-O2", project.no_runtime())
    recorded = record("--no-samples", "--follow", "--flight=1M", "--", path).finish().ok()
    parent, child = recorded.manifest["processes"]
    assert "flights" not in parent
    (flight,) = child["flights"]
    assert flight["cause"] == "killed" and flight["signal"] == signal.SIGABRT
    calls = recording.calls(recording.read_log(recorded.directory / flight["log"], path))
    assert calls[("step", ENTER)] == calls[("step", EXIT)] == 10 and calls[("in_child", ENTER)] == 1


def test_busy_until_the_end(record, program, waiting):
    """When the recording ends, the log has the last calls of the running threads."""
    process = waiting(program("live/programs/hot.c", "-O2", project.no_runtime()), 2, 1000000000)
    session = record("--no-samples", MEMORY, "--flight=1M", "-d", "1", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    recorded = session.finish().adds_up()
    process.kill()
    (log,) = flights(recorded)
    assert log.flight["cause"] == "end"
    assert len(log.body()) > 1000  # of a second; a busy machine may give the threads a small part of it
    assert recorded.totals["written"] == len(log.body())


def test_recover_when_xprof_was_killed(xprof, record, rounds):
    """
    A log written before a kill of xprof is in the manifest after recover, with its functions. Later calls are lost.
    """
    process = rounds(500, "again")
    session = record("--no-samples", "--flight=16M", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    session.process.send_signal(signal.SIGUSR2)
    wait_written(session, 1)
    session.process.kill()
    session.finish()
    done = xprof("recover", session.directory)
    assert done.returncode == 0, done.stderr
    assert "manifest.json: names 1 log of flight recorders\n" in done.stderr
    (path,) = session.directory.glob("*.fdr")
    (entry,) = json.loads((session.directory / "manifest.json").read_text())["processes"]
    assert entry["flights"] == [{"log": path.name, "number": 1}] and "log" not in entry
    report = xprof("report", session.directory).stdout
    assert f"({process.pid}), flight 1: " in report and " round_of " in report and "fn_" not in report
    assert not list(session.directory.glob("*.spool"))
    assert xprof.check(session.directory).returncode == 0
    assert xprof("restore", "-p", process.pid).returncode == 0
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"


def test_threads_that_ended(xprof, record, program, waiting):
    """The log has the last calls of threads that have ended, even if another thread has reused their ring."""
    process = waiting(program("live/programs/gone.c", "-O1", project.no_runtime()))
    session = record("--no-samples", MEMORY, "--flight=16M", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    session.process.send_signal(signal.SIGUSR2)
    wait_written(session, 1)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == -signal.SIGKILL
    recorded = session.finish().adds_up()
    asked, killed = flights(recorded)
    by_thread = collections.Counter(r.thread for r in asked.records if r.kind == ENTER)
    assert sorted(by_thread.values()) == list(range(1, 41))
    assert killed.body()[-1][1] in (EXIT, TAIL) and {name for name, _ in killed.body()} == {"work"}
    assert len(killed.body()) == 2 * 100000
    assert recorded.totals["written"] == recorded.totals["seen"] == 2 * (40 * 41 // 2 + 100000)
    check(xprof, recorded)


# ---- Triggers: a call that takes too long causes a log ----

REQUESTS = 3000


@pytest.fixture
def slow_calls(program, waiting):
    """
    Starts live/programs/slow_calls.c, which waits for SIGUSR1: slow_calls("2000:60") -> Popen whose request 2000 takes
    60 ms.
    """
    path = program("live/programs/slow_calls.c", "-O2", project.no_runtime())
    return lambda *slow: waiting(path, REQUESTS, *slow)


def whole_call(log, hz, name, milliseconds):
    """
    Returns the calls that were open around the only call of that name that took so long, that call, and its callees.
    """
    stack, found = [], []
    for r in log.records:
        if r.kind == ENTER:
            stack.append((r.name, r.tsc, []))
            continue
        call, begin, inner = stack.pop()
        assert call == r.name
        if stack:
            stack[-1][2].append(call)
        if call == name and (r.tsc - begin) / hz * 1000 >= milliseconds:
            found.append(([open_call[0] for open_call in stack], inner))
    (one,) = found
    return one


@pytest.mark.parametrize("mode", ["probe", "patch", "memory"])
def test_slow_call_is_written(xprof, record, slow_calls, mode):
    """
    After one slow call among thousands, a log is written that ends after this call, and contains the call with its
    callers.
    """
    # On a busy machine, any call may wait a quarter of a second for a CPU.
    process = slow_calls("2000:1100")
    options = ["--no-samples", "--flight=1M", f"--call-mode={mode}"]
    session = record(*options, "--trigger", "handle_*>900ms", "--trigger=parse > 900ms", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    wait_written(session, 1)
    recorded = session.stop().adds_up()
    slow, *rest = flights(recorded)
    assert all(o["call_mode"] == mode for p in recorded.manifest["processes"] for o in p["objects"])
    assert slow.flight["cause"] == "trigger" and all(log.flight["cause"] == "end" for log in rest)
    call = slow.flight["slow_call"]
    assert call["trigger"] == "handle_*>900ms" and call["duration_s"] >= 1.1 and call["further_calls"] == 0
    assert [called["name"] for called in call["calls"]] == ["handle_request", "serve"]
    assert not any("slow_call" in log.flight for log in rest)
    callers, inner = whole_call(slow, recorded.manifest["clock"]["hz"], "handle_request", 1100)
    assert callers == ["serve"] and inner == ["parse", "slow_part"]
    # Calls after the slow call are in the first log if they came before xprof noticed the slow call.
    assert sum(log.body().count(("handle_request", ENTER)) for log in (slow, *rest)) == REQUESTS
    assert slow.calls.count(("handle_request", ENTER)) >= 2001
    assert [t["calls"] for t in recorded.manifest["triggers"]] == [1, 0]
    assert re.search(r"handle_request took [\d.]+ ms, called by serve \(--trigger 'handle_\*>900ms'\)\n", recorded.messages)
    assert recorded.totals["lost"]["total"] == 0
    check(xprof, recorded)


def test_slow_calls_beyond_the_limit(record, slow_calls):
    """
    At most --trigger-limit logs are written per minute; further slow calls are counted. ^C writes the rest to the last
    log.
    """
    process = slow_calls(*(f"{100 * n}:600" for n in range(1, 6)))
    # Other calls may wait for a CPU meanwhile.
    session = record("--no-samples", "--flight=1M", "--trigger=handle_request>500ms", "--trigger-limit=2", "-p", process.pid)
    session.wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    wait_written(session, 2)
    recorded = session.stop().ok()
    logs = flights(recorded)
    assert [log.flight["cause"] for log in logs] == ["trigger", "trigger", "end"]
    (trigger,) = recorded.manifest["triggers"]
    assert recorded.manifest["trigger_limit"] == 2 and trigger["calls"] == 5 and trigger["logs"] == 2
    # Two of the calls end in one pass of the reader only if the reader is late.
    assert trigger["in_an_earlier_log"] + trigger["beyond_limit"] == 3 and trigger["beyond_limit"] >= 1
    assert sum(log.flight["slow_call"]["further_calls"] for log in logs[:2]) == trigger["in_an_earlier_log"]
    assert f"5 calls took longer: 2 logs, {trigger['in_an_earlier_log']} in the log of an earlier one, " in recorded.messages


def delay_s(pid):
    """Returns how long a thread was runnable without a CPU, as the kernel counts it."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def test_slow_call_before_the_end(record, start, slow_calls):
    """
    If the process exits right after its slow call, the log is still written. With waits, it has the time without a CPU:
    the process shares its CPU with a busy one, which it does not preempt when it wakes up.
    """
    process = slow_calls(f"{REQUESTS - 1}:60")
    session = record("--off-cpu", "--flight=1M", "--trigger=serve>50ms", "-p", process.pid)
    session.wait_attached()
    cpu = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(process.pid, cpu)
    os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
    busy = start(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, cpu))
    targets.wait_for_cpu_time(busy.pid)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    delayed_s = delay_s(process.pid)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    recorded = session.finish().ok()
    (log,) = flights(recorded)
    assert log.flight["cause"] == "trigger" and log.flight["slow_call"]["calls"][0]["name"] == "serve"
    assert 0 < log.flight["slow_call"]["runnable_s"] <= min(delayed_s, log.flight["slow_call"]["duration_s"] - 0.06)
