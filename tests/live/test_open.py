# SPDX-License-Identifier: BSD-2-Clause
"""Checks what `xprof record` opens and suggests at its end."""
import pytest

pytestmark = pytest.mark.uprobes

OFF_CPU = "no samples: the threads used little CPU time; --off-cpu records where threads wait"


def test_open(record, program, start):
    """--open makes the page. As root without sudo, xprof only prints its name."""
    process = start([program("live/programs/busy.c", "-O2"), 1])
    assert process.stdout.readline() == "ready\n"
    recorded = record("-p", process.pid, "-d", "1", "--open").finish()
    assert recorded.status == 0
    page = recorded.directory / "recording.html"
    assert page.exists()
    assert recorded.messages.splitlines()[-1] == f"xprof: no browser is started as root; open {page} in the browser of a user"
    first = [line.split() for line in recorded.messages.splitlines() if line.startswith("    ")][:2]
    assert [words[:3] for words in first] == [["xprof", "report", str(recorded.directory)], ["xprof", "view", str(recorded.directory)]]


def test_idle(record, start):
    process = start(["sleep", "60"])
    recorded = record("-p", process.pid, "-d", "200ms", "--open").finish()
    assert recorded.status == 0
    assert OFF_CPU in recorded.messages
    assert "recording.html" not in recorded.messages
    assert OFF_CPU not in record("-p", process.pid, "-d", "200ms", "--off-cpu").finish().messages
