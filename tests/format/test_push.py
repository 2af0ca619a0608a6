# SPDX-License-Identifier: BSD-2-Clause
"""Checks what --push sends of stored recordings to a strict receiver, and what it does when the engine fails."""
import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

import engine
import hand_made
import profiles
import project
import recording
from hand_made import ENTER, EXIT

PUSH = project.OUTPUT / "tests" / "format" / "push_run"
GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
GO_SOURCE = pathlib.Path(__file__).with_name("pprof_sums.go")
GO_PATH = pathlib.Path("/usr/share/gocode")
HZ, TSC, NS = 1_000_000_000, 10**12, 10**12  # a tick is 1 ns
MS = 1000000
STARTED, STARTED_NS = "2026-11-27T20:00:00Z", 1795809600 * 10**9
ID = "0123456789abcdef" * 4
HOSTILE = "../a\"\\\u202e\n"

# PID: comm, cgroup, number of samples.
PROCESSES = {
    7: ("server", "/system.slice/shop.service", 5),
    8: ("worker", "/system.slice/shop.service/workers", 3),
    9: ("postgres", f"/system.slice/docker-{ID}.scope", 2),
    10: ("bash", "/user.slice/user-0.slice/session-3.scope", 4),
    11: (HOSTILE, None, 1),
}


def record(directory):
    """Makes a recording of these processes, with two waits and two calls of the server."""
    directory.mkdir()
    lines, found = [("map", TSC + 2, pid, pid, "1000", "9000", "0", "-", "/gone/app") for pid in PROCESSES], []
    for pid, (comm, cgroup, count) in PROCESSES.items():
        name = comm.replace("\n", "?")
        found.append({"pid": pid, "image": 1, "comm": name, "file": f"p.{pid}.prof", **({"cgroup": cgroup} if cgroup else {})})
        lines.append(("comm", TSC + 1, pid, pid, name))
        lines += [("sample", TSC + MS + i, pid, pid, i % 2, 0, f"{0x1000 * (pid - 6) + 16 * (i % 2):x}", "1201") for i in range(count)]
        (directory / f"p.{pid}.prof").write_bytes(hand_made.profile([], ""))
    lines += [("waiting", TSC + 10 * MS, 7, 7, 0, 3 * MS, MS, "L", 8, "holder", "1011", "1201"),
              ("waiting", TSC + 20 * MS, 7, 7, 1, 5 * MS, 0, "L", 8, "holder", "1011", "1201")]
    calls = {7: [(ENTER, 1, TSC), (ENTER, 2, TSC + 10), (EXIT, 2, TSC + 40), (EXIT, 1, TSC + 100)]}
    (directory / "server.7.fdr").write_bytes(hand_made.fdr_log(calls, HZ))
    manifest = {"command": ["xprof", "record", "--", "app", "--key=x"], "xprof_version": "0", "clock": {"start_tsc": TSC, "hz": HZ}, "started": STARTED,
                "processes": [{"pid": 7, "image": 1, "comm": "server", "log": "server.7.fdr", "threads": []}],
                "samples": {"profiles": found, "period_ns": MS, "written": sum(count for *_, count in PROCESSES.values())}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    done = project.run([GENERATOR, directory / "perf.data", 10**9, HZ, TSC, NS, 0, "waits"], stdin=None, input=text)
    assert done.returncode == 0, done.stderr
    return directory


WHOLE = 6  # profiles of such a recording: CPU of four services, waits and calls of one service


@pytest.fixture
def recorded(tmp_path):
    return record(tmp_path / "recording")


class Pusher:
    """Runs push_run with short deadlines."""

    def __init__(self, to, queue, directories, *labels, auth="-", end_ms=5000, request_ms=5000, pause_ms=20, env=()):
        times = [2000, request_ms, pause_ms, end_ms]
        self.process = subprocess.Popen([str(word) for word in [PUSH, to, queue, auth, *times, *labels, *directories]],
                                        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **dict(env)})

    def add(self):
        self.process.stdin.write("next\n")
        self.process.stdin.flush()

    def finish(self, status=0):
        _, self.messages = self.process.communicate("end\n", timeout=60)
        assert self.process.returncode == status, self.messages
        return self.messages


def push(to, queue, directories=(), *labels, status=0, **options):
    pusher = Pusher(to, queue, directories, *labels, **options)
    for _ in directories if not status else ():
        pusher.add()
    return pusher.finish(status)


def queued(queue):
    return sorted(queue.iterdir()) if queue.exists() else []


@pytest.fixture
def queue(tmp_path):
    return tmp_path / "recording.push"


@pytest.fixture(scope="module")
def sums(tmp_path_factory):
    """Returns the content of profiles as google/pprof's own parser reads it: sums([profile, ...])."""
    if not profiles.GO or not (GO_PATH / "src/github.com/google/pprof").exists():
        pytest.skip("needs go and golang-github-google-pprof-dev")
    directory = tmp_path_factory.mktemp("go")
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(project.OUTPUT.resolve() / "gocache")}
    done = project.run([profiles.GO, "build", "-o", directory / "sums", GO_SOURCE], env=env)
    assert done.returncode == 0, done.stderr

    def read(all_bytes):
        paths = []
        for i, data in enumerate(all_bytes):
            paths.append(directory / str(i))
            paths[-1].write_bytes(data)
        read_all = project.run([directory / "sums", *paths])
        assert read_all.returncode == 0, read_all.stderr
        return json.loads(read_all.stdout)

    return read


@pytest.mark.parametrize("kind", engine.PATHS)
def test_what_is_sent(xprof, recorded, queue, tmp_path, sums, kind):
    """Each service and type has a profile with the numbers of the report; the queue is empty afterwards."""
    with engine.Engine(kind) as server:
        messages = push(server.to, queue, [recorded], "region=eu-1", "host=h1")
    assert not server.faults and not queue.exists()
    found = {}
    for sent, read in zip(server.pushes, sums([sent.profile for sent in server.pushes])):
        assert (sent.labels["region"], sent.labels["host"]) == ("eu-1", "h1") and not read["Unused"] and not read["Comments"]
        found[sent.labels["service_name"], sent.labels["__name__"]] = read
    assert len(found) == len(server.pushes) == WHOLE and {read["TimeNanos"] for read in found.values()} == {STARTED_NS}
    assert f"pushed {len(found)} profiles to {kind} at http://localhost:{server.port}\n" in messages
    cpu = {service: read["Total"] for (service, name), read in found.items() if name == "process_cpu"}
    assert cpu == {"shop.service": [8, 8 * MS], "container-0123456789ab": [2, 2 * MS], "bash": [4, 4 * MS],
                   HOSTILE.replace("\n", "?"): [1, MS]}
    read = found["shop.service", "process_cpu"]
    assert (read["Types"], read["Period"], read["Labels"]) == (["samples:count", "cpu:nanoseconds"], "cpu:nanoseconds", {})
    assert read["Functions"] == {"app+0x0": [3, 3 * MS], "app+0x10": [2, 2 * MS], "app+0x1000": [2, 2 * MS], "app+0x1010": [1, MS]}
    waits = found["shop.service", "off_cpu"]
    assert waits["Types"] == ["waits:count", "off_cpu:nanoseconds"] and set(waits["Labels"]) == {"state"}
    calls = found["shop.service", "calls"]
    assert (calls["Types"], calls["Total"]) == (["calls:count", "wall:nanoseconds"], [2, 100])
    report = json.loads(xprof("report", "--json", recorded).stdout)
    groups = {group["pid"]: group for group in report["groups"]}
    assert cpu["shop.service"][0] == groups[7]["samples"] + groups[8]["samples"]
    for name, flags in ("process_cpu", []), ("off_cpu", ["--off-cpu"]), ("calls", ["--calls"]):
        assert xprof("export", *flags, "--format=pprof", "-o", tmp_path / name, recorded).returncode == 0
        whole = sums([(tmp_path / name).read_bytes()])[0]["Total"]
        assert whole == [sum(of) for of in zip(*[read["Total"] for (_, of_name), read in found.items() if of_name == name])]
    manifest = json.loads((recorded / "manifest.json").read_text())
    assert manifest["push"] == {"engine": kind, "url": f"http://localhost:{server.port}", "pushed": len(found), "queued": 0, "dropped": 0}
    assert manifest["samples"]["written"] == 15


def test_many_services_and_stacks(tmp_path, queue, sums):
    """Processes choose their names, so there are at most 256 services. A profile has at most 5000 stacks."""
    directory = tmp_path / "recording"
    directory.mkdir()
    pids = range(1000, 1300)
    lines = [("map", TSC + 2, pid, pid, "1000", "100000", "0", "-", "/gone/app") for pid in pids]
    lines += [("comm", TSC + 1, pid, pid, f"p{pid}") for pid in pids]
    lines += [("sample", TSC + MS + pid, pid, pid, 0, 0, "1010", "1201") for pid in pids for _ in range(1 + (pid < 1255))]
    lines += [("sample", TSC + 2 * MS + i, 1000, 1000, 0, 0, f"{0x1000 + 16 * i:x}") for i in range(5500)]
    found = [{"pid": pid, "image": 1, "comm": f"p{pid}", "file": f"p.{pid}.prof"} for pid in pids]
    (directory / "p.1000.prof").write_bytes(hand_made.profile([], ""))
    (directory / "manifest.json").write_text(json.dumps({"clock": {"start_tsc": TSC, "hz": HZ}, "samples": {"profiles": found}}))
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    assert project.run([GENERATOR, directory / "perf.data", 10**9, HZ, TSC, NS, 0], stdin=None, input=text).returncode == 0
    with engine.Engine("parca") as server:
        push(server.to, queue, [directory], end_ms=60000)
    found = [(sent.labels["service_name"], read) for sent, read in zip(server.pushes, sums([sent.profile for sent in server.pushes]))]
    services = {name for name, _ in found}
    assert services == {"other", *(f"p{pid}" for pid in range(1000, 1255))} and not server.faults
    assert sum(read["Total"][0] for name, read in found if name == "other") == 45
    large = [read for name, read in found if name == "p1000"]
    assert [read["Samples"] for read in large] == [5000, 501] and sum(read["Total"][0] for read in large) == 5502
    assert sum(read["Total"][0] for _, read in found) == 300 + 255 + 5500


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """
    Makes (CA, {name: certificate with its key}): for localhost, for another host, and for localhost from an unknown CA.
    """
    directory = tmp_path_factory.mktemp("tls")

    def openssl(*args):
        done = project.run(["openssl", *args], cwd=directory)
        assert done.returncode == 0, done.stderr

    def authority(name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "2")

    def certificate(name, host, by):
        (directory / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                "-out", f"{name}.csr", "-subj", f"/CN={host}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial",
                "-out", f"{name}.crt", "-extfile", f"{name}.ext", "-days", "2")
        both = directory / f"{name}.both"
        both.write_text((directory / f"{name}.crt").read_text() + (directory / f"{name}.key").read_text())
        return both

    authority("ours")
    authority("theirs")
    return directory / "ours.pem", {"good": certificate("good", "localhost", "ours"), "wrong host": certificate("wrong", "example.com", "ours"),
                                    "unknown CA": certificate("unknown", "localhost", "theirs")}


def secret(tmp_path, text, mode=0o600):
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("text, header", [("bearer s3cr3t\n", "Bearer s3cr3t"), ("me:pass:word", "Basic " + base64.b64encode(b"me:pass:word").decode())])
def test_tls_and_authorization(recorded, queue, tmp_path, certificates, text, header):
    """The secret reaches only the engine, over a verified connection."""
    authority, made = certificates
    with engine.Engine("pyroscope", authorization=header, certificate=made["good"]) as server:
        messages = push(server.to, queue, [recorded], auth=secret(tmp_path, text), env={"SSL_CERT_FILE": str(authority)})
    assert len(server.pushes) == WHOLE and len({sent.id for sent in server.pushes}) == WHOLE
    assert "word" not in messages + (recorded / "manifest.json").read_text() and "s3cr3t" not in messages


@pytest.mark.parametrize("name", ["wrong host", "unknown CA"])
def test_certificates_are_verified(recorded, queue, tmp_path, certificates, name):
    authority, made = certificates
    with engine.Engine("parca", certificate=made[name]) as server:
        messages = push(server.to, queue, [recorded], auth=secret(tmp_path, "bearer t"), env={"SSL_CERT_FILE": str(authority)})
    assert not server.requests and len(queued(queue)) == WHOLE
    assert re.search("cannot push to parca at .*: SSL", messages) and f"{WHOLE} profiles remain in {queue};" in messages, messages


def no_profile(handler):
    """Reads the body and sends no answer."""
    handler.rfile.read(int(handler.headers["Content-Length"]))
    handler.close_connection = True


def raw(*pieces, pause_s=0.0):
    def answer(handler):
        handler.rfile.read(int(handler.headers["Content-Length"]))
        handler.close_connection = True
        try:
            for piece in pieces:
                handler.wfile.write(piece)
                handler.wfile.flush()
                time.sleep(pause_s)
        except OSError:
            pass

    return answer


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
JSON = {"Content-Type": "application/json"}
# The engine's answer to the first request; then it works. The message, the number of profiles then in the queue, and
# the number dropped. A failure does not delay the end.
FAILURES = {
    "401": ((401, {}, b""), "status 401: the engine rejects the user; check --push-auth", 0),
    "403": ((403, {}, b""), "status 403: the engine rejects the user", 0),
    "404": ((404, {}, b"not found"), "status 404: there is no such engine", 0),
    "400": ((400, JSON, b'{"code": "invalid_argument"}'), "status 400: the engine rejects the profile", 1),
    "413": ((413, {}, b""), "status 413: the profile is too large", 1),
    "429": ((429, {"Retry-After": "1"}, b""), "status 429: the engine limits the rate", 0),
    "500": ((500, {}, b"x" * 1000), "status 500: the engine has failed", 0),
    "503": ((503, {"Retry-After": "99999999999"}, b""), "status 503", 0),
    "redirect": ((307, {"Location": "http://127.0.0.1:1/"}, b""), "status 307: xprof follows no redirects", 0),
    "page": ((200, {"Content-Type": "text/html"}, b"<html>"), "status 200: the answer is not JSON", 0),
    "long answer": ((200, JSON, b"[" * 300000), "cannot push", 0),
    "endless answer": (raw(OK, b"\r\n", *[b" " * 65536] * 400), "cannot push", 0),
    "incomplete answer": (raw(OK, b"Content-Length: 10\r\n\r\n{"), "cannot push", 0),
    "no answer": (no_profile, "cannot push", 0),
    "nonsense": (raw(b"\0\xff\x1b[2Jnonsense\r\n\r\n"), "cannot push", 0),
    "long headers": (raw(OK, *[b"x: " + b"y" * 65536 + b"\r\n"] * 100), "cannot push", 0),
    "slow answer": (raw(*[bytes([b]) for b in OK], pause_s=0.1), "cannot push .*: .*timed out", 0),
    "silence": (lambda handler: time.sleep(1), "cannot push .*: .*timed out", 0),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(recorded, queue, tmp_path, name):
    """
    Each failure is reported once, and the next run sends the rest. Only profiles that the engine rejects permanently
    are dropped.
    """
    answer, message, dropped = FAILURES[name]
    with engine.Engine("pyroscope") as server:
        server.answers.append(answer)
        messages = push(server.to, queue, [recorded], auth=secret(tmp_path, "bearer t0ken"), request_ms=500)
        assert len(re.findall(message, messages)) == 1 and not re.search("[^\n -~]", messages), messages
        first = len(server.pushes)
        assert first + dropped + len(queued(queue)) == WHOLE and (not dropped or first == WHOLE - 1)
        assert not dropped or "1 profile was dropped" in messages
        push(server.to, queue)
    assert len(server.pushes) == WHOLE - dropped and not queue.exists() and not server.faults


def test_path_and_proxy(recorded, queue, tmp_path):
    """
    The path of the URL is kept. The proxy comes from the environment; for an https server it never gets the secret.
    """
    with engine.Engine("pyroscope") as server:
        server.path = "http://engine.invalid:4040/base" + server.path
        proxy = f"http://127.0.0.1:{server.port}"
        push("pyroscope=http://engine.invalid:4040/base/", queue, [recorded], env={"http_proxy": proxy})
        assert len(server.pushes) == WHOLE and not server.faults
        server.requests.clear()
        options = {"auth": secret(tmp_path, "bearer s3cr3t"), "env": {"https_proxy": proxy}}
        messages = push("pyroscope=https://engine.invalid:4040", queue, [recorded], **options)
        path, headers = server.requests.pop()
        assert path == "CONNECT engine.invalid:4040" and "s3cr3t" not in str(headers) and "502" in messages, messages
        options["env"]["no_proxy"] = "engine.invalid"
        assert "resolve" in push("pyroscope=https://engine.invalid:4040", queue, **options) and not server.requests


@pytest.mark.root
def test_queue_belongs_to_one_user_and_one_xprof(queue, tmp_path):
    to = "parca=http://127.0.0.1:1"
    first = Pusher(to, queue, [])
    recording.wait_until(lambda: queue.exists() and f":{queue.stat().st_ino} " in pathlib.Path("/proc/locks").read_text(), "no lock")
    assert f"another xprof uses the queue {queue}" in push(to, queue, status=1)
    first.finish()
    queue.mkdir(0o700)
    os.chown(queue, 65534, 65534)
    assert "must belong to the user" in push(to, queue, status=1)
    os.chown(queue, 0, 0)
    queue.chmod(0o770)
    assert "no other user may write" in push(to, queue, status=1)
    queue.rmdir()
    queue.symlink_to(tmp_path)
    assert "cannot open the queue" in push(to, queue, status=1)


NODE_SOURCE = """
const { Profile } = require("pprof-format");
const total = (path) => {
  const profile = Profile.decode(require("zlib").gunzipSync(require("fs").readFileSync(path)));
  return [0, 1].map((i) => profile.sample.reduce((sum, one) => sum + Number(one.value[i]), 0));
};
console.log(JSON.stringify(process.argv.slice(2).map(total)));
"""


def test_npm_reads_what_is_sent(recorded, queue, tmp_path):
    """pprof-format, which Datadog and Pyroscope use in Node.js, reads the same sums."""
    modules = project.OUTPUT.resolve() / "npm"
    if not shutil.which("node"):
        pytest.skip("no node here")
    if not (modules / "node_modules" / "pprof-format").exists():
        if not shutil.which("npm") or project.run(["npm", "install", "--silent", "--prefix", modules, "pprof-format@2.2.1"], timeout=60).returncode:
            pytest.skip("npm cannot install pprof-format")
    with engine.Engine("parca") as server:
        push(server.to, queue, [recorded])
    paths = []
    for i, sent in enumerate(server.pushes):
        paths.append(tmp_path / str(i))
        paths[-1].write_bytes(sent.profile)
    (tmp_path / "read.js").write_text(NODE_SOURCE)
    done = project.run(["node", tmp_path / "read.js", *paths], env={**os.environ, "NODE_PATH": str(modules / "node_modules")})
    assert done.returncode == 0, done.stderr
    cpu = [total for total, sent in zip(json.loads(done.stdout), server.pushes) if sent.labels["__name__"] == "process_cpu"]
    assert sorted(cpu) == [[count, count * MS] for count in (1, 2, 4, 8)]


@pytest.mark.parametrize("listens", [False, True])
def test_engine_down_then_up(recorded, queue, tmp_path, listens):
    """
    While no engine answers, profiles of further recordings wait. When the engine works again, all arrive in the same
    run.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        if listens:
            held.listen(0)
        second = record(tmp_path / "second")
        pusher = Pusher(f"parca=http://localhost:{port}", queue, [recorded, second], request_ms=300)
        pusher.add()
        pusher.add()
        recording.wait_until(lambda: len(queued(queue)) == 2 * WHOLE, "not all profiles are in the queue")
    with engine.Engine("parca", port=port) as server:
        recording.wait_until(lambda: not queued(queue), "the queue is not sent")
        messages = pusher.finish()
    assert len(server.pushes) == 2 * WHOLE and f"pushed {2 * WHOLE} profiles" in messages
    assert not queue.exists() and not server.faults


def test_killed_pusher_loses_nothing(recorded, queue):
    """The queue survives a kill. The next run repeats the same requests, and removes incomplete files."""
    with engine.Engine("pyroscope") as server:
        server.answers += [(503, {}, b"")] * 100
        pusher = Pusher(server.to, queue, [recorded], pause_ms=60000)
        pusher.add()
        recording.wait_until(lambda: len(queued(queue)) == WHOLE and len(server.answers) < 100, "not queued")
        pusher.process.kill()
        pusher.process.communicate()
        (queue / "x.part").touch()
        kept = {path.read_bytes() for path in queue.glob("*.pyroscope")}
        server.answers.clear()
        push(server.to, queue)
    assert len(server.pushes) == WHOLE and not queue.exists()
    assert {sent.id for sent in server.pushes} == {json.loads(body)["series"][0]["samples"][0]["ID"] for body in kept}


def test_queue_is_bounded_and_ignores_what_is_not_its_own(queue):
    """
    The oldest profiles are dropped, limited by age, bytes and number. Other names, links and files of other engines are
    not sent.
    """
    now = time.time_ns()

    def put(age_s, number, size=0, kind="parca"):
        path = queue / f"{now - age_s * 10**9:020}-{1:010}-{number:06}.{kind}"
        path.touch()
        os.truncate(path, size)
        return path

    queue.mkdir(0o700)
    old, other, of_other = put(25 * 3600, 1), put(5, 2, kind="pyroscope"), put(25 * 3600, 3, kind="pyroscope")
    large = [put(4000 - i, i, 100 << 20) for i in range(4)]
    names = [queue / "note", queue / "1-2-3.parca", queue / f"{now:020}-{1:010}-{9:06}.parca.x"]
    for path in names:
        path.write_text("{}")
    link = queue / f"{now:020}-{1:010}-{8:06}.parca"
    link.symlink_to("/etc/hostname")
    messages = push("parca=http://127.0.0.1:1", queue)
    assert "4 profiles were dropped" in messages and "2 profiles remain" in messages, messages
    assert not old.exists() and not of_other.exists() and [path.exists() for path in large] == [False, False, True, True]
    assert other.exists() and link.is_symlink() and all(path.exists() for path in names)
    for i in range(10010):
        put(3000 - i // 10, i)
    messages = push("parca=http://127.0.0.1:1", queue)
    assert "12 profiles were dropped" in messages and "10000 profiles remain" in messages, messages


def test_interrupt_ends_the_wait(recorded, queue):
    """^C while an engine is silent ends the push immediately, with all profiles in the queue."""
    with engine.Engine("pyroscope") as server:
        server.answers.append(lambda handler: time.sleep(2))
        pusher = Pusher(server.to, queue, [recorded], end_ms=60000, request_ms=60000)
        pusher.add()
        recording.wait_until(lambda: server.requests, "no request")
        pusher.process.stdin.write("end\n")
        pusher.process.stdin.flush()
        time.sleep(0.3)
        pusher.process.send_signal(signal.SIGINT)
        assert f"{WHOLE} profiles remain" in pusher.finish()
    assert len(queued(queue)) == WHOLE


@pytest.mark.parametrize("to, why", [
    ("https://host", "neither pyroscope= nor parca="), ("loki=https://host", "neither pyroscope= nor parca="),
    *[(f"parca={url}", why) for why, urls in {
        "neither http:// nor https://": ["", "host:7070", "ftp://host", "file:///etc/passwd", "HTTPS//host"],
        "--push-auth": ["https://me:pass@host", "https://me@host/"],
        "the path": ["https://host/?a", "https://host/#a", "https://host/a b", "https://host/\t"],
        "host or port": ["https://", "https:///a", "https://ho st", "https://host:99999", "https://host:0", "https://host:", "https://host:7x",
                         "https://host?a", "https://[::1", "https://[x]", "https://\u00e4", "https://-o", "https://a\\b"],
    }.items() for url in urls]])
def test_wrong_urls(xprof, to, why):
    done = xprof("record", "--push", to, "-p", "1")
    assert done.returncode == 2 and re.search(f"--push takes an engine and its URL.*: .*{why}", done.stderr), done.stderr
    assert "pass@" not in done.stderr


@pytest.mark.parametrize("label, why", [
    ("region", "no '='"), ("1a=b", "digit"), ("a-b=c", "letters"), ("=c", "letters"), ("__name__=c", "reserved"), ("a=", "empty"),
    ("a=" + "x" * 129, "128"), ("x" * 65 + "=a", "64"), (b"a=\xff", "UTF-8"), ("a=\n", "control"),
])
def test_wrong_labels(xprof, label, why):
    done = xprof("record", "--push", "parca=http://127.0.0.1:1", "--label", label, "-p", "1")
    assert done.returncode == 2 and re.search(f"--label takes NAME=VALUE.*{why}", done.stderr), done.stderr


@pytest.mark.parametrize("text, mode, why", [
    ("bearer t", 0o640, "other users can access"), ("bearer t", 0o604, "chmod 600"), ("", 0o600, "is empty"), ("token", 0o600, "must contain"),
    ("bearer \n", 0o600, "must contain"), ("bearer a\tb", 0o600, "control character"), ("x" * 9000 + ":", 0o600, "File too large"),
])
def test_wrong_secrets(xprof, tmp_path, text, mode, why):
    done = xprof("record", "--push", "parca=http://127.0.0.1:1", "--push-auth", secret(tmp_path, text, mode), "-p", "1")
    assert done.returncode == 2 and why in done.stderr and "a\tb" not in done.stderr, done.stderr
