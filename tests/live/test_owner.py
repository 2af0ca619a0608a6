# SPDX-License-Identifier: BSD-2-Clause
"""A recording belongs to the user who ran sudo, and no other user can read it at any time."""
import os
import pathlib
import shutil
import stat
import tempfile

import pytest

import perf_tool
import profiles
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

USER = 12345
AS_USER = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}


@pytest.fixture
def place():
    """Returns a directory that every user can reach; the directories of the tests are private."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="xprof-owner-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def sudo(monkeypatch):
    """Runs xprof as sudo does, under a umask of 0."""
    for name, value in SUDO.items():
        monkeypatch.setenv(name, value)
    before = os.umask(0)
    yield
    os.umask(before)


def assert_private(directory, uid):
    for path in [directory, *directory.rglob("*")]:
        st = path.lstat()
        assert (st.st_uid, st.st_gid) == (uid, uid), f"{path} is user {st.st_uid}'s"
        mode = {stat.S_IFDIR: 0o700, stat.S_IFREG: 0o600, stat.S_IFLNK: 0o777}[stat.S_IFMT(st.st_mode)]
        assert stat.S_IMODE(st.st_mode) == mode, f"{path} is {st.st_mode:o}"


def run_as_user(place, *command):
    environment = {"HOME": str(place), "PATH": os.environ["PATH"], "PPROF_TMPDIR": "/tmp", "PERF_CONFIG": "/dev/null"}
    done = project.run([*AS_USER, *map(str, command)], env=environment)
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
    return done.stdout


def readers(directory, program):
    """Returns the commands that the summary prints."""
    log = next(directory.glob("*.fdr"))
    profile = next(directory.glob("*.prof"))
    yield [project.XPROF, "report", directory]
    yield [project.LlvmXray(project.LLVM_VERSIONS[-1]).path, "account", log, f"-instr_map={program}"]
    if profiles.GOOGLE_PPROF:
        yield [profiles.GOOGLE_PPROF, "--text", program, profile]
    if profiles.GO:
        yield [profiles.GO, "tool", "pprof", "-top", profile]
    if perf_tool.PATHS:
        yield [perf_tool.PATHS[0], "--no-pager", "report", "-i", directory / "perf.data", "--stdio"]


def test_recording_is_its_users(record, busy, program, place, sudo):
    path = shutil.copy(program("live/programs/victim.c", "-O2", project.no_runtime()), place / "the app")
    target = busy(2, 1000, path)
    session = record("-F", "999", "-p", target.pid, directory=place / "out").wait_attached()
    recording.wait_until(lambda: list((place / "out").glob("*.spool")), "there is no spool")
    assert_private(place / "out", 0)
    # Samples of the program itself, whose name has a blank: readers find it in sym/.
    target.assert_works()
    enough_s = targets.cpu_s(target.pid) + 0.05
    recording.wait_until(lambda: targets.cpu_s(target.pid) > enough_s, "the target does not run", 60)
    recorded = session.stop().ok()
    assert_private(recorded.directory, USER)
    assert {path.suffix for path in recorded.directory.iterdir()} >= {".fdr", ".prof", ".data", ".json"}
    assert any((recorded.directory / "sym").iterdir())
    for command in readers(recorded.directory, path):
        assert run_as_user(place, *command)


def test_killed_recording_is_its_users(xprof, record, busy, place, sudo):
    target = busy(2, 1000)
    session = record("-p", target.pid, directory=place / "out").wait_attached()
    recording.wait_until(lambda: list((place / "out").glob("*.spool")), "there is no spool")
    running = xprof("recover", place / "out")
    assert running.returncode == 1 and "its recording is still running" in running.stderr
    session.process.kill()
    recorded = session.finish()
    assert_private(recorded.directory, 0)
    recovered = xprof("recover", recorded.directory)
    assert recovered.returncode == 0, recovered.stderr
    assert_private(recorded.directory, USER)
    assert not list(recorded.directory.glob("*.spool"))


def test_recovery_in_anothers_directory(xprof, record, busy, place):
    """
    The directory may contain anything: root creates, reads and removes only files that the directory's owner could.
    """
    target = busy(2, 1000)
    session = record("--no-samples", "-p", target.pid, directory=place / "out").wait_attached()
    recording.wait_until(lambda: list((place / "out").glob("*.spool")), "there is no spool")
    session.process.kill()
    session.finish()
    spool = next((place / "out").glob("*.spool"))
    anothers = place / "anothers"
    anothers.mkdir(mode=0o700)
    os.link(spool, anothers / spool.name)
    os.chown(anothers, USER, USER)
    refused = xprof("recover", anothers)
    assert refused.returncode == 1 and "Permission denied" in refused.stderr
    assert os.listdir(anothers) == [spool.name]
    os.chown(spool, USER, USER)
    assert xprof("recover", anothers).returncode == 0
    assert_private(anothers, USER)

    anothers.chmod(0o777)
    os.chown(anothers, 0, 0)
    refused = xprof("recover", anothers)
    assert refused.returncode == 1 and "the directory is root's, but others may write to it" in refused.stderr


def test_recovery_through_anothers_link(xprof, place, sudo):
    """The link leads to a directory of root that looks like a recording. Root must not give its files away."""
    roots = place / "roots"
    roots.mkdir(mode=0o700)
    (roots / "db.dump").write_text("secret")
    anothers = place / "anothers"
    anothers.mkdir()
    (anothers / "out").symlink_to(roots)
    os.chown(anothers, USER + 1, USER + 1)
    os.chown(anothers / "out", USER + 1, USER + 1, follow_symlinks=False)
    for path in (anothers / "out", anothers / "out" / "."):
        refused = xprof("recover", path)
        assert refused.returncode == 1 and "another user's symbolic link" in refused.stderr
        assert (roots.stat().st_uid, (roots / "db.dump").stat().st_uid) == (0, 0)
    for owner in (0, USER):
        os.chown(anothers / "out", owner, owner, follow_symlinks=False)
        assert xprof("recover", anothers / "out").returncode == 0
