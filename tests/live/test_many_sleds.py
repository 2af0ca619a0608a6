# SPDX-License-Identifier: BSD-2-Clause
"""Programs with a very large number of sleds: attaching can be interrupted, and has limits."""
import os
import pathlib
import signal

import pytest

import recording
import targets

pytestmark = pytest.mark.uprobes

alone = pytest.mark.alone("the kernel lets nobody else probe or fork while it sets so many", kernel=True)

PROBE = ("--call-mode=probe", "--no-samples", "--uprobes=multi")
# Some tenths of a second in several links, and more than may be probed.
SOME, TOO_MANY = 100_000, 130_000
# BATCH_MAX of user/kernel/attach.c.
LINK_MAX = 16384


def build(program, functions):
    """
    Builds live/programs/sleds.c with this many functions, which takes seconds. Its first instruction creates its file.
    """
    return program(
        "live/programs/sleds.c", "-O1", "-fno-xray-instrument", f"-DFUNCTIONS={functions}", "-Wl,-e,early"
    )


@pytest.fixture
def sleds(program, start, tmp_path):
    """Starts it."""

    def start_one(functions):
        path = build(program, functions)
        progress = tmp_path / "progress"
        target = targets.Busy(start([path, progress]), path, progress)
        recording.wait_until(progress.exists, "the target does not start")
        target.assert_works()
        return target

    return start_one


def links(pid):
    """Returns the number of uprobe_multi links of a process."""
    count = 0
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            count += "link_type:\tuprobe_multi" in info.read_text()
        except OSError:
            pass
    return count


def wait_attaching(session):
    recording.wait_until(
        lambda: links(session.process.pid) or session.process.poll() is not None, "xprof does not attach"
    )
    assert session.process.poll() is None, session.messages()


@alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_signal_stops_attaching(sleds, record, number):
    target = sleds(SOME)
    session = record(*PROBE, "-p", target.pid)
    wait_attaching(session)
    session.process.send_signal(number)
    done = session.finish()
    assert done.status == 1, done.messages
    assert "stopped while attaching: nothing was recorded" in done.messages
    assert not done.directory.exists()
    target.assert_unharmed()


@alone
def test_signal_stops_attaching_a_command(program, record, tmp_path):
    """^C ends the attaching of many probes. The command never runs."""
    path = build(program, SOME)
    session = record(*PROBE, "--", path, tmp_path / "progress")
    wait_attaching(session)
    children = pathlib.Path(f"/proc/{session.process.pid}/task/{session.process.pid}/children").read_text().split()
    # The terminal's ^C goes to both.
    session.process.send_signal(signal.SIGINT)
    done = session.finish()
    assert done.status == 1, done.messages
    assert "stopped while attaching: nothing was recorded" in done.messages
    assert not (tmp_path / "progress").exists()
    # xprof's child that reads memory exits after xprof.
    assert children
    recording.wait_until(lambda: not any(os.path.exists(f"/proc/{child}") for child in children), "a child is left")


@alone
def test_kill_stops_attaching(sleds, record):
    """The task that attaches continues without xprof, up to the end of its batch."""
    target = sleds(SOME)
    session = record(*PROBE, "-p", target.pid)
    wait_attaching(session)
    session.process.kill()
    session.finish()
    target.assert_unharmed()


@alone
def test_links_are_small(sleds, record):
    target = sleds(SOME)
    session = record(*PROBE, "-p", target.pid).wait_attached()
    assert links(session.process.pid) >= 2 * SOME / LINK_MAX
    done = session.stop().ok()
    assert done.manifest["processes"][0]["objects"][0]["sleds_attached"] == 2 * SOME
    target.assert_unharmed()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["record", "dry-run"])
def test_limit(sleds, xprof, tmp_path, dry):
    target = sleds(TOO_MANY)
    done = xprof("record", *PROBE, *dry, "-d", "1", "-o", tmp_path / "out", "-p", target.pid)
    assert done.returncode == 1, done.stderr
    assert f"has {2 * TOO_MANY} sleds to probe, but xprof attaches at most 250000 probes" in done.stderr
    assert "--functions GLOB" in done.stderr and "--call-mode patch" in done.stderr
    assert not (tmp_path / "out").exists()
    target.assert_unharmed()


LATE_KILL = r"""
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int kill(pid_t pid, int number)
{
	usleep(100000);
	return (int)syscall(SYS_kill, pid, number);
}
"""


def test_limit_of_a_command(program, xprof, tmp_path):
    """What cannot be recorded is killed while it is still held: not one of its instructions runs."""
    path = build(program, TOO_MANY)
    late_kill = program.text("late_kill", LATE_KILL, "-shared", "-fPIC", instrument=False)
    done = xprof(
        "record", *PROBE, "-o", tmp_path / "out", "--", path, tmp_path / "progress",
        env={**os.environ, "LD_PRELOAD": str(late_kill)},
    )
    assert done.returncode == 1, done.stderr
    assert "xprof attaches at most 250000 probes" in done.stderr
    assert not (tmp_path / "progress").exists()


@pytest.mark.alone("measures stops")
def test_patched_in_short_stops(sleds, record):
    """
    Above the limit of probes, sleds are patched in about sixty short stops of the process instead of one long stop.
    """
    target = sleds(TOO_MANY)
    done = record("--call-mode=patch", "--no-samples", "-p", target.pid).wait_attached().stop().ok()
    recorded = done.manifest["attach"]
    assert recorded["longest_stop_ms"] < recorded["stopped_ms"] / 4
    assert done.manifest["processes"][0]["objects"][0]["sleds_attached"] == 2 * TOO_MANY
    target.assert_unharmed()
