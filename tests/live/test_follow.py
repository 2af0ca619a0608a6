# SPDX-License-Identifier: BSD-2-Clause
"""
Checks processes that change during a recording: exec, fork, threads, libraries, containers, and several processes.
"""
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys

import pytest

import leftovers
import project
import recording
import targets
from recording import ENTER, EXIT, TAIL

pytestmark = pytest.mark.uprobes

CHAIN = ("live/programs/chain.c", "-O1")
CALLS = ("live/programs/calls.c", "-O2")
# Maximum time until xprof notices a program and attaches; the recorded program waits no longer.
NOTICED_MS = 20000
# Binaries that are loaded or executed again have their probes immediately; patched sleds come some milliseconds later.
PROBE = "--call-mode=probe"


@pytest.fixture
def chain(program):
    return program(*CHAIN)


@pytest.fixture
def other(program):
    """Returns a copy of the program in another file."""
    return program(*CHAIN, "-DOTHER")


@pytest.fixture
def library(program):
    return program("live/programs/shared_lib.cpp", "-O1", "-fPIC", "-shared", "-DPREFIX=loaded")


def called(log):
    """Returns {function: calls}, after checking that each call was entered and left."""
    found = log.calls()
    for name in {name for name, _ in found}:
        assert found[name, ENTER] == found[name, EXIT] + found[name, TAIL], name
    return {name: count for (name, kind), count in found.items() if kind == ENTER}


def images(recorded):
    """Returns [(pid, {function: calls})] in the order of start, without processes that made no calls."""
    return [(log.pid, called(log)) for log in recorded.logs if called(log)]


def go(process):
    process.send_signal(signal.SIGUSR1)
    assert process.wait(recording.READY_S) == 0, f"the traced program ended with status {process.returncode}"


# exec


def test_exec_of_another_program(record, chain, other):
    recorded = record("--", chain, 0, 30, "exec", other, NOTICED_MS, 70).finish().ok()
    assert [calls for _, calls in images(recorded)] == [{"work": 30}, {"work": 70}]
    assert len({pid for pid, _ in images(recorded)}) == 1
    assert len({log.path for log in recorded.logs}) == 2


def test_exec_of_itself(record, waiting, chain):
    """The probes already exist when the program executes itself, so no call is missed."""
    process = waiting(chain, 0, 30, "exec", chain, 0, 70, "exec", chain, 0, 5)
    session = record(PROBE, "-p", process.pid).wait_attached()
    go(process)
    assert images(session.finish().ok()) == [(process.pid, {"work": n}) for n in (30, 70, 5)]


def test_past_programs_are_not_looked_for(record, churn):
    """Programs that a process executed while xprof did not run are not searched one by one. Their calls count."""
    target = churn("exec")
    session = record("-v", "--no-samples", "--call-mode=probe", "-p", target.pid).wait_attached()
    session.process.send_signal(signal.SIGSTOP)
    before = target.generations()
    recording.wait_until(lambda: target.generations() > before + 200, "the target makes no progress")
    session.process.send_signal(signal.SIGCONT)
    recorded = session.stop().ok()
    assert recorded.messages.count("has executed another program since") > 150, recorded.messages
    assert len(recorded.logs) > 200
    calls = [log.calls()["churn_tree", ENTER] for log in recorded.logs[40:150:30]]
    assert calls[0] > 50 and set(calls) == {calls[0]}
    target.assert_works()


def test_exec_from_a_thread(record, waiting, chain):
    """A thread that calls exec takes over the PID; the thread to which xprof attached is gone."""
    process = waiting(chain, 0, 30, "thread", chain, NOTICED_MS, 70)
    session = record("--uprobes=single", "-p", process.pid).wait_attached()
    go(process)
    assert images(session.finish().ok()) == [(process.pid, {"work": 30}), (process.pid, {"work": 70})]


def test_exec_of_a_program_without_sleds(record, chain):
    recorded = record("--", chain, 0, 30, "exec", "/bin/sh", "-c", "exit 3").finish()
    assert recorded.status == 3, recorded.messages
    assert [calls for _, calls in images(recorded)] == [{"work": 30}]


def test_wrapped_command(record, program, tmp_path):
    """A wrapped command is held until its own program starts, which is recorded from its first instruction."""
    path = program(*CALLS)
    truth = recording.calls(recording.runtime_records(path, tmp_path))
    wrapper = ["env", "nice", "-n", "1", "sh", "-c", 'exec "$0" "$@"']
    assert record("--", *wrapper, path).finish().ok().log().calls() == truth


# xprof traces the command to hold it: for a second, or until the recording ends.
LATE = {
    "loads": "import time; time.sleep(1.6); import _sqlite3",
    "loads-in-a-thread": "import threading; t = threading.Thread(target=__import__, args=('_sqlite3',)); t.start(); t.join()",
}


@pytest.mark.parametrize("code", LATE.values(), ids=LATE)
def test_command_without_sleds_goes_on(record, code):
    """A command is not stopped by loading a library, in any thread, while it is held or later."""
    recorded = record("--no-samples", "--", sys.executable, "-c", f"{code}; print('done')").finish()
    assert (recorded.status, recorded.output) == (0, "done\n"), recorded.messages


def test_command_that_outlives_the_recording_goes_on(record):
    code = "import time; time.sleep(0.7); import _sqlite3; print('done')"
    recorded = record("--no-samples", "-d", "500ms", "--", sys.executable, "-c", code).finish()
    assert (recorded.status, recorded.output) == (0, "done\n"), recorded.messages


def test_late_exec_of_a_command(record, chain):
    """The program with sleds is executed when the command is no longer held."""
    wrapped = ["sh", "-c", 'sleep 1.5; exec "$0" "$@"', chain, NOTICED_MS, 70]
    assert [calls for _, calls in images(record("--", *wrapped).finish().ok())] == [{"work": 70}]


def test_status_and_output_of_the_command(record, chain):
    recorded = record("--", "sh", "-c", "echo out; echo err >&2; exec \"$0\" 0 1 exec /bin/sh -c 'kill -TERM $$'", chain)
    recorded = recorded.finish()
    assert recorded.status == 128 + signal.SIGTERM, recorded.messages
    assert recorded.output == "out\n"
    assert "err\n" in recorded.messages


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_signal_before_the_command_starts(xprof, tmp_path, number):
    """After an early signal the command does not start: xprof handles signals from its first instruction on."""

    def raise_it():
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)

    arguments = ["--no-samples", "-o", tmp_path / "out", "--", "touch", tmp_path / "started"]
    done = subprocess.run([xprof.path, "record", *arguments], preexec_fn=raise_it, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "stopped while attaching: nothing was recorded" in done.stderr, done
    assert not list(tmp_path.iterdir())


# fork


def test_fork_is_not_followed(record, waiting, chain):
    """Without --follow, a child inherits the breakpoints, continues to work, and is not recorded."""
    process = waiting(chain, 0, 50, "fork")
    session = record("-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    assert images(recorded) == [(process.pid, {"work": 50})]
    assert recorded.totals["seen"] == 100


def test_fork_is_followed_on_request(record, waiting, chain):
    process = waiting(chain, 0, 50, "fork")
    session = record("--uprobes=single", "--follow", "-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    found = images(recorded)
    assert [calls for _, calls in found] == [{"work": 50}, {"in_child": 50}]
    assert found[0][0] == process.pid != found[1][0]
    # The summary shows one of the logs, and their number.
    assert recorded.messages.count("llvm-xray account") == 1
    assert ", the one of 2 logs with the most records\n" in recorded.messages


def calls_of(parent):
    """Returns the calls of a program that sleeps once in each function."""
    status = pathlib.Path(f"/proc/{parent.pid}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])


def test_fork_whose_record_was_lost(record, start, program):
    """If the rings are full when a child is forked, its later calls are still recorded as its own."""
    parent = start([program("live/programs/parent.c", "-O1", project.no_runtime())])
    assert parent.stdout.readline() == "ready\n"
    session = record("--no-samples", "--call-mode=patch", "--follow", "--buffer=64K", "-p", parent.pid).wait_attached()
    session.process.send_signal(signal.SIGSTOP)
    enough = calls_of(parent) + 2 * os.cpu_count() * (64 << 10) // 32  # twice the size of all rings
    recording.wait_until(lambda: calls_of(parent) > enough, "no calls")
    parent.send_signal(signal.SIGUSR1)
    child = int(parent.stdout.readline())
    session.process.send_signal(signal.SIGCONT)
    targets.wait_for_cpu_time(parent.pid, child)
    parent.send_signal(signal.SIGUSR1)
    assert parent.wait(recording.READY_S) == 0
    recorded = session.finish().adds_up()
    assert recorded.totals["lost"]["ring"] > 0
    assert recorded.totals["filtered"]["other_process"] == 0
    assert {log.pid: log.calls()["leaf", ENTER] > 100 for log in recorded.logs} == {parent.pid: True, child: True}


def test_command_with_followed_children(record, chain):
    """
    The shell's first child is not held, so its calls are missed until xprof has noticed it. All later calls are
    recorded.
    """
    recorded = record("--follow", "--", "sh", "-c", f'"$0" {NOTICED_MS} 20 fork; "$0" 0 30; true', chain).finish().ok()
    assert sorted(str(calls) for _, calls in images(recorded)) == sorted(
        map(str, [{"work": 20}, {"in_child": 20}, {"work": 30}])
    )


def test_one_clock_for_all_logs(xprof, record, chain):
    """
    The estimate of the frequency improves once per second, and logs start at any time: the headers of all logs are
    equal.
    """
    command = 'for i in $(seq 30); do "$0" 0 20 & sleep 0.1; done; wait'
    recorded = record("--no-samples", "--follow", "--", "sh", "-c", command, chain).finish().ok()
    logs = [log.path.read_bytes() for log in recorded.logs]
    # On a busy machine, some processes may end before xprof notices them.
    assert len(logs) > 10 and len({struct.unpack_from("<Q", log, 8) for log in logs}) == 1
    exported = xprof("export", "--calls", "--format=folded", "--by=process", "-o", "-", recorded.directory)
    assert exported.returncode == 0 and " Hz" not in exported.stderr, exported
    called = [log for log in recorded.logs if log.entry["written"]]
    assert len({line.split(";")[0] for line in exported.stdout.splitlines()}) == len(called) > 1


@pytest.mark.parametrize("follow", [False, True], ids=["alone", "follow"])
def test_spawned_program(record, waiting, chain, other, follow):
    """A child calls vfork and exec, of the same program and of another one."""
    process = waiting(chain, 0, 10, "spawn", chain, 0, 20, "spawn", other, NOTICED_MS if follow else 0, 30)
    session = record(*([PROBE, "--follow"] if follow else []), "-p", process.pid).wait_attached()
    go(process)
    found = images(session.finish().ok())
    assert found[0] == (process.pid, {"work": 10})
    assert [calls for _, calls in found[1:]] == ([{"work": 20}, {"work": 30}] if follow else [])


def test_grandchildren_are_followed(record, waiting, chain):
    process = waiting(chain, 0, 10, "fork", chain, 0, 20, "fork", chain, 0, 30, "fork")
    session = record(PROBE, "--follow", "-p", process.pid).wait_attached()
    go(process)
    found = [calls for _, calls in images(session.finish().ok())]
    assert found == [{"work": 10}, {"work": 20}, {"work": 30}, {"in_child": 30}]


@pytest.mark.parametrize("mode", ["patch", "memory"])
def test_children_of_a_patched_program(record, program, waiting, library, mode):
    """
    Children inherit the patched sleds, even a child that outlives the program. Libraries that a child loads are patched
    in the child.
    """
    children, calls = 6, 100
    process = waiting(program("live/programs/forks.c", "-O1", "-ldl", "-pthread"), children, calls, library)
    session = record("--no-samples", f"--call-mode={mode}", "--follow", "-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    found = [called(log) for log in recorded.logs]
    last, pid = next((called(log), log.pid) for log in recorded.logs if "loaded_entry" in called(log))
    assert (last["work"], last["loaded_entry"]) == (calls, calls)
    found.remove(last)
    assert sorted(calls_of["work"] for calls_of in found) == [calls] * (children + 1) + [2 * calls] * children
    modes = [o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"] if o["sleds_attached"]]
    # Children that ended before they got call rings are recorded through the kernel.
    assert modes[0] == mode and set(modes[1:]) <= {"patch", mode}
    assert all(o["call_mode"] == mode for p in recorded.manifest["processes"] if p["pid"] == pid for o in p["objects"])
    assert recorded.totals["seen"] == 2 * calls * (3 * children + 1 + 1) + 2 * (sum(last.values()) - calls)


def test_children_in_memory(record, program, waiting):
    """Short-lived children reuse rings: each call is counted once, for its own process."""
    children, calls = 200, 400
    process = waiting(program("live/programs/storm.c", "-O1", "-pthread"), children, calls)
    session = record("--no-samples", "--call-mode=memory", "--follow", "-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    counted = recording.printed_calls(process.stdout.read())["work"]
    assert counted == calls * (children + 2 * (children // 10))
    assert recorded.totals["seen"] == recorded.totals["written"] == 2 * counted
    assert recorded.totals["in_memory"] > counted / 2
    found = sorted(p["written"] // 2 for p in recorded.manifest["processes"] if p["written"])
    assert found == [calls] * children + [2 * calls] * (children // 10)


def test_live_child_is_restored(xprof, record, start, program):
    """
    Sleds of a living child are restored at the end of the recording, and by `xprof restore` after a kill. The child
    continues in both cases.
    """
    parent = start([program("live/programs/parent.c", "-O1", project.no_runtime())])
    assert parent.stdout.readline() == "ready\n"
    session = record("--no-samples", "--call-mode=memory", "--follow", "-p", parent.pid).wait_attached()
    parent.send_signal(signal.SIGUSR1)
    child = int(parent.stdout.readline())
    targets.wait_for_cpu_time(parent.pid, child)
    recorded = session.stop().ok()
    assert "memfd:xprof" not in "".join(line for line in pathlib.Path(f"/proc/{child}/maps").open() if " rw-s " in line)
    assert {log.pid: log.calls()["leaf", ENTER] > 10 for log in recorded.logs} == {parent.pid: True, child: True}
    leftovers.assert_nothing_left(child)
    session = record("--no-samples", "--call-mode=patch", "--follow", "-p", f"{parent.pid},{child}").wait_attached()
    session.process.kill()
    session.finish()
    assert os.path.exists(f"/proc/{child}/exe") and leftovers.left_code(child)
    assert xprof("restore", "-p", child).returncode == 0
    leftovers.assert_nothing_left(child)
    assert xprof("restore", "-p", parent.pid).returncode == 0
    parent.send_signal(signal.SIGUSR1)
    assert parent.wait(recording.READY_S) == 0


def test_child_executes_a_patched_program(record, waiting, chain):
    """Unlike probes, patched sleds must be written again after an exec; xprof reports the consequence."""
    process = waiting(chain, 0, 10, "fork", chain, NOTICED_MS, 20, "fork")
    session = record("--follow", "-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    assert [calls for _, calls in images(recorded)] == [{"work": 10}, {"work": 20}, {"in_child": 20}]
    assert recorded.messages.count("xprof patches its sleds some milliseconds later") == 1


def test_no_calls_before_a_program_without_sleds(record, start, program):
    """
    Probes were attached, so the summary has the number of calls, even if the process runs another program at the end.
    """
    path = program.text("execs", """
        #include <signal.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void)
        {
            sigset_t set;
            int number;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            sigprocmask(SIG_BLOCK, &set, NULL);
            puts("ready");
            fflush(stdout);
            sigwait(&set, &number);
            return execl("/bin/sleep", "sleep", "100", NULL);
        }
        """, "-O1", project.no_runtime())
    process = start([path])
    assert process.stdout.readline() == "ready\n"
    session = record("-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    recording.wait_until(lambda: targets.runs(process.pid, "/bin/sleep"), "it executes nothing")
    assert session.stop().ok().totals["seen"] == 0


def test_exec_path_is_patched_on_request(record, start, waiting, chain):
    early = waiting(chain, 0, 10)
    session = record("--exec", chain, "--call-mode=patch").wait_attached()
    late = start([chain, NOTICED_MS, 20, "fork"])
    go(early)
    assert late.wait(recording.READY_S) == 0
    recorded = session.stop().ok()
    assert sorted(map(str, (calls for _, calls in images(recorded)))) == sorted(
        map(str, [{"work": 10}, {"work": 20}, {"in_child": 20}])
    )
    modes = {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]}
    assert modes == {"patch"}


# Several processes, several recordings


def test_exec_path(record, waiting, start, chain):
    """Records two running processes, and one that starts later; from its first instruction."""
    early = [waiting(chain, 0, n) for n in (10, 20)]
    session = record("--exec", chain).wait_attached()
    late = start([chain, 0, 30])
    for process in early:
        go(process)
    assert late.wait(recording.READY_S) == 0
    recorded = session.stop().ok()
    assert dict(images(recorded)) == {early[0].pid: {"work": 10}, early[1].pid: {"work": 20}, late.pid: {"work": 30}}


def test_exec_path_of_a_library(record, program, waiting, start, library):
    """Every process that maps the library is recorded, now or later, but only the library."""
    path = program("live/programs/reload.c", "-O1")
    early = waiting(path, 0, library)
    session = record("--exec", library).wait_attached()
    late = start([path, 0, library])
    go(early)
    assert late.wait(recording.READY_S) == 0
    found = dict(images(session.stop().ok()))
    assert set(found) == {early.pid, late.pid}
    assert all(calls["loaded_entry"] == 100 and "own" not in calls for calls in found.values()), found


def test_exec_path_of_a_library_that_is_gone(record, program, start, library):
    """The library is unloaded when xprof learns of the process."""
    session = record("--exec", library).wait_attached()
    process = start([program("live/programs/reload.c", "-O1"), "once", 500, library])
    assert process.wait(recording.READY_S) == 0
    ((pid, calls),) = images(session.stop().ok())
    assert pid == process.pid and calls["loaded_entry"] == 5


def test_several_pids(record, waiting, chain, other):
    processes = [waiting(path, 0, n) for path, n in ((chain, 10), (other, 20), (chain, 30))]
    bystander = waiting(chain, 0, 99)
    session = record("-p", ",".join(str(p.pid) for p in processes)).wait_attached()
    for process in [*processes, bystander]:
        go(process)
    found = dict(images(session.finish().ok()))
    assert found == {p.pid: {"work": n} for p, n in zip(processes, (10, 20, 30))}


def test_two_recordings_at_once(record, program, waiting, tmp_path):
    path = program(*CALLS)
    truth = recording.calls(recording.runtime_records(path, tmp_path))
    process = waiting(path)
    sessions = [record(PROBE, "-p", process.pid).wait_attached() for _ in range(2)]
    go(process)
    for session in sessions:
        assert session.finish().ok().log().calls() == truth


def test_follow_beside_patched_sleds(record, waiting, chain):
    """The probes of --follow are in all processes of a file, but must not be in a process with patched sleds."""
    other, process, late = waiting(chain, 0, 70), waiting(chain, 0, 50), waiting(chain, 0, 30)
    patching = record("--call-mode=patch", "-p", other.pid).wait_attached()
    session = record(PROBE, "--follow", "-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    owner = f"process {other.pid} has them patched by another xprof (process {patching.process.pid})"
    assert owner in recorded.messages and "XRay's own runtime" not in recorded.messages
    assert f"all sleds of process {process.pid} (chain" in recorded.messages
    (refused,) = [o["sleds_refused"] for p in recorded.manifest["processes"] for o in p["objects"]]
    assert refused["patched"] > 0
    go(other)
    assert images(patching.finish().ok()) == [(other.pid, {"work": 70})]
    session = record("--follow", "-p", late.pid).wait_attached()
    go(late)
    assert images(session.finish().ok()) == [(late.pid, {"work": 30})]


def test_threads_that_come_and_go(record, program, waiting):
    """More threads run in total than at any time, and TIDs may be reused."""
    path = program("live/programs/hot.c", "-O2")
    process = waiting(path, 200, 10)
    session = record("-p", process.pid).wait_attached()
    go(process)
    recorded = session.finish().ok()
    assert recorded.log().calls()["hop", ENTER] == 2000
    assert recorded.manifest["processes"][0]["thread_count"] == 200


def test_first_thread_ends_first(record, program, waiting):
    process = waiting(program("live/programs/leader.c", "-O1"))
    session = record("-p", process.pid).wait_attached()
    go(process)
    assert called(session.finish().ok().log()) == {"work": 100}


# Libraries


def test_library_that_is_loaded_again(record, program, waiting, library):
    """xprof notices the first load of a library. After that, its probes exist at each load."""
    process = waiting(program("live/programs/reload.c", "-O1"), NOTICED_MS, library)
    session = record(PROBE, "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=recording.READY_S)
    counted = recording.printed_calls(output)
    assert counted == {"loaded_entry": 100, "own": 20}
    found = called(session.finish().ok().log())
    assert {name: found.get(name) for name in counted} == counted


def test_first_library_of_a_command_without_sleds(record, program, library):
    """The command is held when it loads the library, which is recorded from its first instruction."""
    recorded = record(PROBE, "--", program("live/programs/reload.c", "-O1", instrument=False), 0, library).finish().ok()
    assert called(recorded.log())["loaded_entry"] == recording.printed_calls(recorded.output)["loaded_entry"] == 100


# Unusual programs


@recording.in_turn("kind, clang", ["-static", "-static-pie"], recording.CLANGS)
def test_static_program(record, program, waiting, tmp_path, clang, kind):
    path = program(*CALLS, kind, project.no_runtime(clang), *(["-fPIE"] if kind == "-static-pie" else []), clang=clang)
    counted = recording.calls(recording.runtime_records(program(*CALLS, clang=clang), tmp_path))
    assert record("--", path).finish().ok().log().calls() == counted
    process = waiting(path)
    session = record("-p", process.pid).wait_attached()
    go(process)
    assert session.finish().ok().log().calls() == counted


def host_pid(parent):
    """Returns the host's PID of the only child of a process."""
    text = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(text[0]) if text else 0


def test_container(record, program, start, tmp_path):
    """Records a process with its own PID namespace, whose binary is at no path of the host."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    path = program(*CALLS)
    truth = recording.calls(recording.runtime_records(path, tmp_path))
    place = tmp_path / "private"
    place.mkdir()
    outer = start(
        [
            "unshare", "--mount", "--pid", "--fork", "--propagation=private", "sh", "-c",
            f'mount -t tmpfs none {place} && cp {path} {place}/prog && exec {place}/prog wait',
        ]
    )
    assert outer.stdout.readline() == "ready\n", outer.communicate()
    assert not (place / "prog").exists(), "the binary is not private"
    pid = host_pid(outer.pid)
    session = record("-p", pid).wait_attached()
    os.kill(pid, signal.SIGUSR1)
    assert outer.wait(recording.READY_S) == 0
    log = session.finish().ok().log()
    assert recording.calls(recording.read_log(log.path, path)) == truth


def test_target_ends_while_others_are_attached(record, start, busy, tmp_path):
    """A process without sleds ends immediately after the process before it was patched."""
    both = [busy(1, 1000), busy(1, 1000)]
    script = tmp_path / "ends.py"
    script.write_text(
        "import os, time\n"
        "print('ready', flush=True)\n"
        f"while 'memfd:xprof' not in open('/proc/{both[0].pid}/maps').read(): time.sleep(0.0002)\n"
        "os._exit(0)\n"
    )
    ends = start([sys.executable, script])
    assert ends.stdout.readline() == "ready\n"
    session = record("-p", f"{both[0].pid},{ends.pid},{both[1].pid}").wait_attached()
    assert ends.wait(recording.READY_S) == 0
    for target in both:
        target.assert_works()
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    assert {target.pid for target in both} <= {log.pid for log in recorded.adds_up().logs}


def test_unloaded_at_the_first_look(record, program, start, library, tmp_path):
    """One object is unloaded when its sleds are to be patched: the other objects are still recorded."""
    other = shutil.copy(library, tmp_path / "other.so")
    path = program("live/programs/unloads.c", "-O1", project.no_runtime(), "-fno-pie", "-no-pie", "-ldl")
    for _ in range(30):
        target = start([path, library, other])
        assert target.stdout.readline() == "ready\n"
        session = record("--no-samples", "-p", target.pid).wait_attached()
        assert target.stdout.readline() == "unloaded\n"
        target.send_signal(signal.SIGUSR1)
        assert target.stdout.readline() == "called\n"
        recorded = session.stop().ok()
        assert target.poll() is None
        (process,) = recorded.manifest["processes"]
        modes = [o["call_mode"] for o in process["objects"]]
        # If the program notices the stub late, the object is patched first, and then unloaded.
        assert len(set(modes)) == 1 and modes[0] != "probe" and len(modes) in (2, 3)
        assert recorded.log().calls()["loaded_entry", ENTER] > 50
        if len(modes) == 2:
            return
        target.kill()
    raise AssertionError("it was never unloaded before it was patched")


def test_kernel_is_busy(xprof, record, program, tmp_path):
    """The kernel refuses the probes of one program for longer than xprof retries: the other programs are recorded."""
    preload = program("live/programs/busy_kernel.c", "-shared", "-fPIC", "-ldl", instrument=False)
    victim = program("live/programs/victim.c", "-O2", project.no_runtime())
    busy = tmp_path / "busy"
    for name in ("before", "refused", "after"):
        shutil.copy(victim, tmp_path / name)
    run = 'timeout 3 "$0/{0}" 1 1000 "$0/progress-{0}"; '
    script = run.format("before") + f"touch {busy}; " + run.format("refused") + f"rm {busy}; " + run.format("after") + "true"
    wrapped = project.wrapped(xprof, tmp_path, "env", f"LD_PRELOAD={preload}", f"BUSY_KERNEL={busy}")
    recorded = record("--no-samples", PROBE, "--follow", "--", "sh", "-c", script, tmp_path, program=wrapped).finish()
    assert recorded.status == 0, recorded.messages
    told = f"the kernel refuses probes on {tmp_path}/refused: Device or resource busy"
    assert recorded.messages.count(told) == 1 and "its sleds are not recorded in process" in recorded.messages
    calls = {log.entry["comm"]: log.calls()["traced_leaf", recording.ENTER] for log in recorded.logs}
    assert calls["before"] and calls["after"] and not calls.get("refused"), calls
