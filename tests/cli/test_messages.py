# SPDX-License-Identifier: BSD-2-Clause
"""Checks that names of files, and strings in files, cannot disturb xprof's output."""
import json
import os
import re
import subprocess
import unicodedata

import pytest

import hand_made

EVIL = "$(id)`id`'\"\033]0;x\007\033[2J\r\nxprof: error: forged\n\u202e\u200b\u2028\u061c\U000e0041\x9b"
SHOWN = "$(id)`id`'\"?]0;x??[2J??xprof: error: forged???????"


def clean_lines(output):
    text = output.decode()  # strict
    bad = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    assert not bad, f"{bad} in {text!r}"
    lines = text.split("\n")
    assert lines.pop() == ""
    return lines


def run(xprof, *args, **options):
    """Returns (status, lines of stdout, lines of stderr)."""
    argv = [os.fspath(xprof.path), *map(str, args)]
    done = subprocess.run(argv, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False, **options)
    return done.returncode, clean_lines(done.stdout), clean_lines(done.stderr)


# Only text.c, which removes control characters, prints text on a terminal. These files print only their own text.
OWN = {"text.c", "progress.c", "progress_line.c", "cmd_help.c", "gen.c"}
WRITES = re.compile(r"(?<!\w)(?:v?printf|puts|perror|psignal)\(|(?<!\w)(?:v?fprintf|fputs|fputc|putc|fwrite)\([^;]*?std(?:out|err)\b")


def test_one_place_writes(repo):
    found = []
    for path in (repo / "user").rglob("*.c"):
        code = re.sub(r"/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"", "", path.read_text(), flags=re.S)
        if path.name not in OWN:
            found += [f"{path.name}: {m[0]}" for m in WRITES.finditer(code)]
    assert not found


NUMBERED = re.compile(
    r'(?:%zu|%u|%" PRIu64\s*") (?:of [%\w]+ )?(?:threads|samples|calls|functions|waits|records|files|stacks|logs|processes|switches)\b')
# Printed only if the number is above 1, or with no other number.
ABOVE_ONE = r"ne of %zu logs|\" in %|of %zu processes"


@pytest.mark.parametrize("where", ["report", "explain", "diff", "record/summary.c", "record/messages.c", "cmd_recover.c", "cmd_list.c"])
def test_numbers_have_the_form_of_their_noun(repo, where):
    """The form of a noun depends on its number: "1 thread", "2 threads" (base/util.h)."""
    place = repo / "user" / where
    code = {path.name: path.read_text() for path in (place.rglob("*.c") if place.is_dir() else [place])}
    found = [text[m.start() - 6 : m.end()] for text in code.values() for m in NUMBERED.finditer(text)]
    assert not [text for text in found if not re.search(ABOVE_ONE, text)]


@pytest.mark.parametrize(
    "args",
    [
        [EVIL],
        [f"-{EVIL}"],
        ["help", EVIL],
        ["record", EVIL],
        ["record", f"--{EVIL}"],
        ["record", "-\xe9"],
        ["record", "-p", EVIL],
        ["record", "-p", "1", "-d", EVIL],
        ["record", "-p", "1", "--args", EVIL],
        ["record", "-a", "-F", EVIL],
        ["record", "-p", "1", "--buffer", EVIL],
        ["record", "-p", "1", "--max-overhead", EVIL],
        ["doctor", "1", EVIL],
    ],
)
def test_usage_errors(xprof, args):
    status, printed, messages = run(xprof, *args)
    assert (status, printed, len(messages)) == (2, [], 1)


@pytest.mark.parametrize("command", ["report", "recover"])
def test_no_such_file(xprof, command):
    status, printed, messages = run(xprof, command, EVIL)
    assert (status, printed) == (1, [])
    (message,) = messages
    assert message.startswith(f"xprof: error: {SHOWN}: ") and message.endswith("No such file or directory")


def test_no_such_file_or_process(xprof):
    assert run(xprof, "list", EVIL) == (1, [], [f"xprof: error: no process has the name '{SHOWN}'"])


def test_long_name_leaves_the_reason(xprof):
    """A long name is printed completely, and the reason after it."""
    name = "\033" * 5000
    status, _, messages = run(xprof, "list", name)
    assert (status, messages) == (1, [f"xprof: error: {'?' * 5000}: cannot open it: File name too long"])


def test_not_ours(xprof, tmp_path):
    path = tmp_path / EVIL
    path.write_text(EVIL)
    for command in ("list", "report"):
        status, printed, messages = run(xprof, command, path)
        assert (status, printed, len(messages)) == (1, [], 1)
        assert f"/{SHOWN}: " in messages[0]


def test_report(xprof, tmp_path):
    """The manifest, the profile and the name of the directory are hostile."""
    directory = tmp_path / EVIL
    directory.mkdir()
    text = "555555554000-555555555000 r-xp 00000000 08:01 7 /bin/" + EVIL.replace("\n", "").replace("\r", "") + "\n"
    (directory / "a.7.prof").write_bytes(hand_made.profile([(1, [0x555555554001])], text))
    process = {"pid": 7, "image": 1, "comm": EVIL, "file": "a.7.prof", "samples": 1}
    manifest = {"manifest_version": 1, "started": EVIL, "duration_s": 1.0, "samples": {"profiles": [process]}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    status, printed, messages = run(xprof, "report", directory)
    assert (status, messages) == (0, [])
    assert printed[0].count(SHOWN) == 2 and printed[0].endswith(", 1.0 s")
    assert printed[2].startswith(f"{SHOWN} (7): 1 sample")
    assert len(printed) == 5
