# SPDX-License-Identifier: BSD-2-Clause
"""What `sudo make demo` prints, and that xprof finds the faults which examples/server.c has."""
import json

import pytest

import project

pytestmark = pytest.mark.uprobes

LINES_MAX = 40


@pytest.fixture(scope="session")
def server(program):
    return program("../examples/server.c", "-O2", "-g", project.no_runtime())


def test_demo(tmp_path, server):
    """The demo prints why requests were slow, and the path of the page."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "server").symlink_to(server)
    directory = tmp_path / "out"
    done = project.run([project.REPO / "examples" / "demo", directory], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "O": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) + len(done.stderr.splitlines()) <= LINES_MAX
    causes = " ".join(done.stdout.split())
    assert "requests: calls of handle_request" in causes
    assert "wait for refresher/" in causes and "sleeps in refresh_cache while it holds cache_lock" in causes
    assert f"open {directory / 'recording.html'}" in done.stderr


def test_faults(xprof, record, start, server):
    """Some slow requests wait for the lock that the refresher holds, some for the disk, and some compute."""
    process = start([server])
    assert int(process.stdout.readline()) == process.pid
    recorded = record("--off-cpu", "-p", process.pid, "-d", "4").finish()
    assert recorded.status == 0
    done = xprof("explain", "--json", "--slowest=1000", "--function=handle_request", recorded.directory)
    assert done.returncode == 0, done.stderr
    slow = {}
    for call in json.loads(done.stdout)["slow_calls"]:
        if call["callees"]:
            slow.setdefault(max(call["callees"], key=lambda callee: callee["ns"])["function"], []).append(call)
    assert {"lookup", "save_orders", "report"} <= {*slow}
    waits = [(wait["state"], (wait["waker"] or {}).get("name")) for call in slow["lookup"] for wait in call["waits"]]
    assert ("lock", "refresher") in waits
    assert any(wait["state"] == "disk" for call in slow["save_orders"] for wait in call["waits"])
    assert any(call["time"]["on_cpu_ns"] > call["time"]["blocked_ns"] for call in slow["report"])
