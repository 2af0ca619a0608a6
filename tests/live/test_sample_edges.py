# SPDX-License-Identifier: BSD-2-Clause
"""Checks sampling while the machine changes or runs short: CPUs, names, PIDs, the side-band, disk space, privileges."""
import contextlib
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import profiles
import project
import recording
from cpu_time import assert_cpu_time, charged_of, cpu_of

pytestmark = [pytest.mark.uprobes, pytest.mark.usefixtures("stolen_before")]

alone = pytest.mark.alone("takes a CPU from others", kernel=True)

FAILED, ENVIRONMENT = 1, 3
BUILD = ("-O1", "-g", "-fno-omit-frame-pointer")
CPU1 = pathlib.Path("/sys/devices/system/cpu/cpu1/online")


@pytest.fixture
def shares(program):
    return program("live/programs/shares.c", *BUILD, instrument=False)


def entries_of(recorded, **fields):
    return [e for e in recorded.manifest["samples"]["profiles"] if all(e[k] == v for k, v in fields.items())]


def names_in(recorded, entry):
    return profiles.go_top(recorded.directory / entry["file"])


def checked(xprof, recorded, status=0):
    """Checks the status of the recording, that its numbers add up, and that its files are complete."""
    assert recorded.status == status, f"status {recorded.status}:\n{recorded.messages}"
    totals = recorded.manifest["samples"]
    assert totals["seen"] == totals["written"] + totals["lost"], totals
    done = xprof.check(recorded.directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return recorded


needs_go = pytest.mark.skipif(not profiles.GO, reason="no go tool here")


# CPUs.


@contextlib.contextmanager
def offline():
    """Turns CPU 1 off within the `with` block."""
    try:
        CPU1.write_text("0")
    except OSError as error:
        pytest.skip(f"CPU 1 cannot be taken offline: {error}")
    try:
        yield
    finally:
        CPU1.write_text("1")


@pytest.fixture
def hotplug():
    if not CPU1.exists() or not os.access(CPU1, os.W_OK) or CPU1.read_text() != "1\n":
        pytest.skip("no CPU 1 that could be taken offline")
    yield offline
    if CPU1.read_text() != "1\n":
        CPU1.write_text("1")


@alone
@needs_go
@pytest.mark.parametrize("away_s", [1.5, 0], ids=["long", "at once"])
def test_cpu_that_comes_back(xprof, record, shares, hotplug, away_s):
    """Programs that later run on the CPU are sampled, and events of processes on the CPU are recorded."""
    session = record("-F", "999", "-a").wait_attached()
    with hotplug():
        time.sleep(away_s)
    time.sleep(4)  # xprof sees the CPU at the second check; it checks every second
    output = project.run(["taskset", "-c", "1", shares, 0.6]).stdout
    # Too short-lived to be found in /proc: their names come from the side-band.
    brief = f"for i in 1 2 3 4 5 6 7 8 9 10; do {shares} 0.02; done"
    said = output + project.run(["taskset", "-c", "1", "sh", "-c", brief]).stdout
    recorded = checked(xprof, session.stop())
    pids = set(map(int, re.findall(r"^pid (\d+)$", said, re.M)))
    entries = [e for e in recorded.manifest["samples"]["profiles"] if e["pid"] in pids and e["comm"].startswith("shares")]
    longest = max(entries, key=lambda e: e["samples"])
    assert_cpu_time(profiles.Profile(recorded.directory / longest["file"]).seconds, cpu_of(output), 0.15)
    named = [e for e in entries if {"work_a", "work_b"} & set(names_in(recorded, e))]
    nameless = [(e["file"], names_in(recorded, e)) for e in entries if e not in named]
    assert len(entries) == 11 and len(nameless) <= 1, (len(entries), nameless)


# Names and pids.

# The start of the programs. A round takes 0.2 ms; the excess time of a longer round is a pause, see cpu_of().
WORK = r"""
#include <stdio.h>
#include <time.h>

#define ROUND_MAX_S 0.005

static _Atomic double paused;

static double cpu(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void work(double seconds)
{
	double before, now = cpu(CLOCK_THREAD_CPUTIME_ID), end = now + seconds;

	while (now < end) {
		for (volatile long i = 0; i < 100000; i++)
			;
		before = now;
		now = cpu(CLOCK_THREAD_CPUTIME_ID);
		if (now - before > ROUND_MAX_S) {
			paused += now - before - ROUND_MAX_S;
			end += now - before - ROUND_MAX_S;
		}
	}
}

static void print_cpu(void)
{
	dprintf(1, "cpu %.4f\npaused %.4f\n", cpu(CLOCK_PROCESS_CPUTIME_ID), paused);
}
"""

RENAMES = WORK + r"""
#include <pthread.h>
#include <sys/prctl.h>

static void *thread(void *name)
{
	work(0.1);
	prctl(PR_SET_NAME, name);
	work(0.2);
	return NULL;
}

int main(void)
{
	char *names[] = { "worker/0", "worker/1" };
	pthread_t ids[2];

	work(0.1);
	prctl(PR_SET_NAME, "the-server");
	for (int i = 0; i < 2; i++)
		pthread_create(&ids[i], NULL, thread, names[i]);
	work(0.2);
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	print_cpu();
	return 0;
}
"""


@pytest.mark.parametrize("all_processes", [False, True], ids=["command", "machine"])
def test_process_and_threads_that_rename_themselves(xprof, record, start, program, all_processes):
    """A process and threads that rename themselves have one profile, with the name of the process."""
    path = program.text("renames", RENAMES, *BUILD, instrument=False)
    if all_processes:
        session = record("-F", "999", "-a").wait_attached()
        process = start([path])
        output, _ = process.communicate(timeout=60)
        recorded = checked(xprof, session.stop())
        entries = [e for e in entries_of(recorded, pid=process.pid) if not e["comm"].startswith(("python", "pytest"))]
    else:
        recorded = checked(xprof, record("-F", "999", "--", path).finish())
        output, entries = recorded.output, recorded.manifest["samples"]["profiles"]
    assert [e["comm"] for e in entries] == ["the-server"], entries
    assert not [e for e in recorded.manifest["samples"]["profiles"] if e["comm"].startswith("worker/")]
    assert entries[0]["file"].startswith("the-server"), entries
    seconds = profiles.Profile(recorded.directory / entries[0]["file"]).seconds
    assert_cpu_time(seconds, cpu_of(output), 0.15)


# Two processes with the same PID, one after the other: clone3() can choose a PID, so no other process is affected.
SAME_PID = WORK + r"""
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORK(name) __attribute__((noinline)) static void name(void) { work(0.3); print_cpu(); }
WORK(work_first)
WORK(work_second)

int main(int argc, char **argv)
{
	pid_t pid = 0;

	if (argc > 1) {
		argv[1][0] == '1' ? work_first() : work_second();
		return 0;
	}
	for (int i = 1; i <= 2; i++) {
		struct clone_args args = {
			.exit_signal = SIGCHLD, .set_tid = pid ? (uintptr_t)&pid : 0, .set_tid_size = pid ? 1 : 0,
		};
		pid_t child = syscall(SYS_clone3, &args, sizeof(args));

		if (child < 0) {
			perror("clone3");
			return 1;
		}
		if (!child) {
			EXECUTE;
			i == 1 ? work_first() : work_second();
			_exit(0);
		}
		waitpid(child, NULL, 0);
		printf("pid %d\n", child);
		pid = child;
	}
	return 0;
}
"""
EXECUTE = {"executed": 'execl("/proc/self/exe", "same_pid", i == 1 ? "1" : "2", NULL)', "forked": ""}


@needs_go
@pytest.mark.parametrize("how", EXECUTE)
def test_pid_used_again(xprof, record, program, how):
    """Two programs have two profiles, each with its own samples."""
    path = program.text(f"same_{how}", SAME_PID.replace("EXECUTE", EXECUTE[how]), *BUILD, instrument=False)
    recorded = record("-F", "999", "--no-sleds", "--follow", "--", path).finish()
    if "clone3: " in recorded.messages:
        pytest.skip(f"no pid can be chosen here: {recorded.messages}")
    checked(xprof, recorded)
    first, second = map(int, re.findall(r"^pid (\d+)$", recorded.output, re.M))
    assert first == second
    # A fork of the first program has its own profile until it executes another program.
    entries = sorted((e for e in entries_of(recorded, pid=first) if e["samples"] > 100), key=lambda e: e["image"])
    assert len(entries) == 2 and entries[0]["image"] != entries[1]["image"], entries_of(recorded, pid=first)
    found = [set(names_in(recorded, e)) & {"work_first", "work_second"} for e in entries]
    assert found == [{"work_first"}, {"work_second"}]
    for entry, output in zip(entries, re.findall("cpu .*\npaused .*\n", recorded.output)):
        assert_cpu_time(profiles.Profile(recorded.directory / entry["file"]).seconds, cpu_of(output), 0.3)


# A side-band that overflows.

FLOOD = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	int fd = open(argv[0], O_RDONLY);

	for (int i = 0; i < atoi(argv[1]); i++)
		munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), 4096);
	return 0;
}
"""
LATE_LIBRARY = r"""
#include <time.h>

__attribute__((noinline)) void in_late(void)
{
	for (clock_t end = clock() + CLOCKS_PER_SEC; clock() < end;)
		for (volatile long i = 0; i < 100000; i++)
			;
}
"""
LATE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	void (*run)(void);

	for (volatile long i = 0; i < 50000000; i++)
		;
	puts("waiting");
	fflush(stdout);
	getchar();
	prctl(PR_SET_NAME, "renamed-unheard");
	run = (void (*)(void))dlsym(dlopen(argv[1], RTLD_NOW), "in_late");
	puts("loaded");
	fflush(stdout);
	getchar();
	run();
	puts("worked");
	fflush(stdout);
	getchar();
	return 0;
}
"""


@pytest.mark.alone("other recordings lose side-band records, too", kernel=True)
@needs_go
def test_side_band_that_overflows(xprof, record, start, program, shares):
    """
    /proc replaces lost records of the side-band: it has the library and the name of a process, and the newer program of
    a process whose first exec was reported, and whose second was lost.
    """
    flood = program.text("flood", FLOOD, "-O1", instrument=False)
    library = program.text("liblate", LATE_LIBRARY, *BUILD, "-fPIC", "-shared", instrument=False)
    late = program.text("late", LATE, *BUILD, "-ldl", instrument=False)
    session = record("-v", "-F", "499", "-a").wait_attached()
    process = start([late, library], stdin=subprocess.PIPE)
    assert process.stdout.readline() == "waiting\n"
    session.process.send_signal(signal.SIGSTOP)
    try:
        other = start(["sh", "-c", f"echo ready; read go; exec {shares} 0.5 1 wait"], stdin=subprocess.PIPE)
        assert other.stdout.readline() == "ready\n"
        for cpu in sorted(os.sched_getaffinity(0)):
            assert project.run(["taskset", "-c", cpu, flood, 20000]).returncode == 0
        for one, answer in ((process, "loaded\n"), (other, "waiting\n")):
            one.stdin.write("\n")
            one.stdin.flush()
            assert one.stdout.readline() == answer
    finally:
        session.process.send_signal(signal.SIGCONT)
    recording.wait_until(lambda: "/proc was read again" in session.messages(), "/proc is not read")
    process.stdin.write("\n")
    process.stdin.flush()
    other.communicate("\n", timeout=60)
    assert process.stdout.readline() == "worked\n"
    recorded = checked(xprof, session.stop())
    process.communicate(timeout=60)
    assert recorded.manifest["samples"]["sideband_lost"] > 0
    (entry,) = [e for e in entries_of(recorded, pid=process.pid) if e["comm"] == "renamed-unheard"]
    profile = profiles.Profile(recorded.directory / entry["file"])
    assert any(library.name in line for line in profile.mappings), profile.mappings
    assert profiles.share(names_in(recorded, entry), "in_late") > 0.4, names_in(recorded, entry)
    # The shell may have been sampled before its exec.
    counts = {e["comm"]: e["samples"] for e in entries_of(recorded, pid=other.pid)}
    found = sum(n for comm, n in counts.items() if comm.startswith("shares"))
    assert found > 0.95 * sum(counts.values()), counts


# No disk space.

DEEP = r"""
#include <stdlib.h>
#include <time.h>

/* Chains of all depths: a profile of hundreds of kilobytes. */
__attribute__((noinline)) static long deep(int depth)
{
	volatile long sum = 0;

	for (int i = 0; i < 2000; i++)
		sum += i;
	if (depth)
		sum += depth & 1 ? deep(depth - 1) : deep(depth - 1) + 1;
	return sum;
}

int main(void)
{
	while (clock() < CLOCKS_PER_SEC / 2)
		deep(rand() % 100);
	return 0;
}
"""


@pytest.fixture
def deep(program):
    return program.text("deep", DEEP, *BUILD, instrument=False)


def assert_no_half(directory):
    """Checks that all files are complete, and that there are no others."""
    left = sorted(str(p.relative_to(directory)) for p in directory.rglob("*"))
    assert not [name for name in left if name.endswith((".part", ".spool"))], left


def test_file_size_limit(xprof, record, tmp_path, deep):
    limited = project.wrapped(xprof, tmp_path, "prlimit", "--fsize=20000")
    recorded = record("--no-sleds", "-F", "4999", "--", deep, program=limited).finish()
    assert recorded.status == FAILED, recorded.messages
    assert "File too large; raise `ulimit -f` or give another -o" in recorded.messages
    assert_no_half(recorded.directory)
    totals = recorded.manifest["samples"]
    assert totals["lost"] > 1000 and totals["written"] + totals["lost"] == totals["seen"], totals


@pytest.mark.parametrize("room", ["8k", "12k", "32k"])
def test_disk_full(record, tmpfs, deep, room):
    """The manifest has reserved space: it is complete, whether files of sym/ or a profile used the last block."""
    recorded = record("--no-sleds", "-F", "4999", "--", deep, directory=tmpfs(f"size={room}") / "out").finish()
    assert recorded.status == FAILED, recorded.messages
    assert "No space left on device; make room there or give another -o" in recorded.messages
    assert_no_half(recorded.directory)
    totals = recorded.manifest["samples"]
    assert totals["lost"] == totals["seen"] > 1000 and not totals["written"], totals
    assert f"{totals['seen']} samples seen = 0 written + {totals['lost']} lost; 0 profiles" in recorded.messages


def test_output_that_cannot_be_written(xprof, tmpfs):
    directory = tmpfs("ro,size=1m") / "out"
    done = xprof("record", "-a", "-d", "1", "-o", directory)
    assert done.returncode == FAILED, done.stderr
    assert "the file system is read-only: choose another with -o" in done.stderr
    assert not directory.exists()


# Privilege.


def test_nobody(xprof, tmp_path):
    """Without privileges, recording is refused at any perf_event_paranoid, because BPF requires privileges."""
    tmp_path.chmod(0o777)
    # nobody may not be able to reach the program's path, but can use its descriptor.
    with open(xprof.path, "rb") as opened:
        done = project.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            + [f"/proc/self/fd/{opened.fileno()}", "record", "-a", "-d", "1", "-o", tmp_path / "out"],
            pass_fds=[opened.fileno()],
            cwd="/",
        )
    assert done.returncode == ENVIRONMENT, (done.returncode, done.stderr)
    assert "user 65534 lacks CAP_BPF CAP_PERFMON CAP_SYS_PTRACE" in done.stderr
    assert "`sudo xprof record ...`" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_kernel_without_btf(xprof, tmp_path):
    """A mount in a separate namespace hides the kernel's BTF file from xprof."""
    hidden = 'mount -t tmpfs tmpfs /sys/kernel/btf && exec "$0" "$@"'
    without = project.wrapped(xprof, tmp_path, "unshare", "-m", "sh", "-c", hidden)
    done = without("record", "-a", "-d", "1", "-o", tmp_path / "out")
    assert done.returncode == ENVIRONMENT, (done.returncode, done.stderr)
    assert "BTF: /sys/kernel/btf/vmlinux: No such file or directory" in done.stderr, done.stderr
    assert "use a kernel with CONFIG_DEBUG_INFO_BTF=y" in done.stderr
    assert not (tmp_path / "out").exists()


# Samples of no process.


@needs_go
def test_idle_and_kernel_threads_apart(xprof, record):
    """Samples of an idle CPU are counted, and have no profile. Kernel threads that do work have one."""
    started = idle_s()
    session = record("-F", "499", "-a").wait_attached()
    attached = idle_s()
    project.run(["sh", "-c", "dd if=/dev/zero of=/var/tmp/xprof-edge bs=1M count=32 conv=fsync; rm /var/tmp/xprof-edge"])
    time.sleep(1)
    within = [now - then for now, then in zip(idle_s(), attached)]
    recorded = checked(xprof, session.stop())
    around = sum(idle_s()) - sum(started)
    totals = recorded.manifest["samples"]
    assert totals["idle"] > 0 or min(within) < 0.1, (totals, within)
    assert totals["idle"] * totals["period_ns"] / 1e9 < around + 0.5, (totals["idle"], around)
    assert {e["comm"] for e in totals["profiles"] if e["pid"] == 0} <= {"kernel-threads"}
    assert not [e for e in totals["profiles"] if e["comm"].startswith(("swapper", "kworker", "ksoftirqd"))]


def idle_s():
    """Returns the idle time of each CPU, from the kernel's accounts."""
    cpus = re.findall(r"^cpu\d+ (.*)$", pathlib.Path("/proc/stat").read_text(), re.M)
    return [sum(map(int, fields.split()[3:5])) / os.sysconf("SC_CLK_TCK") for fields in cpus]


# Periods without a sample.

SHORT_THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void *thread(void *ms)
{
	while (cpu(CLOCK_THREAD_CPUTIME_ID) < atof(ms) / 1e3)
		;
	return NULL;
}

/* short NUMBER MS: one thread after the other. */
int main(int argc, char **argv)
{
	for (int i = 0; i < atoi(argv[1]); i++) {
		pthread_t id;

		pthread_create(&id, NULL, thread, argv[2]);
		pthread_join(id, NULL);
	}
	printf("cpu %.4f\n", cpu(CLOCK_PROCESS_CPUTIME_ID));
	return argc != 3;
}
"""


@pytest.mark.parametrize("count, ms", [(600, 2), (2, 1000)], ids=["short", "long"])
def test_periods_without_a_sample(xprof, record, program, count, ms):
    """Threads that end within one period of 10 ms have samples, too, and the samples cover all CPU time."""
    path = program.text("short", SHORT_THREADS, *BUILD, "-pthread", instrument=False)
    recorded = checked(xprof, record("-F", "99", "--", path, count, ms).finish())
    totals = recorded.manifest["samples"]
    seen, missed = totals["seen"], totals["missed"]
    used, period = charged_of(recorded.output), totals["period_ns"] / 1e9
    # While threads are created, the period of the CPU's event decides: if other programs run, chance decides which
    # period ends in a target.
    chance_s = 5 * math.sqrt(used / period) * period
    assert_cpu_time((seen + missed) * period, used, 0.12 + (0.02 + chance_s) / used)
    assert seen > missed, totals
    assert ("without a sample" in recorded.messages) == (missed > max((seen + missed) // 30, 10)), recorded.messages


# Names of the kernel.


def test_kernel_names(xprof, record):
    """Names from the kernel equal those in /proc/kallsyms."""
    recorded = checked(xprof, record("-F", "4999", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=500000").finish())
    known = {}
    with open("/proc/kallsyms", encoding="ascii", errors="replace") as table:
        for address, _, name in (line.split()[:3] for line in table):
            known.setdefault(int(address, 16), set()).add(name)
    if len(known) < 1000:
        pytest.skip("/proc/kallsyms does not tell the kernel's addresses")
    named = 0
    for path in recorded.directory.glob("sym/kernel.*.so"):
        base = 0xFFFFFFFF80000000 + int(path.name.split(".")[1]) * (128 << 20) - 0x1000
        for address, _, name in (line.split(None, 2) for line in project.run(["nm", path]).stdout.splitlines()):
            # Programs of earlier recordings are no longer in the table.
            if name in ("[unknown]", "[end]", "[kernel]") or name.startswith("bpf_"):
                continue
            assert name in known[base + int(address, 16)], name
            named += 1
    assert named > 10


# Large stack dumps.

DEEP_STACK = r"""
__attribute__((noinline)) static long down(int n)
{
	volatile char room[512];
	long sum = 0;

	room[n] = n;
	if (n)
		return down(n - 1) + room[n];
	for (;;)
		sum++;
	return sum;
}

int main(void)
{
	return down(100);
}
"""


def test_ring_that_is_too_small_for_snapshots(xprof, record, start, program):
    """The reader is woken early enough. If it is late, stacks are missing, but no samples."""
    process = start([program.text("deep-stack", DEEP_STACK, "-O1", "-g", instrument=False)])
    for _ in range(20):
        recorded = checked(xprof, record("-F", "9999", "-d", "300ms", "--buffer", "256k", "-p", process.pid).finish())
        totals = recorded.manifest["samples"]
        if totals["seen"] > 200 and not totals["lost"] and totals["stacks"]["complete"] > totals["seen"] / 2:
            return
    assert False, totals


def test_text_moved_to_memory_without_a_file(xprof, record, start, program):
    """
    If code was moved to memory without a file, as for huge pages, the mappings around it identify the file. Calls are
    not recorded, and xprof prints the reason.
    """
    process = start([program("live/programs/moved_text.c", "-O1", "-Wl,-z,max-page-size=4096", project.no_runtime())])
    if process.stdout.readline() != "ready\n":
        pytest.skip("text cannot be moved here")
    recorded = record("-F", 499, "-d", "1", "-p", process.pid).finish()
    assert "has moved code to memory without a file (huge pages), where no calls can be recorded" in recorded.messages
    (group,) = json.loads(xprof("report", "--json", recorded.directory).stdout)["groups"]
    flat = {function["function"]: function["flat"] for function in group["functions"]}
    assert flat["spin"] > 0.8 * group["samples"] > 0
