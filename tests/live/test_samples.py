# SPDX-License-Identifier: BSD-2-Clause
"""
Checks samples: they cover all CPU time, in the right functions and processes, for short-lived and changing processes.
"""
import collections
import contextlib
import math
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import profiles
import project
import recording
import targets
from cpu_time import assert_cpu_time, charged_of, cpu_of, stolen_s

pytestmark = [pytest.mark.uprobes, pytest.mark.usefixtures("stolen_before")]

alone = pytest.mark.alone("measures CPU time within 3 %")

FAILED = 1
BUILD = ("-O1", "-g", "-fno-omit-frame-pointer")


@pytest.fixture
def shares(program):
    return program("live/programs/shares.c", *BUILD, instrument=False)


class Sampled:
    """A finished recording with samples."""

    def __init__(self, xprof, recorded, status=0):
        self.directory = recorded.directory
        self.messages = recorded.messages
        self.output = recorded.output
        assert recorded.status == status, f"status {recorded.status}:\n{recorded.messages}"
        self.totals = recorded.manifest["samples"]
        self.entries = self.totals["profiles"]
        assert self.totals["seen"] == self.totals["written"] + self.totals["lost"], self.totals
        assert self.totals["lost"] == 0 and self.totals["sideband_lost"] == 0, self.totals
        assert sum(e["samples"] for e in self.entries) == self.totals["written"]
        assert sorted(e["file"] for e in self.entries) == sorted(p.name for p in self.directory.glob("*.prof"))
        for entry in self.entries:
            assert self.read(entry).samples == entry["samples"], entry
        checked = xprof.check(self.directory)
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def read(self, entry):
        return profiles.Profile(self.directory / entry["file"])

    def of(self, **fields):
        """Returns the entries with these fields."""
        return [e for e in self.entries if all(e[k] == v for k, v in fields.items())]

    def one(self, **fields):
        """Returns the path of the only profile with these fields."""
        found = self.of(**fields)
        assert len(found) == 1, self.entries
        return self.directory / found[0]["file"]

    def samples(self, **fields):
        return sum(e["samples"] for e in self.of(**fields))


@pytest.fixture
def sampled(xprof, record):
    """Records until the end: sampled("--", path) -> Sampled."""
    return lambda *args, **options: Sampled(xprof, record("--no-sleds", *args, **options).finish())


def cut_of(entry):
    """
    Returns the number of stacks that lack callers, which xprof reports. With slow clocks on a busy machine, these were
    two thirds of all.
    """
    return entry["stacks"]["seen"] - entry["stacks"]["complete"]


def assert_shares(top, cut):
    """
    Checks the shares of both functions of shares.c, which have all samples but those of its start and `cut` ones.
    Accepts a deviation that chance explains, or of one percentage point.
    """
    (_, most), (_, rest) = top["work_a"], top["work_b"]
    assert most + rest + cut >= 0.95 * sum(flat for flat, _ in top.values()), top
    found = most / (most + rest)
    z = (found - 0.75) / math.sqrt(0.75 * 0.25 / (most + rest))
    assert abs(found - 0.75) <= 0.01 or abs(z) <= 4, f"work_a: {found:.3f} instead of 0.75 (z = {z:.1f})"


def tops(path, program):
    """Returns the top table of each reader: {reader: top}."""
    found = {}
    if profiles.GO:
        found["go tool pprof"] = profiles.go_top(path)
    if profiles.GOOGLE_PPROF:
        found["google-pprof"] = profiles.perl_top(path, program)
    return found


def quick_top(path, program):
    """Returns the top table of the fastest reader. The tests of the format use both."""
    return profiles.go_top(path) if profiles.GO else profiles.perl_top(path, program)


def assert_work(path, program, by_each=False, cut=0):
    """by_each: by each reader. They find the binary in different ways. cut: see cut_of()."""
    for top in tops(path, program).values() if by_each else [quick_top(path, program)]:
        assert {"work_a", "work_b"} <= set(top), top
        assert_shares(top, cut)


def start_waiting(start, path, *args):
    """Starts shares.c, which waits for a line."""
    process = start([path, *args, "wait"], stdin=subprocess.PIPE)
    assert process.stdout.readline() == "waiting\n"
    return process


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


# Truth.


@alone
@pytest.mark.parametrize("threads", [1, 4])
def test_cpu_time_and_shares(sampled, shares, threads, tmp_path):
    """
    A hypervisor's pause removes samples from one function, so both checks are repeated. The path of the program has
    spaces.
    """
    program = copy_of(shares, tmp_path / "a path with spaces", "my program")
    off = []
    for _ in range(4):
        before = stolen_s()
        recorded = sampled("-F", "999", "--", program, 2 / threads, threads)
        path = recorded.one()
        used = cpu_of(recorded.output)
        stolen = (stolen_s() - before) / used
        off.append((profiles.Profile(path).seconds / used - 1, stolen))
        if -0.03 <= off[-1][0] <= 0.03 + stolen and len(off) < 4:
            with contextlib.suppress(AssertionError):
                return assert_work(path, program, by_each=True)
    assert_work(path, program, by_each=True)
    assert -0.03 <= off[-1][0] <= 0.03 + stolen, f"never within 3 % of the CPU time used, stolen time allowed for: {off}"


def test_period(sampled, shares):
    """-c counts ns if there is no PMU."""
    recorded = sampled("-c", "2000000", "--", shares, 0.5)
    if recorded.totals["event"] != "cpu-clock":
        pytest.skip("periods are cycles here")
    profile = profiles.Profile(recorded.one())
    assert profile.period_us == 2000
    assert_cpu_time(profile.seconds, cpu_of(recorded.output))


def test_frequency_above_the_limit(sampled, shares):
    limit = int(pathlib.Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text())
    recorded = sampled("-F", limit + 1, "--", "true")
    if limit < 50000 or recorded.totals["event"] != "cpu-clock":
        assert re.search(rf"\b{limit}\b", recorded.messages) and "perf_event_max_sample_rate" in recorded.messages
    else:
        assert "sampling at 50000 Hz, the maximum of cpu-clock" in recorded.messages
    assert recorded.totals["period_ns"] == max(10**9 // limit, 20000)


def test_frequency_max(sampled, shares):
    limit = int(pathlib.Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text())
    recorded = sampled("-F", "max", "--buffer=64M", "--", shares, 0.2)
    assert recorded.totals["period_ns"] == max(10**9 // limit, 20000)
    # An event during the handling of another one gives no sample. The kernel counts it, and xprof reports the number.
    missed = recorded.totals["missed"]
    profile = profiles.Profile(recorded.one())
    assert profile.seconds > 0.02
    assert_cpu_time(profile.seconds + missed * recorded.totals["period_ns"] / 1e9, charged_of(recorded.output), 0.15)


# What is sampled.


def test_recordings_at_once(xprof, record, start, shares):
    """Two recordings of a process and one of its first thread. Its other threads are made later."""
    process = start_waiting(start, shares, 0.5, 4)
    selected = (("-F", 999, "-p"), ("-F", 499, "-p"), ("-F", 999, "-t"))
    sessions = [record(*options, process.pid).wait_attached() for options in selected]
    go(process)
    output, _ = process.communicate(timeout=60)
    whole, other, first = (Sampled(xprof, session.finish()) for session in sessions)
    for recorded in (whole, other):
        assert_cpu_time(profiles.Profile(recorded.one()).seconds, cpu_of(output))
        assert_work(recorded.one(), shares)
    first_s = float(re.search(r"^first (\S+)$", output, re.M)[1])
    assert_cpu_time(profiles.Profile(first.one()).seconds, first_s)


def test_children(sampled, shares):
    """Children are sampled only with --follow."""
    command = ["--", "sh", "-c", f"{shares} 0.3 & {shares} 0.3; wait"]
    alone = sampled("-F", "999", *command)
    followed = sampled("-F", "999", "--follow", *command)
    assert not alone.of(comm="shares") and alone.samples() < 100
    children = [e for e in followed.entries if e["comm"].startswith("shares")]
    assert len(children) == 2, followed.entries
    for child in children:
        printed = followed.output.partition(f"pid {child['pid']}\n")[2]
        assert_cpu_time(followed.read(child).seconds, cpu_of(printed), 0.15)


@pytest.mark.parametrize("what", ["children", "threads"])
def test_brief_lives(sampled, program, what):
    """
    A thread's own event would start a new period with each thread, and these threads live less than a period: the
    events of the CPUs continue their period.
    """
    path = program("live/programs/brief.c", *BUILD, "-pthread", instrument=False)
    follow = ["--follow"] if what == "children" else []
    recorded = sampled("-F", "999", *follow, "--", path, what, 2000)
    assert_cpu_time(recorded.samples() * recorded.totals["period_ns"] / 1e9, cpu_of(recorded.output))


def slices(pid):
    """Returns how often the threads of a process got a CPU."""
    return sum(int(path.read_text().split()[2]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


@pytest.mark.parametrize("hz, cpus", [(99, True), (49999, False)])
def test_threads_that_wake_each_other(xprof, record, wakes, hz, cpus):
    """A thread's own event would set its timer at each context switch; the event of a CPU sets it once per period."""
    process = wakes()
    before = slices(process.pid)
    targets.wait_for_cpu_time(process.pid, seconds=0.4)  # of one or two CPUs
    if not cpus and slices(process.pid) - before > 0.1 * 5 * os.cpu_count() * hz:
        pytest.skip("on this machine, these threads switch too often for each rate")
    # Space for all records: on a busy machine the reader may be late.
    rings = ("--call-graph", "fp", "--buffer=32M")
    session = record("-v", "--no-sleds", "-F", hz, *rings, "-p", process.pid, "-d", "0.7")
    recorded = Sampled(xprof, session.finish())
    if recorded.totals["event"] != "cpu-clock":
        pytest.skip("the event of a PMU has no timer")
    assert ("sampling the CPUs" in recorded.messages) == cpus, recorded.messages
    assert recorded.samples(pid=process.pid) == recorded.samples() > 2


def test_exec_begins_a_profile(sampled, program, shares):
    path = program.text(
        "then",
        """
        #include <unistd.h>
        __attribute__((noinline)) void before_exec(void) { for (volatile long i = 0; i < 100000000; i++) ; }
        int main(int argc, char **argv) { before_exec(); execv(argv[1], argv + 1); return 1; }
        """,
        *BUILD,
        instrument=False,
    )
    recorded = sampled("-F", "999", "--", path, shares, 0.6)
    first, second = sorted(recorded.entries, key=lambda e: e["image"])
    assert first["pid"] == second["pid"] and (first["image"], second["image"]) == (1, 2)
    assert first["comm"].startswith("then") and second["comm"].startswith("shares"), recorded.entries
    assert profiles.share(quick_top(recorded.directory / first["file"], path), "before_exec") > 0.8
    assert_work(recorded.directory / second["file"], shares)


def test_images_are_numbered_on(sampled, program):
    """
    The first thread of the second image ends before any sample. Samples of the second image must not be taken for the
    first's.
    """
    path = program.text(
        "again",
        """
        #include <pthread.h>
        #include <time.h>
        #include <unistd.h>
        static void spend(void) {
            for (clock_t end = clock() + CLOCKS_PER_SEC * 2 / 5; clock() < end;)
                for (volatile long i = 0; i < 100000; i++) ;
        }
        static void *burn(void *arg) { spend(); _exit(0); return arg; }
        int main(int argc, char **argv) {
            pthread_t thread;
            if (argc > 1)
                spend();
            if (argc > 1)
                execl(argv[0], argv[0], (char *)0);
            pthread_create(&thread, NULL, burn, NULL);
            pthread_exit(NULL);
        }
        """,
        *BUILD,
        "-pthread",
        instrument=False,
    )
    recorded = sampled("-F", "99", "--", path, "first")
    assert sorted(e["image"] for e in recorded.entries) == [1, 2], recorded.entries
    assert all(e["samples"] > 5 for e in recorded.entries), recorded.entries


def test_whole_machine(xprof, record, start, shares, tmp_path):
    """
    Processes, the kernel's threads, and a container, whose binary is on its own mount: its path leads to another file
    here, or to none.
    """
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f"mount -t tmpfs tmpfs {inside} && cp {shares} {inside}/contained && {inside}/contained 0.8"
    session = record("-F", "999", "-a").wait_attached()
    process = start([shares, 0.8])
    # Kernel threads work, too: they write data to a disk.
    project.run(["sh", "-c", "dd if=/dev/zero of=/var/tmp/xprof-test bs=1M count=64 conv=fsync; rm /var/tmp/xprof-test"])
    contained = project.run(["unshare", "-m", "-p", "-f", "sh", "-c", script])
    assert contained.returncode == 0, contained.stderr
    output, _ = process.communicate(timeout=60)
    recorded = Sampled(xprof, session.stop())
    # Before its exec, the process was a fork of this program.
    (entry,) = [e for e in recorded.of(pid=process.pid) if e["comm"].startswith("shares")]
    path = recorded.directory / entry["file"]
    assert_cpu_time(profiles.Profile(path).seconds, cpu_of(output))
    assert_work(path, shares, cut=cut_of(entry))
    (entry,) = recorded.of(comm="contained")
    path = recorded.directory / entry["file"]
    assert not (inside / "contained").exists()
    assert_cpu_time(profiles.Profile(path).seconds, cpu_of(contained.stdout))
    (copy,) = {line.split(None, 5)[5] for line in profiles.Profile(path).mappings if "contained" in line.rsplit("/", 1)[-1]}
    assert_work(path, copy, by_each=True, cut=cut_of(entry))
    names = collections.Counter()
    for entry in recorded.entries:
        if profiles.GO and entry["samples"] and entry["pid"] in (0, *(e["pid"] for e in recorded.of(comm="dd"))):
            names.update(profiles.go_top(recorded.directory / entry["file"]).keys())
    if profiles.GO:
        assert any(n in names for n in ("do_syscall_64", "entry_SYSCALL_64_after_hwframe", "x64_sys_call")), names
    assert recorded.samples(pid=0) == 0 or recorded.of(pid=0)[0]["comm"] == "kernel-threads"
    assert not [e for e in recorded.entries if e["comm"].startswith(("kworker", "swapper", "ksoftirqd"))]


def test_one_cpu(sampled, shares):
    """With one CPU selected, programs on other CPUs are not sampled."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only")
    here, there = sorted(os.sched_getaffinity(0))[:2]
    pinned = [subprocess.Popen(["taskset", "-c", str(c), shares, "20"], stdout=subprocess.DEVNULL) for c in (here, there)]
    try:
        recorded = sampled("-F", "999", "-a", "-C", here, "-d", "1")
        pids = {cpu: recorded.samples(pid=p.pid) for cpu, p in zip((here, there), pinned)}
    finally:
        for process in pinned:
            process.kill()
            process.wait()
    assert pids[here] > 10 * max(pids[there], 1), pids


def test_cpu_that_does_not_exist(xprof, tmp_path):
    for cpus in ("0,4095", "100000"):
        done = xprof("record", "-a", "-C", cpus, "-d", "1", "-o", tmp_path / "out")
        assert done.returncode == FAILED, done.stderr
        assert re.search(r"error: .*CPU", done.stderr), done.stderr
        assert not (tmp_path / "out").exists()


def test_no_sample_at_all(xprof, record, start):
    """
    A sleeping target and ^C: the profile is valid and empty. Loading the programs dominates the cost: the verifier
    follows each pass of a loop.
    """
    process = start(["sleep", "60"])
    session = record("-p", process.pid).wait_attached()
    infos = [x.read_text() for x in pathlib.Path(f"/proc/{session.process.pid}/fdinfo").iterdir()]
    recorded = Sampled(xprof, session.stop())
    assert recorded.samples() == 0
    profile = profiles.Profile(recorded.one(pid=process.pid))
    assert not profile.records
    assert process.poll() is None
    programs = {
        re.search(r"^prog_id:\s*(\d+)", x, re.M)[1]: int(found[1])
        for x in infos
        if (found := re.search(r"^verified_insns:\s*(\d+)", x, re.M))
    }
    # Before Linux 5.16, the kernel does not report what it has verified.
    assert not programs or len(programs) > 10 and max(programs.values()) < 5000, programs


def test_storm_of_short_processes(sampled, shares):
    loop = f"i=0; while [ $i -lt 30 ]; do {shares} 0.003; i=$((i+1)); done"
    recorded = sampled("-F", "4999", "--buffer=64M", "--follow", "--", "sh", "-c", loop)
    pids = [int(pid) for pid in re.findall(r"^pid (\d+)$", recorded.output, re.M)]
    assert len(pids) == len(set(pids)) == 30
    seen = [e for e in recorded.entries if e["comm"].startswith("shares")]
    missing = set(pids) - {e["pid"] for e in seen}
    assert not missing, [e for e in recorded.entries if e["pid"] in missing]
    assert len(seen) == 30, collections.Counter(e["pid"] for e in seen).most_common(3)
    if profiles.GO:
        # On a busy machine, unwind tables may come late: such stacks are counted, and end early.
        whole = [e for e in seen if not e["stacks"].get("table_late")][:8]
        found = collections.Counter()
        for entry in whole:
            found.update(n for n in profiles.go_top(recorded.directory / entry["file"]) if n.startswith(("work_", "spin")))
        assert found["work_a"] >= 0.75 * len(whole) > 0, (found, recorded.totals["stacks"])


# Programs whose binary is not at its apparent path.


def copy_of(shares, directory, name="mine"):
    directory.mkdir(exist_ok=True)
    return pathlib.Path(shutil.copy(shares, directory / name))


def test_deleted_binary(xprof, record, start, program, tmp_path):
    """A deleted binary is kept without its code: names need only the rest."""
    filling = tmp_path / "filling.h"
    filling.write_text("const char filling[9 << 20] = { 1 };\n")
    built = program("live/programs/shares.c", *BUILD, "-pthread", "-include", filling, instrument=False)
    binary = copy_of(built, tmp_path / "bin")
    process = start_waiting(start, binary, 0.8, 1)
    binary.unlink()
    session = record("-F", "999", "-p", process.pid).wait_attached()
    go(process)
    process.communicate(timeout=60)
    path = Sampled(xprof, session.finish()).one()
    (copy,) = {line.split(None, 5)[5] for line in profiles.Profile(path).mappings if "mine" in line.rsplit("/", 1)[-1]}
    assert_work(path, copy)
    state = os.stat(copy)
    assert state.st_size > 9 << 20 > 10 * state.st_blocks * 512


def test_linked_by_lld(sampled, program):
    """
    lld starts the code inside a page. Versions of Go disagree about the start of such a mapping; they agree on xprof's
    copy.
    """
    if not shutil.which("ld.lld"):
        pytest.skip("no ld.lld here")
    binary = program("live/programs/shares.c", *BUILD, "-pthread", "-fuse-ld=lld", instrument=False)
    path = sampled("-F", "999", "--", binary, 0.8).one()
    (copy,) = {line.split(None, 5)[5] for line in profiles.Profile(path).mappings if "/sym/" in line and "shares" in line}
    assert_work(path, copy, by_each=True)
    headers = project.run(["readelf", "-lW", copy]).stdout
    assert re.search(r"LOAD .* R E 0x1\n", headers), headers


# A tenth of a second of CPU time, on each machine.
LIBRARY = r"""
#include <time.h>
__attribute__((noinline)) void in_{0}(void)
{{
	for (clock_t end = clock() + CLOCKS_PER_SEC / 10; clock() < end;)
		for (volatile long i = 0; i < 100000; i++)
			;
}}
"""
LOADER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	const char *names[] = { "in_first", "in_other" };
	void *address[2];

	for (int i = 0; i < 2; i++) {
		void *library = dlopen(argv[1 + i], RTLD_NOW);
		void (*run)(void) = dlsym(library, names[i]);

		address[i] = (void *)run;
		run();
		dlclose(library);
	}
	printf("%s\n", address[0] == address[1] ? "same" : "different");
	return 0;
}
"""


def test_libraries_at_one_address(sampled, program):
    """Libraries loaded one after the other have the same addresses at different times."""
    libraries = [
        program.text(f"lib{name}", LIBRARY.format(name), *BUILD, "-fPIC", "-shared", instrument=False)
        for name in ("first", "other")
    ]
    loader = program.text("loader", LOADER, *BUILD, "-ldl", instrument=False)
    recorded = sampled("-F", "999", "--", loader, *libraries)
    assert recorded.output == "same\n", "the test proves nothing"
    if not profiles.GO:
        pytest.skip("no go tool here")
    top = profiles.go_top(recorded.one())
    assert {"in_first", "in_other"} <= set(top), top
    assert min(profiles.share(top, "in_first"), profiles.share(top, "in_other")) > 0.2, top


# Several processes.


def test_single_steps(xprof, record, program):
    """A probed return runs in the kernel's page [uprobes]: its samples belong to the instruction."""
    path = program.text(
        "returns",
        """
        __attribute__((noinline, xray_always_instrument)) void leaf(void) { __asm__ volatile(""); }
        int main(void) { for (int i = 0; i < 20000; i++) leaf(); return 0; }
        """,
        "-O1",
        "-fxray-instruction-threshold=100000",
        project.no_runtime(),
    )
    recorded = Sampled(xprof, record("-F", "9999", "--buffer=64M", "--call-mode=probe", "--", path).finish().ok())
    entry = max(recorded.entries, key=lambda e: e["samples"])
    assert entry["samples"] > 200, recorded.entries
    assert "jit" not in entry, entry
    assert entry["stacks"]["complete"] >= 0.99 * entry["samples"], entry


def test_sleds_and_samples(xprof, record, program):
    path = program("live/programs/shares.c", *BUILD, project.no_runtime())
    finished = record("-F", "999", "--", path, 0.8).finish().ok()
    recorded = Sampled(xprof, finished)
    assert_cpu_time(profiles.Profile(recorded.one()).seconds, cpu_of(recorded.output))
    assert_work(recorded.one(), path)
    calls = finished.log().calls()
    assert abs(calls["work_a", recording.ENTER] - calls["work_b", recording.ENTER]) == 0 < calls["work_a", recording.ENTER]
    assert calls["spin", recording.ENTER] == 2 * calls["work_a", recording.ENTER]


def test_priority(record, tmp_path):
    """
    xprof has a high priority while it reads the rings, and a normal one while it writes files, so that the target
    continues.
    """
    held = tmp_path / "held"
    os.mkfifo(held)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with open(os.open(held, os.O_RDWR), "w", encoding="utf-8"):  # the command does not end before
        session = record("--no-sleds", "--", "cat", held).wait_attached()
        pid = session.process.pid
        recording.wait_until(lambda: os.getpriority(os.PRIO_PROCESS, pid) < own, session.messages)
        session.process.terminate()
        recording.wait_until(lambda: "the recording is complete" in session.messages(), session.messages)
        assert os.getpriority(os.PRIO_PROCESS, pid) == own
    assert session.finish().status == 0, session.messages()
