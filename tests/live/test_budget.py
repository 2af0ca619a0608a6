# SPDX-License-Identifier: BSD-2-Clause
"""
Checks --max-overhead: the recording stays within its share, reports throttled functions, and misses no other call.
"""
import collections
import functools
import pathlib
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import time

import pytest

import leftovers
import project
import recording
import targets
from recording import ENTER, EXIT, TAIL

pytestmark = pytest.mark.uprobes

alone = pytest.mark.alone("measures what calls cost")

# Ways to record sleds, each with a number of calls of hot() per round that exceeds the budget by far.
HOT_CALLS = [("patch", 2000), ("memory", 60000)]
MODES = pytest.mark.parametrize("mode, hot_calls", HOT_CALLS, ids=["patch", "memory"])
PATCHED = ({"patch"}, {"memory"})  # by --call-mode auto
COUNTED = 15  # the kind in the word of a patched sled that only counts calls
RECORDED = 0  # the kind of entries that are recorded
SLEDS = 6  # of live/programs/load.c


def call_modes(recorded):
    return {process["pid"]: {o["call_mode"] for o in process["objects"]} for process in recorded.manifest["processes"]}


def taken_out(recorded, pid=None):
    (process,) = [p for p in recorded.manifest["processes"] if pid in (None, p["pid"])]
    return {f["name"]: f for o in process["objects"] for f in o.get("taken_out", [])}


def log_calls(recorded, pid=None):
    (log,) = [log for log in recorded.logs if pid in (None, log.pid)]
    found = log.calls()
    left = {name: found[name, EXIT] + found[name, TAIL] for name, _ in found}
    return {name: found[name, ENTER] for name, kind in found if kind == ENTER}, left


@alone
@MODES
def test_busy_threads_keep_their_budget(record, load, xprof, mode, hot_calls):
    """4 busy threads keep most of their work, although recording all calls of hot() would use most of their time."""
    target = load(threads=4, hot_calls=hot_calls)
    costs = []
    # The work that other loads leave to this machine per second of CPU time varies, so their share is measured again.
    # xprof's share must always be within the budget.
    while not costs or costs[-1] >= 0.35 and len(costs) < 3:
        before = [target.work_rate(0.25) for _ in range(3)]
        session = record("--no-samples", f"--call-mode={mode}", "--max-overhead=5%", "-p", target.pid).wait_attached()
        during = [target.work_rate(0.5) for _ in range(6)]
        recorded = session.stop().ok()
        after = [target.work_rate(0.25) for _ in range(3)]
        costs.append(1 - statistics.median(during) / statistics.median(before + after))
    assert costs[-1] < 0.35, costs
    told = recorded.manifest["budget"]
    out = taken_out(recorded)
    print(f"costs {costs}, {100 * told['spent']:.1f} % by xprof's own account, taken out: {out}")
    assert call_modes(recorded) == {target.pid: {mode}}
    # If a hypervisor pauses the machine, the pause lengthens an operation, such as a stop in which functions are
    # throttled.
    stopped = recorded.manifest["attach"]["stopped_ms"] / 1000 / recorded.manifest["duration_s"]
    assert told["share"] == 0.05 and told["spent"] < 0.08 + stopped
    assert 2 < out["hot"]["out_s"] <= recorded.manifest["duration_s"] and out["hot"]["times"] >= 1
    report = xprof("report", recorded.directory)
    assert report.returncode == 0
    assert any(" hot" in line and "throttled" in line for line in report.stdout.splitlines()), report.stdout
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


@pytest.mark.parametrize("hot_when", ["from-the-start", "later"])
@MODES
def test_no_other_function_misses_a_call(record, load, mode, hot_calls, hot_when):
    """
    Calls of hot() are counted. Every call of the other functions is recorded, also while hot() is throttled and
    resumed.
    """
    threads, rounds = 2, 300 if hot_when == "from-the-start" else 0
    target = load(threads=threads, hot_calls=hot_calls, rounds=rounds, wait=True)
    options = ("--no-samples", "--buffer=16M", f"--call-mode={mode}", "--max-overhead=25%")
    session = record(*options, "-p", target.pid).wait_attached()
    if hot_when == "later":
        before = list(entry_words(target.pid, target.path))
        target.process.send_signal(signal.SIGUSR2)
    target.process.send_signal(signal.SIGUSR1)
    if hot_when == "later":
        target.assert_works()
        for is_out in (True, False, True):
            target.process.send_signal(signal.SIGUSR2)
            recording.wait_until(lambda: (list(entry_words(target.pid, target.path)) != before) == is_out, f"hot() is {'not' if is_out else 'still'} out")
        target.process.send_signal(signal.SIGTERM)
    assert target.process.wait(60) == 0
    recorded = session.finish().ok()
    truth = dict(zip(("rounds", "hot", "warm", "cold"), target.counters()))
    assert not rounds or truth["rounds"] == threads * rounds
    out = taken_out(recorded)
    entered, left = log_calls(recorded)
    assert out["hot"]["times"] >= (2 if hot_when == "later" else 1)
    # On a busy machine, warm() may also exceed the budget.
    assert set(out) <= {"hot", "warm"}
    assert all(entered[name] == truth[name] for name in ("warm", "cold") if name not in out), (entered, truth)
    assert entered == left
    # Calls of threads that were in a sled of hot() when the sled was restored.
    assert recorded.totals["filtered"]["outside"] <= threads * out["hot"]["times"]
    known = entered.get("hot", 0) + out["hot"].get("calls_counted", 0)
    assert 0 < known <= truth["hot"], (entered, out, truth)
    assert entered.get("hot", 0) < truth["hot"]
    print(f"hot: {entered.get('hot', 0)} recorded, {out['hot']}, of {truth['hot']}")


def test_thread_that_ends_while_a_function_goes_out(record, program, start):
    """If a thread ends after hot() was throttled, before xprof knows, its open call ends then."""
    process = start([program("live/programs/leaves.c", "-O1", project.no_runtime()), "wait"])
    assert process.stdout.readline() == "ready\n"
    options = ("--no-samples", "--buffer=16M", "--call-mode=patch", "--max-overhead=10%")
    session = record(*options, "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    recorded = session.finish().ok()
    assert set(taken_out(recorded)) == {"hot"}
    entered, left = log_calls(recorded)
    assert entered["hot"] > 0 and entered == left
    # The other thread may have been in hot(), too.
    assert [one["exits"] for one in recorded.log().entry["synthesized_by_function"]] in ([1], [2])


def test_cooled_functions_come_back(record, load):
    """When hot() is no longer called, it is recorded again."""
    target = load(threads=1, hot_calls=2000)
    session = record("--no-samples", "--call-mode=patch", "--max-overhead=25%", "-p", target.pid).wait_attached()

    def is_out():
        # A throttled function is counted, or its sled is restored if even counting costs too much.
        return sum(word[0] >> 4 == RECORDED for word in entry_words(target.pid, target.path)) < SLEDS // 2

    recording.wait_until(is_out, "hot() is not taken out")
    time.sleep(0.6)
    target.process.send_signal(signal.SIGUSR2)
    recording.wait_until(lambda: not is_out(), "hot() is still out")
    time.sleep(1)  # the sled is patched shortly before hot() counts as recorded
    calls = target.counters()[target.HOT]
    recorded = session.stop().ok()
    out = taken_out(recorded)["hot"]
    assert target.counters()[target.HOT] == calls
    assert 0.5 < out["out_s"] < recorded.manifest["duration_s"] - 0.5, out


def test_needs_uprobe_multi(xprof, load, tmp_path):
    """Without uprobe_multi, --max-overhead is refused: xprof cannot measure the cost of calls."""
    target = load(threads=1)
    done = xprof("record", "--uprobes=single", "--max-overhead=5%", "-p", target.pid, "-o", tmp_path / "out")
    assert done.returncode == 3 and "requires uprobe_multi, Linux 6.6" in done.stderr and "--functions" in done.stderr
    assert not (tmp_path / "out").exists()
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


@MODES
def test_from_the_start_of_a_command(program, record, tmp_path, mode, hot_calls):
    """The budget holds from the start of a command, whose rates are not known before."""
    path = program("live/programs/load.c", "-O2", project.no_runtime())
    counters = tmp_path / "counters"
    options = ("--no-samples", "--buffer=16M", f"--call-mode={mode}", "--max-overhead=25%")
    recorded = record(*options, "--", path, "run", 2, 400, hot_calls, counters).finish().ok()
    _, hot, warm, cold = targets.Load(type("", (), {"pid": 0}), path, counters).counters()
    entered, left = log_calls(recorded)
    assert (entered["warm"], entered["cold"]) == (warm, cold) and entered == left
    assert set(taken_out(recorded)) == {"hot"} and entered["hot"] < hot
    assert [modes for modes in call_modes(recorded).values()] == [{mode}]


@pytest.mark.together("kills")
def test_killed_while_functions_go_and_come(xprof, busy, tmp_path):
    """
    The target survives a kill of xprof at any moment of the first second, in which xprof throttles functions and checks
    them again.
    """
    chance = random.Random(7)
    target = busy(threads=2)
    arguments = [xprof.path, "record", "-q", "--no-samples", "--call-mode=patch", "--max-overhead=1%", "-p", target.pid]
    for number in range(3):
        process = subprocess.Popen([str(a) for a in (*arguments, "-o", tmp_path / f"killed{number}")])
        time.sleep(chance.uniform(0.2, 1.6))
        assert process.poll() is None
        process.kill()
        process.wait()
        target.assert_works()
        done = leftovers.restore(xprof, target.pid)
        assert done.returncode == 0, done.stderr
        target.assert_unharmed()


def test_calls_are_counted(record, load):
    """
    With patched sleds, calls of a throttled function are still counted, except calls in progress while the sleds
    change.
    """
    threads = 2
    target = load(threads=threads, hot_calls=1000, wait=True)
    options = ("--no-samples", "--buffer=16M", "--call-mode=patch", "--max-overhead=25%")
    session = record(*options, "-p", target.pid).wait_attached()
    target.process.send_signal(signal.SIGUSR1)
    recording.wait_until(lambda: COUNTED in entry_kinds(target), "hot() is not taken out")
    time.sleep(1)
    target.process.send_signal(signal.SIGUSR2)
    target.wait_without_hot()
    hot = target.counters()[target.HOT]
    recorded = session.stop().ok()
    assert target.counters()[target.HOT] == hot
    out = taken_out(recorded)["hot"]
    missed = hot - log_calls(recorded)[0].get("hot", 0) - out["calls_counted"]
    assert out["counted_s"] == out["out_s"] > 0.3
    assert 0 <= missed <= 2 * threads * out["times"], (hot, out)


def test_short_processes(record, program, waiting):
    """Short processes end before their CPU time is read twice. The budget uses the CPU time at their exit."""
    processes = 40
    process = waiting(program("live/programs/relay.c", "-O2", project.no_runtime()), processes)
    session = record("--no-samples", "--follow", "--max-overhead=10%", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    truth = recording.printed_calls(process.communicate(timeout=60)[0])
    recorded = session.finish().ok()
    entered = collections.Counter()
    for log in recorded.logs:
        entered.update({name: count for (name, kind), count in log.calls().items() if kind == ENTER})
    out = {f["name"] for p in recorded.manifest["processes"] for o in p["objects"] for f in o.get("taken_out", [])}
    print(f"hot: {entered['hot']} recorded of {truth['hot']}; spent {recorded.manifest['budget']}")
    assert out == {"hot"} and entered["warm"] == truth["warm"]
    assert 0 < entered["hot"] < truth["hot"]


def test_workers_of_a_server(record, program, start, tmp_path):
    """
    A function that children call is throttled in all living processes, and resumed there. New children inherit the
    state.
    """
    path = program("live/programs/workers.c", "-O2", project.no_runtime())
    file = tmp_path / "numbers"
    process = start([path, "wait", file])
    assert process.stdout.readline() == "ready\n"
    options = ("-v", "--no-samples", "--buffer=16M", "--follow", "--max-overhead=10%")
    session = record(*options, "-p", process.pid).wait_attached()
    recorded_words = list(entry_words(process.pid, path))

    def say(number, value):
        with open(file, "r+b") as numbers:
            numbers.seek(8 * number)
            numbers.write(struct.pack("=Q", value))

    def workers(out, count):
        pids = targets.children(process.pid)
        return len(pids) == count and all((list(entry_words(pid, path)) != recorded_words) == out for pid in pids)

    process.send_signal(signal.SIGUSR1)
    recording.wait_until(lambda: workers(True, 2), "hot() is not taken out of both")
    process.send_signal(signal.SIGHUP)
    recording.wait_until(lambda: workers(True, 3), "hot() is not out in a third")
    recording.wait_until(lambda: " is counted" in session.messages(), "hot() is not counted")
    say(3, 1)
    recording.wait_until(lambda: workers(False, 3), "hot() does not come back")
    say(3, 0)
    recording.wait_until(lambda: workers(True, 3), "hot() is not taken out again")
    say(4, 1)
    assert process.wait(recording.READY_S) == 0
    recorded = session.finish().ok()
    _, hot, warm, *_ = struct.unpack("=5Q", file.read_bytes())
    entered = collections.Counter()
    for log in recorded.logs:
        found, left = log_calls(recorded, log.pid)
        assert found == left
        entered.update(found)
    out = [f for p in recorded.manifest["processes"] for o in p["objects"] for f in o.get("taken_out", [])]
    assert {f["name"] for f in out} == {"hot"} and entered["warm"] == warm
    counted = max(f["calls_counted"] for f in out)
    assert entered["hot"] > 0 and 0 < counted <= hot - entered["hot"], (entered, out, hot)
    modes = call_modes(recorded)
    assert len(modes) == 4 and all(mode == {"memory"} for mode in modes.values()), modes


def test_restless_threads(record, program, waiting):
    """
    Functions are throttled and resumed while busy and short-lived threads run, signals arrive anywhere, and vfork()
    children exist.
    """
    # Long enough to throttle functions: the budget is checked ten times per second.
    process = waiting(program("live/programs/restless.c", "-O2", project.no_runtime()), 40000)
    session = record("--no-samples", "--buffer=16M", "--max-overhead=1%", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    truth = recording.printed_calls(output)
    recorded = session.finish().ok()
    entered, left = log_calls(recorded)
    out = taken_out(recorded)
    assert entered == left and out and call_modes(recorded)[process.pid] in PATCHED
    for name, calls in truth.items():
        if name in out:
            assert entered.get(name, 0) + out[name].get("calls_counted", 0) <= calls, (name, out, truth)
        else:
            assert entered[name] == calls, (name, entered, truth)


def test_process_that_cannot_be_patched(record, xprof, load, tmp_path):
    """If another tool's probes are on the sleds of a process, no budget can be kept, so its calls are not recorded."""
    target = load(threads=1)
    other = record("--no-samples", "--call-mode=probe", "--functions=cold", "-p", target.pid).wait_attached()
    for options in (["--no-samples"], ["--no-samples", "--dry-run"], [], ["--dry-run"]):
        done = xprof("record", *options, "--max-overhead=25%", "-d", "200ms", "-o", tmp_path / "out", "-p", target.pid)
        assert re.search(rf"the sleds of .* in process {target.pid} cannot be patched: .*; omit --max-overhead", done.stderr)
        if "--no-samples" in options:
            assert done.returncode != 0 and not (tmp_path / "out").exists()
        else:
            assert done.returncode == 0 and "its sleds are not recorded" in done.stderr
    target.assert_works()
    other.stop().ok()
    leftovers.assert_nothing_left(target.pid)


def test_programs_of_children(record, program, tmp_path):
    """
    Without a budget, the programs that children execute are probed. With a budget, they are patched after the exec, and
    not probed.
    """
    path = program("live/programs/load.c", "-O2", project.no_runtime())
    command = f"{path} run 1 600 2000 {tmp_path}/counters; :"
    recorded = record("--no-samples", "--follow", "--max-overhead=25%", "--", "sh", "-c", command).finish().ok()
    assert set().union(*call_modes(recorded).values()) in PATCHED
    (log,) = recorded.logs
    assert log.calls()["warm", ENTER]
    assert "does not record earlier calls" in recorded.messages and "--call-mode probe" not in recorded.messages


@pytest.mark.parametrize("mode", ["auto", "memory"])
def test_all_processes_of_a_program(record, load, mode):
    target = load(threads=1, hot_calls=60000)
    options = ["--no-samples", f"--call-mode={mode}", "--max-overhead=10%"]
    session = record(*options, "--exec", target.path).wait_attached()
    recording.wait_until(lambda: COUNTED in entry_kinds(target) or len(entry_kinds(target)) > 1, "hot() is not taken out")
    recorded = session.stop().adds_up()
    assert "hot" in taken_out(recorded) and call_modes(recorded)[target.pid] in PATCHED
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


def test_process_that_cannot_be_stopped(record, load, start, tmp_path):
    """While a debugger holds the process, hot() cannot be throttled; it is throttled when the debugger detaches."""
    if not shutil.which("strace"):
        pytest.skip("no strace here")
    target = load(threads=2, hot_calls=2000, wait=True)
    target.process.send_signal(signal.SIGUSR2)
    target.process.send_signal(signal.SIGUSR1)
    # Calls recorded in user space cost too little for this budget.
    session = record("--no-samples", "--max-overhead=10%", "--call-mode=patch", "-p", target.pid).wait_attached()
    tracer = start(["strace", "-f", "-o", tmp_path / "trace", "-p", target.pid])
    status = pathlib.Path(f"/proc/{target.pid}/status")
    recording.wait_until(lambda: "TracerPid:\t0\n" not in status.read_text(), "strace does not attach")
    assert COUNTED not in entry_kinds(target)
    target.process.send_signal(signal.SIGUSR2)
    time.sleep(1)
    assert COUNTED not in entry_kinds(target)
    begin = time.monotonic()
    tracer.terminate()
    tracer.wait(recording.READY_S)
    recording.wait_until(lambda: COUNTED in entry_kinds(target), "hot() is not taken out")
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    out = taken_out(recorded.adds_up())
    # On a busy machine, warm() may be throttled, too.
    assert "hot" in out
    # While the process was traced, hot() was recorded and not reported as throttled.
    assert 0 < out["hot"]["out_s"] <= time.monotonic() - begin
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


def test_process_that_shares_its_memory(record, load):
    """
    A process that shares the target's memory does not stop with the target: no code is changed meanwhile, and hot() is
    throttled after that process has ended.
    """
    target = load(threads=2, hot_calls=2000, wait=True)
    target.process.send_signal(signal.SIGUSR2)
    target.process.send_signal(signal.SIGUSR1)
    # Calls recorded in user space cost too little for this budget.
    session = record("--no-samples", "--max-overhead=10%", "--call-mode=patch", "-p", target.pid).wait_attached()
    words = list(entry_words(target.pid, target.path))
    target.process.send_signal(signal.SIGHUP)
    recording.wait_until(lambda: targets.children(target.pid), "no process shares its memory")
    (sharer,) = targets.children(target.pid)
    target.process.send_signal(signal.SIGUSR2)
    # For half a second of CPU time; a tenth is enough if no process shares the memory.
    recording.wait_until(lambda: target.counters()[target.HOT] > 100 * 2000, "hot() is not called")
    assert list(entry_words(target.pid, target.path)) == words
    target.process.send_signal(signal.SIGHUP)
    recording.wait_until(lambda: list(entry_words(target.pid, target.path)) != words, "hot() is not taken out")
    assert not targets.runs(sharer, target.path)
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    # The budget was exceeded while no code could be changed, so warm() may be throttled, too.
    assert {"hot"} <= set(taken_out(recorded.adds_up())) <= {"hot", "warm"}
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


def test_nothing_is_missed_while_memory_is_shared(record, load):
    """Each call of a function that cannot be throttled is recorded."""
    target = load(threads=2, hot_calls=2000, wait=True)
    target.process.send_signal(signal.SIGUSR2)
    target.process.send_signal(signal.SIGUSR1)
    # Rings for all calls: on a busy machine the reader may be late.
    # In memory mode, the first calls of the process that shares the memory count as the target's.
    options = ["--no-samples", "--buffer=16M", "--max-overhead=10%", "--call-mode=patch"]
    session = record(*options, "-p", target.pid).wait_attached()
    target.process.send_signal(signal.SIGHUP)
    recording.wait_until(lambda: targets.children(target.pid), "no process shares its memory")
    target.process.send_signal(signal.SIGUSR2)
    recording.wait_until(lambda: target.counters()[target.HOT] > 100 * 2000, "hot() is not called")
    target.process.send_signal(signal.SIGUSR2)
    target.wait_without_hot()
    recorded = session.stop().adds_up()
    assert recorded.status == 0, recorded.messages
    # hot() is called neither at the start nor at the end of the recording, so none of its records is filtered for that.
    assert log_calls(recorded)[0]["hot"] == target.counters()[target.HOT]
    assert taken_out(recorded) == {}
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


def entry_kinds(target):
    """Returns the kinds in the words of the patched entry sleds."""
    return {word[0] >> 4 for word in entry_words(target.pid, target.path)}


@functools.lru_cache(maxsize=None)
def entry_offsets(path):
    listed = project.run([project.XPROF, "list", "--sleds", path]).stdout.splitlines()
    return [int(line.split()[3], 0) for line in listed if line.split()[1] == "entry"]


def entry_words(pid, path):
    offsets = entry_offsets(path)
    assert offsets
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split()
            start, end = (int(x, 16) for x in fields[0].split("-"))
            for into in (offset - int(fields[2], 16) for offset in offsets):
                if fields[-1] != str(path) or "x" not in fields[1] or not 0 <= into < end - start:
                    continue
                memory.seek(start + into)
                sled = memory.read(6)
                if sled[:2] == b"\x41\xba":
                    yield sled[:1:-1]


def probes(pid, path):
    return [place for place in leftovers.breakpoints(pid) if place[0] == str(path)]


@pytest.mark.parametrize("clang", ["clang-14"])
@pytest.mark.parametrize("options", [[], ["--follow"]], ids=["one", "follow"])
def test_conditional_tail_exits_are_left_out(record, program, waiting, clang, options):
    """
    Conditional tail exits are probed even if other sleds are patched. With a budget, functions that have them are not
    recorded.
    """
    if clang not in [f"clang-{v}" for v in project.clang_versions()]:
        pytest.skip(f"no {clang} here, which makes such sleds")
    path = program("live/programs/conditional.c", "-Os", project.no_runtime(clang), clang=clang)
    process = waiting(path, 2)
    session = record("--no-samples", "--max-overhead=50%", *options, "-p", process.pid).wait_attached()
    assert not probes(process.pid, path)
    process.send_signal(signal.SIGUSR1)
    truth = recording.printed_calls(process.communicate(timeout=60)[0])
    recorded = session.finish().ok()
    entered, left = log_calls(recorded)
    assert entered == left == {"target": truth["target"]}
    assert "budget: 5 functions with conditional tail exits were not recorded" in recorded.messages


@pytest.mark.parametrize("what, options", [("load", []), ("exec", ["--follow"]), ("fork", ["--follow"])])
def test_restless_target(xprof, record, churn, what, options):
    """Objects are loaded and unloaded, and processes start and exit, while functions are throttled."""
    target = churn(what)
    session = record("--no-samples", "--max-overhead=1%", *options, "-p", target.pid).wait_attached()
    time.sleep(1.2)  # the budget is checked ten times per second
    target.assert_works()
    recorded = session.stop().adds_up()
    assert recorded.status == 0, recorded.messages
    target.assert_works()
    checked = xprof.check(recorded.directory)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    leftovers.assert_nothing_left(target.pid)


def test_thousands_of_functions(record, program, start, tmp_path):
    """3 000 functions that all exceed the budget are throttled in the first moments, also if children call them."""
    path = program("live/programs/crowd.c", "-O1", project.no_runtime(), "-g0")
    process = start([path, "fork", tmp_path / "counters"])
    recording.wait_until(lambda: targets.children(process.pid), "no child")
    session = record("--no-samples", "--max-overhead=5%", "--follow", "-p", process.pid).wait_attached()
    time.sleep(4)
    recorded = session.stop().adds_up()
    assert recorded.status == 0, recorded.messages
    told = recorded.manifest["budget"]
    out = {f["name"] for p in recorded.manifest["processes"] for o in p["objects"] for f in o.get("taken_out", [])}
    print(f"{len(out)} out, {told}")
    assert len(out) > 2000 and told["spent"] - told["spent_in_stops"] < 0.25
    process.terminate()
    assert process.wait(recording.READY_S) == 0
