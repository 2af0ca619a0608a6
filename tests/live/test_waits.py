# SPDX-License-Identifier: BSD-2-Clause
"""Checks record --off-cpu: why threads wait, how long, and which thread wakes them."""
import collections
import json
import os
import pathlib
import re
import subprocess

import pytest

import perf_tool
import project
import recording
import wait_records

pytestmark = [pytest.mark.uprobes, pytest.mark.together("waits")]

ROOM = ["--buffer=16M"]  # on a busy machine, the reader may be late
STATES = {"sleeper": "sleeping", "taker": "lock", "reader": "sleeping", "addressee": "lock", "parent": "disk",
          "starved": "preempted"}
# Not "parent": glibc's vfork() keeps its return address in a register, which xprof's rules cannot express.
PLACES = {"sleeper": "wait_asleep", "taker": "wait_for_lock", "reader": "wait_for_pipe", "addressee": "wait_for_mail",
          "starved": "wait_for_cpu"}
WAKERS = {"taker": "holder", "reader": "writer", "addressee": "mailer"}

REASONS = {"shorter": "shorter than the minimum", "not_chosen": "not sampled, which the written waits represent"}

Truth = collections.namedtuple("Truth", "name tid waited_ns switches run_delay_ns life_ns birth_ns death_ns")


def adds_up(recorded):
    assert recorded.status == 0, recorded.messages
    waits = recorded.manifest["waits"]
    assert waits["seen"] == waits["written"] + sum(waits["filtered"].values()) + waits["lost"], waits
    summary = re.search(r"(\d+) waits? seen = (\d+) written \+ (\d+) filtered \+ (\d+) lost$", recorded.messages, re.M)
    filtered = {REASONS[name]: count for name, count in waits["filtered"].items() if count}
    assert [int(n) for n in summary.groups()] == [waits["seen"], waits["written"], sum(filtered.values()), waits["lost"]]
    assert recording.filtered(recorded.messages, summary.end()) == filtered, recorded.messages
    assert waits["lost"] == waits["stacks_lost"] == waits["sums_lost"] == 0, waits
    return waits


class Known:
    """A recording of live/programs/waits.c from its first instruction on."""

    def __init__(self, xprof, recorded):
        self.recorded = recorded
        lines = [line.split() for line in recorded.output.splitlines()]
        self.truths = [Truth(name, *map(int, numbers)) for name, *numbers in lines]
        self.waits = collections.defaultdict(list)
        for wait in wait_records.read(xprof, recorded.directory):
            self.waits[wait.tid].append(wait)
        self.threads = {thread["tid"]: thread for thread in adds_up(recorded)["threads"]}
        self.tid = {thread["name"]: thread["tid"] for thread in self.threads.values()}

    def is_whole(self, tid):
        """
        Returns whether each wait that the kernel counted is recorded. On a busy machine, a thread may have a burst of
        waits, or the reader may be late: some recorded waits then represent others, so sums are right only on average.
        Some machines do not report all context switches.
        """
        return self.threads[tid]["waits"] == len(self.waits[tid])


WAITS = ("live/programs/waits.c", "-g", "-O2", "-fomit-frame-pointer", "-pthread", "-D_GNU_SOURCE")


@pytest.fixture(scope="module")
def known(xprof, program, tmp_path_factory):
    directory = tmp_path_factory.mktemp("waits") / "out"
    path = program(*WAITS, instrument=False)
    return Known(xprof, recording.Session(xprof, directory, ["--off-cpu", *ROOM, "--", path, 3]).finish())


@pytest.fixture(scope="module")
def on_machine(xprof, program, tmp_path_factory):
    """Runs a program whose threads wait for a disk, and have different priorities."""
    directory = tmp_path_factory.mktemp("machine")
    path = program(*WAITS, instrument=False)
    return Known(xprof, recording.Session(xprof, directory / "out", ["--off-cpu", *ROOM, "--", path, 1.5, directory / "file"]).finish())


def places_of(xprof, recorded):
    """Returns ns of the waits of each thread, and of each of its functions: {tid: ns}, {(tid, function): ns}."""
    done = xprof("export", "--off-cpu", "--format=folded", "-o", "-", "--by=thread", recorded.directory)
    assert done.returncode == 0, done.stderr
    sums, places = collections.Counter(), collections.Counter()
    for stack, _, ns in (line.rpartition(" ") for line in done.stdout.splitlines()):
        thread = int(re.match(r"[^;]*;[^;]* \((\d+)\)", stack)[1])
        sums[thread] += int(ns)
        places.update({(thread, place): int(ns) for place in set(stack.split(";")[2:])})
    return sums, places


def is_share(ns, truth, rest_ns):
    """
    Returns whether ns is the waited time within 2 %. rest_ns: time that interrupts and a hypervisor may use, which is neither CPU time of the
    program nor a wait.
    """
    return 0.98 * truth.waited_ns - rest_ns <= ns <= 1.02 * truth.waited_ns


def is_from_to(value, low, high, rel):
    """Returns whether the value is between both limits, with a tolerance of this share and 3 ms."""
    return (1 - rel) * low - 3e6 <= value <= (1 + rel) * high + 3e6


def test_disk(on_machine, xprof):
    """Page faults wait for pages on disk: the wait has the duration that the thread measured, and no waker."""
    (truth,) = [truth for truth in on_machine.truths if truth.name == "faulting"]
    waits = [w for w in on_machine.waits[truth.tid] if w.state == "disk"]
    if len(waits) < 20:
        pytest.skip("no page fault waits for a disk here")
    _, places = places_of(xprof, on_machine.recorded)
    # Each fault costs an interrupt and exits of a virtual machine, and some machines do not report all context
    # switches.
    thread = on_machine.threads[truth.tid]
    missed_ns = 1e9 * (thread["blocked_s"] + thread["runnable_s"]) - sum(w.period for w in on_machine.waits[truth.tid])
    rest_ns = max(0.1 * truth.waited_ns, 1e5 * len(waits)) + max(missed_ns, 0)
    assert is_share(places[truth.tid, "wait_for_page"], truth, rest_ns), (truth, places)
    assert places[truth.tid, "wait_for_page"] >= 0.99 * sum(w.period for w in waits)
    assert sum(not w.waker or bool({"hardirq", "softirq"} & w.flags) for w in waits) >= 0.9 * len(waits)


def test_priority_inversion(on_machine, xprof):
    """The holder of a lock is preempted: the holder is the waker, and its own wait for a CPU is recorded."""
    truths = {truth.name: truth for truth in on_machine.truths}
    if "urgent" not in truths:
        pytest.skip("no real-time priorities here")
    urgent, modest = truths["urgent"], truths["modest"]
    _, places = places_of(xprof, on_machine.recorded)
    assert is_share(places[urgent.tid, "wait_for_modest"], urgent, 0), (urgent, places)
    # The sum is right only on average if some of its waits represent others.
    rest_ns = 0.02 * modest.life_ns if on_machine.is_whole(modest.tid) else 0.1 * modest.waited_ns
    assert is_share(places[modest.tid, "work_with_lock"], modest, rest_ns), (modest, places)
    assert modest.waited_ns > 0.5 * urgent.waited_ns
    locked = [w for w in on_machine.waits[urgent.tid] if w.state == "lock" and w.blocked > 4_000_000]
    assert len(locked) >= 5
    assert {(w.waker, w.waker_name) for w in locked} == {(modest.tid, "modest")}


def test_durations(known):
    """Durations are within 2 % of those that the program measured, with the right state."""
    assert {truth.name for truth in known.truths} == set(STATES)
    whole = 0
    for truth in known.truths:
        thread = known.threads[truth.tid]
        waits = known.waits[truth.tid]
        if truth.name == "taker":  # in addition to the lock, the thread sleeps
            waits = [w for w in waits if w.state == "lock"]
        elif truth.name != "starved":
            # On a busy machine, the thread is often preempted, also in its function.
            of_kind = sum(w.period for w in waits if w.state in (STATES[truth.name], "preempted"))
            assert of_kind > 0.97 * sum(w.period for w in waits), truth
            assert any(w.state == STATES[truth.name] for w in waits), truth
        if known.is_whole(truth.tid):
            whole += 1
            off_ns = 1e9 * (thread["blocked_s"] + thread["runnable_s"])
            assert sum(w.period for w in known.waits[truth.tid]) == pytest.approx(off_ns, rel=0, abs=1e7), thread
            # Before and after, the thread may have waited for a CPU.
            high_ns = truth.waited_ns + truth.birth_ns + truth.death_ns
            assert is_from_to(sum(w.period for w in waits), truth.waited_ns, high_ns, 0.02), (truth, thread)
    assert whole


def test_kernel_accounts(known, on_machine):
    """
    The sums of threads are within 1 % of the kernel's, and the numbers of context switches are equal. A thread's wait
    for a CPU before its first and after its last reading of the clock is known only within bounds.
    """
    for known, truth in [(of, truth) for of in (known, on_machine) for truth in of.truths]:
        thread = known.threads[truth.tid]
        # The first wait is a new thread's wait for a CPU. A thread may wait after it has read the clock.
        assert truth.switches + 1 - (thread["missed"] > 0) <= thread["waits"] <= truth.switches + 12, (truth, thread)
        off_s = thread["blocked_s"] + thread["runnable_s"]
        delay_ns = truth.run_delay_ns, truth.run_delay_ns + truth.death_ns
        life_ns = truth.life_ns - truth.birth_ns, truth.life_ns + truth.death_ns
        assert is_from_to(1e9 * thread["runnable_s"], *delay_ns, 0.01), (truth, thread)
        assert is_from_to(1e9 * (off_s + thread["running_s"]), *life_ns, 0.01), (truth, thread)
        if known.is_whole(truth.tid):  # compared with xprof's own account, too
            waits = known.waits[truth.tid]
            assert sum(w.period for w in waits) / 1e9 == pytest.approx(off_s, rel=0.01), truth
            runnable_ns = sum(w.runnable for w in waits)
            assert is_from_to(runnable_ns, *delay_ns, 0.01), truth


def test_wakers(known):
    for name, waker in WAKERS.items():
        waits = [w for w in known.waits[known.tid[name]] if w.state == STATES[name] and w.blocked > 2_000_000]
        assert len(waits) > 50
        # The last wait may be for another thread that prints, too.
        assert {(w.waker, w.waker_name) for w in waits[:-1]} == {(known.tid[waker], waker)}, name
    sleeps = [w for w in known.waits[known.tid["sleeper"]] if w.state == "sleeping"]
    assert sleeps and not any(w.waker for w in sleeps)
    assert sum("hardirq" in w.flags for w in sleeps) >= 0.98 * len(sleeps)
    # A vfork() child wakes its parent; it has ended by then.
    forks = [w for w in known.waits[known.tid["parent"]] if w.state == "disk" and w.blocked > 10_000_000]
    assert forks and all(w.waker not in (None, w.tid) and w.waker_name == "parent" for w in forks)


def test_end_while_waiting(known):
    """The exit of its process wakes a waiting thread. The wait is recorded before the process is gone."""
    (wait,) = [w for w in known.waits[known.tid["hanging"]] if w.state == "lock"]
    assert wait.blocked > 2.5e9 and "last" not in wait.flags
    assert wait.waker_name == "waits" or wait.waker_name.startswith("waits")


@pytest.mark.parametrize("path", perf_tool.PATHS or [None])
def test_stacks(known, path, tmp_path):
    """Stacks are complete without frame pointers. perf shows the same durations."""
    perf = perf_tool.Perf(path, tmp_path)
    text = perf("script", "-i", known.recorded.directory / "perf.data", "--no-inline", "--ns", "-F",
                "comm,pid,tid,cpu,time,period,event,ip,sym,dso", "-f")
    samples = [perf_tool.Sample(block) for block in re.split(r"\n\s*\n", text) if block.strip()]
    for name, place in PLACES.items():
        of_thread = [s for s in samples if s.tid == known.tid[name] and s.event.startswith("offcpu-time")]
        assert sum(s.period for s in of_thread) == sum(w.period for w in known.waits[known.tid[name]])
        whole = [s for s in of_thread if place in s.names]
        in_place = sum(w.period for w in known.waits[known.tid[name]] if w.state == STATES[name])
        assert sum(s.period for s in whole) > 0.9 * in_place > 0, name
        # glibc of Debian 13 has no name for it.
        ends = {(s.names[-1], "libc" in s.objects[-1]) for s in whole}
        assert ends <= {(end, True) for end in ("clone3", "__clone3", "clone", "[unknown]")}, (name, ends)


def test_profile(known):
    """The profile of waits, next to the profile of CPU time, is in us."""
    waits = known.recorded.manifest["waits"]
    (profile,) = [p for p in waits["profiles"] if p["file"].startswith("waits.") and p["waits"] > 1000]
    shown = project.run(["go", "tool", "pprof", "-raw", known.recorded.directory / profile["file"]])
    if shown.returncode:
        pytest.skip("no go tool pprof here")
    us = sum(int(m) for m in re.findall(r"^ +(\d+) +\d+: ", shown.stdout, re.M))
    ns = sum(w.period for waits in known.waits.values() for w in waits if w.pid == profile["pid"])
    assert us == pytest.approx(ns / 1000, abs=2)


def states_in(tasks):
    return [path.read_text().rpartition(")")[2].split()[0] for path in tasks.glob("*/stat")]


def test_open_waits(xprof, record, program, start):
    """
    Waits that started before the recording, or are not over at its end, count for the recording's duration. xprof reads
    their user stacks while the threads wait: complete, without frame pointers.
    """
    path = program.text("openwait", r"""
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void locked_out(void) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
static void *wait(void *arg) { locked_out(); return arg; }
int main(void) { pthread_t t; pthread_mutex_lock(&m); pthread_create(&t, 0, wait, 0); for (;;) pause(); }
""", "-g", "-O1", "-fomit-frame-pointer", "-pthread", instrument=False)
    process = start([path])
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    recording.wait_until(lambda: states_in(tasks) == ["S", "S"], "its threads do not wait")
    session = record("--off-cpu", "-p", process.pid, "-d", 1)
    recorded = session.finish()
    waits = adds_up(recorded)
    found = list(wait_records.read(xprof, recorded.directory))
    assert [w.state for w in sorted(found)] == ["sleeping", "lock"]
    assert all({"first", "last"} <= w.flags and "no-stack" not in w.flags for w in found)
    assert all(w.blocked == pytest.approx(recorded.manifest["duration_s"] * 1e9, rel=0.3) for w in found)
    assert waits["running_s"] == pytest.approx(0, abs=1e-3)
    done = xprof("export", "--off-cpu", "--format=folded", "-o", "-", recorded.directory)
    stacks = [line.split(";")[1:] for line in done.stdout.splitlines()]
    assert any("locked_out" in stack and "wait" in stack[:3] for stack in stacks), stacks
    assert any("main" in stack and "_start" in stack[:2] for stack in stacks), stacks


def test_more_open_waits_than_a_ring_holds(record, program, start):
    """At the end, xprof writes the open waits to the rings and reads the rings meanwhile, so that they do not overflow."""
    path = program.text("crowdwait", r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *wait(void *arg) { for (;;) pause(); return arg; }
int main(void) {
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (int i = 0; i < 1000; i++) { pthread_t t; if (pthread_create(&t, &attr, wait, 0)) return 1; }
	puts("ready");
	fflush(stdout);
	wait(0);
}
""", "-O1", "-pthread", instrument=False)
    process = start([path])
    assert process.stdout.readline() == "ready\n"
    waits = adds_up(record("--off-cpu", "--buffer=64K", "-p", process.pid, "-d", 0.3).finish())
    assert waits["written"] == waits["thread_count"] == 1001


def test_minimum(xprof, record, program):
    """Waits shorter than --off-cpu=TIME are only counted."""
    path = program(*WAITS, instrument=False)
    recorded = record("--off-cpu=6ms", "--", path, 0.5).finish()
    waits = adds_up(recorded)
    found = list(wait_records.read(xprof, recorded.directory))
    assert waits["filtered"]["shorter"] > 10
    assert found and all(w.blocked + w.runnable >= 6_000_000 or "last" in w.flags for w in found)


def test_report(known, xprof):
    """
    The report shows each thread's account, its waits to the ns, and their wakers. The title has the number of the
    summary.
    """
    title = re.search(r"(\d+) waits? seen, (\d+) written", xprof("report", "--off-cpu", "--by=none", known.recorded.directory).stdout)
    waits = known.recorded.manifest["waits"]
    assert [int(n) for n in title.groups()] == [waits["seen"], waits["written"]]
    assert waits["seen"] == sum(t["waits"] - t["missed"] for t in known.threads.values())
    done = xprof("report", "--json", "--off-cpu", "--by=thread", known.recorded.directory)
    assert done.returncode == 0, done.stderr
    groups = {group["tid"]: group["waits"] for group in json.loads(done.stdout)["groups"]}
    for tid, waits in known.waits.items():
        assert groups[tid]["total_ns"] == sum(w.period for w in waits) == sum(p["total_ns"] for p in groups[tid]["places"])
        assert groups[tid]["recorded"] == len(waits)
        assert groups[tid]["count"] == pytest.approx(sum(65536 / w.chance for w in waits), abs=1)
        for key in "running", "runnable", "blocked":
            assert groups[tid]["account"][f"{key}_ns"] == pytest.approx(1e9 * known.threads[tid][f"{key}_s"], abs=1)
    for name, waker in WAKERS.items():
        place = next(p for p in groups[known.tid[name]]["places"] if p["state"] == STATES[name] and PLACES[name] in p["stack"])
        assert (place["waker"]["tid"], place["waker"]["name"]) == (known.tid[waker], waker), place


def test_export(known, xprof):
    """The sums of an export are those of the waits."""
    sums, places = places_of(xprof, known.recorded)
    assert sums == {tid: sum(w.period for w in waits) for tid, waits in known.waits.items()}
    for name in ("sleeper", "reader", "addressee"):
        tid = known.tid[name]
        assert places[tid, PLACES[name]] > 0.9 * sums[tid], name


NAPS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int rounds;
static void *nap(void *arg) { for (int i = 0; i < rounds; i++) usleep(5000); return arg; }
int main(int argc, char **argv) {
    pthread_t t;
    rounds = atoi(argv[1]);
    if (argc > 2 && fork()) return wait(0) < 0;
    pthread_create(&t, 0, nap, 0);
    nap(0);
    return pthread_join(t, 0);
}
"""


@pytest.fixture(scope="module")
def naps(program):
    return program.text("naps", NAPS, "-g", "-O1", "-pthread", instrument=False)


# The two threads wait for each other 50 000 times.
PINGPONG = r"""
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
static int there[2], back[2];
static void *echo(void *arg) { char c; while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1); return arg; }
int main(void) {
    cpu_set_t one;
    pthread_t t;
    char c = 0;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    /* Nothing preempts it: a few long waits would make the sums. */
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1})) return 2;
    if (pipe(there) || pipe(back) || pthread_create(&t, 0, echo, 0)) return 1;
    for (int i = 0; i < 50000; i++)
        if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 1;
    close(there[1]);
    return pthread_join(t, 0);
}
"""


def naps_in(process, session):
    """Records until each thread has slept several times, and returns the recording."""

    def naps_of():
        tasks = pathlib.Path(f"/proc/{process.pid}/task").glob("*/status")
        return [int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", path.read_text(), re.M)[1]) for path in tasks]

    session.wait_attached()
    before = max(naps_of())
    recording.wait_until(lambda: min(naps_of()) > before + 20, "no naps")
    return session.stop()


def test_one_thread_and_all(xprof, record, naps, start):
    """Records a single thread, and all processes."""
    process = start([naps, 100000])
    recording.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 2, "no thread")
    tids = {int(tid) for tid in os.listdir(f"/proc/{process.pid}/task")}
    (other,) = tids - {process.pid}
    recorded = naps_in(process, record("--off-cpu", "-t", other))
    assert {thread["tid"] for thread in adds_up(recorded)["threads"]} == {other}
    found = list(wait_records.read(xprof, recorded.directory))
    assert {w.tid for w in found} == {other} and len([w for w in found if w.state == "sleeping"]) > 10
    recorded = naps_in(process, record("--off-cpu", *ROOM, "-a"))
    waits = adds_up(recorded)
    threads = {thread["tid"]: thread for thread in waits["threads"]}
    # On a machine with many short processes, the manifest omits some.
    assert tids < set(threads) or waits["threads_omitted"], waits
    for thread in (threads[tid] for tid in tids & set(threads)):
        # On a busy machine, the thread waits for a CPU after each sleep. The number of recorded waits depends on other
        # load.
        assert thread["waits"] > 10 and thread["blocked_s"] + thread["runnable_s"] > recorded.manifest["duration_s"] / 2
    found = collections.Counter((w.tid, w.state) for w in wait_records.read(xprof, recorded.directory))
    assert {state for tid, state in found if tid in tids} <= {"sleeping", "preempted"}, found


def test_children(xprof, record, naps):
    """With --follow, records a child and its threads until they end; without --follow, only the command."""
    for options, count in ((["--follow"], 3), ([], 1)):
        recorded = record("--off-cpu", *options, "--", naps, 40, "child").finish()
        threads = adds_up(recorded)["threads"]
        assert len(threads) == count, threads
        naps_of = [thread for thread in threads if thread["waits"] >= 40]
        assert len(naps_of) == count - 1, threads
        assert all(thread["blocked_s"] > 0.19 for thread in naps_of)


def test_programs(xprof, record, program, tmp_path):
    """
    Each program of a process has its own account, with the waits in this program, even if another thread executed the
    next program.
    """
    path = program.text("execs", r"""
#include <pthread.h>
#include <unistd.h>
static void *next(void *names) { usleep(30000); return execv(*(char **)names, names) ? names : 0; }
int main(int argc, char **argv) {
    pthread_t t;
    usleep(50000);
    if (argc < 2) return 0;
    pthread_create(&t, 0, next, argv + 1);
    for (;;) pause();
}
""", "-g", "-O1", "-pthread", instrument=False)
    names = [tmp_path / name for name in ("second", "third", "fourth")]
    for name in names:
        name.symlink_to(path)
    recorded = record("--off-cpu", "--", path, *names).finish()
    waits = adds_up(recorded)
    images = sorted({thread["image"] for thread in waits["threads"]})
    assert len(images) >= 4 and waits["thread_count"] == 4, waits["threads"]  # the first thread of each program
    # The name of a process may be that of its next program, if the exec happened during the read.
    renamed = json.loads((recorded.directory / "manifest.json").read_text())
    second, third = (next(p for p in renamed["processes"] if p["comm"] == name) for name in ("second", "third"))
    second["comm"] = third["comm"]
    for manifest in recorded.manifest, renamed:
        (recorded.directory / "manifest.json").write_text(json.dumps(manifest))
        done = xprof("report", "--json", "--off-cpu", recorded.directory)
        assert done.returncode == 0, done.stderr
        groups = {group["image"]: group["waits"] for group in json.loads(done.stdout)["groups"]}
        assert sorted(groups) == images
        for image, found in groups.items():
            account = found["account"]
            of_image = [thread for thread in waits["threads"] if thread["image"] == image]
            assert account["threads"] == len(of_image), image
            if not waits["missed"]:
                off_ns = account["blocked_ns"] + account["runnable_ns"]
                assert off_ns == pytest.approx(found["total_ns"], rel=0.01, abs=1e5), image
    assert sum(thread["blocked_s"] for thread in waits["threads"]) == pytest.approx(waits["blocked_s"])


@pytest.mark.alone
def test_weights(xprof, record, program):
    """If there are too many waits, some represent all: the sums are right within 5 sigma."""
    path = program.text("pingpong", PINGPONG, "-O1", "-pthread", "-D_GNU_SOURCE", instrument=False)
    recorded = record("--off-cpu", "--", path).finish()
    waits = adds_up(recorded)
    assert waits["filtered"]["not_chosen"] > 10 * waits["written"], waits
    found = list(wait_records.read(xprof, recorded.directory))
    for thread in waits["threads"]:
        of_thread = [w for w in found if w.tid == thread["tid"]]
        weights = [65536 / w.chance for w in of_thread]
        variance = sum(weight * (weight - 1) for weight in weights)
        assert sum(weights) == pytest.approx(thread["waits"] - thread["missed"], abs=5 * variance**0.5 + 1)
        periods = [weight * (w.blocked + w.runnable) for weight, w in zip(weights, of_thread)]
        variance = sum(period**2 * (1 - 1 / weight) for weight, period in zip(weights, periods))
        off_ns = 1e9 * (thread["blocked_s"] + thread["runnable_s"])
        # Some machines do not report all context switches, and a missing wait may be long.
        assert thread["missed"] or sum(periods) == pytest.approx(off_ns, rel=0.01, abs=5 * variance**0.5), thread
        assert sum(w.period for w in of_thread) == pytest.approx(sum(periods), rel=0.001)


@pytest.mark.parametrize("tracepoint", ["sched_switch", "sched_waking", "task_rename"])
def test_no_tracepoint(xprof, tmp_path, tracepoint):
    """Simulates a kernel whose BTF lacks the tracepoint, for this xprof only."""
    types = pathlib.Path("/sys/kernel/btf/vmlinux").read_bytes()
    name = f"\0btf_trace_{tracepoint}\0".encode()
    assert name in types
    (tmp_path / "types").write_bytes(types.replace(name, name.replace(b"btf", b"old")))
    mount = f"mount --bind {tmp_path}/types /sys/kernel/btf/vmlinux && exec {xprof.path} record --off-cpu -o {tmp_path}/out -- true"
    done = project.run(["unshare", "--mount", "sh", "-c", mount])
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert f"--off-cpu needs the tracepoint {tracepoint}, which this kernel does not have" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
