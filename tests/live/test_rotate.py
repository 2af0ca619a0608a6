# SPDX-License-Identifier: BSD-2-Clause
"""record --rotate: the parts of a recording add up to one recording."""
import collections
import csv
import json
import os
import pathlib
import re
import signal

import pytest

import project
import recording

pytestmark = [pytest.mark.uprobes, pytest.mark.together("rotate")]


@pytest.fixture
def shares(program):
    return program("live/programs/shares.c", "-O1", "-g", "-fno-omit-frame-pointer", instrument=False)


def parts_of(directory):
    return sorted(path for path in directory.iterdir() if path.name[0] == "2")


def manifest_of(part):
    return json.loads((part / "manifest.json").read_text())


def assert_consecutive(manifests):
    """Without gap or overlap: each begins where the one before ends."""
    for before, after in zip(manifests, manifests[1:]):
        clock = before["clock"]
        end = clock["start_tsc"] + (before["duration_s"] + before["attached_after_s"]) * clock["hz"]
        assert abs(after["clock"]["start_tsc"] - end) < 2e-6 * clock["hz"]


def folded_sum(xprof, path, *options):
    done = xprof("export", "--format=folded", "-o", "-", *options, path)
    return sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines())


def test_samples_and_waits(xprof, record, shares):
    """The kernel's sums of the waits of threads, which are recorded when threads exit, equal the waits of all parts."""
    session = record("--no-sleds", "--off-cpu", "--buffer=16M", "-F", "999", "--rotate=250ms", "--", shares, "1", "2")
    recorded = session.finish()
    assert recorded.status == 0, recorded.messages
    parts = parts_of(recorded.directory)
    manifests = [manifest_of(part) for part in parts]
    assert len(parts) >= 4
    assert_consecutive(manifests)
    for part, manifest in zip(parts, manifests):
        waits, samples = manifest["waits"], manifest["samples"]
        assert waits["seen"] == waits["written"] + sum(waits["filtered"].values()) + waits["lost"], waits
        assert samples["seen"] == samples["written"] + samples["lost"]
        assert samples["written"] == sum(e["samples"] for e in samples["profiles"])
        checked = xprof.check(part)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    assert sum(m["waits"]["lost"] for m in manifests) == 0
    threads = [thread for m in manifests for thread in m["waits"]["threads"]]
    assert sum(m["waits"]["seen"] for m in manifests) == sum(t["waits"] - t["missed"] for t in threads)
    assert folded_sum(xprof, recorded.directory) == sum(m["samples"]["written"] for m in manifests)
    cpu_s = float(recorded.output.split("cpu ")[1].split()[0])
    assert sum(m["samples"]["written"] for m in manifests) / 999 == pytest.approx(cpu_s, rel=0.05)


def test_a_kill_leaves_parts_that_are_complete_or_can_be_recovered(xprof, record, shares, start):
    session = record("--no-sleds", "--rotate=300ms", "-p", start([shares, "60"]).pid)
    recording.wait_until(lambda: session.messages().count(" 0 lost") >= 2, session.messages)
    session.process.send_signal(signal.SIGKILL)
    session.finish()
    *before, last = parts_of(session.directory)
    for part in (*before, last):
        recording.wait_until(lambda part=part: "running" not in xprof("recover", part).stderr, f"{part}: does not end")
    assert (before[0] / "manifest.json").exists() and (before[1] / "manifest.json").exists()
    again = record("--no-sleds", "--rotate=10s", "-d", "0.3", "-a", directory=session.directory).finish()
    assert again.status == 0, again.messages
    assert parts_of(session.directory)[-1] > last
    for part in parts_of(session.directory):
        if (part / "perf.data").exists():  # xprof was killed before the first sample
            assert xprof.check(part).returncode == 0


def test_hangup_begins_a_part_and_parts_share_names(xprof, record, shares, start):
    session = record("--no-sleds", "--rotate=1h", "-F", "999", "-p", start([shares, "60"]).pid).wait_attached()
    for count in (1, 2):
        recording.wait_until(
            lambda: (parts_of(session.directory)[-1] / "perf.data").exists(), lambda: session.messages()
        )
        session.process.send_signal(signal.SIGHUP)
        recording.wait_until(lambda n=count: len(parts_of(session.directory)) > n, lambda: session.messages())
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    parts = parts_of(session.directory)
    assert len(parts) == 3
    assert_consecutive([manifest_of(part) for part in parts])
    stored = {path.stat().st_ino for path in (session.directory / "sym").iterdir()}
    first, second = ({p.stat().st_ino for p in (part / "sym").glob("shares.*")} for part in parts[:2])
    assert first == second and first <= stored


def test_a_full_disk_is_a_pause(record, shares, start, tmpfs):
    """Without older parts, samples are lost and counted until there is room."""
    place = tmpfs("size=48m")
    ballast = place / "ballast"
    ballast.write_bytes(bytes(44 << 20))
    target = start([shares, "60"])
    session = record("--no-sleds", "--rotate=1h", "-F", "9999", "-p", target.pid, directory=place / "out")
    recording.wait_until(lambda: "the disk is full" in session.messages(), session.messages)
    ballast.unlink()
    recording.wait_until(lambda: "the disk has space again" in session.messages(), session.messages)
    session.stop()
    full, after = (manifest_of(part)["samples"] for part in parts_of(session.directory))
    assert full["lost"] and after["lost"] == 0
    assert full["seen"] == full["written"] + full["lost"]


def test_a_full_disk_deletes_the_oldest_parts(record, shares, start, tmpfs):
    """Then the recording goes on without help. The newest parts stay."""
    place = tmpfs("size=64m")
    out = place / "out"
    out.mkdir(0o700)
    old = [out / f"20260101T0000{n:02}Z" for n in range(6)]
    for part in old:
        part.mkdir(0o700)
        (part / "manifest.json").write_bytes(bytes(8 << 20))
    (place / "ballast").write_bytes(bytes(12 << 20))
    session = record("--no-sleds", "--rotate=1h", "-F", "9999", "-p", start([shares, "60"]).pid, directory=out)
    recording.wait_until(lambda: "the disk is full: the oldest parts" in session.messages(), session.messages)
    recording.wait_until(lambda: "the disk has space again" in session.messages(), session.messages)
    session.stop()
    left = [part.exists() for part in old]
    assert not left[0] and left == sorted(left), left
    full, after = (manifest_of(part)["samples"] for part in parts_of(out)[-2:])
    assert full["seen"] == full["written"] + full["lost"] and after["lost"] == 0


def account(version, log):
    """{function: (calls, seconds)} by llvm-xray."""
    done = project.LlvmXray(version)("account", "-f", "csv", f"-instr_map={log.instr_map}", log.path)
    assert done.returncode == 0, done.stderr
    return {row["function"]: (int(row["count"]), float(row["sum"])) for row in csv.DictReader(done.stdout.splitlines())}


@pytest.mark.skipif(not project.LLVM_VERSIONS, reason="no llvm-xray here")
@pytest.mark.parametrize("mode", ["memory", "probe"])
def test_calls_count_once(xprof, record, program, mode):
    """In the part in which they end, for llvm-xray and for xprof; their time adds up to what the program measured."""
    path = program("live/programs/nested.c", "-O1", "-pthread")
    session = record("--no-samples", f"--call-mode={mode}", "--rotate=150ms", "--", path, "1.5")
    recorded = session.finish()
    assert recorded.status == 0, recorded.messages
    truth = {name: int(count) for name, count in re.findall(r"^calls (\w+) (\d+)$", recorded.output, re.M)}
    outer_ns = int(re.search(r"outer_ns (\d+)", recorded.output)[1])
    parts = parts_of(recorded.directory)
    assert len(parts) >= 3
    manifests = [manifest_of(part) for part in parts]
    assert_consecutive(manifests)
    counted, ns, carried = collections.defaultdict(collections.Counter), collections.Counter(), 0
    for part in parts:
        one = recording.Recording(part, 0, "", "")
        totals = one.totals
        assert totals["seen"] == totals["written"] + totals["filtered"]["total"] and totals["lost"]["total"] == 0
        carried += totals["carried_entries"]
        if not totals["seen"] and not totals["carried_entries"]:
            continue  # the program has ended: the last part is empty
        checked = xprof.check(part)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        for version in project.LLVM_VERSIONS:
            for name, (calls, seconds) in account(version, one.log()).items():
                counted[version][name] += calls
                ns[version] += seconds * 1e9 if name == "outer" else 0
        for group in json.loads(xprof("report", "--json", part).stdout)["groups"]:
            for row in group["functions"]:
                counted["xprof"][row["function"]] += row.get("calls", 0)
        for node in json.loads(xprof("report", "--json", "--tree", "--calls", part).stdout)["nodes"]:
            ns["xprof"] += node["total_ns"] if node.get("function") == "outer" else 0
    diff = json.loads(xprof("diff", "--json", f"{recorded.directory}@today", recorded.directory).stdout)
    (view,) = diff["views"]
    assert {row["function"]: row["calls"] for row in view["functions"]} == {f: [n, n] for f, n in truth.items()}
    assert folded_sum(xprof, recorded.directory, "--calls") == sum(folded_sum(xprof, p, "--calls") for p in parts)
    # Two times that follow each other, with a border within a part, have each call once.
    first, middle = (m["clock"] for m in (manifests[0], manifests[len(manifests) // 2]))
    border_s = (middle["start_tsc"] - first["start_tsc"]) / first["hz"] + 0.05
    halves = collections.Counter()
    for half in ("from", "to"):
        for group in json.loads(xprof("report", "--json", recorded.directory, f"--{half}={border_s:.9f}").stdout)["groups"]:
            for row in group["functions"]:
                halves[row["function"]] += row.get("calls", 0)
    assert halves == truth
    halves = [folded_sum(xprof, recorded.directory, "--calls", f"--{half}={border_s:.9f}") for half in ("from", "to")]
    assert min(halves) and sum(halves) == pytest.approx(folded_sum(xprof, recorded.directory, "--calls"), rel=1e-6)
    assert carried >= 2 * (len(parts) - 2)  # all() and outer() in two threads
    for reader in counted:
        assert {**counted[reader]} == truth
        assert ns[reader] == pytest.approx(outer_ns, rel=0.02)


def resources(pid):
    """Returns xprof's private memory in KiB, descriptors, mappings, and attached programs."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    links = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]
    attached = sum("bpf_link" in link or "bpf-link" in link or "perf_event" in link for link in links)
    mappings = len(pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())
    return int(status["RssAnon"].split()[0]), len(links), mappings, attached


@pytest.mark.time_limit(60 + 2 * int(os.environ.get("XPROF_ROTATIONS", "0")))
def test_nothing_grows(record, program, start):
    """Parts are recorded while processes start and exit. XPROF_ROTATIONS=2000 makes that many parts."""
    rotations = int(os.environ.get("XPROF_ROTATIONS", "12"))
    path = program("live/programs/nested.c", "-O1", "-pthread")
    loop = f"while :; do {path} 0.02 >/dev/null; done"
    shell = start(["sh", "-c", loop])
    session = record("--follow", "--rotate=1h", "--keep=1M", "-p", shell.pid).wait_attached()
    seen = []
    for count in range(1, rotations + 1):
        session.process.send_signal(signal.SIGHUP)
        recording.wait_until(lambda n=count: session.messages().count(" lost\n") >= n, session.messages)
        seen.append(resources(session.process.pid))
    recorded = session.stop()
    assert recorded.status == 0, recorded.messages
    half = len(seen) // 2
    for value, room in zip(range(4), (4096, 16, 32, 8)):
        first, second = (max(one[value] for one in part) for part in (seen[2:half], seen[half:]))
        assert second <= first + room, seen
