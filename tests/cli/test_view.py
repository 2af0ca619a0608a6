# SPDX-License-Identifier: BSD-2-Clause
"""`xprof view` opens the page of a recording as the user who ran sudo, with that user's display, and never as root."""
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

import hand_made
import project
import recording

USER = 12345
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}
OPENER = """#!/bin/sh
cd /
printf '{"uid": %s, "groups": "%s", "page": "%s", "display": "%s"}' $(id -u) "$(id -G)" "$1" "$WAYLAND_DISPLAY$DISPLAY" > PLACE/part
mv PLACE/part PLACE/opened
"""

# A shell of the user that is the ancestor of sudo's xprof: the shell is executed after xprof was forked.
SHELL = """
import os, sys
(ready, go), (ended, alive) = os.pipe(), os.pipe()
child = os.fork()
if not child:
    os.close(go)
    os.set_inheritable(alive, True)
    os.read(ready, 1)
    os.execve(sys.argv[2], sys.argv[2:], dict(os.environ, SUDO_UID=sys.argv[1], SUDO_GID=sys.argv[1]))
os.close(alive)
for fd in (go, ended):
    os.set_inheritable(fd, True)
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
os.execve("/bin/sh", ["sh", "-c", f"exec {go}>&-; read line <&{ended}"],
          {"WAYLAND_DISPLAY": "wayland-7", "PATH": os.environ["PATH"]})
"""


@pytest.fixture
def place():
    """Makes a directory of the user, which all users can reach, with a recording and an xdg-open."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="xprof-view-", dir="/tmp"))
    (directory / "out").mkdir()
    (directory / "out" / "a.1.prof").write_bytes(hand_made.profile([(1, [0x1000])], ""))
    (directory / "bin").mkdir()
    write_opener(directory, OPENER)
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, USER, USER)
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def write_opener(place, text):
    opener = place / "bin" / "xdg-open"
    opener.write_text(text.replace("PLACE", str(place)))
    opener.chmod(0o755)


def environment(place, **more):
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY", *SUDO)}
    return {**kept, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", **more}


def view(xprof, place, **more):
    """Runs `xprof view` as the user: returns (status, the last message)."""
    as_user = [shutil.which("setpriv"), "--reuid", str(USER), "--regid", str(USER), "--clear-groups"] if os.geteuid() == 0 else []
    done = project.run([*as_user, xprof.path, "view", place / "out"], env=environment(place, **more))
    assert (place / "out" / "recording.html").exists(), done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def opened(place):
    recording.wait_until(lambda: (place / "opened").exists(), "no page was opened")
    return json.loads((place / "opened").read_text())


def test_user(xprof, place):
    page = place / "out" / "recording.html"
    assert view(xprof, place, DISPLAY=":7") == (0, f"xprof: opened {page} in the browser")
    assert opened(place)["page"] == str(page)
    assert opened(place)["display"] == ":7"


def test_without_display(xprof, place):
    status, message = view(xprof, place, DISPLAY="")
    assert (status, message) == (0, f"xprof: there is no display; open {place / 'out' / 'recording.html'} in a browser")
    assert not (place / "opened").exists()


def test_failing_opener(xprof, place):
    write_opener(place, "#!/bin/sh\nexit 3\n")
    assert view(xprof, place, DISPLAY=":7") == (1, f"xprof: warning: xdg-open failed; open {place / 'out' / 'recording.html'} in a browser")


def test_without_opener(xprof, place):
    (place / "bin" / "xdg-open").unlink()
    status, message = view(xprof, place, DISPLAY=":7", PATH=str(place / "bin"))
    assert (status, "is not installed (package xdg-utils)" in message) == (1, True)


def test_browser_outlives_xprof(xprof, place):
    write_opener(place, "#!/bin/sh\necho $$ > PLACE/part; mv PLACE/part PLACE/opened; exec sleep 60\n")
    status, message = view(xprof, place, DISPLAY=":7")
    assert (status, "opened" in message) == (0, True)
    pid = opened(place)
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)


@pytest.mark.root
def test_root(xprof, place):
    done = project.run([xprof.path, "view", place / "out"], env=environment(place, DISPLAY=":7"))
    assert done.returncode == 0
    assert f"no browser is started as root; open {place / 'out' / 'recording.html'}" in done.stderr
    assert not (place / "opened").exists()


@pytest.mark.root
@pytest.mark.parametrize("shell", [False, True], ids=["sudo kept DISPLAY", "the shell has WAYLAND_DISPLAY"])
def test_sudo(xprof, place, shell):
    """
    The browser gets the environment of the user's shell, which has more variables than sudo passes. Without a shell, it
    gets sudo's.
    """
    command = [xprof.path, "view", place / "out"]
    if shell:
        done = project.run([sys.executable, "-c", SHELL, USER, *command], env=environment(place))
    else:
        done = project.run(command, env=environment(place, DISPLAY=":7", **SUDO))
    assert f"opened {place / 'out' / 'recording.html'} in the browser" in done.stderr
    assert opened(place) == {"uid": USER, "groups": str(USER), "page": str(place / "out" / "recording.html"),
                             "display": "wayland-7" if shell else ":7"}


def test_file(xprof, place):
    done = xprof("view", place / "out" / "a.1.prof")
    assert done.returncode == 2
    assert "give the directory of a recording, or use 'xprof export'" in done.stderr
