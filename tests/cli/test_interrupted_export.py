# SPDX-License-Identifier: BSD-2-Clause
"""A signal ends an export with a message, the exit status of the signal, and no incomplete file."""
import os
import signal
import subprocess

import pytest

import project
import recording
from hand_machine import make

# Blocks when the file is complete, before it gets its final name.
STAYS = """
#include <unistd.h>
int renameat(int from_fd, const char *from, int to_fd, const char *to) { for (;;) pause(); }
"""
MESSAGE = "xprof: error: interrupted: the output is incomplete; no file of it is left\n"


@pytest.fixture
def start(xprof, tmp_path):
    """Starts an xprof that blocks before it renames a file. ignored: a signal that its parent ignores."""
    library = tmp_path / "stays.so"
    built = project.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], stdin=None, input=STAYS)
    assert built.returncode == 0, built.stderr
    started = []

    def run(*args, ignored=None):
        process = subprocess.Popen(
            [xprof.path, *args], stderr=subprocess.PIPE, text=True, env={**os.environ, "LD_PRELOAD": str(library)},
            preexec_fn=ignored and (lambda: signal.signal(ignored, signal.SIG_IGN)))
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def interrupt(process, part, number):
    recording.wait_until(part.exists, "no export began")
    process.send_signal(number)
    messages = process.communicate(timeout=recording.READY_S)[1]
    assert process.returncode == -number, messages
    return messages


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["pprof", "folded", "html"])
def test_export(start, tmp_path, number, form):
    directory, output = tmp_path / "recording", tmp_path / "output"
    directory.mkdir()
    make(directory)
    before = sorted(tmp_path.rglob("*"))
    assert interrupt(start("export", f"--format={form}", "-o", output, directory), tmp_path / "output.part", number) == MESSAGE
    assert sorted(tmp_path.rglob("*")) == before


def test_file_beside_the_recording(start, tmp_path):
    directory = tmp_path / "recording"
    directory.mkdir()
    make(directory)
    before = sorted(tmp_path.rglob("*"))
    process = start("export", "--format=folded", directory)
    assert interrupt(process, directory / "samples.folded.part", signal.SIGINT) == MESSAGE
    assert sorted(tmp_path.rglob("*")) == before


def test_diff(start, tmp_path):
    make(tmp_path)
    process = start("diff", "--html", "-o", tmp_path / "output", tmp_path, tmp_path)
    assert interrupt(process, tmp_path / "output.part", signal.SIGINT) == MESSAGE
    assert not (tmp_path / "output.part").exists()


def test_ignored_signal(start, tmp_path):
    """xprof ignores a signal that its parent ignores, as with nohup(1)."""
    make(tmp_path)
    process = start("export", "--format=folded", "-o", tmp_path / "output", tmp_path, ignored=signal.SIGHUP)
    recording.wait_until((tmp_path / "output.part").exists, "no export began")
    process.send_signal(signal.SIGHUP)
    assert interrupt(process, tmp_path / "output.part", signal.SIGTERM) == MESSAGE
