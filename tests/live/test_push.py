# SPDX-License-Identifier: BSD-2-Clause
"""record --push: the whole way from the recording to the engine, and the rights of those who take part."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

import pytest

import engine
import project
import recording
from exported import NAME, SOURCE

pytestmark = pytest.mark.uprobes

USER = 12345
SECRET = "s3cr3t-t0ken"


@pytest.fixture
def place():
    """A directory of the user behind sudo."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="xprof-push-", dir="/tmp"))
    os.chown(directory, USER, USER)
    yield directory
    shutil.rmtree(directory)


def children(pid, name):
    """The descendants of a process with this name."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            own = [int(child)] if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name else []
            found += own + children(child, name)
    return found


def status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


def test_push(program, place):
    """Samples, waits and calls arrive; the sender has no privileges and no files, and the secret is only in its memory."""
    built = place / NAME
    shutil.copy(program.text("orders", SOURCE, "-O1", "-g", project.no_runtime(), suffix=".cpp"), built)
    secret = place / "secret"
    secret.write_text(f"bearer {SECRET}")
    secret.chmod(0o600)
    with engine.Engine("parca", authorization=f"Bearer {SECRET}") as server:
        looked = threading.Event()
        server.answers.append(lambda handler: looked.wait(20) and engine.reply(handler, 503, {"Connection": "close"}, b""))
        command = [project.XPROF, "record", "--off-cpu", "--push", server.to, "--push-auth", secret, "--label", "zone=a",
                   "-o", place / "out", "--", built]
        started = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER)})
        recording.wait_until(lambda: server.requests, "no request")
        (sender,) = children(started.pid, "xprof-push")
        (queue,) = children(started.pid, "xprof-queue")
        of_sender, of_queue = status(sender), status(queue)
        assert set(of_sender["Uid"].split()) == set(of_queue["Uid"].split()) == {str(USER)}
        assert int(of_sender["CapPrm"], 16) == int(of_queue["CapPrm"], 16) == 0
        assert (of_sender["NoNewPrivs"], of_sender["Seccomp"]) == ("1", "2")
        opened = {os.readlink(path) for path in pathlib.Path(f"/proc/{sender}/fd").iterdir()}
        assert {path.split(":")[0] for path in opened} <= {"/dev/null", "socket", str(min((place / "out.push").glob("*.parca")))}
        for pid in (started.pid, queue, sender):
            for name in ("cmdline", "environ"):
                assert SECRET.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
        looked.set()
        _, messages = started.communicate(timeout=60)
        assert started.returncode == 0, messages
        # The first request failed, so the end was not delayed: the next recording sends the rest.
        left = sorted((place / "out.push").iterdir())
        assert left and f"profiles remain in {place}/out.push;" in messages and all(path.stat().st_uid == USER for path in left)
        done = project.run([project.XPROF, "record", "-d", "0.2", "-t", os.getpid(), "--push", server.to, "--push-auth", secret,
                            "-o", place / "out"], env={**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER)})
        assert done.returncode == 0, done.stderr
    assert not server.faults and not (place / "out.push").exists()
    found = {sent.labels["__name__"] for sent in server.pushes if sent.labels["service_name"] == NAME}
    assert found == {"process_cpu", "off_cpu", "calls"} and {sent.labels.get("zone") for sent in server.pushes} >= {"a"}
    manifest = json.loads((place / "out.old" / "manifest.json").read_text())
    assert manifest["push"]["queued"] == len(left) and SECRET not in messages + json.dumps(manifest)
