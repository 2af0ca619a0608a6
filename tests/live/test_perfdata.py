# SPDX-License-Identifier: BSD-2-Clause
"""
Checks the perf.data of a recording: perf shows the samples of the profiles, names all code, and prints no warning.
"""
import collections
import ctypes
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

import perf_tool
import profiles
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

FAILED = 1
LIBC, SYS_BPF, BPF_PROG_GET_NEXT_ID = ctypes.CDLL(None), 321, 11
BUILD = ("-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id=sha1")


@pytest.fixture(**perf_tool.fixture_params())
def perf(request, tmp_path):
    return perf_tool.Perf(request.param, tmp_path / "home")


@pytest.fixture
def shares(program):
    return program("live/programs/shares.c", *BUILD, instrument=False)


@pytest.fixture
def sampled(xprof, record):
    """Records until the end: sampled("--", path) -> the recording, after checking its files."""

    def record_one(*args, status=0, process=None, **options):
        session = record("--no-sleds", "-F", "999", *args, **options)
        if process:  # the program waits for a line
            session.wait_attached()
            process.communicate("\n", timeout=60)
        recorded = session.finish()
        assert recorded.status == status, recorded.messages
        checked = xprof.check(recorded.directory)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        return recorded

    return record_one


def samples_of(recorded):
    """Returns {pid: samples} from the profiles; 0: kernel threads."""
    counts = collections.Counter()
    for entry in recorded.manifest["samples"]["profiles"]:
        counts[entry["pid"]] += entry["samples"]
    return +counts


def perf_data(recorded):
    path = recorded.directory / "perf.data"
    (entry,) = [f for f in recorded.manifest["files"] if f["kind"] == "perf.data"]
    assert entry["name"] == "perf.data" and entry["bytes"] == path.stat().st_size
    return path


def test_shares(perf, sampled, shares, tmp_path):
    """Self and children of each function equal the profile exactly; annotate and inject accept the file, too."""
    if not profiles.GO:
        pytest.skip("no go here")
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    recorded = sampled("--", shares, 0.4, 4)
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    path = perf_data(recorded)
    (entry,) = recorded.manifest["samples"]["profiles"]
    top = profiles.go_top(recorded.directory / entry["file"])
    own = {name: numbers for name, numbers in top.items() if name in ("work_a", "work_b", "spin", "worker", "main")}
    total = sum(flat for flat, _ in top.values())
    by_perf = {name: count for (name,), count in perf.report(path, "sym").items()}
    assert sum(by_perf.values()) == total == entry["samples"]
    assert {n: by_perf.get(n, 0) for n in own} == {n: flat for n, (flat, _) in own.items()}
    assert own["spin"][0] > total / 2
    shares_by_perf = {name: share for (name,), share in perf.report(path, "sym", children=True).items()}
    for name, (_, cum) in own.items():
        assert shares_by_perf[name] == pytest.approx(cum / total, abs=0.0001)
    assert f"{path}  {total} samples, " in recorded.messages and f"perf report -i {path}\n" in recorded.messages

    samples = perf.script(path)
    times = [s.time_ns for s in samples]
    assert times == sorted(times) and before <= times[0] <= times[-1] <= after
    (pid,) = {s.pid for s in samples}
    assert pid == entry["pid"]
    assert {s.comm for s in samples} == {shares.name[:15]}
    workers = {s.tid for s in samples if "worker" in s.names}
    assert len(workers) == 4
    assert {s.cpu for s in samples} <= set(range(os.cpu_count()))
    assert {s.period for s in samples} == {recorded.manifest["samples"]["period_ns"]}

    text = perf("annotate", "-i", path, "--stdio", "-s", "spin")
    assert "imul" in text and "6364136223846793005" in text
    perf("inject", "--jit", "-i", path, "-o", tmp_path / "injected.data")
    assert {name: count for (name,), count in perf.report(tmp_path / "injected.data", "sym").items()} == by_perf
    header = perf("report", "-i", path, "--header-only")
    assert f"# cmdline : {project.XPROF} record -o {recorded.directory} --no-sleds" in header
    assert f"# hostname : {os.uname().nodename}\n" in header
    assert perf_tool.build_id(shares) in perf("buildid-list", "-i", path)


def binaries_of(pid, root):
    """Copies the binaries of a process to the same paths below a directory, for --symfs."""
    for path in set(re.findall(r" (/\S+)$", pathlib.Path(f"/proc/{pid}/maps").read_text(), re.M)):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])


def test_whole_machine(perf, record, xprof, start, shares, tmp_path):
    """
    Each process has as many samples as in its profiles. Each kernel thread is a process of its own. perf reads the names
    of one process only: those of all binaries of a busy machine take minutes.
    """
    busy = start([shares, 100])
    session = record("-F", "499", "-a").wait_attached()
    targets.wait_for_cpu_time(busy.pid, seconds=0.1)
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    binaries_of(busy.pid, tmp_path / "root")
    samples = perf.script(perf_data(recorded), "--symfs", tmp_path / "root")
    known = samples_of(recorded)
    counts = collections.Counter(s.pid if s.pid in known else 0 for s in samples)
    assert counts == known and counts[busy.pid] > 10
    assert xprof.check(recorded.directory / "perf.data").returncode == 0
    assert {s.comm for s in samples if s.pid == busy.pid} == {shares.name[:15]}
    # The vDSO has names only for the functions that it exports, not for their callees.
    own = [s for s in samples if s.pid == busy.pid and not s.objects[0].startswith("[kernel")]
    unnamed = [s.objects[0] for s in own if s.names[0] == "[unknown]"]
    assert set(unnamed) <= {"[vdso]"} and len(unnamed) < 0.02 * counts[busy.pid], unnamed


THREADS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static sem_t is_named;
static void spin(double seconds)
{
	struct timespec t;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_sec + t.tv_nsec / 1e9 < seconds);
}
static void *worker(void *arg)
{
	sem_wait(&is_named);
	spin(0.1);
	pthread_setname_np(pthread_self(), "second name");
	spin(0.2);
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	pthread_create(&thread, 0, worker, 0);
	pthread_setname_np(thread, "first name");
	sem_post(&is_named);
	pthread_join(thread, 0);
	if (argc > 1)
		return 0;
	if (!fork())
		execl(argv[0], "again", "child", (void *)0);
	spin(0.1);
	wait(0);
	return 0;
}
"""


def bpf_programs_of(pid):
    """Returns the IDs of the BPF programs that a process has loaded."""
    told = "".join(path.read_text() for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir())
    return set(map(int, re.findall(r"^prog_id:\s*(\d+)", told, re.M)))


def is_loaded(number):
    """Returns whether the kernel has a BPF program with this ID."""
    asked = (ctypes.c_uint32 * 3)(number - 1)
    return LIBC.syscall(SYS_BPF, BPF_PROG_GET_NEXT_ID, asked, ctypes.sizeof(asked)) == 0 and asked[1] == number


def test_programs_of_bpf(perf, record, start, shares):
    """perf names the code of BPF programs that exist at the start, and of those loaded during the recording."""
    process = start([shares, 100])
    session = record("--no-sleds", "-F", "999", "-p", process.pid).wait_attached()
    other = record("--no-sleds", "-p", process.pid).wait_attached()
    numbers = bpf_programs_of(other.process.pid)
    assert numbers and other.stop().status == 0
    # The kernel reports the end of a program before it frees the ID, which may be later.
    recording.wait_until(lambda: not any(map(is_loaded, numbers)), "the kernel does not free programs")
    recorded = session.stop()
    path = perf_data(recorded)
    text = "\n".join(line for line in perf("script", "-i", path, "--show-bpf-events").splitlines() if "PERF_RECORD_" in line)
    names = re.findall(r"([0-9.]+): PERF_RECORD_KSYMBOL addr [0-9a-f]+ len [1-9]\d* type 1 flags 0x(\d) name bpf_prog_[0-9a-f]+_(\w+)", text)
    assert ("0.000000", "0", "sample") in names and ("0.000000", "0", "copy_piece") in names, text[:3000]
    for flags in "01":
        assert [at for at, flag, name in names if (flag, name) == (flags, "sample") and float(at)], (text[-3000:], recorded.messages)
    assert re.search(r"[1-9]\d*\.\d+: PERF_RECORD_BPF_EVENT type 1, flags 0, id [1-9]", text), recorded.manifest["clock"]


def switches_by_kernel(pid):
    """Returns how often the threads of a process have left a CPU so far."""
    statuses = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(number) for status in statuses for number in re.findall(r"ctxt_switches:\s*(\d+)", status))


def test_switches(perf, record, xprof, wakes):
    """The number of context switches is the kernel's. From these, perf 6.15 computes the parallelism: at least 1."""
    process = wakes()
    before = switches_by_kernel(process.pid)
    session = record("--no-sleds", "-F", "499", "--buffer=16M", "--switch-events", "-p", process.pid).wait_attached()
    begin = switches_by_kernel(process.pid)
    recording.wait_until(lambda: switches_by_kernel(process.pid) > begin + 2000, "no switches")
    least = switches_by_kernel(process.pid) - begin
    recorded = session.stop()
    most = switches_by_kernel(process.pid) - before
    path = perf_data(recorded)
    text = perf("script", "-i", path, "--show-switch-events", "-F", "comm,tid,cpu,time,event")
    switches = re.findall(r"^ *(\S+) +(\d+) \[\d+\] +[0-9.]+: PERF_RECORD_SWITCH (IN|OUT)", text, re.M)
    assert len({comm for comm, _, _ in switches}) == 1 and switches[0][0].startswith("wakes")
    for thread in {tid for _, tid, _ in switches}:
        of_thread = [way for _, tid, way in switches if tid == thread]
        assert len(of_thread) > 100 and all(a != b for a, b in zip(of_thread, of_thread[1:]))
    running = [1]
    for _, _, way in switches:
        running.append(running[-1] + (1 if way == "IN" else -1))
    assert 0 <= min(running) and max(running) <= 2
    assert least <= sum(way == "OUT" for _, _, way in switches) <= most
    samples = recorded.manifest["samples"]
    assert samples["switches_lost"] == 0 and least <= samples["switches"] <= 2 * most
    assert f"{len(switches)} switches" in xprof.check(path).stdout


def test_switches_leave_room(record, wakes):
    """While no task reads the rings, context switches fill them only up to the part that is reserved for samples."""
    process = wakes()
    options = ("--no-sleds", "-F", "99", "--switch-events", "--buffer", "1M", "--strict", "-p", process.pid)
    session = record(*options).wait_attached()
    session.process.send_signal(signal.SIGSTOP)
    enough = switches_by_kernel(process.pid) + 2 * (1 << 20) // 40
    recording.wait_until(lambda: switches_by_kernel(process.pid) > enough, "no switches")
    session.process.send_signal(signal.SIGCONT)
    recorded = session.stop()
    samples = recorded.manifest["samples"]
    assert samples["switches_lost"] > 0 and samples["lost"] == 0 < samples["written"], samples
    assert recorded.status == 4 and "switches" in recorded.messages


def test_names(perf, sampled, program):
    """Checks names of threads that rename themselves, and of a child before and after its exec."""
    path = program.text("thread-names", THREADS, *BUILD, instrument=False)
    recorded = sampled("--follow", "--", path)
    samples = perf.script(perf_data(recorded))
    names = collections.defaultdict(list)
    for s in samples:
        if s.comm not in names[s.tid]:
            names[s.tid].append(s.comm)
    parent, child = sorted({s.pid for s in samples})
    for pid in parent, child:
        (worker,) = {s.tid for s in samples if s.pid == pid and s.comm == "second name"}
        assert worker != pid and names[worker][-2:] == ["first name", "second name"], names
    assert names[parent][-1] == path.name[:15]
    events = perf("script", "-i", recorded.directory / "perf.data", "--show-task-events")
    assert f"PERF_RECORD_FORK({child}:{child}):({parent}:{parent})" in events
    assert re.search(rf"PERF_RECORD_EXIT\({child}:\d+\):\({parent}:", events)


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
#include <string.h>
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		void *library = dlopen(argv[i], RTLD_NOW);
		((void (*)(void))dlsym(library, argv[i + 1]))();
		dlclose(library);
	}
	return 0;
}
"""


def test_libraries_one_after_the_other(perf, sampled, program, tmp_path):
    """Libraries use the same addresses one after the other: each sample has the name from its time."""
    loader = program.text("dlopens", LOADER, *BUILD, "-ldl", instrument=False)
    args = []
    for name in "first", "other", "third":
        library = program.text(f"in-{name}", LIBRARY.format(name), *BUILD, "-shared", "-fPIC", instrument=False)
        args += [library, f"in_{name}"]
    counts = perf.report(perf_data(sampled("--", loader, *args)), "sym")
    assert all(counts[f"in_{name}",] > 20 for name in ("first", "other", "third")), counts


# Binaries that perf does not find by path: perf knows them by build ID, and the recording has copies.


def names_of(perf, path, comm):
    return {s.names[0] for s in perf.script(path) if s.comm == comm}


def kept_copy(recorded, name):
    (copy,) = [p for p in (recorded.directory / "sym").iterdir() if name in p.name and not p.is_symlink()]
    return copy


def test_deleted_binary(perf, sampled, start, shares, tmp_path):
    binary = shutil.copy(shares, tmp_path / "mine")
    process = start([binary, 0.5, 1, "wait"], stdin=subprocess.PIPE)
    assert process.stdout.readline() == "waiting\n"
    os.unlink(binary)
    shutil.copy("/bin/true", binary)  # another binary replaces it
    recorded = sampled("-p", process.pid, process=process)
    path = perf_data(recorded)
    assert "spin" not in names_of(perf, path, "mine")
    perf.cache("--add", kept_copy(recorded, "mine"))
    assert "spin" in names_of(perf, path, "mine")
    assert perf.report(path, "comm", "sym")["mine", "spin"] > 100


def test_container(perf, record, shares, tmp_path):
    """The binary of a container is on its own mount, and its PID is different inside."""
    inside = tmp_path / "inside"
    inside.mkdir()
    name = "mine"
    script = f"mount -t tmpfs tmpfs {inside} && cp {shares} {inside}/{name} && {inside}/{name} 0.5"
    command = ["unshare", "-m", "-p", "-f", "sh", "-c", script]
    recorded = record("--no-sleds", "-F", "999", "--follow", "--", *command).finish()
    assert recorded.status == 0, recorded.messages
    path = perf_data(recorded)
    assert "spin" not in names_of(perf, path, name)
    perf.cache("--add", kept_copy(recorded, name))
    assert "spin" in names_of(perf, path, name)
    assert {s.pid for s in perf.script(path) if s.comm == name} == \
        {e["pid"] for e in recorded.manifest["samples"]["profiles"] if e["comm"] == name}


JIT = r"""
#include <string.h>
#include <sys/mman.h>
int main(void)
{
	/* mov $2000000, %ecx; dec %ecx; jnz -4; ret */
	static const char code[] = "\xb9\x80\x84\x1e\x00\xff\xc9\x75\xfc\xc3";
	char *at = mmap(0, 3 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 300; i++) {
		if (i == 150) /* one mapping with the other */
			mprotect(at + (1 << 16), 2 << 16, PROT_READ | PROT_EXEC);
		mprotect(at, 1 << 16, PROT_READ | PROT_WRITE);
		memcpy(at, code, sizeof(code));
		mprotect(at, 1 << 16, PROT_READ | PROT_EXEC);
		((void (*)(void))at)();
	}
	return 0;
}
"""


def test_jit_memory(perf, sampled, program):
    """
    A compiler writes code all the time: its memory is recorded once, so no later record hides the code that perf
    injects.
    """
    recorded = sampled("--", program.text("jit-memory", JIT, *BUILD, instrument=False))
    path = perf_data(recorded)
    (pid,) = samples_of(recorded)
    events = perf("script", "-i", path, "--show-mmap-events")
    found = re.findall(rf"PERF_RECORD_MMAP2 {pid}/{pid}: \[\w+\((\w+)\).*//anon", events)
    assert found == ["0x10000", "0x20000"]
    assert sum(n for (dso,), n in perf.report(path, "dso").items() if dso.startswith("[JIT]")) > 50


# Early ends.

DEEP = r"""
__attribute__((noinline)) int deep(int n) { return n ? deep(n - 1) + 1 : 0; }
__attribute__((noinline)) int loop(int n) { volatile int x = 0; for (int i = 0; i < 3000; i++) x += i; return n ? loop(n - 1) + 1 : x; }
int main(int argc, char **argv) { (void)argv; for (int i = 0; i < (argc > 1 ? 6000 : 1500); i++) loop(argc * 99); return deep(3); }
"""


SAMPLE, COMPRESSED = 9, 81
HEADER_BYTES = 104


def record_offsets(data):
    """Returns the offsets of the records of a perf.data."""
    at, size = struct.unpack_from("<QQ", data, 40)
    end = at + size
    while at < end:
        yield at
        at += struct.unpack_from("<H", data, at + 6)[0]


def has_header(path):
    return path.exists() and path.stat().st_size >= HEADER_BYTES


def types_of(path):
    """Returns the types of its records, one byte each."""
    data = path.read_bytes()
    return bytes(data[offset] for offset in record_offsets(data))


@pytest.fixture
def deep(program):
    return program.text("perf-deep", DEEP, *BUILD, "-fno-optimize-sibling-calls", instrument=False)


def test_disk_full(perf, record, xprof, tmpfs, deep):
    """What is in perf.data is whole, its header too; the rest counts as lost."""
    recorded = record("--no-sleds", "--no-compression", "--buffer=32m", "-F", "20000", "--call-graph", "fp", "--max-size=1g", "--", deep,
                      directory=tmpfs("size=3m") / "out").finish()
    assert recorded.status == FAILED, recorded.messages
    found = re.search(r"perf.data has (\d+) of (\d+) samples: No space left on device; make room there", recorded.messages)
    assert found, recorded.messages
    totals = recorded.manifest["samples"]
    assert (totals["written"], totals["seen"]) == (int(found[1]), int(found[2]))
    assert totals["lost"] == totals["seen"] - totals["written"]
    assert recorded.manifest["notices"] == [f"perf.data has {found[1]} of {found[2]} samples: it could not be written further."]
    path = perf_data(recorded)
    assert xprof.check(recorded.directory).returncode == 0
    assert sum(perf.report(path, "sym").values()) == int(found[1]) > 1000
    assert "# cmdline : " in perf("report", "-i", path, "--header-only")


def test_large(record, xprof, deep, start):
    """After 32 MB, samples are compressed, and the summary explains the consequence."""
    process = start([deep, *range(9)])  # 1 000 calls deep: 8 KB a sample
    session = record("--no-sleds", "-F", "20000", "-p", process.pid).wait_attached()
    data = session.directory / "perf.data"
    recording.wait_until(lambda: data.exists() and data.stat().st_size > 32 << 20, "no perf.data grows")
    targets.wait_for_cpu_time(process.pid)
    recorded = session.stop()
    path = perf_data(recorded)
    assert re.search(r"perf\.data .*, compressed: only perf reads it \(others: --no-compression\)", recorded.messages)
    assert path.stat().st_size < 36 << 20 and xprof.check(path).returncode == 0
    types = types_of(path)
    assert types.index(COMPRESSED) > 1000 and SAMPLE not in types[types.index(COMPRESSED):]


def test_killed(perf, record, xprof, deep, start):
    """After a kill, the file has all records that were written to disk, and is valid."""
    target = start(["sh", "-c", f"while :; do {deep}; done"], start_new_session=True)
    session = record("--no-sleds", "-F", "9999", "--call-graph", "fp", "-a").wait_attached()
    path = session.directory / "perf.data"
    recording.wait_until(lambda: has_header(path) and types_of(path).count(SAMPLE) > 100, "no samples are written")
    session.process.kill()
    session.process.wait()
    os.killpg(target.pid, signal.SIGKILL)  # its child would continue
    checked = xprof.check(path)
    assert checked.returncode == 0, checked.stdout
    assert sum(perf.report(path, "sym").values()) > 100
