# SPDX-License-Identifier: BSD-2-Clause
"""
Names that a target chose are printed as text: they cannot control a terminal or forge a line. A printed command, pasted
into a shell, does what it shows.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unicodedata

import pytest

import project
import recording

pytestmark = pytest.mark.uprobes

EVIL = "$(touch pwned)`touch pwned`'\";touch pwned;\033]0;x\007\033[2J\r\nxprof: error: forged\n    sh pwned \u202e\u200b\u2028\u061c\x9b"
FUNCTION = "f" + EVIL
TOOLS = ["llvm-xray", "go", "perf", "xprof"]

SOURCE = """
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((noinline)) void evil(volatile long *count) __asm__(%s);
void evil(volatile long *count)
{
	(*count)++;
}

__attribute__((noinline)) void never_called(void) __asm__("never.called");
void never_called(void)
{
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	volatile long count = 0;

	prctl(PR_SET_NAME, "\\033[2J\\n$(id)\\342\\200\\256;x");
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 1000; i++)
			evil(&count);
		if (argc > 1 && count >= 100000)
			return 0;
	}
}
"""


def c_text(text):
    return '"' + "".join(f"\\{byte:03o}" for byte in text.encode()) + '"'


@pytest.fixture
def hostile(program, tmp_path):
    """Returns the path of a program with such names; its own path is one, too."""
    built = program.text("names", SOURCE % c_text(FUNCTION), "-O2", project.no_runtime())
    # A name has no slash; the last byte is no UTF-8.
    path = tmp_path / f"-p{EVIL}\udcff"
    shutil.copy(built, path)
    return path


@pytest.fixture
def running(hostile, start):
    process = start([hostile])
    assert process.stdout.readline() == "ready\n"
    return process


def is_unseen(character):
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")


def assert_clean(output):
    """Checks output for control characters and returns its lines."""
    text = output.decode()  # strict
    bad = {c for c in set(text) if c != "\n" and is_unseen(c)}
    assert not bad, f"{bad} in {text!r}"
    lines = text.split("\n")
    assert lines.pop() == ""
    assert not [line for line in lines if line.startswith(("xprof: error: forged", "    sh pwned"))], text
    return lines


def run(xprof, *args, status=0):
    """Returns the lines of both outputs."""
    done = subprocess.run([xprof.path, *map(str, args)], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done.stderr
    return assert_clean(done.stdout), assert_clean(done.stderr)


def assert_messages(lines):
    """Checks that all lines are messages of xprof, files of the recording, or commands."""
    assert lines
    assert not [line for line in lines if not line.startswith(("xprof: ", "  "))], lines


def words_in_bash(command, directory):
    """Returns the words that bash passes to the tool: [the tool, its arguments...]."""
    functions = "".join(f"{tool}() {{ printf '%s\\0' {tool} \"$@\"; }}; " for tool in TOOLS)
    done = subprocess.run(["bash", "-c", functions + command], capture_output=True, cwd=directory, check=True)
    assert not done.stderr, done.stderr
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


def assert_nothing_ran(directory):
    assert not list(pathlib.Path(directory).rglob("pwned"))


def test_recording(xprof, running, hostile, tmp_path):
    out = tmp_path / f"-o{EVIL}"
    printed, messages = run(xprof, "record", "-v", "-p", running.pid, "-d", "2s", "--max-overhead", "1%", "-o", out)
    assert printed == []
    assert_messages(messages)
    assert [m for m in messages if m.startswith("xprof: budget: f$(touch pwned)`touch pwned`'\";touch pwned;?]0;x??[2J")]
    assert [m for m in messages if m.startswith("xprof: budget 1 %: ") and " for " in m and "f$(touch" in m]
    assert not [m for m in messages if m.startswith("xprof: error")]

    commands = [m.strip() for m in messages if m.startswith("    ")]
    words = {w[0] + " " + w[1]: w for w in (words_in_bash(c, tmp_path) for c in commands)}
    (log,), (profile,) = (list(out.glob(f"*.{kind}")) for kind in ("fdr", "prof"))
    names = json.loads((out / "manifest.json").read_text())["processes"][0]["objects"][0]["names"]
    assert words == {
        "llvm-xray account": ["llvm-xray", "account", str(log), f"-instr_map={out / 'sym' / names}"],
        "xprof report": ["xprof", "report", str(out)],
        "xprof view": ["xprof", "view", str(out)],
        "go tool": ["go", "tool", "pprof", "-top", str(profile)],
        "perf report": ["perf", "report", "-i", str(out / "perf.data")],
    }
    account = next(c for c in commands if c.startswith("llvm-xray"))
    done = subprocess.run(["bash", "-c", account], capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert_nothing_ran(tmp_path)

    for path in out.rglob("*"):
        assert not [c for c in path.name if not re.match(r"[\w.+-]", c, re.A)], path
        assert path.name[0] not in "-."
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["processes"][0]["comm"] == "?[2J?$(id)\u202e;x"

    checks, errors = run(project.Xprof(project.CHECK), out)
    assert errors == [] and len(checks) == 3
    tables, errors = run(xprof, "report", "--full-names", out)
    assert errors == []
    assert len([line for line in tables if re.match(r" *\d+ +[\d.]+% .*f\$\(touch pwned\)", line)]) == 1, tables
    for path in (log, profile, out / "perf.data"):
        dumped, errors = run(project.Xprof(project.CHECK), "--dump", path)
        assert errors == []
        assert not [line for line in dumped if not re.match(r"#|0x[0-9a-f]+ ", line)]


def test_process(xprof, running, hostile, tmp_path):
    """Commands about a process and its files print clean names."""
    shown = "-p$(touch pwned)`touch pwned`'\";touch pwned;?]0;x??[2J??xprof: error: forged?    sh pwned ?????"

    lines, errors = run(xprof, "list", running.pid)
    assert errors == []
    assert len(lines) == 2 + 2 and shown in lines[0] and lines[2].split(maxsplit=8)[-1].startswith("f$(touch"), lines
    lines, errors = run(xprof, "list", "--sleds", hostile)
    assert errors == [] and len(lines) == 2 + 4 and shown in lines[0]

    lines, messages = run(xprof, "record", "--dry-run", "-p", running.pid)
    assert_messages(messages or ["  "])
    assert lines[0] == f"process {running.pid} (?[2J?$(id)?;x)"
    assert shown in lines[1] and not [line for line in lines[2:] if not line.startswith(("  ", "forecast: "))]

    lines, _ = run(xprof, "doctor", running.pid)
    assert [line for line in lines if shown in line and line.startswith("ok ")]
    assert not [line for line in lines if line and not re.match("ok |degraded |missing |untested |   ", line)]

    assert run(xprof, "restore", "-p", running.pid) == (
        [],
        [f"xprof: process {running.pid} (?[2J?$(id)?;x): no sleds patched by xprof"],
    )
    assert_nothing_ran(tmp_path)


def test_command(xprof, hostile, tmp_path):
    done = subprocess.run(
        [xprof.path, "record", "-v", "-o", tmp_path / "out", "--", hostile, EVIL],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    assert_messages(assert_clean(done.stderr))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["command"][-1] == EVIL.translate(str.maketrans("\033\007\r\n\x9b", "?????"))


def test_recovered(xprof, record, running, hostile, tmp_path):
    """The command that `xprof recover` prints."""
    session = record("-p", running.pid, "--no-samples", directory=tmp_path / f"cut off{EVIL}").wait_attached()
    recording.wait_until(lambda: any(p.stat().st_size > 1 << 20 for p in session.directory.glob("*.spool")), "no events")
    session.process.kill()
    session.process.wait()
    _, messages = run(project.Xprof(project.CHECK), session.directory, status=1)
    assert_messages(messages)
    _, messages = run(xprof, "recover", session.directory)
    (command,) = [m.removeprefix("xprof: ").strip() for m in messages if " llvm-xray " in m]
    (log,) = session.directory.glob("*.fdr")
    assert words_in_bash(command, tmp_path) == ["llvm-xray", "account", str(log), f"-instr_map={hostile}"]
    assert_nothing_ran(tmp_path)


@pytest.mark.parametrize(
    "args, status, remedy",
    [
        (["--", "\033/" * 1500 + "x"], 127, "; give a path or a name in $PATH"),
        (["-o", "\033/" * 1500 + "x", "--", "true"], 1, " does not exist: make it first, or choose another directory with -o"),
        (["--exec", "\033/" * 1500 + "x"], 1, ": No such file or directory"),
    ],
    ids=["command", "output", "exec"],
)
def test_long_name_leaves_the_remedy(xprof, args, status, remedy, tmp_path):
    done = subprocess.run([xprof.path, "record", *args], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == status
    message = assert_clean(done.stderr)[-1]
    assert message.startswith("xprof: error: ") and message.endswith(remedy)
    assert not list(tmp_path.iterdir())
