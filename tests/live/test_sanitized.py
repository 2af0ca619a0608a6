# SPDX-License-Identifier: BSD-2-Clause
"""
Runs xprof with AddressSanitizer (`make asan`): each error that can occur after the first of several targets was
patched.
"""
import signal
import sys
import time

import pytest

import project
import recording
import targets

ASAN = project.OUTPUT / "asan" / "xprof"
pytestmark = [pytest.mark.uprobes, pytest.mark.skipif(not ASAN.exists(), reason="no xprof with AddressSanitizer here: make asan")]


@pytest.fixture
def two(program, busy):
    """Starts targets that run two binaries, so that the test can delay the second."""
    flags = ("-O2", project.no_runtime())
    paths = [program("live/programs/victim.c", *flags), program("live/programs/victim.c", *flags, "-g")]
    return [busy(threads=1, pause_us=1000, path=path) for path in paths]


@pytest.fixture
def sanitized(record, two, monkeypatch, tmp_path):
    """Records both targets: sanitized(option...) -> recording.Session."""
    monkeypatch.setenv("ASAN_OPTIONS", "exitcode=99:detect_leaks=0")

    def start(*options, limits=(), directory=None, selected=None):
        program = project.wrapped(project.Xprof(ASAN), tmp_path, *limits) if limits else project.Xprof(ASAN)
        selected = selected or ["--no-samples", "-p", ",".join(str(target.pid) for target in two)]
        return record(*options, *selected, program=program, directory=directory)

    yield start
    for target in two:
        target.assert_unharmed()


def finish(session):
    recorded = session.finish()
    assert recorded.status != 99 and "AddressSanitizer" not in recorded.messages, recorded.messages
    return recorded


@pytest.mark.parametrize("mode, options", [
    ("memory", ["--functions", "traced_*", "--functions", "!no_such_function"]),
    ("patch", ["--flight", "1M", "--trigger", "no_such_function>1ms"]),
    ("probe", ["--functions", "no_such_function"]),
])
def test_pattern_without_a_function(sanitized, mode, options):
    refused = finish(sanitized(f"--call-mode={mode}", *options))
    assert refused.status in (1, 2) and "no_such_function" in refused.messages, refused.messages


@pytest.mark.parametrize("mode", recording.MODES)
def test_recorded_by_another(sanitized, record, two, mode):
    other = record("--no-samples", "--call-mode=memory", "-p", two[1].pid).wait_attached()
    refused = finish(sanitized(f"--call-mode={mode}"))
    assert refused.status in (1, 3), refused.messages
    assert other.stop().status == 0


@pytest.mark.parametrize("event", ["interrupted", "ended"])
def test_held_back(sanitized, start, two, event):
    """The second target is attached when another program releases a lock. Meanwhile, ^C arrives or the target ends."""
    other = start([sys.executable, "-c", targets.LOCKS, two[1].path, 100])
    assert other.stdout.readline() == "locked\n"
    session = sanitized("--call-mode=memory")
    recording.wait_until(lambda: "memfd:xprof" in open(f"/proc/{two[0].pid}/maps").read(), session.messages)
    if event == "interrupted":
        session.process.send_signal(signal.SIGINT)
        done = finish(session)
        assert done.status == 1 and "stopped while attaching" in done.messages, done.messages
    else:
        two.pop().process.kill()
        other.kill()
        session.wait_attached()
        session.process.send_signal(signal.SIGINT)
        assert finish(session).status == 0


@pytest.mark.parametrize("mode", recording.MODES)
def test_too_few_descriptors(sanitized, mode):
    """Each limit of descriptors ends the recording at another place, up to a sufficient limit."""
    statuses = [finish(sanitized(f"--call-mode={mode}", "-d", "10ms", limits=("prlimit", f"--nofile={limit}"))).status
                for limit in range(10, 130, 24)]
    assert statuses[0] != 0 == statuses[-1], statuses


@pytest.mark.parametrize("size", ["32k", "128k", "1m"])
def test_full_disk(sanitized, tmpfs, size):
    finish(sanitized("-d", "200ms", directory=tmpfs(f"size={size}") / "out"))


@pytest.mark.parametrize("way", ["exec", "machine", "thread", "children"])
def test_other_targets(sanitized, two, tmpfs, way):
    """An immediate ^C, too few descriptors, a full disk, and a normal recording."""
    selected = {
        "exec": ["--exec", two[0].path],
        "machine": ["-a", "--off-cpu", "--switch-events"],
        "thread": ["--off-cpu", "--tid", two[0].pid],
        "children": ["--off-cpu", "--follow", "-p", two[0].pid],
    }[way]
    interrupted = sanitized("--export=html", selected=selected)
    time.sleep(0.3)
    interrupted.process.send_signal(signal.SIGINT)
    finish(interrupted)
    for limit in range(30, 110, 26):
        finish(sanitized("-d", "10ms", limits=("prlimit", f"--nofile={limit}"), selected=selected))
    finish(sanitized("-d", "200ms", directory=tmpfs("size=64k") / "out", selected=selected))
    assert finish(sanitized("-d", "200ms", "--export=html", selected=selected)).status == 0
