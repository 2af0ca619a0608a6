# SPDX-License-Identifier: BSD-2-Clause
"""
Checks recordings that are impossible or end early: the message, the remedy, the exit code, and that the target
continues.
"""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import pytest

import leftovers
import project
import recording

pytestmark = pytest.mark.uprobes

FAILED, USAGE, ENVIRONMENT, LOST = 1, 2, 3, 4
NOT_EXECUTABLE, NOT_FOUND = 126, 127
PF_KTHREAD = 0x00200000  # linux/sched.h


def assert_refused(done, directory, status, *texts):
    """Checks that xprof ends with the status and one error that contains all texts, and that it leaves no output."""
    assert done.returncode == status, f"status {done.returncode}:\n{done.stderr}"
    errors = [line for line in done.stderr.splitlines() if line.startswith("xprof: error: ")]
    assert len(errors) == 1, done.stderr
    for text in texts:
        assert text in done.stderr, f"{text!r} is not in:\n{done.stderr}"
    assert not os.path.lexists(directory), f"{directory} was left"


@pytest.fixture
def refuse(xprof, tmp_path):
    """Checks that `xprof record` with these arguments is refused: refuse(args, status, texts...)."""

    def check(args, status, *texts, program=xprof, **options):
        directory = tmp_path / "refused"
        done = program("record", "-o", directory, *args, **options)
        assert_refused(done, directory, status, *texts)
        return done

    return check


# Targets that are none.


def test_no_such_process(refuse):
    process = subprocess.Popen(["true"])
    process.wait()
    refuse(["-p", process.pid], FAILED, f"no process {process.pid}", "`pgrep -l NAME`")


def test_zombie(refuse):
    process = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        refuse(["-p", process.pid], FAILED, f"no process {process.pid} any more", "`pgrep -l NAME`")
    finally:
        process.wait()


def test_thread(refuse, busy):
    target = busy(threads=1, pause_us=1000)
    (thread,) = (int(t) for t in os.listdir(f"/proc/{target.pid}/task") if int(t) != target.pid)
    refuse(["-p", thread], FAILED, f"{thread} is a thread of process {target.pid}: use -p {target.pid}")


def is_kernel_thread(process):
    try:
        return int((process / "stat").read_text().rsplit(")")[-1].split()[6]) & PF_KTHREAD
    except OSError:  # it has ended meanwhile
        return False


def test_kernel_thread(refuse):
    kernel = next(filter(is_kernel_thread, pathlib.Path("/proc").glob("[0-9]*")), None)
    if not kernel:
        pytest.skip("no kernel thread is visible here")
    refuse(["-p", kernel.name], FAILED, f"process {kernel.name} is a kernel thread")


def test_file_without_sleds(refuse):
    refuse(["--exec", "/bin/ls"], FAILED, "--exec /bin/ls: no XRay sleds", "clang -fxray-instrument")


def test_xprof_itself(xprof, tmp_path):
    done = project.run(["sh", "-c", f"exec '{xprof.path}' record -o '{tmp_path}/out' -p $$"])
    assert_refused(done, tmp_path / "out", FAILED, "is xprof itself", "give another -p")


def elf_32_bit():
    """Returns an i386 program that calls pause() in a loop."""
    code = b"\xb8\x1d\x00\x00\x00" + b"\xcd\x80" + b"\xeb\xf7"  # mov eax, 29; int 0x80; jmp to the beginning
    base, headers = 0x10000, 52 + 32
    size = headers + len(code)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    header = struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + headers, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    load = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000)
    return ident + header + load + code


def test_32_bit_program(refuse, start, tmp_path):
    path = tmp_path / "program32"
    path.write_bytes(elf_32_bit())
    path.chmod(0o755)
    try:
        process = start([path])
    except OSError as e:
        pytest.skip(f"32-bit programs do not run here: {e}")
    refuse(["-p", process.pid], FAILED, f"process {process.pid} is a 32-bit program", "without -m32")
    assert process.poll() is None


def test_no_sleds(refuse, start):
    process = start(["sleep", "60"])
    refuse(
        ["--no-samples", "-p", process.pid], FAILED, "(sleep) has no XRay sleds", "select functions with --functions", "clang -fxray-instrument", "omit --no-samples to sample it"
    )
    assert process.poll() is None


def test_no_function_matches(refuse, busy):
    target = busy(pause_us=1000)
    refuse(["-p", target.pid, "--functions", "nothing*"], USAGE, "--functions 'nothing*' matches no function")
    refuse(["-p", target.pid, "--functions", "!traced_laef"], USAGE, "'traced_laef' matches no function; the nearest names are traced_")
    refuse(["-p", target.pid, "--flight", "1M", "--trigger", "setp>1s"], USAGE, "--trigger 'setp' matches no function; the nearest names are ")
    refuse(["-p", target.pid, "--functions", "*leaf", "--functions", "!*leaf"], FAILED, "no instrumented function matches")
    target.assert_unharmed()


def sections(path):
    """{name: (offset, size)} of an ELF file."""
    text = project.run(["readelf", "-SW", path]).stdout
    found = re.finditer(r"\] (\S+) +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) ", text)
    return {m[1]: (int(m[2], 16), int(m[3], 16)) for m in found}


@pytest.mark.parametrize("damage", ["ones", "noise", "cut"])
def test_malformed_map(refuse, busy, program, tmp_path, damage):
    path = tmp_path / "damaged"
    shutil.copy(program("live/programs/victim.c", "-O2", project.no_runtime()), path)
    offset, size = sections(path)["xray_instr_map"]
    with open(path, "r+b") as file:
        file.seek(offset + (8 if damage == "noise" else 0))
        file.write({"ones": b"\xff" * size, "noise": bytes(range(17, 17 + 24)), "cut": b"\0" * size}[damage])
    target = busy(pause_us=1000, path=path)
    refuse(["--no-samples", "-p", target.pid], FAILED, "warning: ", "are not recorded", "has no XRay sleds")
    target.assert_unharmed()


PR_SET_NO_NEW_PRIVS = 38
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_RESTRICT_SELF = 444, 446
LANDLOCK_ACCESS_FS_MAKE_BLOCK = 1 << 11
LIBC = ctypes.CDLL(None, use_errno=True)


def enter_sandbox():
    """Landlock: a process in it can access none outside of it, not even root."""
    handled = ctypes.c_uint64(LANDLOCK_ACCESS_FS_MAKE_BLOCK)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    rules = LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(handled), 8, 0)
    if LIBC.syscall(SYS_LANDLOCK_RESTRICT_SELF, rules, 0):
        os._exit(99)


def test_root_in_a_sandbox(refuse, start):
    if LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, 1) < 1:
        pytest.skip("the kernel has no Landlock")
    done = refuse(["-p", start(["sleep", "60"]).pid], ENVIRONMENT, "even to root", "in a sandbox", "run xprof outside of it",
                  preexec_fn=enter_sandbox)
    assert "as root" not in done.stderr


# Commands that do not start.


def test_unknown_command(refuse):
    refuse(["--", "no-such-command-here"], NOT_FOUND, "cannot run no-such-command-here", "give a path or a name in $PATH")


def test_command_without_execute_permission(refuse, tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF")
    refuse(["--", path], NOT_EXECUTABLE, f"cannot run {path}: Permission denied", "chmod +x")


def test_command_without_sleds(xprof, tmp_path):
    """It runs to its end, as it could still execute a program that has sleds; its status is xprof's."""
    done = xprof("record", "-o", tmp_path / "out", "--no-samples", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7, done.stderr
    assert "no program with XRay sleds ran" in done.stderr


# Privilege and kernel.


@pytest.mark.parametrize("dropped", ["all", "sys_ptrace"])
def test_without_privilege(refuse, xprof, busy, tmp_path, dropped):
    target = busy(pause_us=1000)
    unprivileged = project.wrapped(xprof, tmp_path, "setpriv", f"--bounding-set=-{dropped}")
    lacks = "CAP_BPF CAP_PERFMON CAP_SYS_PTRACE" if dropped == "all" else "CAP_SYS_PTRACE"
    refuse(["-p", target.pid], ENVIRONMENT, f"user 0 lacks {lacks} (", "sudo", program=unprivileged)
    target.assert_unharmed()


def test_in_a_pid_namespace(refuse, xprof, tmp_path):
    inside = project.wrapped(xprof, tmp_path, "unshare", "--pid", "--fork", "--mount-proc")
    refuse(["--", "true"], ENVIRONMENT, "pid namespace", "a container's", program=inside)


# The output.


def test_parent_of_output_missing(xprof, tmp_path, busy):
    target = busy(pause_us=1000)
    directory = tmp_path / "missing" / "out"
    done = xprof("record", "-o", directory, "-p", target.pid)
    assert_refused(done, directory, FAILED, f"{directory.parent} does not exist: make it first, or choose another directory with -o")


@pytest.mark.parametrize("what", ["file", "directory", "link"])
def test_output_in_the_way(xprof, tmp_path, busy, what):
    target = busy(pause_us=1000)
    directory = tmp_path / "mine"
    {
        "file": lambda: directory.write_text("mine"),
        "directory": lambda: (directory.mkdir(), (directory / "letter.txt").write_text("mine")),
        "link": lambda: directory.symlink_to(tmp_path),
    }[what]()
    before = sorted(os.listdir(tmp_path))
    done = xprof("record", "-o", directory, "-p", target.pid)
    assert done.returncode == FAILED
    assert "mine" in done.stderr and "with -o" in done.stderr
    assert sorted(os.listdir(tmp_path)) == before
    assert what != "directory" or (directory / "letter.txt").read_text() == "mine"
    leftovers.assert_nothing_left(target.pid)


def test_output_on_a_read_only_disk(xprof, tmpfs, busy):
    target = busy(pause_us=1000)
    directory = tmpfs("ro,size=1m") / "out"
    done = xprof("record", "-o", directory, "-p", target.pid)
    assert_refused(done, directory, FAILED, "the file system is read-only: choose another with -o")


def assert_read(log):
    """llvm-xray finds no fault with it, and more than 1000 records in it."""
    if project.LLVM_VERSIONS:
        assert len(recording.basic_records(log)) > 1000 * 32


def assert_readable(xprof, directory, room):
    """
    The first part of the recording is there, complete in itself. It is read from a directory with room: llvm-xray maps
    it, and of a tmpfs without a free page the holes of a mapped file (padding, in the log) are a bus error.
    """
    (log,) = directory.glob("*.fdr")
    assert not list(directory.glob("*.spool")) and not list(directory.glob("*.part"))
    checked = xprof.check(directory)
    assert checked.returncode == 0, checked.stderr
    assert_read(pathlib.Path(shutil.copy(log, room)))


def test_disk_full(xprof, record, tmpfs, tmp_path, busy):
    target = busy()
    session = record("-p", target.pid, directory=tmpfs("size=1m") / "out")
    session.process.wait(60)
    recorded = session.finish()
    assert "No space left on device; make room there or give another -o" in recorded.messages
    assert recorded.status == FAILED
    assert_readable(xprof, recorded.directory, tmp_path)
    recorded.adds_up()
    assert recorded.totals["lost"]["unstored"] > 0
    target.assert_unharmed()


def test_largest_size(record, busy):
    """The recording ends by itself, with everything that it has seen."""
    target = busy()
    session = record("--max-size=1M", "--no-samples", "-p", target.pid)
    session.process.wait(60)
    recorded = session.finish().adds_up()
    assert recorded.status == 0
    assert re.search(r"the recording ends: its files have reached \d+ MiB; --max-size SIZE sets the limit", recorded.messages)
    assert recorded.log().path.stat().st_size >= 1 << 20
    target.assert_unharmed()


def test_disk_so_full_that_nothing_fits(xprof, tmpfs, busy):
    target = busy()
    disk = tmpfs("size=64k")
    (disk / "filler").write_bytes(bytes(60 << 10))
    done = xprof("record", "-o", disk / "out", "-d", "1", "-p", target.pid)
    assert done.returncode == FAILED
    assert "make room there or give another -o" in done.stderr
    target.assert_unharmed()


def test_file_size_limit(xprof, record, tmp_path, busy):
    """The limit's signal, which would kill xprof, is not how it hears of it."""
    target = busy()
    limited = project.wrapped(xprof, tmp_path, "prlimit", "--fsize=600000")
    session = record("-p", target.pid, program=limited)
    session.process.wait(60)
    recorded = session.finish()
    assert "File too large; raise `ulimit -f` or give another -o" in recorded.messages
    assert recorded.status == FAILED
    assert f"): File too large; remove the cause, then run `xprof recover {recorded.directory}`" in recorded.messages
    recorded.adds_up()
    target.assert_unharmed()
    recovered = xprof("recover", recorded.directory)
    assert recovered.returncode == 0, recovered.stderr
    assert_readable(xprof, recorded.directory, tmp_path)


# The end of the target.


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_target_dies(xprof, record, busy, number):
    """Which ends the recording as it should end."""
    target = busy(threads=1)
    session = record("-p", target.pid).wait_attached()
    target.assert_works()
    target.process.send_signal(number)
    target.process.wait(10)
    recorded = session.finish()
    assert recorded.status == 0, recorded.messages
    assert xprof.check(recorded.directory).returncode == 0
    (log,) = recorded.directory.glob("*.fdr")
    assert_read(log)


def test_target_gone_at_once(xprof, program, tmp_path):
    """It ends before xprof has looked, while it looks, or soon after: a message, or a recording, and never a crash."""
    path = program("live/programs/victim.c", "-O2", project.no_runtime())
    for delay_ms in range(0, 100, 20):
        process = subprocess.Popen([path, "1", "0", tmp_path / "progress"])
        directory = tmp_path / f"out{delay_ms}"
        session = subprocess.Popen(
            [xprof.path, "record", "-o", directory, "-p", str(process.pid)], stderr=subprocess.PIPE, text=True
        )
        try:
            session.wait(delay_ms / 1000)
        except subprocess.TimeoutExpired:
            pass
        process.kill()
        process.wait()
        _, messages = session.communicate(timeout=recording.READY_S)
        if session.returncode == 0:
            assert xprof.check(directory).returncode == 0
        else:
            assert session.returncode == FAILED, messages
            assert f"process {process.pid}" in messages
            assert not directory.exists()
    leftovers.assert_no_orphans()


def test_command_that_ends_at_once(xprof, program, tmp_path):
    path = program.text("ends_at_once", "int main(void) { return 5; }\n", project.no_runtime())
    done = xprof("record", "-o", tmp_path / "out", "--", path)
    assert done.returncode == 5, done.stderr
    assert "2 events seen = 2 written" in done.stderr


# Sleds that XRay's runtime has patched.


@pytest.fixture(scope="session")
def patching(program):
    return program("live/programs/victim.c", "-O2", "-DPATCH")


@pytest.mark.parametrize("pause_us, way", [(0, "single"), (1000, "multi")])
def test_patched_sleds(refuse, busy, patching, pause_us, way):
    target = busy(4, pause_us, patching, "patched")
    before = leftovers.changed_code(target.pid)
    assert before, "the runtime has patched nothing: the test proves nothing"
    refuse(["--no-samples", "-p", target.pid, f"--uprobes={way}"], FAILED, "patched already", "XRAY_OPTIONS=patch_premain=true", "no sleds to attach")
    target.assert_works()
    leftovers.wait_until(lambda: leftovers.changed_code(target.pid) == before, lambda: f"not what was there: {before}")


@pytest.mark.parametrize("pause_us, way", [(0, "single"), (1000, "multi")])
def test_sleds_patched_during_the_recording(record, busy, patching, pause_us, way):
    target = busy(4, pause_us, patching)
    session = record("-p", target.pid, f"--uprobes={way}").wait_attached()
    target.assert_works()
    target.process.send_signal(signal.SIGUSR1)
    target.assert_works()
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    assert re.search(r"warning: .*XRay's runtime patched \d+ sleds", recorded.messages), recorded.messages
    target.assert_works()
    # The runtime takes back what it needs to, and no breakpoint is among what it leaves.
    target.process.send_signal(signal.SIGUSR2)
    target.assert_works()
    leftovers.wait_until(lambda: not leftovers.breakpoints(target.pid), lambda: leftovers.breakpoints(target.pid))


# Losses.


def test_losses_under_strict(record, busy, xprof):
    target = busy()
    recorded = record("-p", target.pid, "--call-mode=patch", "--buffer=4096", "-d", "1", "--strict").finish()
    lost = recorded.adds_up().totals["lost"]["total"]
    assert lost > 0 and recorded.status == LOST, recorded.messages
    assert f"lost (--strict): {lost} events" in recorded.messages
    assert xprof.check(recorded.directory).returncode == 0
    target.assert_unharmed()
