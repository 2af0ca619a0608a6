# SPDX-License-Identifier: BSD-2-Clause
"""Checks xprof explain with hand-made recordings, in which each ns of calls, samples and waits is known."""
import base64
import gzip
import json
import os
import re
import resource
import shutil

import pytest

import hand_made
import perf_tool
import perfetto
import project
from hand_made import ENTER, EXIT, TAIL_EXIT

GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
HZ, TSC, NS = 1_000_000_000, 10**12, 10**12  # a tick is 1 ns
PROFILE = hand_made.profile([], "")
US, MS = 1000, 1000000

# Functions of the log, and the addresses of their code. Waits have other addresses.
SERVE, HANDLE, LOOKUP, PARSE, SPIN_CALL, LAST = 1, 2, 3, 4, 5, 6
FUTEX, SLEEP, READ, SPIN, IDLE = "1011", "1021", "1031", "1040", "1051"
# Of a library with names, see libc(): the code of functions, and a variable.
LIBC_AT = 0x9000
LIBC = "void pthread_mutex_lock(void) {}\nvoid pthread_cond_wait(void) {}\nchar cache_lock[40];\n"
IN_HANDLE = ("1101", "1201")  # handle < serve
SERVER, HOLDER, NEIGHBOUR = 7, 8, 9


@pytest.fixture(scope="module", autouse=True)
def libc(program):
    """Builds a C library whose functions have names."""
    global LIBC_MAP, LOCK, CONDITION, CACHE_LOCK
    path = program.text("libc.so.6", LIBC, "-shared", "-nostdlib", "-Wl,--build-id=sha1,-z,noseparate-code", instrument=False)
    symbols = {name: int(address, 16) for address, name in re.findall(r"^(\w+) \w (\S+)$", project.run(["nm", path]).stdout, re.M)}
    offset, vaddr = (int(one, 16) for one in re.search(r"LOAD +(\w+) (\w+) \w+ \w+ \w+ R E", project.run(["readelf", "-lW", path]).stdout).groups())
    LOCK, CONDITION, CACHE_LOCK = (f"{LIBC_AT + symbols[name] - vaddr:x}" for name in ("pthread_mutex_lock", "pthread_cond_wait", "cache_lock"))
    LIBC_MAP = ("map", TSC + 2, SERVER, SERVER, f"{LIBC_AT:x}", "1000", f"{offset:x}", perf_tool.build_id(path), path)


@pytest.fixture
def recorded(tmp_path):
    """
    Makes recordings: recorded(lines, calls) -> the directory. calls: {tid: [(kind, function, ns since the start)]}
    """

    def make(lines, calls=None, **clock):
        directory = tmp_path / "recording"
        directory.mkdir()
        (directory / "server.7.prof").write_bytes(PROFILE)
        process = {"pid": SERVER, "image": 1, "comm": "server", "threads": [{"tid": SERVER, "name": "worker"}]}
        if calls:
            log = {tid: [(kind, function, TSC + at) for kind, function, at in records] for tid, records in calls.items()}
            (directory / "server.7.fdr").write_bytes(hand_made.fdr_log(log, HZ))
            process["log"] = "server.7.fdr"
        manifest = {"clock": {"start_tsc": TSC, "hz": HZ, **clock}, "processes": [process],
                    "samples": {"profiles": [{"pid": SERVER, "image": 1, "comm": "server", "file": "server.7.prof"}]}}
        (directory / "manifest.json").write_text(json.dumps(manifest))
        if lines:
            text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
            made = project.run([GENERATOR, directory / "perf.data", 10**9, HZ, TSC, NS, 0, "waits"], stdin=None, input=text)
            assert made.returncode == 0, made.stderr
        return directory

    return make


@pytest.fixture
def explained(xprof, recorded):
    """Runs explain: explained(lines, calls, *args) -> (the JSON, the text)."""

    def explain(lines, calls=None, *args, **clock):
        directory = recorded(lines, calls, **clock)
        done = [xprof("explain", *args, *form, directory) for form in (["--json"], [])]
        assert [one.returncode for one in done] == [0, 0], done[0].stderr
        assert all(len(line) <= 80 for line in done[1].stdout.splitlines()), done[1].stdout
        return json.loads(done[0].stdout), done[1].stdout

    return explain


def threads():
    return [
        ("comm", TSC + 1, SERVER, SERVER, "worker"),
        ("comm", TSC + 1, SERVER, HOLDER, "holder"),
        ("comm", TSC + 1, SERVER, NEIGHBOUR, "busy"),
        ("map", TSC + 2, SERVER, SERVER, "1000", "1000", "0", "-", "/gone/app"),
        LIBC_MAP,
    ]


def wait(tid, begin, blocked, runnable, state, *stack, cpu=0, waker=0, name=""):
    return ("waiting", TSC + begin + blocked + runnable, SERVER, tid, cpu, blocked, runnable, state, waker, name, *stack)


def sample(at, tid, cpu, *stack):
    return ("sample", TSC + at, SERVER, tid, cpu, 0, *stack)


def usual_calls(count):
    """Returns one call per ms from 1 ms on, each of 10 us with 2 us in parse()."""
    for i in range(count):
        at = (i + 1) * MS
        yield from [(ENTER, HANDLE, at), (ENTER, PARSE, at + US), (EXIT, PARSE, at + 3 * US), (EXIT, HANDLE, at + 10 * US)]


LOCKED, READING, STARVED = 100 * MS, 200 * MS, 300 * MS


def three_faults():
    """Returns calls of worker (7): 50 usual calls, and one that waits for each of a lock, a disk and a CPU."""
    calls = [
        (ENTER, SERVE, 0), *usual_calls(50),
        (ENTER, HANDLE, LOCKED), (ENTER, LOOKUP, LOCKED + 10 * US),
        (EXIT, LOOKUP, LOCKED + 50 * MS), (EXIT, HANDLE, LOCKED + 50 * MS + 5 * US),
        (ENTER, HANDLE, READING), (EXIT, HANDLE, READING + 20 * MS),
        (ENTER, HANDLE, STARVED), (ENTER, PARSE, STARVED + US), (EXIT, PARSE, STARVED + 79 * MS), (EXIT, HANDLE, STARVED + 80 * MS),
    ]
    lines = [
        *threads(),
        wait(NEIGHBOUR, 90 * MS, 0, 5 * MS, "R", SPIN, cpu=1),
        # The holder sleeps with the lock until shortly before it wakes the worker.
        wait(HOLDER, LOCKED - MS, 49 * MS, 0, "S", SLEEP, "1301"),
        wait(SERVER, LOCKED + 20 * US, 49 * MS, 100 * US, "L", LOCK, "1401", *IN_HANDLE, waker=HOLDER, name="holder"),
        wait(SERVER, READING + MS, 18 * MS, 0, "D", READ, *IN_HANDLE, cpu=1),
        sample(STARVED + 500 * US, SERVER, 1, "1500", *IN_HANDLE),
        wait(SERVER, STARVED + MS, 0, 77 * MS, "R", "1500", *IN_HANDLE, cpu=1),
        wait(NEIGHBOUR, STARVED + 78 * MS, 0, 2 * MS, "R", SPIN, cpu=1),
    ]
    return lines, {SERVER: calls}


def test_each_fault_is_named(explained):
    found, text = explained(*three_faults())
    (function,) = found["functions"]
    assert (function["name"], function["calls"], function["max_ns"]) == ("fn_2", 53, 80 * MS)
    # With more than 32 durations, percentiles are within 0.8 %.
    assert function["p50_ns"] == function["p90_ns"] == pytest.approx(10 * US, rel=0.008)
    assert len(found["slow_calls"]) == 3
    starved, locked, reading = found["slow_calls"][:3]
    assert [call["cause"] for call in (starved, locked, reading)] == ["runnable", "blocked", "blocked"]
    assert [call["start_ns"] for call in (starved, locked, reading)] == [STARVED, LOCKED, READING]
    assert all(call["thread"] == "worker" and call["callers"] == ["fn_1"] for call in found["slow_calls"])
    # The parts of each call add up to the call.
    assert starved["time"] == {"on_cpu_ns": 3 * MS, "runnable_ns": 77 * MS, "blocked_ns": 0}
    assert locked["time"] == {"on_cpu_ns": 905 * US, "runnable_ns": 100 * US, "blocked_ns": 49 * MS}
    assert reading["time"] == {"on_cpu_ns": 2 * MS, "runnable_ns": 0, "blocked_ns": 18 * MS}
    assert starved["callees"] == [{"function": "fn_4", "calls": 1, "ns": 79 * MS - US}]
    assert starved["neighbour"] == {"cpu": 1, "thread": {"tid": NEIGHBOUR, "name": "busy"}, "ns": 77 * MS}
    assert starved["samples"] == [{"samples": 1, "stack": ["app+0x500", "app+0x100", "app+0x200"]}]
    (lock,) = locked["waits"]
    assert lock["stack"] == ["pthread_mutex_lock", "app+0x400", "app+0x100", "app+0x200"] and lock["count"] == 1
    waker = lock["waker"]
    assert (waker["tid"], waker["name"]) == (HOLDER, "holder")
    # The wait of the lock's holder counts as far as the worker waited at the same time.
    assert waker["meanwhile"]["wait_ns"] == 48 * MS - 20 * US and waker["meanwhile"]["stack"] == ["app+0x21", "app+0x300"]
    (disk,) = reading["waits"]
    assert disk["waker"] is None and disk["stack"][0] == "app+0x31" and disk["blocked_ns"] == 18 * MS
    assert "1. fn_2 80.00 ms: mostly without a CPU: busy (9) had CPU 1\n   at 0.300000 s in worker (7), on CPU 0\n   called by fn_1\n" in text
    assert "77.00 ms without a CPU; busy (9) had CPU 1 for 77.00 ms of that\n" in text
    assert ", woken by holder (8):\n       pthread_mutex_lock < app+0x400 < app+0x100 < app+0x200\n       meanwhile holder (8) waited 47.98 ms" in text


def test_causes(explained):
    """Each slow call has a cause, which a sentence describes."""
    lines, calls = three_faults()
    found, text = explained(lines, calls)
    (request,) = found["requests"]
    assert (request["function"], request["calls"], request["outermost_calls"], request["slow_calls"]) == ("fn_2", 53, 53, 3)
    assert request["is_found"] and not request["is_background"]
    assert [(cause["kind"], cause["calls"], cause["place"]) for cause in found["causes"]] == [
        ("no CPU", 1, ""), ("lock", 1, "app+0x400"), ("disk", 1, "app+0x31")]
    extra = [80 * MS - 10 * US, 50 * MS - 5 * US, 20 * MS - 10 * US]
    assert [cause["extra_ns"] for cause in found["causes"]] == pytest.approx(extra, rel=0.001)
    assert [cause["share"] for cause in found["causes"]] == pytest.approx([one / sum(extra) for one in extra], rel=0.001)
    starved, locked, reading = (cause["text"] for cause in found["causes"])
    assert starved == "starve while busy/9 runs on CPU 1"
    assert locked == "wait for holder/8 in app+0x400, which sleeps in app+0x21 while it holds the lock"
    assert reading == "wait for a page in app+0x31"
    assert "  no CPU: 1 of 3 slow fn_2 (53 % of the extra time) starve while busy/9" in text
    (lock,) = found["locks"]
    assert lock["blocked_ns"] == 49 * MS and lock["waker"]["name"] == "holder"


def test_calls_that_triggered(xprof, recorded):
    """Without an option, the calls of the functions are explained for which triggers of the recording wrote logs."""
    directory = recorded(*three_faults())
    manifest = json.loads((directory / "manifest.json").read_text())

    def explain(*names, option=()):
        slow = [{"log": f"server.7.flight{i}.fdr", "slow_call": {"calls": [{"id": PARSE, "name": name}]}} for i, name in enumerate(names)]
        manifest["processes"][0]["flights"] = slow
        (directory / "manifest.json").write_text(json.dumps(manifest))
        done = xprof("explain", *option, directory)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = explain("fn_4", "fn_4")
    assert found.startswith("fn_4: 51 calls, ")
    assert "requests: calls of fn_4 (--trigger of the recording; --request NAME selects\n  another)\n" in found
    assert explain("fn_4", option=["--function", "fn_2"]).startswith("fn_2: 53 calls, ")
    # Names that no function has, and hostile ones.
    assert explain("gone", "!*") == explain()
    assert explain().startswith("fn_2: 53 calls, ")


def test_page(xprof, recorded, tmp_path):
    """
    The page has the same sentences, and the slow calls with the threads that ended their waits. A page of selected
    functions has neither.
    """
    directory = recorded(*three_faults())

    def exported(*args):
        made = xprof("export", "--format=html", "-o", tmp_path / "page.html", *args, directory)
        assert made.returncode == 0, made.stderr
        return json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "page.html").read_text(), re.S)[1])

    recording = exported()
    (waits,) = [view for view in recording["views"] if view["kind"] == "waits"]
    assert waits["kinds"][waits["names"].index("woken by holder")] == 7
    why, found = recording["why"], json.loads(xprof("explain", "--json", directory).stdout)
    assert why["causes"] == [cause["sentence"] for cause in found["causes"]] and why["more"] == 0
    assert why["requests"] == ["requests: calls of fn_2 (outermost, and called most often; --request NAME selects another)", ""]
    assert why["locks"] == [[1, 49 * MS + 100 * US, 49 * MS + 100 * US, "", "holder (8)", "app+0x400"]]
    assert why["slow"] == [[0, STARVED, STARVED + 80 * MS, "worker (7)", "", 0, []],
                           [1, LOCKED, LOCKED + 50 * MS + 5 * US, "worker (7)", "holder (8)", LOCKED + 49 * MS + 20 * US, []],
                           [2, READING, READING + 20 * MS, "worker (7)", "", 0, []]]
    # Calls one by one: of the caller, which has no exit, there is none.
    slices = recording["slices"]
    assert (slices["threads"], slices["names"], slices["all"], slices["count"]) == (["worker (7)"], ["fn_2", "fn_4", "fn_3"], 105, 105)
    first, numbers = [0, 2 * MS, 10 * US, 0, 0, 2 * US, 2 * US, 1], []
    for byte in base64.b64decode(slices["data"]):
        numbers = [*numbers[:-1], (numbers[-1][0] | (byte & 127) << numbers[-1][1], numbers[-1][1] + 7)] if numbers and numbers[-1][1] else [*numbers, (byte & 127, 7)]
        numbers[-1] = numbers[-1] if byte & 128 else (numbers[-1][0], 0)
    assert [value for value, _ in numbers[:8]] == first and len(numbers) >= 4 * 105
    assert "why" not in exported("--functions=app+0x400")


def test_three_other_faults(explained):
    """
    Each fault of a server is named, with its thread: a priority inversion, page faults, and a full pipe whose reader
    waits for a disk.
    """
    low, journal = HOLDER, 12
    calls, lines = [(ENTER, SERVE, 0), *usual_calls(50)], [*threads(), ("comm", TSC + 1, SERVER, journal, "journal")]
    lines.insert(4, ("map", TSC + 2, SERVER, SERVER, "6000", "1000", "0", "-", "/gone/libc.so.6"))
    for i in range(4):
        inverted, faulted, piped = ((100 + 30 * i + 400 * j) * MS for j in range(3))
        for at, ms in ((inverted, 20), (faulted, 10), (piped, 5)):
            calls += [(ENTER, HANDLE, at), (EXIT, HANDLE, at + ms * MS)]
        # The lock's holder has the lowest priority: it gets no CPU while the thread busy runs.
        lines += [
            wait(NEIGHBOUR, inverted - 2 * MS, MS, 0, "S", IDLE, cpu=1), wait(low, inverted, 0, 19 * MS, "R", "1302", cpu=1),
            wait(NEIGHBOUR, inverted + 19 * MS, MS, 0, "S", IDLE, cpu=1),
            wait(SERVER, inverted, 19 * MS + 500 * US, 0, "L", LOCK, "1401", *IN_HANDLE, waker=low, name="holder"),
            wait(SERVER, faulted, 9 * MS, 0, "D", "6020", "1602", *IN_HANDLE),
            wait(journal, piped, 4 * MS, 0, "D", "6030", "1702"),
            wait(SERVER, piped, 4 * MS + 500 * US, 0, "S", "6040", "1802", *IN_HANDLE, waker=journal, name="journal"),
        ]
    found, _ = explained(sorted(lines, key=lambda line: line[1]), {SERVER: sorted(calls, key=lambda call: call[2])})
    assert [(cause["kind"], cause["calls"], cause["text"]) for cause in found["causes"]] == [
        ("lock", 4, "wait for holder/8 in app+0x400, which starves in app+0x302 (busy/9 runs) while it holds the lock"),
        ("disk", 4, "wait for a page in app+0x601"),
        ("wait", 4, "wait for journal/12 in app+0x801, which waits for a page in app+0x701"),
    ]


def test_tail(explained):
    """
    Compares the slowest calls with the fastest. The parts of a call add up to its time. A part that only one of three
    calls has may be noise; a part that all have is not.
    """
    found, text = explained(*three_faults(), "--tail=5.5%", "--against=50%")
    assert (found["compared_slow_calls"], found["compared_usual_calls"]) == (3, 50)
    nodes = found["tree"]

    def path(node):
        return (*path(nodes[node["parent"]]), node["name"]) if node["parent"] is not None else ()

    shown = {path(node)[1:]: (round(3 * node["slow_mean_ns"]), round(node["usual_mean_ns"]), node["is_beyond_noise"]) for node in nodes[1:]}
    # The callee, the stacks of its waits and samples, and the states at the ends of the stacks.
    starved, locked = ("fn_4", "app+0x200", "app+0x100", "app+0x500"), ("fn_3", "app+0x200", "app+0x100", "app+0x400", "pthread_mutex_lock")
    assert {parts: value for parts, value in shown.items() if not parts or parts[-1].startswith("[")} == {
        (): (150 * MS + 5 * US, 10 * US, True),
        ("[on a CPU]",): (3016 * US, 8 * US, False), ("fn_4", "[on a CPU]"): (0, 2 * US, True),
        (*starved, "[runnable]"): (77 * MS, 0, False), (*starved, "[on a CPU]"): (1999 * US, 0, False),
        (*locked, "[lock, woken by holder (8)]"): (49 * MS, 0, False), (*locked, "[runnable]"): (100 * US, 0, False),
        ("fn_3", "[on a CPU]"): (890 * US, 0, False), ("app+0x200", "app+0x100", "app+0x31", "[disk]"): (18 * MS, 0, False),
    }
    assert shown["fn_4",] == (79 * MS - US, 2 * US, False)
    assert "  50.00 ms   10.00 us +  49.99 ms   fn_2\n  26.33 ms    2.00 us +  26.33 ms ~  fn_4\n" in text


def test_contended_locks(explained):
    """
    A lock is identified by its address in all threads, and named by the variable there. Its holder is the thread that
    ended the largest part of its waits. A wait whose stack names no lock is for a
    lock if other waits at its address are.
    """
    lines = [*threads()]
    for at, ms, address, leaf, place, waker, name in (
            (10, 5, "7f0000001000", LOCK, "1401", HOLDER, "holder"), (20, 7, CACHE_LOCK, LOCK, "1401", HOLDER, "holder"),
            (30, 4, "7f0000001000", FUTEX, "1501", NEIGHBOUR, "busy"), (40, 2, "", LOCK, "1401", HOLDER, "holder"),
            (50, 1, CACHE_LOCK, CONDITION, "1401", HOLDER, "holder"), (60, 1, "7f0000003000", FUTEX, "1401", HOLDER, "holder")):
        lines.append(wait(SERVER, at * MS, ms * MS, 0, "L" + address, leaf, place, waker=waker, name=name))
    found, text = explained(lines)
    holder = {"tid": HOLDER, "name": "holder"}
    assert [(row["lock"], row["variable"], row["count"], row["blocked_ns"], row["holder"], row["holder_ns"]) for row in found["locks"]] == [
        ("0x7f0000001000", None, 2, 9 * MS, holder, 5 * MS), (f"0x{CACHE_LOCK}", "cache_lock", 1, 7 * MS, holder, 7 * MS),
        (None, None, 1, 2 * MS, holder, 2 * MS)]
    assert "     2    9.00 ms    5.00 ms  0x7f0000001000 holder (8) +1        app+0x400\n" in text
    assert "     1    7.00 ms    7.00 ms  cache_lock     holder (8)           app+0x400\n" in text
    assert [(cause["kind"], cause["waits"], cause["text"]) for cause in found["causes"]] == [
        ("lock", 3, "wait for holder/8 in app+0x400"), ("lock", 1, "wait for busy/9 in app+0x11"),
        ("wait", 1, "wait for holder/8 in app+0x400 (pthread_cond_wait)"), ("wait", 1, "wait for holder/8 in app+0x11 (a futex)")]


@pytest.fixture
def parts(recorded, tmp_path):
    """
    Makes the directory of a recording with --rotate: parts(lines, calls, *borders in ns). As xprof does, repeats the open
    calls at the start of a part, and stores waits in the part in which they end.
    """

    def make(lines, calls, *borders):
        directory, limits = tmp_path / "parts", [0, *borders, 10**12]
        directory.mkdir()
        open_calls = {tid: [] for tid in calls}
        for i, (begin, end) in enumerate(zip(limits, limits[1:])):
            logs = {}
            for tid, records in calls.items():
                logs[tid] = list(open_calls[tid])
                for record in (record for record in records if begin <= record[2] < end):
                    logs[tid].append(record)
                    if record[0] == ENTER:
                        open_calls[tid].append(record)
                    else:
                        open_calls[tid].pop()
            its_lines = [line for line in lines if line[0] in ("map", "comm") or begin <= line[1] - TSC < end]
            clock = {"start_tsc": TSC + begin, **({"goes_on_tsc": TSC + end} if end in borders else {})}
            part = recorded(its_lines, {tid: log for tid, log in logs.items() if log}, **clock).rename(directory / f"20261127T140000Z{f'-{i:03}' if i else ''}")
            manifest = json.loads((part / "manifest.json").read_text()) | {"duration_s": (end - begin) / 1e9}
            manifest["started"] = f"2026-11-27T14:00:00.{begin:09}Z"
            (part / "manifest.json").write_text(json.dumps(manifest))
        return directory

    return make


def test_parts_are_one_recording(xprof, parts, recorded):
    """A border within each of the slow calls, and within waits, calls and the time of a neighbour, changes nothing."""
    lines, calls = three_faults()
    calls[SERVER][-1:-1] = [(ENTER, LOOKUP, STARVED + 79 * MS), (EXIT, LOOKUP, STARVED + 79 * MS + US)]
    directory = parts(lines, calls, LOCKED + 30 * MS, READING + 10 * MS, STARVED + 79 * MS + 500)
    whole, of_parts = (xprof("explain", "--json", path) for path in (recorded(lines, calls), directory))
    assert len(json.loads(whole.stdout)["slow_calls"]) == 3
    assert json.loads(of_parts.stdout) == json.loads(whole.stdout) and not of_parts.stderr


@pytest.mark.parametrize("times, starts", [
    (["--to=120ms"], []), (["--to=200ms"], [LOCKED]), (["--from=131ms", "--to=300ms"], [READING]), (["--from=211ms"], [STARVED]),
    (["@14:00:00.1..14:00:00.2"], [LOCKED]), (["@14:00:00.21"], [STARVED, READING]),
])
def test_times_of_parts(xprof, parts, times, starts):
    """
    Calls that begin in the selected time are explained, as a whole. A call over a border counts where its last part
    begins, as for `report`.
    """
    lines, calls = three_faults()
    directory = parts(lines, calls, LOCKED + 30 * MS, READING + 10 * MS)
    at = [f"2026-11-27T{one}" for one in times[0].strip("@").split("..")] if times[0][0] == "@" else []
    named = [f"{directory}@{'..'.join(at)}"] if at else [directory, *times]
    done = xprof("explain", "--json", "--function", "fn_2", "--above", "1ms", *named)
    assert done.returncode == (not starts), done.stderr
    found = json.loads(done.stdout or '{"slow_calls": []}')
    took = {LOCKED: 50 * MS + 5 * US, READING: 20 * MS, STARVED: 80 * MS}
    assert {call["start_ns"]: call["duration_ns"] for call in found["slow_calls"]} == {start: took[start] for start in starts}


def test_call_that_began_before_the_first_part(xprof, parts):
    """Only its time from there on is explained."""
    lines, calls = three_faults()
    directory = parts(lines, calls, LOCKED + 30 * MS)
    found = json.loads(xprof("explain", "--json", "--above", "30ms", "--function", "fn_2", directory / "20261127T140000Z-001").stdout)
    calls = [(call["start_ns"], call["duration_ns"]) for call in found["slow_calls"]]
    assert calls == [(STARVED - LOCKED - 30 * MS, 80 * MS)]
    found = json.loads(xprof("explain", "--json", "--above", "10ms", "--function", "fn_2", directory / "20261127T140000Z-001").stdout)
    (locked,) = (call for call in found["slow_calls"] if not call["start_ns"])
    assert locked["duration_ns"] == 20 * MS + 5 * US and locked["time"]["blocked_ns"] == 19 * MS + 20 * US


def test_threads_of_parts(xprof, parts):
    """Without calls, the waits of the selected time are explained, those over a border as a whole."""
    lines = [*threads(), *(wait(SERVER, at * MS, 40 * MS, 0, "S", "1401") for at in (10, 80, 140, 300))]
    directory = parts(lines, {}, 100 * MS, 200 * MS)
    found = json.loads(xprof("explain", "--json", "--to", "150ms", directory).stdout)
    assert [(one["count"], one["longest_ns"]) for one in found["waits"]] == [(2, 40 * MS)]


def test_timeline_of_parts(xprof, parts, recorded, tmp_path):
    """Calls and waits over a border are one slice, as in one recording."""
    lines, calls = three_faults()
    directory = parts(lines, calls, LOCKED + 30 * MS, READING + 10 * MS, STARVED + 50 * MS)
    traces = []
    for path in (recorded(lines, calls), directory):
        for options in [], ["--from=0.11", "--to=0.34"]:
            done = xprof("export", "--format=perfetto", "-o", tmp_path / "trace", *options, path)
            assert done.returncode == 0, done.stderr
            traces.append(perfetto.Trace((tmp_path / "trace").read_bytes()))
    for one, of_parts in zip(traces[:2], traces[2:]):
        for what in ("slices", "waits", "wakes", "samples", "threads", "open"):
            assert getattr(of_parts, what) == getattr(one, what), what
        assert one.slices and sorted(of_parts.requests) == sorted(one.requests)


def test_stack_of_only_a_leaf(explained):
    """
    Without a copied user stack, the wait belongs to the callee that took most of the call's time. Without a name, it is
    unknown whether it is for a lock.
    """
    lines, calls = three_faults()
    lines = [line[:10] + ("6010",) if line[0] == "waiting" and line[7] == "L" else line for line in lines]
    lines.insert(4, ("map", TSC + 2, SERVER, SERVER, "6000", "1000", "0", "-", "/gone/libc.so.6"))
    found, _ = explained(lines, calls)
    (futex,) = (cause for cause in found["causes"] if cause["kind"] == "wait")
    assert (futex["place"], futex["primitive"], found["locks"]) == ("fn_3", "a futex", [])
    assert futex["text"] == "wait for holder/8 in fn_3 (a futex), which sleeps in app+0x21"
    assert [call["waits"][0]["state"] for call in found["slow_calls"]] == ["preempted", "futex", "disk"]


def test_named_lock(explained):
    lines, calls = three_faults()
    lines = [(*line[:7], "L" + CACHE_LOCK, *line[8:]) if line[0] == "waiting" and line[7] == "L" else line for line in lines]
    found, _ = explained(lines, calls)
    assert [(cause["lock"], cause["text"]) for cause in found["causes"] if cause["kind"] == "lock"] == [
        ("cache_lock", "wait for holder/8 in app+0x400, which sleeps in app+0x21 while it holds cache_lock")]


def test_causes_of_many_calls(explained):
    """Workers that wait for one another have one cause: the thread that waits for none of them."""
    calls, lines = {}, threads()
    for tid in (SERVER, 11):
        calls[tid] = [(ENTER, SERVE, 0), *usual_calls(20), (ENTER, HANDLE, LOCKED), (EXIT, HANDLE, LOCKED + 50 * MS)]
    lines += [
        ("comm", TSC + 1, SERVER, 11, "worker"),
        wait(HOLDER, LOCKED - MS, 47 * MS, 0, "S", SLEEP, "1301"),
        wait(11, LOCKED, 47 * MS, 0, "L", LOCK, *IN_HANDLE, waker=HOLDER, name="holder"),
        wait(SERVER, LOCKED + 20 * US, 48 * MS, 0, "L", LOCK, *IN_HANDLE, waker=11, name="worker"),
    ]
    found, text = explained(lines, calls)
    (cause,) = found["causes"]
    assert (cause["kind"], cause["calls"], cause["thread"], cause["tid"]) == ("lock", 2, "holder", HOLDER)
    assert len(found["slow_calls"]) == 1 and "lock: 2 of 2 slow fn_2 (100 % of the extra time) wait for holder/8" in text


def test_background_work_comes_last(explained):
    """A function that another thread calls now and then is background work, not a request, even if it takes long."""
    refreshes = [r for i in range(20) for r in [(ENTER, LOOKUP, i * 20 * MS), (EXIT, LOOKUP, i * 20 * MS + (i % 4 + 1) * 4 * MS)]]
    calls = [(ENTER, SERVE, 0), *usual_calls(300), (ENTER, HANDLE, 400 * MS), (EXIT, HANDLE, 430 * MS)]
    found, text = explained(threads(), {SERVER: calls, HOLDER: refreshes})
    assert {one["function"]: one["is_background"] for one in found["requests"]} == {"fn_2": False, "fn_3": True}
    assert [cause["function"] for cause in found["causes"]] == ["fn_2", "fn_3"]
    assert "requests: calls of fn_2 (outermost, and called most often;" in text and "background work: fn_3\n" in text


def test_tail_exits(explained):
    """
    A call that ends with a tail call lasts until the tail-called function returns. Within a request, the tail-called
    function may be in a library without sleds.
    """
    def request(at, took):
        return [(ENTER, HANDLE, at), (ENTER, LOOKUP, at + US), (TAIL_EXIT, LOOKUP, at + 2 * US), (ENTER, PARSE, at + 3 * US),
                (EXIT, PARSE, at + 4 * US), (TAIL_EXIT, HANDLE, at + 5 * US), (ENTER, SPIN_CALL, at + 6 * US),
                (TAIL_EXIT, SPIN_CALL, at + 7 * US), (ENTER, LAST, at + 8 * US), (EXIT, LAST, at + took)]

    calls = [(ENTER, SERVE, 0), *(r for i in range(40) for r in request((i + 1) * MS, 20 * US)), *request(100 * MS, 30 * MS)]
    # The tail call goes to code without sleds, and the caller continues.
    calls += [(ENTER, HANDLE, 200 * MS), (TAIL_EXIT, HANDLE, 200 * MS + US), (ENTER, HANDLE, 200 * MS + 2 * US), (EXIT, HANDLE, 200 * MS + 4 * US)]
    found, _ = explained([], {SERVER: calls})
    (function,) = found["functions"]
    assert (function["name"], function["calls"], function["max_ns"]) == ("fn_2", 43, 30 * MS)
    assert function["p50_ns"] == pytest.approx(20 * US, rel=0.008)
    (call,) = found["slow_calls"]
    assert {callee["function"]: callee["ns"] for callee in call["callees"]} == {
        "fn_3": US, "fn_4": US, "fn_5": 30 * MS - 6 * US}
    assert found["causes"][0]["place"] == "fn_5"


QUEUE, DONE = "1061", "1071"
HELPER = 11


def handed_over(took):
    """Requests of worker (7), which wakes holder (8) for the work: 1 ms after the call of parse(), and a read. holder wakes helper (11) for 2 us."""
    calls, lines = [(ENTER, SERVE, 0)], [*threads(), ("comm", TSC + 1, SERVER, HELPER, "helper")]
    work = [(ENTER, LAST, 0)]
    at = 10 * MS
    for ns in took:
        end = at + ns + 10 * US
        calls += [(ENTER, HANDLE, at), (EXIT, HANDLE, end)]
        work += [(ENTER, LOOKUP, at + 3 * US), (ENTER, PARSE, at + 4 * US), (EXIT, PARSE, at + 5 * US), (EXIT, LOOKUP, at + ns),
                 (ENTER, PARSE, at + ns + US), (EXIT, PARSE, at + ns + MS)]
        lines += [
            wait(HOLDER, at - MS, MS + 2 * US, 0, "S", QUEUE, "1301", waker=SERVER, name="worker"),
            wait(HELPER, at - MS, MS + 4 * US, 0, "S", QUEUE, "1501", waker=HOLDER, name="holder"),
            # A disk within the work, and the next wait for work, which the request lasts longer than.
            wait(HOLDER, at + 5 * US, US, 0, "D", READ, "1401", "1301"),
            wait(HOLDER, at + ns + 5 * US, 20 * US, 0, "S", QUEUE, "1301", waker=NEIGHBOUR, name="busy"),
            wait(SERVER, at + 3 * US, ns, 0, "S", DONE, *IN_HANDLE, waker=HOLDER, name="holder"),
            # The lock goes to another thread.
            wait(NEIGHBOUR, at, 6 * US, 0, "L", LOCK, SPIN, waker=SERVER, name="worker"),
            wait(HELPER, at + 6 * US, US, 0, "S", QUEUE, "1501"),
        ]
        at = end + 20 * MS
    lines.append(sample(at - 25 * MS, HOLDER, 1, "1402", "1301"))
    return sorted(lines, key=lambda line: line[1]), {SERVER: calls, HOLDER: work}


def test_requests(explained):
    """The work of a thread that a request woke belongs to the request, as does work of a thread that it wakes."""
    found, text = explained(*handed_over([100 * US] * 40 + [8 * MS]), "--request=fn_2", "--slowest=1")
    (call,) = found["slow_calls"]
    start = call["start_ns"]
    worker, helper = call["woken_threads"]
    assert (worker["thread"], worker["woken_by"]) == ({"tid": HOLDER, "name": "holder"}, {"tid": SERVER, "name": "worker"})
    assert (worker["start_ns"], worker["duration_ns"]) == (start + 2 * US, 8 * MS + 3 * US)
    assert worker["time"] == {"on_cpu_ns": 8 * MS + 2 * US, "runnable_ns": 0, "blocked_ns": US}
    assert [wait["state"] for wait in worker["waits"]] == ["disk"]
    assert worker["callees"] == [{"function": "fn_3", "calls": 1, "ns": 8 * MS - 3 * US}, {"function": "fn_4", "calls": 1, "ns": 4 * US}]
    assert worker["samples"] == [{"samples": 1, "stack": ["app+0x402", "app+0x300"]}]
    assert (helper["thread"]["tid"], helper["woken_by"]["tid"]) == (HELPER, HOLDER)
    assert (helper["start_ns"], helper["duration_ns"]) == (start + 4 * US, 2 * US)
    common = {(part["kind"], part["what"]): part["slow_mean_ns"] for part in found["in_common"]}
    assert common["threads", "holder"] == 8 * MS + 3 * US
    assert "requests: calls of fn_2 (--request)\n" in text
    assert "   8.00 ms in holder (8), woken by worker (7):\n       on CPU 8.00 ms, runnable 0 ns, blocked 1.00 us\n       callees: fn_3 8.00 ms, fn_4 4.00 us\n" in text


def test_requests_on_the_page(xprof, recorded, tmp_path):
    """The timeline has the work of the threads that a slow request woke."""
    directory = recorded(*handed_over([100 * US] * 40 + [8 * MS]))
    made = xprof("export", "--format=html", "-o", tmp_path / "page.html", "--request=fn_2", directory)
    assert made.returncode == 0, made.stderr
    why = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "page.html").read_text(), re.S)[1])["why"]
    ((_, start, _, _, _, _, spans),) = why["slow"]
    assert spans == [["holder (8)", "worker (7)", start + 2 * US, start + 8 * MS + 5 * US],
                     ["helper (11)", "holder (8)", start + 4 * US, start + 6 * US]]
    assert why["requests"][0] == "requests: calls of fn_2 (--request)"


def test_requests_in_perfetto(xprof, recorded, tmp_path):
    """A slow request has a track, and one for each thread that worked for it, with arrows from the wake-ups."""
    directory, path = recorded(*handed_over([100 * US] * 40 + [8 * MS])), tmp_path / "trace.pftrace"
    made = xprof("export", "--format=perfetto", "-o", path, "--request=fn_2", directory)
    assert made.returncode == 0, made.stderr
    trace = perfetto.Trace(path.read_bytes())
    (request,), start = [one for one in trace.requests if one.tid == ("Slow requests", "fn_2 8.01 ms")], TSC + 10 * MS + 40 * (20 * MS + 110 * US)
    assert (request.name, request.start, request.ns) == ("fn_2", start, 8 * MS + 10 * US)
    assert request.arguments == {"thread": "worker (7)", "cause": "wait for holder/8 in app+0x71, which runs in app+0x402"}
    spans = {one.tid: (one.name, one.start - start, one.ns) for one in trace.requests if len(one.tid) == 3}
    assert spans == {(*request.tid, "holder (8)"): ("holder (8)", 2 * US, 8 * MS + 3 * US),
                     (*request.tid, "helper (11)"): ("helper (11)", 4 * US, 2 * US)}
    wakes = [(tid, at - start, arguments["thread"]) for tid, name, at, arguments in trace.instants]
    assert wakes == [(request.tid, 2 * US, "holder (8)"), ((*request.tid, "holder (8)"), 4 * US, "helper (11)")]
    assert {(tid, at - start) for tid, at in trace.flow_ends.values() if isinstance(tid, tuple)} == {
        ((*request.tid, "holder (8)"), 2 * US), ((*request.tid, "helper (11)"), 4 * US)}


def test_calls_of_one_thread(explained):
    """--function explains the calls on their own thread."""
    found, _ = explained(*handed_over([100 * US] * 40 + [8 * MS]), "--function=fn_2", "--slowest=1")
    assert found["slow_calls"][0]["woken_threads"] == []


def test_a_chain_of_wakers(explained):
    """
    If the thread that released the lock had itself waited, explain follows the wakers to the thread that kept the lock.
    """
    calls = [(ENTER, SERVE, 0), *usual_calls(50), (ENTER, HANDLE, LOCKED), (EXIT, HANDLE, LOCKED + 50 * MS)]
    lines = [
        *threads(),
        wait(HOLDER, LOCKED - MS, 47 * MS, 0, "S", SLEEP, "1301"),
        wait(NEIGHBOUR, LOCKED, 47 * MS, 0, "L", LOCK, "1501", waker=HOLDER, name="holder"),
        wait(SERVER, LOCKED + 20 * US, 48 * MS, 0, "L", LOCK, "1401", *IN_HANDLE, waker=NEIGHBOUR, name="busy"),
    ]
    found, text = explained(lines, {SERVER: calls})
    assert "1. fn_2 50.00 ms: mostly blocked: lock, woken by busy (9)\n" in text
    assert "meanwhile busy (9) waited 46.98 ms (lock), woken by holder (8):\n         pthread_mutex_lock < app+0x500\n" \
           "       meanwhile holder (8) waited 46.00 ms (sleeping):\n         app+0x21 < app+0x300\n" in text
    meanwhile = found["slow_calls"][0]["waits"][0]["waker"]["meanwhile"]
    assert (meanwhile["state"], meanwhile["waker"]["name"]) == ("lock", "holder")
    assert (meanwhile["waker"]["meanwhile"]["stack"], meanwhile["waker"]["meanwhile"]["waker"]) == (["app+0x21", "app+0x300"], None)


def test_threads_that_wake_each_other(explained):
    """The search stops when threads woke each other in a circle."""
    calls = [(ENTER, SERVE, 0), *usual_calls(50), (ENTER, HANDLE, LOCKED), (EXIT, HANDLE, LOCKED + 50 * MS)]
    lines = [
        *threads(),
        wait(HOLDER, LOCKED, 48 * MS, 0, "S", SLEEP, waker=SERVER, name="worker"),
        wait(SERVER, LOCKED, 49 * MS, 0, "L", LOCK, *IN_HANDLE, waker=HOLDER, name="holder"),
    ]
    _, text = explained(lines, {SERVER: calls})
    assert 2 <= text.count("meanwhile") <= 4


def test_what_slow_calls_have_in_common(explained):
    found, text = explained(*three_faults())
    assert found["compared_slow_calls"] == 3 and found["compared_usual_calls"] == 50
    common = {(c["kind"], c["what"].split(" in app")[0]): c for c in found["in_common"]}
    assert [c["slow_mean_ns"] - c["usual_mean_ns"] for c in found["in_common"] if c["kind"] != "cpu"] == sorted(
        (c["slow_mean_ns"] - c["usual_mean_ns"] for c in found["in_common"] if c["kind"] != "cpu"), reverse=True)
    mean = {key: c["slow_mean_ns"] for key, c in common.items()}
    assert mean["callee", "fn_3"] == pytest.approx((50 * MS - 10 * US) / 3)
    assert mean["runnable", ""] == pytest.approx((77 * MS + 100 * US) / 3)
    assert mean["waker", "holder (8)"] == pytest.approx(49 * MS / 3)
    assert mean["neighbour", "busy (9) on CPU 1"] == pytest.approx(77 * MS / 3)
    blocked = [c for c in found["in_common"] if c["kind"] == "blocked"]
    assert [c["what"][-len("app+0x400 < app+0x100 < app+0x200"):] for c in blocked][:1] == ["app+0x400 < app+0x100 < app+0x200"]
    assert all(c["slow_calls"] == 1 and c["usual_calls"] == 0 for c in blocked) and len(blocked) == 2
    assert "What 3 slow calls had that 50 typical ones had not (time per call):" in text


@pytest.mark.parametrize("calls", [True, False], ids=["calls", "waits"])
def test_stacks_that_are_cut_short(xprof, recorded, calls):
    directory = recorded(*three_faults()[:2 if calls else 1])
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    assert "user stacks" not in xprof("explain", directory).stdout
    manifest["samples"]["stacks"] = {"seen": 1000, "complete": 940, "table_late": 50, "truncated": 10}
    path.write_text(json.dumps(manifest))
    done = xprof("explain", directory)
    assert done.returncode == 0 and all(len(line) <= 80 for line in done.stdout.splitlines()), done.stderr
    assert "94.0 % of 1000 user stacks are complete; 50: unwind table not built in time; 10: deeper than the copied part" in re.sub(
        r"\n +", " ", done.stdout)


def test_above_and_slowest(xprof, recorded):
    directory = recorded(*three_faults())
    found = json.loads(xprof("explain", "--json", "--above=30ms", "--slowest=1", "--function=fn_2", directory).stdout)
    assert len(found["slow_calls"]) == 1 and found["compared_slow_calls"] == 2
    found = json.loads(xprof("explain", "--json", "--function=fn_[34]", directory).stdout)
    assert [f["name"] for f in found["functions"]] == ["fn_4", "fn_3"]
    assert [(c["function"], c["callers"]) for c in found["slow_calls"][:2]] == [("fn_4", ["fn_2", "fn_1"]), ("fn_3", ["fn_2", "fn_1"])]
    refused = xprof("explain", "--above=1s", directory)
    assert refused.returncode == 1 and "no call took longer than --above; the slowest took 80.000 ms" in refused.stderr
    refused = xprof("explain", "--function=nothing", directory)
    assert refused.returncode == 2 and "--function 'nothing' matches no function; the nearest names are fn_" in refused.stderr


def test_slowest_of_many(explained):
    """Of thousands of calls, the heap contains exactly the slowest, and typical calls come from the whole recording."""
    count = 3000
    took = [10 + (i * 7919) % count for i in range(count)]  # each duration once, in random order
    calls = [r for i, us in enumerate(took) for r in [(ENTER, HANDLE, i * 10 * MS), (EXIT, HANDLE, i * 10 * MS + us * US)]]
    found, _ = explained([], {SERVER: calls}, "--slowest=20")
    assert [c["duration_ns"] // US for c in found["slow_calls"]] == sorted(took, reverse=True)[:20]
    assert not found["has_waits"] and all(c["cause"] == "unknown" and c["time"] is None for c in found["slow_calls"])


def test_recursion_and_calls_without_an_exit(explained):
    """
    A recursive call is a callee of the outer call of the same function. Calls that a throw left open have no duration.
    """
    calls = [
        (ENTER, HANDLE, MS), (ENTER, HANDLE, 2 * MS), (EXIT, HANDLE, 4 * MS), (EXIT, HANDLE, 6 * MS),
        (ENTER, HANDLE, 7 * MS), (ENTER, PARSE, 8 * MS), (ENTER, LOOKUP, 9 * MS), (EXIT, HANDLE, 10 * MS),
        (EXIT, SERVE, 11 * MS), (ENTER, HANDLE, 12 * MS),
    ]
    found, _ = explained([], {SERVER: calls}, "--function=fn_2", "--slowest=3")
    assert [(c["start_ns"], c["duration_ns"]) for c in found["slow_calls"]] == [(MS, 5 * MS), (7 * MS, 3 * MS), (2 * MS, 2 * MS)]
    assert found["slow_calls"][0]["callees"] == [{"function": "fn_2", "calls": 1, "ns": 2 * MS}]
    assert found["slow_calls"][1]["callees"] == []


def test_waits_without_calls(explained, xprof, recorded):
    """Without calls, explain prints the longest wait of each stack, its waker, and what the waker did."""
    lines, _ = three_faults()
    found, text = explained(lines)
    assert found["slow_calls"] == [] and found["functions"] == []
    assert [w["longest_ns"] for w in found["waits"]] == [77 * MS, 49 * MS + 100 * US, 49 * MS, 18 * MS, 5 * MS]
    locked = found["waits"][1]
    assert locked["thread"] == {"tid": SERVER, "name": "worker"} and locked["longest_start_ns"] == LOCKED + 20 * US
    assert locked["waker"]["meanwhile"]["stack"] == ["app+0x21", "app+0x300"]
    causes = [(cause["kind"], cause["waiter"], cause.get("waits") or cause["samples"], cause["total_ns"], cause["text"])
              for cause in found["causes"]]
    assert causes == [
        ("no CPU", "worker", 1, 77 * MS, "starve while busy/9 runs on CPU 1"),
        ("lock", "worker", 1, 49 * MS + 100 * US, "wait for holder/8 in app+0x400, which sleeps in app+0x21 while it holds the lock"),
        ("disk", "worker", 1, 18 * MS, "wait for a page in app+0x31"),
        ("no CPU", "busy", 2, 7 * MS, "starve while threads that are not recorded run on CPU 1"),
        ("CPU", "worker", 1, MS, "run in app+0x500"),
        ("wait", "holder", 1, 49 * MS, "wait in app+0x21"),
    ]
    assert [found["causes"][i]["sentence"] for i in (0, 4)] == [
        "no CPU: threads worker starve while busy/9 runs on CPU 1 (1 time, 77.00 ms in all)",
        "CPU: threads worker run in app+0x500 (1 sample, 1.00 ms in all)"]
    assert all(cause["sentence"] in " ".join(text.split()) for cause in found["causes"])
    assert "77.00 ms without a CPU; busy (9) had CPU 1" in text


def test_waits_of_a_function(xprof, recorded):
    lines, _ = three_faults()
    directory = recorded(lines)
    found = json.loads(xprof("explain", "--json", "--function=app+0x300", directory).stdout)
    assert [w["thread"]["name"] for w in found["waits"]] == ["holder"]
    refused = xprof("explain", "--above=1s", directory)
    assert refused.returncode == 1 and "no wait is longer than --above" in refused.stderr


def test_nothing_to_explain(xprof, recorded, tmp_path):
    directory = recorded(threads())
    assert "no calls, waits or samples" in xprof("explain", directory).stderr
    assert "not the directory of a recording" in xprof("explain", directory / "manifest.json").stderr
    assert xprof("explain", tmp_path / "none").returncode == 1


def test_last_name_of_a_thread(xprof, recorded):
    """A thread may get its name after its first call; the last name is used everywhere."""
    directory = recorded(*three_faults())
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["processes"][0]["threads"][0]["name"] = "early"
    (directory / "manifest.json").write_text(json.dumps(manifest))
    for name in ("worker", "early"):
        calls = json.loads(xprof("explain", "--json", directory).stdout)["slow_calls"]
        assert {call["thread"] for call in calls} == {name}
        (directory / "perf.data").unlink(missing_ok=True)


def test_neighbour_that_has_little(explained):
    """A thread that had the CPU for a fortieth of the runnable time is not named as the reason."""
    lines, calls = three_faults()
    lines = [line for line in lines if line[3] != NEIGHBOUR or line[0] != "waiting"]
    lines += [wait(NEIGHBOUR, STARVED + MS, 0, MS, "R", SPIN, cpu=1), wait(NEIGHBOUR, STARVED + 4 * MS, 0, MS, "R", SPIN, cpu=1)]
    _, text = explained(lines, calls)
    assert "77.00 ms without a CPU; no recorded thread had CPU 1 for a tenth of that" in text


def test_code_of_no_file(explained, xprof, tmp_path):
    """
    Kernel code is distinguished from other memory without a file. Functions that sleds call, and their callees, belong
    to the recording.
    """
    lines = [*threads(), ("map", TSC + 3, SERVER, SERVER, "5000", "1000", "0", "-", "[vdso]"),
             ("map", TSC + 3, SERVER, SERVER, "7000", "1000", "0", "-", "/memfd:xprof (deleted)"),
             ("map", TSC + 3, SERVER, SERVER, "9000", "1000", "0", "-", "//anon"),
             wait(SERVER, MS, 5 * MS, 0, "S", "5010", "9101"), wait(SERVER, 9 * MS, 4 * MS, 0, "S", "5010", "7101", "9101"),
             sample(20 * MS, SERVER, 0, "5010", "7101", "9101")]
    found, _ = explained(lines)
    assert [wait["stack"] for wait in found["waits"]] == [["[vdso]", "[anon]"], ["xprof's recording", "[anon]"]]
    # The page shows it in its own colour, and can hide its name.
    folded = xprof("export", "--off-cpu", "--format=folded", "--functions=!xprof's recording", "-o", "-", tmp_path / "recording")
    assert "[vdso]" in folded.stdout and "recording" not in folded.stdout
    page = xprof("export", "--format=html", "-o", "-", tmp_path / "recording").stdout
    views = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])["views"]
    assert [view["kinds"][view["names"].index("xprof's recording")] for view in views] == [6, 6] and '"group", "recorder", "waker", "rare"]' in page
    for form, read in (("pprof", gzip.decompress), ("perfetto", lambda data: repr(vars(perfetto.Trace(data))).encode())):
        assert xprof("export", f"--format={form}", "-o", tmp_path / form, tmp_path / "recording").returncode == 0
        text = read((tmp_path / form).read_bytes())
        assert b"xprof's recording" in text and b"memfd" not in text, form


def test_exit_codes(xprof, recorded, tmp_path):
    """Exit code 2 for a wrong command line, 1 for files that cannot be read or written."""
    directory = recorded(*three_faults())
    for args, message in ((["--slowest=0", directory], "--slowest takes a whole number above 0, not '0'"),
                          (["--above=5x", directory], "--above takes a time"), ([], "there is no recording xprof.out here"), ([directory, directory], "unexpected")):
        refused = xprof("explain", *args)
        assert refused.returncode == 2 and message in refused.stderr and not refused.stdout
    for form in ([], ["--json"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            failed = xprof("explain", *form, directory, stdout=full)
        assert failed.returncode == 1 and failed.stderr.endswith("No space left on device\n"), failed.stderr
    (directory / "perf.data").unlink()
    os.mkfifo(directory / "perf.data")
    for command in ("explain", "report"):
        failed = xprof(command, directory, timeout=20)
        assert failed.returncode == 1 and "perf.data: cannot read it: not a regular file" in failed.stderr


def test_times_that_do_not_fit(explained):
    """Calls and samples without a common start are not combined."""
    lines, calls = three_faults()
    found, _ = explained(lines, calls, start_tsc=0)
    assert all(call["time"] is None and call["waits"] == [] for call in found["slow_calls"])


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (3, 3))


def test_times_that_overlap(xprof, recorded):
    """
    Hostile records may overlap: a thread that waits twice at a time, a CPU that runs two threads. The analysis takes
    0.05 s; comparing each wait with each run would take over 5 s.
    """
    count, end = 40000, 500 * MS
    lines = threads()
    for i in range(1, count + 1):
        lines.append(wait(SERVER, 100000, 0, end + i, "R", *IN_HANDLE))
        lines += [wait(1000 + i, i, 5, 0, "L", LOCK), wait(1000 + i, 900 * MS + i, 5, 0, "L", LOCK)]
    directory = recorded(lines, {SERVER: [(ENTER, HANDLE, 50000), (EXIT, HANDLE, 950 * MS)]})
    done = xprof("explain", "--json", directory, preexec_fn=limit_cpu)
    assert done.returncode == 0, done.stderr
    (call,) = json.loads(done.stdout)["slow_calls"]
    assert call["time"]["runnable_ns"] == end + count
