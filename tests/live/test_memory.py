# SPDX-License-Identifier: BSD-2-Clause
"""Checks calls that patched sleds record in user space: each call is in the log of its thread, or counted."""
import collections
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import threading
import time

import pytest

import project
import recording
import targets
from recording import ENTER, ENTER_ARGS, EXIT, TAIL

pytestmark = pytest.mark.uprobes

# The minimum cost of a probe.
PROBE_NS = 500

MEMORY = "--call-mode=memory"


@pytest.fixture
def memory(program, record, start):
    """Returns a function that runs memory.c with WAY and COUNT, records it, and returns (process, recording)."""

    def record_one(way, count, *options):
        process = start([program("live/programs/memory.c", "-O1"), "wait", way, count])
        assert process.stdout.readline() == "ready\n"
        session = record(MEMORY, "--no-samples", *options, "-p", process.pid).wait_attached()
        process.send_signal(signal.SIGUSR1)
        process.output = process.communicate(timeout=60)[0]
        return process, session.finish().adds_up()

    return record_one


def in_memory(recorded):
    return all(o["call_mode"] == "memory" for p in recorded.manifest["processes"] for o in p["objects"])


def assert_all_calls(process, recorded, names=("work", "inner", "handler")):
    """
    Checks that each call was entered and left as often as the program counted, and that no call was lost or added.
    """
    assert in_memory(recorded)
    counted = recording.printed_calls(process.output)
    found = recorded.log().calls()
    assert {name: found[name, ENTER] for name in names} == {name: counted[name] for name in names}
    assert {name: found[name, EXIT] + found[name, TAIL] for name in names} == {name: counted[name] for name in names}
    # The exit of main(), which was called before the recording.
    assert recorded.totals["lost"]["total"] == recorded.totals["synthesized_exits"] == 0
    assert recorded.totals["filtered"]["unmatched_exit"] <= 1


@pytest.mark.parametrize(
    "way, count", [("fast", 25000), ("threads", 300), ("signals", 100000)], ids=["fast", "threads", "signals"]
)
def test_all_calls(memory, way, count):
    """Rings become full repeatedly, threads reuse the memory of others, and signal handlers interrupt the stub."""
    process, recorded = memory(way, count)
    assert_all_calls(process, recorded)
    assert way != "signals" or recording.printed_calls(process.output)["handler"] > 10
    threads = {t["tid"] for p in recorded.manifest["processes"] for t in p["threads"]}
    assert len(threads) >= {"fast": 5, "threads": 400, "signals": 1}[way]


@pytest.mark.parametrize("way, count", [("fast", 100000), ("threads", 300), ("signals", 100000), ("vfork", 20)])
def test_short_calls(memory, way, count):
    """
    The stub discards short calls: xprof does not read them, but they are counted, also when signals interrupt them.
    """
    process, recorded = memory(way, count, "--min-duration=10s")
    counted = recording.printed_calls(process.output)
    totals = recorded.totals
    assert in_memory(recorded) and totals["lost"]["total"] == totals["written"] == 0
    # The exit of main(), which was called before the recording.
    assert totals["seen"] - 2 * sum(counted.values()) in (0, 1)
    own = 2 * sum(counted[name] for name in ("work", "inner", "handler"))
    assert totals["filtered"]["min_duration"] == own
    assert totals["filtered"]["outside"] == 2 * counted["child"]


@pytest.mark.parametrize("options", [[], ["--min-duration=10s"], ["--args=1"]], ids=["all", "short", "args"])
def test_threads_when_xprof_is_late(program, record, start, options):
    """
    Threads reuse the rings of others while xprof is late: calls still belong to the right thread. Entries with
    arguments come from BPF, exits from the ring; both times are from one clock.
    """
    process = start([program("live/programs/memory.c", "-O1"), "wait", "threads", 300])
    assert process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", *options, "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    for _ in range(5):
        session.process.send_signal(signal.SIGSTOP)
        time.sleep(0.06)
        session.process.send_signal(signal.SIGCONT)
        time.sleep(0.015)
    process.output = process.communicate(timeout=60)[0]
    recorded = session.finish().adds_up()
    if options == ["--min-duration=10s"]:
        totals = recorded.totals
        assert totals["lost"]["total"] == totals["written"] == 0
        assert totals["filtered"]["min_duration"] == 2 * sum(recording.printed_calls(process.output).values())
        return
    assert_all_calls(process, recorded)
    records = [r for r in recorded.log().records() if r.kind in recording.FUNCTION_KINDS]
    entered = collections.Counter(r.thread for r in records if r.kind in (ENTER, ENTER_ARGS))
    assert collections.Counter(entered.values()) == {6: 300, 4: 100}
    # xprof raises a time that is earlier than the previous one. The time of a probe is converted, with an error
    # that sometimes exceeds the cost of the probe.
    raised = [(r.tsc, r.kind, last.kind) for last, r in itertools.pairwise(records) if (r.thread, r.tsc) == (last.thread, last.tsc)]
    assert len(raised) <= len(records) / 100 or recorded.manifest["clock"]["error_ns"] > PROBE_NS, raised


def test_child_of_vfork(memory):
    """A vfork() child uses the memory and the fs base of its parent. Its calls do not count as the parent's."""
    process, recorded = memory("vfork", 20)
    assert recording.printed_calls(process.output)["child"] == 20
    assert_all_calls(process, recorded, ("work", "inner"))
    assert recorded.log().calls()["child", ENTER] == 0


def test_forked_child(memory):
    """
    A forked child has patched sleds and no rings: its calls are not recorded, and it does not write to its parent's
    rings.
    """
    process, recorded = memory("fork", 20)
    assert_all_calls(process, recorded, ("work", "inner"))


def test_two_threads_with_one_fs_base(memory):
    """
    Two threads with one fs base lose their ring, and record through the kernel. Calls that both wrote before may be
    lost, and are counted.
    """
    process, recorded = memory("shared", 20)
    assert in_memory(recorded)
    counted = recording.printed_calls(process.output)
    found = recorded.log().calls()
    entered = sum(found[name, ENTER] for name in ("work", "inner"))
    assert entered <= sum(counted.values())
    assert entered > 0.5 * sum(counted.values())


def test_threads_of_the_kernel(waiting, program, record):
    """
    io_uring creates kernel threads in the process: they have the fs base of their creator, and run no code of the
    process.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "kernel_threads", 1000)
    process.send_signal(signal.SIGUSR1)
    if process.stdout.readline() != "ready\n":
        pytest.skip("no io_uring here")
    assert len(os.listdir(f"/proc/{process.pid}/task")) > 1
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output = process.communicate(timeout=60)[0]
    recorded = session.finish().adds_up()
    process.output = output
    assert_all_calls(process, recorded, ("work", "inner"))
    assert recorded.totals["in_memory"] == recorded.totals["seen"]
    assert recorded.manifest["processes"][0]["without_ring"] == 0


def test_killed_with_its_last_call(memory):
    """The memory of the rings outlives the process: the last call before SIGKILL is in the log."""
    process, recorded = memory("kill", 5000)
    assert process.returncode == -signal.SIGKILL
    found = recorded.log().calls()
    assert found["work", ENTER] == found["inner", ENTER] == 5000
    assert found["work", EXIT] == 5000


def test_command_records_in_memory(program, record):
    """
    The first thread of a command has no TLS when the command is patched: the kernel reports the thread when it has.
    """
    path = program("live/programs/memory.c", "-O1")
    recorded = record(MEMORY, "--no-samples", "--", path, "now", "fast", 1000).finish().adds_up()
    counted = recording.printed_calls(recorded.output)
    found = recorded.log().calls()
    assert in_memory(recorded)
    assert counted["work"] == 4000 == found["work", ENTER] == found["work", EXIT]


def test_pages_are_taken_away(program, start, record):
    """
    A process that removes the pages of its rings repeatedly makes xprof wait. This neither ends xprof nor affects the
    calls of another process.
    """
    path = program("live/programs/memory.c", "-O1")
    thief, other = (start([path, "wait", *how]) for how in (["steal", 10**6], ["fast", 2000]))
    for process in thief, other:
        assert process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", "-p", f"{thief.pid},{other.pid}").wait_attached()
    thief.send_signal(signal.SIGUSR1)
    targets.wait_for_cpu_time(thief.pid)
    other.send_signal(signal.SIGUSR1)
    other.output = other.communicate(timeout=60)[0]
    thief.kill()
    recorded = session.finish().adds_up()
    assert recorded.status == 0
    found = next(log.calls() for log in recorded.logs if log.pid == other.pid)
    assert found["work", ENTER] == found["work", EXIT] == recording.printed_calls(other.output)["work"] == 8000


def test_xprof_is_late(program, waiting, record):
    """While xprof gets no CPU, threads with full rings record through the kernel. Each call is recorded or counted."""
    process = waiting(program("live/programs/memory.c", "-O1"), "twice", 400000)
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    session.process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGUSR1)
    targets.wait_for_cpu_time(process.pid)
    session.process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "ready\n"
    recorded = session.stop().adds_up()
    assert recorded.totals["seen"] == 4 * 400000
    assert recorded.manifest["processes"][0]["full_ring"] > 0


def test_few_threads_have_large_rings(program, waiting, record):
    """While xprof gets no CPU, the ring of one of few threads has room for 131 000 events."""
    process = waiting(program("live/programs/memory.c", "-O1"), "twice", 30000)
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    session.process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    session.process.send_signal(signal.SIGCONT)
    recorded = session.stop().adds_up()
    assert recorded.totals["seen"] == 4 * 30000
    assert recorded.manifest["processes"][0]["full_ring"] == 0


def test_calls_begin_when_all_is_attached(busy, record):
    """The first process calls while the other one is being attached: these calls are not part of the recording."""
    first, second = busy(pause_us=100), busy(pause_us=100)
    recorded = first.works_during(record(MEMORY, "--off-cpu", "-p", f"{first.pid},{second.pid}")).adds_up()
    clock = recorded.manifest["clock"]
    begin = clock["start_tsc"] + recorded.manifest["attached_after_s"] * clock["hz"]
    for log in recorded.logs:
        times = [record.tsc for record in log.records() if record.kind in recording.FUNCTION_KINDS]
        assert min(times) >= begin - 1e-6 * clock["hz"]
    assert all(process["filtered"]["outside"] > 0 for process in recorded.manifest["processes"][:1])


def rings(pid):
    """Returns the number of mappings of call rings in a process."""
    return sum(" rw-s " in line and "/memfd:xprof" in line for line in pathlib.Path(f"/proc/{pid}/maps").open())


def test_recorded_again_and_again(busy, record):
    """
    The next recording reuses the stub of the previous one, which has unmapped its rings. The target continues
    throughout.
    """
    target = busy(pause_us=100)
    for _ in range(2):
        recorded = target.works_during(record(MEMORY, "--no-samples", "-p", target.pid)).adds_up()
        assert in_memory(recorded) and recorded.totals["written"] > 100
        assert rings(target.pid) == 0
        target.assert_unharmed()
    maps = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
    assert len(re.findall(r" r-xp .*/memfd:xprof", maps)) == 1


def test_xprof_is_killed(busy, record, xprof):
    """
    After a kill of xprof, the target continues: first with full rings, then without probes. The next recording restores
    the sleds.
    """
    target = busy(pause_us=100)
    session = record(MEMORY, "--no-samples", "-p", target.pid).wait_attached()
    target.assert_works()
    session.process.kill()
    session.finish()
    target.assert_works()
    done = xprof("restore", "-p", target.pid)
    assert done.returncode == 0, done.stderr
    target.assert_unharmed()
    recorded = target.works_during(record(MEMORY, "--no-samples", "-p", target.pid)).adds_up()
    assert in_memory(recorded) and recorded.totals["written"] > 100
    target.assert_unharmed()


def test_what_a_killed_xprof_left(program, record, start):
    """The next recording ignores the unread records that a killed xprof left in the rings."""
    process = start([program("live/programs/memory.c", "-O1"), "wait", "twice", 20000])
    assert process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    session.process.kill()
    session.finish()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    process.output = process.communicate(timeout=60)[0]
    recorded = session.finish().adds_up()
    assert_all_calls(process, recorded, ("work", "inner"))
    assert recorded.totals["seen"] <= 4 * 20000 + 1


def stored_bytes(session):
    """Returns the size of the only spool, which xprof creates with the first calls."""
    return sum(spool.stat().st_size for spool in session.directory.glob("*.spool"))


def ring_file(pid):
    """Returns the path of the file of the process's call rings."""
    line = next(line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if " rw-s " in line and "/memfd:xprof" in line)
    start, end = (int(address, 16) for address in line.split()[0].split("-"))
    return pathlib.Path(f"/proc/{pid}/map_files/{start:x}-{end:x}")


def test_memory_of_a_killed_xprof_is_written_over(program, record, start):
    """The process has overwritten the rings that a killed xprof left: the next recording starts with new rings."""
    process = start([program("live/programs/memory.c", "-O1"), "wait", "scribble", 1500])
    assert process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    session.process.kill()
    session.finish()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    process.output = process.communicate(timeout=60)[0]
    recorded = session.finish().adds_up()
    assert_all_calls(process, recorded, ("work", "inner"))
    assert recorded.totals["seen"] <= 4 * 1500 + 1


def test_memory_that_other_processes_forge(program, record, start):
    """
    A process without privileges and its children write over their rings, headers and keys all the time: no call of
    another process is lost, added or changed, and the recording ends as usual.
    """
    path = program("live/programs/memory.c", "-O1")
    forger, process = start([path, "wait", "forge", 1000]), start([path, "wait", "fast", 25000])
    assert forger.stdout.readline() == process.stdout.readline() == "ready\n"
    session = record(MEMORY, "--no-samples", "--follow", "-p", f"{process.pid},{forger.pid}").wait_attached()
    forger.send_signal(signal.SIGUSR1)
    recording.wait_until(lambda: targets.children(forger.pid), "it does not forge")
    process.send_signal(signal.SIGUSR1)
    counted = recording.printed_calls(process.communicate(timeout=60)[0])
    recorded = session.stop().adds_up()
    (log,) = [log for log in recorded.logs if log.pid == process.pid]
    found = log.calls()
    assert all(found[name, ENTER] == found[name, EXIT] + found[name, TAIL] == counted[name] for name in ("work", "inner"))
    assert len(recorded.manifest["processes"]) == 5


def test_recover_and_restore_after_a_kill(waiting, program, record, xprof):
    """
    The recovered log has the stored calls, and recover reports what is missing: later calls are in the memory of the
    process, which restore releases.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 1500)
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    recording.wait_until(lambda: stored_bytes(session) > 4 * 1500 * 8, "the calls are not stored")
    session.process.kill()
    session.finish()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    done = xprof("recover", session.directory)
    assert done.returncode == 0, done.stderr
    assert "if xprof was killed, up to a second of calls before that is missing\n" in done.stderr
    (path,) = session.directory.glob("*.fdr")
    log = recording.Log(session.directory, {"log": path.name, "pid": process.pid, "exe": f"/proc/{process.pid}/exe"})
    found = log.calls()
    assert found["work", ENTER] == found["work", EXIT] == found["inner", ENTER] == 1500
    assert found["outer", ENTER] == 1
    assert xprof.check(path).returncode == 0
    assert ring_file(process.pid).stat().st_blocks * 512 >= 256 << 10
    done = xprof("restore", "-p", process.pid)
    assert done.returncode == 0 and "up to a second of calls before the kill is missing" in done.stderr
    assert rings(process.pid) == 0
    for _ in range(5):
        process.send_signal(signal.SIGUSR1)
        process.stdout.readline()
    assert process.wait(60) == 0


def test_calls_are_stored_in_a_pause(waiting, program, record):
    """
    Calls are stored soon after a burst, so they survive a kill of xprof. Each burst starts when the previous one is
    stored; storing once per second would leave most of a second between bursts.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 6000)
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    waited_s = []
    for _ in range(5):
        stored = stored_bytes(session)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        recording.wait_until(lambda: stored_bytes(session) > stored, "the calls are not stored")
        waited_s.append(time.monotonic() - began)
    assert statistics.median(waited_s) < 0.6, waited_s
    session.stop().adds_up()


@pytest.mark.parametrize("limit, mode, why", [
    ("address", "patch", "its address space is limited (`ulimit -v`), and call rings need 71 MiB of it"),
    ("locked", "patch", "it locks the memory that it maps (mlockall), and call rings are 71 MiB"),
    ("mappings", "probe", "it is near its limit of mappings"),
])
def test_target_gets_what_it_would_get(start, program, record, limit, mode, why):
    """
    A recording must not use a resource that the target may need: xprof uses another mode instead, and prints the
    reason.
    """
    process = start([program("live/programs/spares.c", "-O1", project.no_runtime()), limit])
    assert process.stdout.readline() == "ready\n"
    session = record("--call-mode=auto", "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.communicate(timeout=60)[0] == "taken\n"
    recorded = session.finish().adds_up()
    assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {mode}
    assert why in recorded.messages and recorded.totals["written"] > 0


@pytest.mark.parametrize("options", [(), ("--min-duration=1us",)], ids=["calls", "short"])
def test_rings_are_unmapped(start, program, record, options):
    """
    Rings are unmapped even if threads return to the stub later, at any instruction where a signal interrupted them. The
    stub can be reused.
    """
    process = start([program("live/programs/parked.c", "-O2", "-pthread", project.no_runtime()), 12])
    assert process.stdout.readline() == "ready\n"
    status = pathlib.Path(f"/proc/{process.pid}/status")

    def address_kib():
        return int(re.search(r"^VmSize:\s+(\d+)", status.read_text(), re.M)[1])

    before = address_kib()
    for _ in range(2):
        recorded = record(MEMORY, *options, "--no-samples", "-p", process.pid, "-d", "500ms", "--flight=1M").finish()
        assert recorded.status == 0, recorded.messages
        assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {"memory"}
        assert address_kib() - before <= 64
    process.send_signal(signal.SIGUSR1)
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 0, told
    assert "well 12\n" in told and int(re.search(r"parked (\d+)", told)[1]) > 6, told


def test_place_of_the_rings_is_taken(start, program, record):
    """
    The process maps other memory at the place of the rings between two recordings: it gets another stub a few times,
    and is then only patched.
    """
    process = start([program("live/programs/spares.c", "-O1", project.no_runtime()), "holes"])
    assert process.stdout.readline() == "ready\n"
    for mode in ("memory", "memory", "memory", "memory", "patch", "patch"):
        recorded = record("--call-mode=auto", "--no-samples", "-p", process.pid, "-d", "10ms").finish()
        assert recorded.status == 0, recorded.messages
        assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {mode}
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "taken\n"
    assert pathlib.Path(f"/proc/{process.pid}/maps").read_text().count("/memfd:xprof ") == 4


def test_no_rings_where_the_kernel_grants_no_memory(waiting, program, record, xprof, tmp_path):
    """
    With vm.overcommit_memory=2, here simulated by a mount namespace, rings could make an allocation of any process
    fail: xprof uses none.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 200)
    (tmp_path / "mode").write_text("2\n")
    for free_kib, mode in ((200000, "patch"), (700000, "memory")):
        (tmp_path / "meminfo").write_text(f"CommitLimit:    1000000 kB\nCommitted_AS:   {1000000 - free_kib} kB\n")
        script = (
            f"mount --bind {tmp_path}/mode /proc/sys/vm/overcommit_memory && mount --bind {tmp_path}/meminfo /proc/meminfo"
            ' && exec "$@"'
        )
        strict = project.wrapped(xprof, tmp_path, "unshare", "-m", "sh", "-c", script, "sh")
        recorded = record("--call-mode=auto", "--no-samples", "-p", process.pid, "-d", "10ms", program=strict).finish()
        assert recorded.status == 0, recorded.messages
        assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {mode}
        assert ("(vm.overcommit_memory=2)" in recorded.messages) == (mode == "patch")


def test_limit_of_the_address_space(waiting, program, record):
    """
    A process that cannot map the memory is patched, and xprof prints the reason. The next recording adds no further
    stub.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 200)
    in_use = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[0]) * 4096
    resource.prlimit(process.pid, resource.RLIMIT_AS, (in_use + (8 << 20), in_use + (8 << 20)))
    for _ in range(2):
        session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
        recorded = session.stop().ok()
        assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {"patch"}
        assert recorded.messages.count("are patched, but their calls are not recorded in memory: ") == 1
        assert "address space" in recorded.messages or "RLIMIT_AS" in recorded.messages or "ulimit -v" in recorded.messages
        found = recorded.log().calls()
        assert found["work", ENTER] == found["work", EXIT] == 200
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    assert len(re.findall(r" r-xp .*/memfd:xprof", maps)) == 1


@pytest.fixture
def memory_group():
    """Makes a cgroup with a memory limit, version 1 or 2: memory_group(limit in bytes) -> its directory."""
    mounts = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]
    limits = ["memory.limit_in_bytes", "memory.max"]
    made = []

    def make(limit):
        for mount, name in zip(mounts, limits):
            group = mount / f"xprof-test-{os.getpid()}"
            if name == limits[0] and not (mount / name).exists():
                continue
            with contextlib.suppress(OSError):
                group.mkdir()
                made.append(group)
            if (group / name).exists():
                (group / name).write_text(str(limit))
                return group
        return pytest.skip("no control groups of memory here")

    yield make
    for group in made:
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


@pytest.mark.parametrize("mode", ["memory", "probe"])
def test_memory_limit_of_the_target(waiting, program, record, xprof, tmp_path, memory_group, mode):
    """If copies of the target's code could make the kernel kill the target, its sleds are not patched."""
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 200)
    group = memory_group(512 << 10)
    (group / "cgroup.procs").write_text(str(process.pid))
    options = ["record", f"--call-mode={mode}", "--no-samples", "-p", process.pid, "-o", tmp_path / "out"]
    refused = xprof(*options)
    assert refused.returncode == 1 and not (tmp_path / "out").exists()
    said = r"the memory limit of its control group \(memory\.max\) leaves it \d+ KiB, of up to \d+ KiB that it may need"
    assert re.search(said, refused.stderr)
    sampled = record(f"--call-mode={mode}", "-p", process.pid, "-d", "100ms").finish().ok()
    assert re.search(said + ".*; its sleds are not recorded", sampled.messages) and "has no XRay sleds" not in sampled.messages
    memory_group(64 << 20)
    session = record(f"--call-mode={mode}", "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    assert session.stop().adds_up().log().calls()["work", ENTER] == 200


def test_memory_limit_of_xprof(waiting, program, tmp_path, memory_group):
    """
    If the rings could make the kernel kill xprof, no call is recorded in memory: xprof reports that, and loses no call.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 200)
    group = memory_group(40 << 20)
    directory = tmp_path / "out"
    argv = [project.XPROF, "record", "--call-mode=auto", "--no-samples", "-p", str(process.pid), "-o", directory]
    join = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    with subprocess.Popen(join + argv, stderr=subprocess.PIPE, text=True) as limited:
        said = ""
        while "recording process" not in said:
            said += limited.stderr.readline() or pytest.fail(said)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
        limited.send_signal(signal.SIGINT)
        said += limited.communicate(timeout=60)[1]
    assert limited.returncode == 0, said
    assert "the memory limit of xprof's cgroup (memory.max) has no space for more call rings" in said
    manifest = json.loads((directory / "manifest.json").read_text())
    (traced,) = manifest["processes"]
    assert {o["call_mode"] for o in traced["objects"]} == {"patch"}
    assert manifest["totals"]["lost"]["total"] == 0
    assert recording.Log(directory, traced).calls()["work", ENTER] == 200


def test_debugger_takes_another_mode(waiting, program, record):
    """While another process traces the target, it cannot be stopped: it is probed, and no call is lost."""
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 200)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(0x4206, process.pid, 0, 0) == 0  # PTRACE_SEIZE
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    assert libc.ptrace(0x4207, process.pid, 0, 0) == 0  # PTRACE_INTERRUPT, to detach it
    os.waitpid(process.pid, 0x40000000)
    assert libc.ptrace(17, process.pid, 0, 0) == 0  # PTRACE_DETACH
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "ready\n"
    recorded = session.stop().ok()
    assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {"probe"}
    # The thread that traces: a worker may run tests in a thread other than its first.
    assert f"are probed, not patched: process {threading.get_native_id()} is attached to it" in recorded.messages
    assert recorded.log().calls()["work", ENTER] == 200


def test_threads_without_tsc(waiting, program, record):
    """
    rdtsc would kill threads without a TSC: the kernel records their calls, both of an existing thread and of a new one.
    """
    process = waiting(program("live/programs/no_tsc.c", "-O1"), 500)
    session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output = process.communicate(timeout=60)[0]
    recorded = session.finish().ok()
    assert process.returncode == 0
    assert "threads that may not read the TSC (PR_SET_TSC in prctl(2)) are recorded through the kernel" in recorded.messages
    found = recorded.log().calls()
    assert found["work", ENTER] == found["work", EXIT] == recording.printed_calls(output)["work"] == 1000


def test_thread_that_forbids_itself_the_tsc(memory, program):
    """The stub's rdtsc kills a thread that disables its TSC: xprof prints the reason, and has the calls until then."""
    source = "#include <sys/prctl.h>\n#include <x86intrin.h>\nint main(void) { prctl(PR_SET_TSC, PR_TSC_SIGSEGV); return !__rdtsc(); }"
    if subprocess.run([program.text("rdtsc", source, instrument=False)]).returncode != -signal.SIGSEGV:
        pytest.skip("PR_SET_TSC does not keep programs from rdtsc on this machine")
    process, recorded = memory("forbid_tsc", 100)
    assert process.returncode == -signal.SIGSEGV
    told = f"its thread {process.pid} disabled its TSC (PR_SET_TSC in prctl(2)) while its calls were recorded"
    assert recorded.messages.count(told) == 1 and "record it with --call-mode patch" in recorded.messages
    found = recorded.log().calls()
    assert found["work", ENTER] == found["inner", ENTER] == found["work", EXIT] == 100
    # The entry of the call that killed the thread was reserved.
    assert recorded.totals["lost"]["total"] == 1


def cpu_s_at_rest(process):
    """Returns the CPU time of an idle process."""
    spent = []

    def is_at_rest():
        time.sleep(0.3)
        spent.append(targets.cpu_s(process.pid))
        return len(spent) > 1 and spent[-1] - spent[-2] < 0.005

    recording.wait_until(is_at_rest, "it does not come to rest")
    return spent[-1]


def test_flood_of_fs_bases(program, record, start):
    """
    A thread that changes its fs base for each call costs xprof little more than one that records through the kernel.
    """
    spent = {}
    for mode in ("patch", "memory"):
        process = start([program("live/programs/memory.c", "-O1"), "wait", "flood", 20000])
        assert process.stdout.readline() == "ready\n"
        session = record(f"--call-mode={mode}", "--no-samples", "-p", process.pid).wait_attached()
        before = targets.cpu_s(session.process.pid)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
        spent[mode] = cpu_s_at_rest(session.process) - before
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 0
        recorded = session.finish().adds_up()
        # A ring that the thread gets again before xprof has removed its key belongs to no thread.
        assert recorded.totals["seen"] == 80001
        assert recorded.totals["lost"]["total"] <= (400 if mode == "memory" else 0)
    assert spent["memory"] < 2 * spent["patch"] + 0.1, spent


@pytest.mark.parametrize("mode", [MEMORY, "--call-mode=auto"])
def test_budget_keeps_the_mode(busy, record, mode):
    target = busy(pause_us=100)
    recorded = target.works_during(record(mode, "--no-samples", "--max-overhead=50%", "-p", target.pid)).adds_up()
    assert in_memory(recorded) and recorded.totals["in_memory"] > 0


@pytest.mark.parametrize("mode", ["memory", "auto"])
def test_without_rdfsbase(busy, xprof, tmp_path, mode):
    """
    If rdfsbase seems to return another value than the kernel, xprof uses patched sleds, and reports the reason in all
    places.
    """
    source, preload = tmp_path / "no.c", tmp_path / "no.so"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <sys/syscall.h>\n"
        "long syscall(long number, long a, long b, long c, long d, long e, long f) {"
        "    long (*real)(long, ...) = dlsym(RTLD_NEXT, \"syscall\");"
        "    return number == SYS_arch_prctl ? -1 : real(number, a, b, c, d, e, f); }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", preload, source], check=True)
    target, directory = busy(pause_us=1000), tmp_path / "out"
    env = {**os.environ, "LD_PRELOAD": str(preload)}

    def run(*args):
        done = subprocess.run(list(map(str, [xprof.path, *args])), env=env, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done

    why = "programs cannot execute rdfsbase here"
    record = ("record", f"--call-mode={mode}", "--no-samples", "-p", target.pid)
    doctor = run("doctor", target.pid).stdout.splitlines()
    assert any(line.startswith("degraded  memory sleds") and why in line for line in doctor)
    assert any(line.endswith("its sleds can be patched") for line in doctor)
    assert f"  patched, not in memory: {why}" in run(*record, "--dry-run").stdout
    # Without an explicit --call-mode memory, the reason is not printed each time.
    assert why in run(*record, "-d", "100ms", "-o", directory, *["-v"] * (mode == "auto")).stderr
    manifest = json.loads((directory / "manifest.json").read_text())
    assert why in manifest["processes"][0]["patched_because"]
    assert manifest["processes"][0]["objects"][0]["call_mode"] == "patch"
    assert manifest["totals"]["in_memory"] == 0 < manifest["totals"]["written"]


def test_memfd_create_is_refused(waiting, program, record):
    """
    A process without a free descriptor is probed, and xprof prints the reason. With a free descriptor, its calls are
    recorded in memory.
    """
    process = waiting(program("live/programs/memory.c", "-O1"), "rounds", 200)
    used = 1 + max(int(fd) for fd in os.listdir(f"/proc/{process.pid}/fd"))
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used, before[1]))
    for is_limited in (True, False):
        session = record(MEMORY, "--no-samples", "-p", process.pid).wait_attached()
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "ready\n"
        recorded = session.stop().ok()
        assert in_memory(recorded) != is_limited and recorded.totals["lost"]["total"] == 0
        why = "are probed, not patched: it cannot map the stub: Too many open files"
        assert (why in recorded.messages) == is_limited, recorded.messages
        found = recorded.log().calls()
        assert found["work", ENTER] == found["work", EXIT] == 200
        process.send_signal(signal.SIGUSR1)  # the process waits during a call
        assert process.stdout.readline() == "ready\n"
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
