# SPDX-License-Identifier: BSD-2-Clause
"""
Checks recordings by a user who is not root: what CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE allow, and what requires more.
"""
import json
import os
import pathlib
import re
import shutil
import tempfile

import pytest

import project
import recording
import targets

pytestmark = pytest.mark.uprobes

ENVIRONMENT = 3
USER, OTHER = 51234, 51235
THREE = ("bpf", "perfmon", "sys_ptrace")
FILES = "checkpoint_restore"
READ, WRITE = "dac_read_search", "dac_override"


def as_user(uid, capabilities=()):
    """Returns arguments for setpriv. Executed programs inherit the capabilities."""
    named = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    return [
        *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
        *(f"--inh-caps={named}", f"--ambient-caps={named}"),
    ]


class Desk:
    """A directory of this user, and xprof run by this user."""

    def __init__(self, xprof, path):
        self.path = path
        self.xprof = path / "xprof"
        shutil.copy(xprof.path, self.xprof)
        self.xprof.chmod(0o755)

    def __call__(self, capabilities, *args, **options):
        return project.run([*as_user(USER, capabilities), self.xprof, *args], cwd=self.path, **options)

    def record(self, capabilities, *args, **options):
        return self(capabilities, "record", "-o", "out", *args, **options)

    def manifest(self):
        return json.loads((self.path / "out" / "manifest.json").read_text())


@pytest.fixture
def desk(xprof):
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    # Not in pytest's directory, which only root can enter.
    path = pathlib.Path(tempfile.mkdtemp(prefix="xprof-privilege-"))
    os.chown(path, USER, USER)
    path.chmod(0o755)
    yield Desk(xprof, path)
    shutil.rmtree(path)


@pytest.fixture
def target(desk, program, start):
    """Starts live/programs/victim.c as a user: target(uid, pause_us=1000) -> targets.Busy."""

    def start_one(uid, pause_us=1000):
        path = desk.path / "victim"
        shutil.copy(program("live/programs/victim.c", "-O2", project.no_runtime()), path)
        path.chmod(0o755)
        progress = desk.path / f"progress{uid}"
        progress.touch()
        os.chown(progress, uid, uid)
        busy = targets.Busy(start([*as_user(uid), path, 1, pause_us, progress]), path, progress)
        recording.wait_until(progress.read_text, "the target does not start")
        return busy

    return start_one


def written(desk):
    return desk.manifest()["totals"]["written"]


def test_own_process(desk, target, xprof):
    """
    Sleds of an own process are probed. xprof could not restore patched sleds: a capability to find the stub is missing.
    """
    own = target(USER)
    done = desk.record(THREE, "-d", "0.3", "-p", own.pid)
    assert done.returncode == 0, done.stderr
    assert "probed, not patched: xprof lacks CAP_CHECKPOINT_RESTORE" in done.stderr, done.stderr
    assert written(desk) > 0
    refused = desk.record(THREE, "-d", "0.3", "--call-mode", "patch", "-p", own.pid)
    assert refused.returncode == ENVIRONMENT and "CAP_CHECKPOINT_RESTORE" in refused.stderr, refused.stderr
    assert "no sleds patched" in xprof("restore", "-p", own.pid).stderr
    own.assert_works()


def test_own_process_patched(desk, target, xprof):
    own = target(USER)
    done = desk.record([*THREE, FILES], "-d", "0.3", "--call-mode", "patch", "-p", own.pid)
    assert done.returncode == 0, done.stderr
    assert written(desk) > 0
    assert "no sleds patched" in xprof("restore", "-p", own.pid).stderr
    own.assert_unharmed()


def test_process_of_another_user(desk, target):
    other = target(OTHER, 0)
    done = desk.record(THREE, "-F", "999", "-d", "0.3", "-p", other.pid)
    assert done.returncode == 0, done.stderr
    assert "is sampled only; its sleds are not recorded" in done.stderr, done.stderr
    assert "CAP_DAC_READ_SEARCH" in done.stderr and "has no XRay sleds" not in done.stderr, done.stderr
    assert desk.manifest()["samples"]["seen"] > 0
    done = desk.record(THREE, "-d", "0.3", "--no-samples", "-p", other.pid)
    assert done.returncode == ENVIRONMENT, (done.returncode, done.stderr)
    assert "CAP_DAC_READ_SEARCH" in done.stderr and "sudo" in done.stderr, done.stderr
    other.assert_works()


@pytest.mark.parametrize("more, message", [([FILES, READ], "CAP_DAC_OVERRIDE"), ([FILES, WRITE], None)])
def test_sleds_of_another_user(desk, target, xprof, more, message):
    other = target(OTHER)
    done = desk.record([*THREE, *more], "-d", "0.3", "--no-samples", "-p", other.pid)
    assert done.returncode == 0, done.stderr
    assert written(desk) > 0
    assert ("probed, not patched" in done.stderr) == bool(message), done.stderr
    assert (message or "") in done.stderr, done.stderr
    assert "no sleds patched" in xprof("restore", "-p", other.pid).stderr
    other.assert_works()


@pytest.mark.parametrize(
    "option, capability",
    [
        (["--exec", "{path}"], "CAP_DAC_READ_SEARCH"),
        (["--follow", "-p", "{pid}"], "CAP_DAC_READ_SEARCH"),
        (["--uprobes", "single", "-p", "{pid}"], "CAP_SYS_ADMIN"),
    ],
)
def test_what_takes_more(desk, target, option, capability):
    """Probes are not set on files that the user cannot read."""
    own = target(USER)
    done = desk.record(THREE, "-d", "0.3", "--no-samples", *(word.format(path=own.path, pid=own.pid) for word in option))
    assert done.returncode == ENVIRONMENT, (done.returncode, done.stderr)
    assert capability in done.stderr and "sudo" in done.stderr, done.stderr
    assert not (desk.path / "out").exists()
    own.assert_works()


def test_restore(desk, target):
    """restore fails if it may not search, instead of reporting that there is nothing to restore."""
    own = target(USER)
    done = desk(THREE, "restore", "-p", own.pid)
    assert done.returncode == ENVIRONMENT, (done.returncode, done.stderr)
    assert "CAP_CHECKPOINT_RESTORE" in done.stderr and "sudo xprof restore" in done.stderr, done.stderr


def test_whole_machine(desk, target):
    target(OTHER, 0)
    done = desk.record(THREE, "-F", "999", "-d", "0.3", "-a")
    assert done.returncode == 0, done.stderr
    assert list((desk.path / "out").glob("victim.*.prof")), done.stderr


def test_waits(desk, target):
    """The three capabilities allow recording waits, also of another user's process; one of them alone does not."""
    other = target(OTHER)
    done = desk.record(THREE, "--off-cpu", "--no-sleds", "-d", "0.5", "-p", other.pid)
    assert done.returncode == 0, done.stderr
    waits = desk.manifest()["waits"]
    assert waits["written"] > 0 and waits["lost"] == 0, waits
    shutil.rmtree(desk.path / "out")
    for capability in THREE:
        done = desk.record((capability,), "--off-cpu", "--no-sleds", "-d", "0.5", "-p", other.pid)
        assert done.returncode == ENVIRONMENT, (capability, done.returncode, done.stderr)
        assert "sudo" in done.stderr and not (desk.path / "out").exists(), done.stderr
    other.assert_works()


CAPABILITIES = ["grep", "Cap[PEA]", "/proc/self/status"]


SPIN = """
#include <time.h>
__attribute__((noinline)) void spin(void) { for (volatile int i = 0; i < 10000; i++) continue; }
int main(void)
{
	for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;)
		spin();
}
"""


def test_export_of_a_recording_has_no_capabilities(desk, program):
    """record --export, like `xprof export`, opens no file that the user may not read."""
    spin = desk.path / "spin"
    shutil.copy(program.text("spin", SPIN, "-O1"), spin)
    for mode, frame in ((0o755, "spin"), (0o711, "spin+0x")):
        spin.chmod(mode)
        done = desk.record((*THREE, READ), "--no-sleds", "--export", "folded", "--", spin)
        assert done.returncode == 0, done.stderr
        stacks = (desk.path / "out" / "samples.folded").read_text()
        assert f";{frame}" in stacks and (";main;spin " in stacks) == (mode == 0o755), stacks
        assert desk((), "export", "--format=folded", "-o", "-", "out").stdout == stacks


def holders(directory, text):
    """Returns the files in a directory that contain this text."""
    return [path.name for path in directory.rglob("*") if path.is_file() and text in path.read_bytes()]


@pytest.mark.parametrize("mode", [0o755, 0o711])
def test_names_of_a_program_that_the_user_may_not_read(desk, target, mode):
    """
    Calls of a program that the user may not read are recorded, but neither the recording nor list shows its function
    names.
    """
    own = target(USER)
    own.path.chmod(mode)
    done = desk.record((*THREE, FILES, READ), "-d", "0.3", "-p", own.pid)
    assert done.returncode == 0, done.stderr
    assert written(desk) > 0
    listed = [desk((*THREE, FILES, READ), "list", operand) for operand in (own.pid, own.path)]
    assert not any(one.returncode for one in listed), listed
    has_names = mode == 0o755
    assert bool(holders(desk.path / "out", b"traced_tree")) == has_names, holders(desk.path / "out", b"traced_tree")
    assert all(("traced_tree" in one.stdout) == has_names for one in listed), listed
    assert ("you do not have permission to read this file" in done.stderr) != has_names, done.stderr
    own.assert_works()


JITTED = """
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	/* mov ecx, edi; 1: dec ecx; jnz 1b; ret */
	static const unsigned char code[] = { 0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	FILE *map;

	memcpy(page, code, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	fprintf(map, "%lx %zx secret_function\\n", (unsigned long)page, sizeof(code));
	fclose(map);
	for (;;)
		((void (*)(int))page)(100000);
}
"""


@pytest.mark.parametrize("umask", ["022", "077"])
def test_perf_map_that_the_user_may_not_read(desk, program, start, umask):
    path = desk.path / "jitted"
    shutil.copy(program.text("jitted", JITTED, "-O1"), path)
    path.chmod(0o755)
    other = start([*as_user(OTHER), "sh", "-c", f"umask {umask}; exec {path}"])
    perf_map = pathlib.Path(f"/tmp/perf-{other.pid}.map")
    try:
        recording.wait_until(lambda: perf_map.exists() and perf_map.stat().st_size, "the target does not start")
        done = desk.record((*THREE, READ), "--no-sleds", "-F", "999", "-d", "0.5", "-p", other.pid)
        assert done.returncode == 0, done.stderr
        assert desk.manifest()["samples"]["seen"] > 0
        assert bool(holders(desk.path / "out", b"secret_function")) == (umask == "022")
    finally:
        perf_map.unlink(missing_ok=True)


def sets(text):
    """Returns {"CapPrm": 0, ...}."""
    return {name: int(bits, 16) for name, bits in re.findall(r"(Cap\w+):\s+([0-9a-f]+)", text)}


def test_command_keeps_what_its_shell_would_give_it(desk):
    """A command gets ambient capabilities, as with perf, but not those of xprof's file."""
    done = desk.record(THREE, "-q", "--no-sleds", "--", *CAPABILITIES)
    assert done.returncode == 0, done.stderr
    assert sets(done.stdout)["CapEff"] == sets(done.stdout)["CapAmb"] != 0
    with_capabilities(desk)
    done = desk.record([], "-q", "--no-sleds", "--", *CAPABILITIES)
    assert done.returncode == 0, done.stderr
    assert set(sets(done.stdout).values()) == {0}


def with_capabilities(desk):
    """Gives capabilities to the program's file."""
    if not shutil.which("setcap"):
        pytest.skip("no setcap here")
    made = project.run(["setcap", ",".join(f"cap_{name}" for name in THREE) + "=ep", desk.xprof])
    if made.returncode:
        pytest.skip(f"no capabilities of files here: {made.stderr}")


def test_capabilities_of_the_file(desk, target):
    with_capabilities(desk)
    own = target(USER)
    done = desk.record([], "-d", "0.3", "-p", own.pid)
    assert done.returncode == 0, done.stderr
    assert written(desk) > 0
    own.assert_works()


def test_pager(desk):
    """The pager gets none of xprof's capabilities."""
    assert desk.record(THREE, "-q", "--no-sleds", "--", "true").returncode == 0
    environment = {**os.environ, "PAGER": " ".join([*CAPABILITIES, ">", "pager"]), "TERM": "xterm"}
    done = project.run(
        [*as_user(USER, THREE), "script", "-qec", f"{desk.xprof} report out", "/dev/null"], cwd=desk.path, env=environment
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert set(sets((desk.path / "pager").read_text()).values()) == {0}


def states(text):
    """Returns the states in doctor's lines about capabilities."""
    return {name: state for state, name in re.findall(r"^(\w+) +(CAP_\w+) ", text, re.M)}


@pytest.mark.parametrize("capabilities", [THREE, THREE[1:]])
def test_doctor(desk, capabilities):
    done = desk(capabilities, "doctor")
    found = states(done.stdout)
    assert found["CAP_SYS_PTRACE"] == found["CAP_PERFMON"] == "ok"
    assert found["CAP_BPF"] == ("ok" if capabilities == THREE else "missing")
    assert found["CAP_CHECKPOINT_RESTORE"] == found["CAP_DAC_READ_SEARCH"] == found["CAP_DAC_OVERRIDE"] == "degraded"
    assert done.returncode == (0 if capabilities == THREE else ENVIRONMENT), done.stdout
