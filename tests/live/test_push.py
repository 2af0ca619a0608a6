# SPDX-License-Identifier: BSD-2-Clause
"""Checks record --push from the recording to the engine, and the privileges of the processes involved."""
import contextlib
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
    """Makes a directory of the user behind sudo."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="xprof-push-", dir="/tmp"))
    os.chown(directory, USER, USER)
    yield directory
    shutil.rmtree(directory)


def children(pid, name):
    """Returns the descendants of a process with this name. Others may end meanwhile."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            for child in path.read_text().split():
                found += children(child, name)
        if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
            found.append(int(pid))
    return found


def status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


def test_push(program, place):
    """
    Samples, waits and calls of each part arrive. The sender has no privileges, and the secret is only in its memory.
    """
    built = place / NAME
    shutil.copy(program.text("orders", SOURCE, "-O1", "-g", project.no_runtime(), suffix=".cpp"), built)
    secret = place / "secret"
    secret.write_text(f"bearer {SECRET}\ntenant team-a\n")
    secret.chmod(0o600)
    env = {**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER)}
    with engine.Engine("parca", authorization=f"Bearer {SECRET}") as server:
        looked = threading.Event()
        server.answers.append(lambda handler: looked.wait(20) and engine.reply(handler, 503, {"Connection": "close"}, b""))
        record = [project.XPROF, "record", "--push", server.to, "--push-auth", secret, "-o", place / "out", "--rotate", "500ms"]
        started = subprocess.Popen([str(word) for word in [*record, "--off-cpu", "--label", f"service_name={NAME}", "--", built]], stderr=subprocess.PIPE, text=True, env=env)
        recording.wait_until(lambda: server.requests, "no request")
        (sender,) = children(started.pid, "xprof-push")
        (queue,) = children(started.pid, "xprof-queue")
        of_sender, of_queue = status(sender), status(queue)
        assert set(of_sender["Uid"].split()) == set(of_queue["Uid"].split()) == {str(USER)}
        assert int(of_sender["CapPrm"], 16) == int(of_queue["CapPrm"], 16) == 0
        assert (of_sender["NoNewPrivs"], of_sender["Seccomp"]) == ("1", "2")
        opened = {os.readlink(path).split(":")[0] for path in pathlib.Path(f"/proc/{sender}/fd").iterdir()}
        assert opened <= {"/dev/null", "socket", str(min((place / "out.push").glob("*.parca")))}
        for pid in (started.pid, queue, sender):
            for name in ("cmdline", "environ"):
                assert SECRET.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
        looked.set()
        _, messages = started.communicate(timeout=60)
        assert started.returncode == 0 and "status 503" in messages, messages
        assert all(path.stat().st_uid == USER for path in (place / "out.push").glob("*"))
        # If a request failed at the end, the next recording sends the rest.
        done = project.run([*record, "-d", "0.2", "-t", os.getpid()], env=env)
        assert done.returncode == 0, done.stderr
    assert not server.faults and not (place / "out.push").exists()
    assert {headers["X-Scope-OrgID"] for _, headers in server.requests} == {"team-a"}
    manifests = [json.loads(path.read_text()) for path in sorted((place / "out").glob("*/manifest.json"))]
    with_samples = sum(any(one["comm"] == NAME and one["samples"] for one in part["samples"]["profiles"]) for part in manifests)
    found = [sent.labels["__name__"] for sent in server.pushes if sent.labels["service_name"] == NAME]
    assert found.count("process_cpu") == with_samples > 1 and {"off_cpu", "calls"} < set(found), (found, messages)
    assert SECRET not in messages + json.dumps(manifests) and all("push" in part for part in manifests[:-1])
