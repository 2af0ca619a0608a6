# SPDX-License-Identifier: BSD-2-Clause
"""
Checks functions without sleds, which are patched from outside: exact counts, a target that continues, and restored
code.
"""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

import leftovers
import project
import recording
from recording import ENTER, EXIT

pytestmark = pytest.mark.uprobes

COMPILERS = ["gcc", *(f"clang-{version}" for version in project.clang_versions())]
SEED = 34
ROUNDS = 8


@pytest.fixture
def functions(program, start):
    """Starts programs/functions.c: functions("gcc", "-O2") -> Popen, which is ready."""

    def start_one(compiler="gcc", *flags):
        if not shutil.which(compiler):
            pytest.skip(f"no {compiler} here")
        path = program("live/programs/functions.c", "-pthread", *(flags or ["-O2"]), clang=compiler, instrument=False)
        process = start([path], stdin=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        return process

    return start_one


def work(process, threads, loops):
    """Returns the calls that the program itself has counted."""
    process.stdin.write(f"{threads} {loops}\n")
    process.stdin.flush()
    return counted(process)


def counted(process):
    lines = "".join(iter(process.stdout.readline, "ready\n"))
    assert "sum" in lines, (lines, process.poll())
    return {name: count for name, count in recording.printed_calls(lines).items() if count}


def code_changes(pid):
    """Without the probes that whoever follows children has in the dynamic linker of all processes."""
    return [place for place in leftovers.compare_code(pid, with_tails=True) if not leftovers.is_linker_probe(place)]


def patches(pid, path):
    """Returns the changes of this file except breakpoints, which come first and in all its processes."""
    return [place for place in code_changes(pid) if place[0] == str(path) and place[2] != 0xCC]


def assert_as_in_files(pid):
    """Every byte of code; no trampoline stays mapped."""
    recording.wait_until(lambda: not leftovers.left_code(pid), lambda: f"changed: {leftovers.changed_code(pid)}")
    recording.wait_until(lambda: not code_changes(pid), lambda: f"changed: {code_changes(pid)[:5]}")


def trampolines(pid):
    with open(f"/proc/{pid}/maps") as maps:
        found = re.findall(r"^(\w+)-(\w+) r-xp \S+ \S+ \d+ +/memfd:xprof ", maps.read(), re.M)
    return [area for area in found if int(area[1], 16) - int(area[0], 16) > 4096]


def recorded_calls(recorded, kind=ENTER):
    return {name: count for (name, its_kind), count in recorded.log().calls().items() if its_kind == kind}


FLAGS = (["-O2"], ["-O0"], ["-O2", "-fno-pie", "-no-pie"], ["-O3", "-fcf-protection=full"])


@recording.in_turn("compiler, flags, mode, threads", COMPILERS, FLAGS, ["memory", "patch"], [4, 1])
def test_counts(record, functions, compiler, flags, mode, threads):
    """
    Each function has as many calls as the program has counted, with threads, signals on other stacks, and longjmp.
    """
    process = functions(compiler, *flags)
    session = record("-p", process.pid, "--functions", "*", "--call-mode", mode, "--no-samples").wait_attached()
    own = work(process, threads, 10)
    recorded = session.stop().ok()
    assert {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]} == {mode}
    seen, exits = recorded_calls(recorded), recorded_calls(recorded, EXIT)
    if flags != ["-O0"]:
        own.pop("recursive")  # gcc inlines a part of it, or makes it a loop
    assert {name: seen[name] for name in own} == own == {name: exits[name] for name in own}
    assert_as_in_files(process.pid)
    assert not trampolines(process.pid)
    process.stdin.write("end\n")
    process.stdin.flush()
    assert process.wait(10) == 0


def test_names(xprof, record, functions):
    """report, explain and llvm-xray show the names."""
    process = functions()
    session = record("-p", process.pid, "--functions", "s*", "--functions", "tail", "--functions", "!leaf", "--no-samples")
    session.wait_attached()
    own = work(process, 2, 10)
    recorded = session.stop().ok()
    assert recorded_calls(recorded) == {name: own[name] for name in ("switched", "tail")}
    shown = xprof("report", recorded.directory).stdout
    assert re.search(rf"^ +{own['tail']} .* tail +functions", shown, re.M), shown
    assert "switched" in xprof("explain", recorded.directory, "--function", "switched").stdout


def test_processes_share_functions(xprof, record, functions):
    """A function of two processes of a program is one function: one distribution of its calls, and one request."""
    processes = functions(), functions()
    session = record("-p", ",".join(str(p.pid) for p in processes), "--functions", "*", "--no-samples").wait_attached()
    own = sum(work(process, 1, loops)["switched"] for process, loops in zip(processes, (5, 10)))
    recorded = session.stop().ok()
    shown = xprof("explain", recorded.directory, "--function", "switched").stdout
    assert re.search(rf"^switched: {own} calls, ", shown, re.M) and shown.count("switched: ") == 1, shown


def test_refused_functions_are_told_once(record, start):
    """Of the processes of a server, the first one is named, and others with other numbers of refused functions."""
    shells = [start(["bash", "-c", "read; exit"], stdin=subprocess.PIPE) for _ in range(3)]
    recorded = record("-p", ",".join(str(p.pid) for p in shells), "--functions", "*", "--no-samples", "-d", "0.1").finish().ok()
    assert recorded.messages.count(" entries and exits in process ") == 1, recorded.messages


def test_stripped(xprof, record, program, start, tmp_path):
    """Functions without a symbol have the name of their place, in patterns, logs and reports."""
    path = program("live/programs/functions.c", "-pthread", "-O2", clang="gcc", instrument=False)
    places = {name: f"bare+0x{int(at, 16):x}" for at, name in re.findall(r"^(\w+) t (\w+)$", project.run(["nm", path]).stdout, re.M | re.I)}
    project.run(["strip", "-o", tmp_path / "bare", path])
    process = start([tmp_path / "bare"], stdin=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    session = record("-p", process.pid, "--functions", "*", "--functions", f"!{places['leaf']}", "--no-samples").wait_attached()
    own = work(process, 2, 10)
    recorded = session.stop().ok()
    del own["leaf"], own["recursive"]  # gcc makes a loop of a part of it
    seen = recorded_calls(recorded)
    assert {name: seen[places[name]] for name in own} == own
    assert places["leaf"] not in seen
    assert re.search(rf"^ +{own['tail']} .* {re.escape(places['tail'])} +bare", xprof("report", recorded.directory).stdout, re.M)


def test_samples(xprof, record, functions):
    """Stacks of samples in trampolines are complete, and show the original code."""
    process = functions()
    process.stdin.write("2 0\n")
    process.stdin.flush()
    recorded = record("-p", process.pid, "--functions", "*", "-F", "500", "-d", "1").finish()
    assert recorded.status == 0, recorded.messages
    incomplete = re.search(r"([\d.]+) % of \d+ user stacks are complete", recorded.messages)
    assert not incomplete or float(incomplete[1]) > 90, recorded.messages
    shown = xprof("report", "--limit", "max", recorded.directory).stdout
    assert re.search(r" leaf +functions", shown, re.M) and re.search(r" work +functions", shown, re.M), shown
    assert "memfd:xprof" not in shown
    assert_as_in_files(process.pid)


LIBRARY = """
__attribute__((noinline)) int in_library(int a) { __asm__ volatile(""); return a + 1; }
int __in_library(int a) __attribute__((alias("in_library")));
int twice(int a) { return in_library(a) + in_library(a + 1); }
"""
USES_LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
int twice(int a);
__attribute__((noinline)) int in_library(int a);
__attribute__((noinline)) int own(int a) { __asm__ volatile(""); return twice(a); }
int (*volatile number)(const char *) = atoi;
int main(void)
{
	char line[64];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int sum = 0;
		for (int i = 0; i < number(line); i++)
			sum += own(i);
		printf("%d\n", sum);
		fflush(stdout);
	}
}
"""


def test_library(record, program, start, tmp_path):
    """OBJECT: selects a library by its file name; without it, only functions of the program are selected."""
    library = tmp_path / "libplain.so.1"
    library.write_bytes(program.text("plain_library", LIBRARY, "-O2", "-fPIC", "-shared", instrument=False, clang="gcc").read_bytes())
    path = program.text("uses_library", USES_LIBRARY, "-O2", "-rdynamic", library, instrument=False, clang="gcc")
    process = start([path], stdin=subprocess.PIPE, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert process.stdout.readline() == "ready\n"

    def calls(*patterns):
        session = record("-p", process.pid, *(f"--functions={pattern}" for pattern in patterns)).wait_attached()
        process.stdin.write("1000\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) == 1002000
        recorded = session.stop().ok()
        assert_as_in_files(process.pid)
        return recorded_calls(recorded)

    assert calls("libplain*:*library", "libc.so*:atoi") == {"in_library": 2000, "atoi": 1001}
    assert calls("libplain*:__in_*", "libplain*:twice", "!libplain*:twi?e") == {"in_library": 2000}
    assert calls("own", "libplain*:*", "!libplain*:twice") == {"own": 1000, "in_library": 2000}
    done = record("-p", process.pid, "--functions", "no_such:*").finish()
    assert done.status == 2 and "no function" in done.messages, done.messages


def test_command(record, program, tmp_path):
    """Functions of a program from its start, and of its libraries from when they are loaded."""
    path = program("live/programs/functions.c", "-O2", "-pthread", clang="gcc", instrument=False)
    patterns = ["--functions", "*", "--functions", "libc.so*:printf", "--functions", "libc.so*:prantf"]
    (tmp_path / "work").write_text("2 10\nend\n")
    recorded = record(*patterns, "--no-samples", "--", path, tmp_path / "work").finish().ok()
    own = {name: count for name, count in recording.printed_calls(recorded.output).items() if count}
    own.pop("recursive")
    seen = recorded_calls(recorded)
    assert {name: seen[name] for name in own} == own and seen["main"] == 1 and seen["printf"] == 13
    assert "prantf' matches no function; the nearest names are printf" in recorded.messages


TEXT_RELOCATION = r"""
#include <stdio.h>
int data = 7;
int *fetch(void);
__asm__(".globl fetch\n.type fetch, @function\nfetch: .cfi_startproc\nmovabs $data, %rax\nret\nnop\nnop\nnop\nnop\n"
	".cfi_endproc\n.size fetch, . - fetch");
int main(void) { return *fetch() != 7; }
"""


def test_code_that_the_linker_writes(record, program):
    """It is relocated after the program was patched."""
    path = program.text("text_relocation", TEXT_RELOCATION, "-O2", "-pie", "-Wl,-z,notext", instrument=False, clang="gcc")
    assert "TEXTREL" in project.run(["readelf", "-d", path]).stdout
    recorded = record("--functions", "main", "--functions", "fetch", "--no-samples", "--", path).finish().ok()
    assert recorded_calls(recorded) == {"main": 1}


def test_two_processes(record, functions):
    """Each has its own calls."""
    both = [functions(), functions()]
    session = record("-p", ",".join(str(p.pid) for p in both), "--functions", "leaf", "--no-samples").wait_attached()
    own = [work(process, 1, loops) for process, loops in zip(both, (3, 5))]
    recorded = session.stop().ok()
    logs = {log.pid: log for log in recorded.logs}
    assert [logs[p.pid].calls()["leaf", ENTER] for p in both] == [counts["leaf"] for counts in own]


def test_suggestion(record):
    """A program without sleds."""
    recorded = record("--", "/bin/true").finish()
    assert recorded.status == 0 and "--functions records selected functions" in recorded.messages
    assert "--functions records" not in record("--functions", "*", "--", "/bin/true").finish().messages


PARTLY = r"""
#include <stdio.h>
int partly(int a);
__asm__(".text\n.globl partly\n.type partly, @function\npartly: .cfi_startproc\ntest %edi, %edi\njs 1f\njz 2f\nlea 1(%rdi), %eax\n"
	"1: js .Lother\n2: ret\n.cfi_endproc\n.size partly, . - partly\n"
	".globl other\n.type other, @function\nother: .Lother: .cfi_startproc\nmov %edi, %eax\nadd $100, %eax\nret\n"
	".cfi_endproc\n.size other, . - other");
int main(void)
{
	puts("ready");
	fflush(stdout);
	for (char line[64]; fgets(line, sizeof(line), stdin); fflush(stdout)) {
		int sum = 0;
		for (int i = -300; i < 700; i++)
			sum += i ? partly(i) : 0;
		printf("%d\n", sum);
	}
}
"""


@pytest.mark.parametrize("options", [["memory"], ["patch", "--follow"]], ids="-".join)
def test_exits_with_probes(record, xprof, program, start, options):
    """A return, and a conditional jump to another function, where no jump fits. With --follow, all processes have probes."""
    path = program.text("partly", PARTLY, "-O2", instrument=False, clang="gcc")
    assert re.search(r"^ +partly +2 +2 .* partly$", xprof("list", path).stdout, re.M)
    process = start([path], stdin=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    forecast = xprof("record", "--dry-run", "--functions", "*", "--functions", "!_*", "--functions", "!main", "-p", process.pid).stdout
    assert "functions: 1 patched, 1 partly (2 exits with probes)" in forecast and "; 4 KiB of code become private memory" in forecast
    session = record("-p", process.pid, "--functions", "*", "--no-samples", "--call-mode", *options).wait_attached()
    process.stdin.write("\n")
    process.stdin.flush()
    assert int(process.stdout.readline()) == sum(i + 1 for i in range(1, 700)) + sum(i + 100 for i in range(-300, 0))
    recorded = session.stop().ok()
    for kind in (ENTER, EXIT):
        assert recorded_calls(recorded, kind) == {"partly": 999, "other": 300}
    assert recorded.totals["synthesized_exits"] == recorded.totals["filtered"]["total"] == 0
    assert_as_in_files(process.pid)


def test_target_goes_on(record, functions):
    """Attached and detached at random moments, under load, with threads and signals."""
    process = functions()
    randomness = random.Random(SEED)
    process.stdin.write("4 0\n")
    process.stdin.flush()
    total = 0
    for turn in range(int(os.environ.get("XPROF_ROUNDS", ROUNDS))):
        mode = randomness.choice(["memory", "memory", "patch"])
        session = record("-p", process.pid, "--functions", "*", "--call-mode", mode, "--no-samples")
        if randomness.random() < 0.7:
            session.wait_attached()
        time.sleep(randomness.random() / 4)
        kill = randomness.random() < 0.3
        session.process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
        session.process.communicate(timeout=recording.END_S)
        assert process.poll() is None, f"the target died in turn {turn}"
        if kill:
            restored = project.run([project.XPROF, "restore", "-p", process.pid])
            assert restored.returncode == 0, restored.stderr
        assert_as_in_files(process.pid)
        total += 1
    assert process.poll() is None and len(trampolines(process.pid)) <= 2
    process.stdin.write("\n")
    process.stdin.flush()
    counted(process)


def test_preempted_coroutines(record, program, start):
    """A timer's signal stops coroutines anywhere in patched code; they continue on stacks that no thread has."""
    process = start([program("live/programs/preempted.c", "-O2", clang="gcc", instrument=False)])
    assert process.stdout.readline() == "ready\n"
    for _ in range(ROUNDS // 2):
        recorded = record("-p", process.pid, "--functions", "*", "--no-samples", "--flight=1M", "-d", "100ms").finish()
        assert recorded.status == 0 and recorded.totals["seen"] > 0, recorded.messages
        assert_as_in_files(process.pid)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.read() == "well\n" and process.wait() == 0


@pytest.fixture
def unwinders(program, start):
    """Starts programs/unwinders.cpp: unwinders("-O2") -> Popen, which is ready."""

    def start_one(*flags):
        process = start([program("live/programs/unwinders.cpp", "-pthread", *flags, clang="g++", instrument=False)], stdin=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        return process

    return start_one


def unwind(process):
    """Returns the calls that the program has counted."""
    process.stdin.write("\n")
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(10)]
    assert lines[-1] == "good\n", lines
    return recording.printed_calls("".join(lines))


@recording.in_turn("flags, mode", [["-O2"], ["-O0"], ["-O2", "-fcf-protection=full"]], ["memory", "patch"])
def test_unwinding_in_the_process(record, unwinders, flags, mode):
    """Exceptions, backtrace() in signal handlers, and pthread_cancel() pass through patched functions."""
    process = unwinders(*flags)
    unwind(process)
    session = record("-p", process.pid, "--functions", "*", "--call-mode", mode, "--no-samples").wait_attached()
    own = unwind(process)
    recorded = session.stop().ok()
    entries, exits = recorded_calls(recorded), recorded_calls(recorded, EXIT)
    assert {name: entries[name] for name in own} == own
    # The calls of canceled threads stay open.
    assert {name: exits.get(name, 0) for name in own} == own | {"canceled": 0, "blocked": 0}
    assert_as_in_files(process.pid)
    unwind(process)


def test_debugger(record, unwinders):
    """gdb attaches to a patched program, sees all callers, and detaches; the program goes on."""
    if not shutil.which("gdb"):
        pytest.skip("no gdb here")
    process = unwinders("-O2")
    session = record("-p", process.pid, "--functions", "*", "--no-samples").wait_attached()
    commands = ["set debuginfod enabled off", "handle SIGUSR2 nostop noprint pass", "handle SIGUSR1 stop print pass", "continue", "backtrace", "detach"]
    argv = ["gdb", "-nx", "-batch", "-p", str(process.pid), *(word for command in commands for word in ("-ex", command))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True) as gdb:
        recording.wait_until(lambda: "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "gdb does not attach")
        own = unwind(process)
        shown = gdb.communicate(timeout=recording.END_S)[0]
    assert re.findall(r"^#\d+ .* (raiser|outer|main) \(", shown, re.M) == ["raiser", "outer", "main"], shown
    recorded = session.stop().ok()
    calls = recorded_calls(recorded)
    assert {name: calls[name] for name in own} == own
    assert_as_in_files(process.pid)


FAULTS = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
int fetch(const int *from);
__asm__(".globl fetch\n.type fetch, @function\nfetch: .cfi_startproc\nmov (%rdi), %eax\nadd $1, %eax\nsub $1, %eax\nret\n"
	"nop\nnop\nnop\nnop\n.cfi_endproc\n.size fetch, . - fetch");
__attribute__((noinline)) int own(const int *from) { __asm__ volatile("" ::: "memory"); return fetch(from) + 1; }
static void handle(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	(void)number, (void)info;
	if (interrupted->uc_mcontext.gregs[REG_RIP] != (long)fetch)
		signal(SIGSEGV, SIG_DFL);
	interrupted->uc_mcontext.gregs[REG_RIP] += 2;
	interrupted->uc_mcontext.gregs[REG_RAX] = -2;
}
int main(void)
{
	sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = handle, .sa_flags = SA_SIGINFO }, NULL);
	puts("ready");
	fflush(stdout);
	for (char line[64]; fgets(line, sizeof(line), stdin); fflush(stdout))
		printf("%d\n", own((int *)8));
}
"""


def test_faults(record, program, start):
    """A handler that knows the instruction that may fault: this one stays, and other functions are recorded."""
    process = start([program.text("faults", FAULTS, "-O2", instrument=False, clang="gcc")], stdin=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    session = record("-p", process.pid, "--functions", "own", "--functions", "fetch", "--no-samples").wait_attached()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "-1\n"
    recorded = session.stop().ok()
    assert recorded_calls(recorded) == {"own": 1} and "may fault would move" in recorded.messages
    assert {o["sleds_refused"]["faulting"] for p in recorded.manifest["processes"] for o in p["objects"]} == {2}


def test_restore(record, functions):
    """What a killed xprof leaves is restored by `xprof restore`, or by the next recording."""
    for way in ("restore", "record"):
        process = functions()
        session = record("-p", process.pid, "--functions", "*", "--no-samples").wait_attached()
        session.process.kill()
        session.process.wait()
        assert leftovers.code_differences(process.pid)
        work(process, 2, 5)
        if way == "restore":
            done = project.run([project.XPROF, "restore", "-p", process.pid])
            assert done.returncode == 0 and re.search(r"restored \d+", done.stderr), done.stderr
        else:
            session = record("-p", process.pid, "--functions", "*", "--no-samples").wait_attached()
            own = work(process, 2, 5)
            recorded = session.stop().ok()
            assert recorded_calls(recorded)["leaf"] == own["leaf"]
        assert_as_in_files(process.pid)
        work(process, 2, 5)


def test_refused(record, functions):
    """Modified code, modes and options that need sleds."""
    process = functions()
    symbols = project.run(["nm", f"/proc/{process.pid}/exe"]).stdout
    offset = int(re.search(r"^(\w+) T zero$", symbols, re.M)[1], 16)
    with open(f"/proc/{process.pid}/maps") as maps:
        base = int(maps.readline().split("-")[0], 16)
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(base + offset)
        byte = memory.read(1)
        memory.seek(base + offset)
        memory.write(b"\x90" if byte != b"\x90" else b"\xcc")
        session = record("-p", process.pid, "--functions", "*", "--no-samples").wait_attached()
        recorded = session.stop()
        assert recorded.status == 0
        (changed,) = code_changes(process.pid)
        assert changed[1] == base + offset
        memory.seek(base + offset)
        memory.write(byte)
    assert {o["sleds_refused"]["patched"] for p in recorded.manifest["processes"] for o in p["objects"]} == {2}
    assert "are not recorded: their code differs from the file" in recorded.messages
    for options in (["--call-mode", "probe"], ["--max-overhead", "5%"]):
        done = record("-p", process.pid, "--functions", "*", "--no-samples", *options).finish()
        assert done.status == 1 and "to record other functions, omit --max-overhead and --call-mode probe" in done.messages, done.messages
        done = record("-p", process.pid, "--functions", "x:*", *options).finish()
        assert done.status == 2, done.messages


def test_two_recordings(record, functions):
    """Two recordings of one process alternate."""
    process = functions()
    first = record("-p", process.pid, "--functions", "*", "--no-samples").wait_attached()
    second = record("-p", process.pid, "--functions", "*", "--no-samples").finish()
    assert second.status != 0 and "another xprof" in second.messages, second.messages
    own = work(process, 1, 5)
    recorded = first.stop().ok()
    assert recorded_calls(recorded)["leaf"] == own["leaf"]
    assert_as_in_files(process.pid)


FORKS = r"""
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline, noclone)) int leaf(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
__attribute__((noinline, noclone)) int work(int n) { __asm__ volatile("" ::: "memory"); return leaf(n) + leaf(n); }
int main(int count, char **args)
{
	char line[8];
	int n, status;
	puts("ready");
	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		/* Children that end, then one that stays and goes on as this program, or executes it again. */
		for (int child = 0; child < 5; child++)
			if (!fork()) {
				for (n = 0; n < 100 + child; n++)
					work(n);
				_exit(0);
			} else
				wait(&status);
		if (*line != 'n' && fork()) {
			wait(&status);
			break;
		}
		if (*line == 'x')
			execl("/proc/self/exe", "again", NULL);
		for (n = 0; n < 7; n++)
			work(n);
		printf("%d\n", getpid());
		fflush(stdout);
	}
	return 0;
}
"""


def test_follow(record, program, start):
    """Children have the functions of their parent, and the programs that they execute have their own."""
    path = program.text("plain_forks", FORKS, "-O2", instrument=False, clang="gcc")
    process = start([path], stdin=subprocess.PIPE)

    def answer(line):
        process.stdin.write(line)
        process.stdin.flush()
        return int(process.stdout.readline())

    assert process.stdout.readline() == "ready\n"
    assert int(process.stdout.readline()) == process.pid
    session = record("-p", process.pid, "--follow", "--functions", "*", "--no-samples").wait_attached()
    child = answer("f\n")
    assert process.pid != child == answer("n\n")
    process.stdin.write("x\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    again = int(process.stdout.readline())
    recording.wait_until(lambda: patches(again, path), lambda: "the program that a child executes is not patched")
    assert answer("n\n") == again
    recorded = session.stop().ok()
    calls = [log.calls() for log in recorded.logs]
    found = sorted((one["work", ENTER], one["leaf", ENTER], one["leaf", EXIT]) for one in calls if one["work", ENTER])
    assert found == [(count, 2 * count, 2 * count) for count in [7, 14, *sorted([100, 101, 102, 103, 104] * 4)]]
    assert "patches its functions some milliseconds later" in recorded.messages
    for pid in (process.pid, child, again):
        assert_as_in_files(pid)


EXECUTES = '#include <unistd.h>\nint main(int count, char **args) { (void)count; return execv(args[1], args + 1); }\n'


def test_follow_from_a_program_without_these_functions(record, program, start):
    """The process has no such function; the programs that its children execute have."""
    path = program("live/programs/functions.c", "-pthread", "-O2", clang="gcc", instrument=False)
    shell = start(["sh"], stdin=subprocess.PIPE)
    session = record("-v", "-p", shell.pid, "--follow", "--no-samples", "--functions", f"{path.name}:tail").wait_attached()
    shell.stdin.write(f"{path}\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == "ready\n"
    child = int(pathlib.Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text())
    recording.wait_until(lambda: f"sleds patched in process {child}," in session.messages(), "the program is not patched")
    own = work(shell, 1, 10)
    recorded = session.stop().ok()
    assert "so far, --functions" in recorded.messages
    assert recorded_calls(recorded) == {"tail": own["tail"]}, recorded.messages


def test_follow_to_a_program_without_these_functions(record, program):
    path = program.text("plain_executes", EXECUTES, "-O2", instrument=False, clang="gcc")
    recorded = record("--follow", "--no-samples", "--functions", "main", "--", path, "/bin/sleep", "0.5").finish().ok()
    assert recorded.totals["written"] == 2
