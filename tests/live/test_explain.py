# SPDX-License-Identifier: BSD-2-Clause
"""Checks xprof explain with servers whose faults are known: it names the cause of each slow request."""
import json
import re
import signal

import pytest

import perfetto
import project

pytestmark = pytest.mark.uprobes

LONG_US = 15000  # of a request in a pool
FAULT_NS = 60_000_000  # how long a lock is held, and how long an answer takes


@pytest.fixture(scope="module")
def faults(program):
    return program("live/programs/three_faults.c", "-O2", "-g", "-D_GNU_SOURCE", "-pthread", project.no_runtime())


def names(wait):
    return "".join(f"{name} " for name in wait["stack"])


@pytest.mark.alone("whatever else runs is a neighbour, too")
def test_three_faults(xprof, record, waiting, faults):
    """
    The faults: a lock held while sleeping, a slow answer of a storage, a thread with a competing thread on its CPU.
    """
    process = waiting(faults, 4000)
    session = record("--off-cpu", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "done\n"
    assert process.stdout.readline() == "ready\n"
    recorded = session.stop().adds_up()
    assert f"    xprof explain {recorded.directory} " in recorded.messages
    done = xprof("explain", "--json", "--slowest=30", "--function=handle_request", recorded.directory)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["functions"][0]["calls"] == 4000 and found["has_waits"]
    calls = found["slow_calls"]
    assert all(call["thread"] == "worker" and call["callers"] == ["serve"] for call in calls)
    for call in calls:
        assert sum(call["time"].values()) == call["duration_ns"]

    (reading,) = [call for call in calls if any(callee["function"] == "load_block" for callee in call["callees"])]
    assert reading["time"]["blocked_ns"] >= 0.9 * FAULT_NS
    answer = reading["waits"][0]
    assert answer["state"] == "sleeping" and "load_block handle_request " in names(answer)
    assert answer["waker"]["name"] == "storage" and "sleep_ms storage " in names(answer["waker"]["meanwhile"])

    # The worker that gets the lock first: both may wait for the lock, one after the other.
    locked = [(call, wait) for call in calls for wait in call["waits"]
              if wait["state"] == "lock" and wait["waker"] and wait["waker"]["name"] == "refresher"]
    assert locked
    for call, wait in locked:
        assert "lookup handle_request " in names(wait)
        assert "sleep_ms refresher " in names(wait["waker"]["meanwhile"])
        assert wait["blocked_ns"] >= 0.5 * call["time"]["blocked_ns"]

    (starved,) = [call for call in calls if any(callee["function"] == "compute" for callee in call["callees"])]
    assert starved["cause"] == "runnable" and starved["time"]["on_cpu_ns"] >= 2_000_000
    assert starved["callees"][0]["function"] == "compute"
    assert starved["neighbour"]["cpu"] == 0 and starved["neighbour"]["thread"]["name"] == "busy"
    assert starved["waits"][0]["state"] == "preempted" and "compute handle_request " in names(starved["waits"][0])

    common = {(part["kind"], part["what"].split(" (")[0]) for part in found["in_common"]}
    assert {("callee", "compute"), ("runnable", ""), ("neighbour", "busy")} <= common


@pytest.fixture(scope="module")
def slow_server(program):
    return program("live/programs/slow_server.c", "-O2", "-g", "-D_GNU_SOURCE", "-pthread", project.no_runtime())


@pytest.mark.alone("whatever else runs is a neighbour, too")
def test_causes_of_all_requests(xprof, record, waiting, slow_server):
    """
    Without options, explain finds the functions that are requests, and how many requests each cause made slow. The
    numbers are those of the server.
    """
    process = waiting(slow_server, 2000)
    session = record("--off-cpu", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    *counts, address = process.stdout.readline().split()
    locked, journaled, starved = map(int, counts)
    assert process.stdout.readline() == "ready\n"
    recorded = session.stop().adds_up()
    done = xprof("explain", "--json", recorded.directory)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (request,) = [function for function in found["requests"] if not function["is_background"]]
    assert (request["function"], request["calls"]) == ("handle_request", 2000) and request["is_found"]
    causes = [cause for cause in found["causes"] if cause["function"] == "handle_request"]

    # A tail call continues the call.
    (journal,) = [cause for cause in causes if cause["place"] == "write_journal" and cause["thread"] == "storage"]
    assert journal["kind"] == "wait" and 0.9 * journaled <= journal["calls"] <= journaled
    # The stacks of some waits end in the C library.
    (lock,) = [cause for cause in causes if cause["kind"] == "lock" and cause["thread"] == "refresher" and cause["place"] == "lookup"]
    assert 0.8 * locked <= lock["calls"] <= 1.2 * locked + 2
    assert (lock["primitive"], lock["does"], lock["lock"]) == ("pthread_mutex_lock", "sleeps in refresh_cache", "cache_lock")
    no_cpu = sum(cause["calls"] for cause in causes if cause["kind"] == "no CPU")
    # On a busy machine, processes other than busy also use the CPU.
    assert 0.7 * starved <= no_cpu
    (row,) = [row for row in found["locks"] if row["lock"] == address]
    assert row["variable"] == "cache_lock" and row["holder"]["name"] == "refresher" and 0.8 * locked <= row["count"]
    text = xprof("explain", recorded.directory).stdout
    assert "requests: calls of handle_request (outermost, and called most often;" in text
    assert sum(cause["share"] for cause in causes) == pytest.approx(1)


@pytest.mark.alone("whatever else runs is a neighbour, too")
def test_other_causes(xprof, record, waiting, program):
    """A lock's holder of low priority, a full pipe and a slow child."""
    process = waiting(program("live/programs/other_faults.c", "-O2", "-g", "-D_GNU_SOURCE", "-pthread", project.no_runtime()))
    session = record("--off-cpu", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "done\n"
    assert process.stdout.readline() == "ready\n"
    done = xprof("explain", "--json", session.stop().adds_up().directory)
    assert done.returncode == 0, done.stderr
    causes = {(cause["kind"], cause["place"]): cause for cause in json.loads(done.stdout)["causes"] if cause["function"] == "handle_request"}
    plan, log, helper = causes["lock", "read_plan"], causes["wait", "append_log"], causes["wait", "run_helper"]
    assert (plan["thread"], plan["lock"]) == ("planner", "plan_lock") and plan["does"].startswith("starves in make_plan"), plan
    assert (log["thread"], log["primitive"], log["does"]) == ("reader", "write", "sleeps in drain"), log
    assert (helper["thread"], helper["primitive"]) == ("worker", "wait4"), helper
    assert helper["text"].endswith(" in run_helper (wait4)"), helper
    assert all(4 <= cause["calls"] <= 8 for cause in (plan, log, helper)), (plan, log, helper)


@pytest.mark.alone("whatever else runs is a neighbour, too")
def test_lock_of_the_allocator(xprof, record, waiting, program):
    """Requests wait in malloc() for the arena that another thread has locked while it returns memory to the system."""
    process = waiting(program("live/programs/allocator_lock.c", "-O2", "-g", "-D_GNU_SOURCE", "-pthread", project.no_runtime()))
    session = record("--off-cpu", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    slow = int(process.stdout.readline().split()[0])
    assert process.stdout.readline() == "ready\n"
    recorded = session.stop().adds_up()
    done = xprof("explain", "--json", recorded.directory)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["function"] for one in found["requests"] if not one["is_background"]] == ["handle_request"]
    cause = found["causes"][0]
    assert (cause["kind"], cause["function"], cause["place"], cause["thread"]) == ("lock", "handle_request", "build_answer", "purger"), cause
    # On a busy machine, it has no CPU meanwhile.
    assert re.match("(runs|starves) in purge", cause["does"]) and cause["primitive"] in ("malloc", "free", "int_malloc", "int_free"), cause
    assert 0.5 * slow <= cause["calls"], (slow, cause)


@pytest.fixture(scope="module")
def worker_pool(program):
    return program("live/programs/worker_pool.c", "-O2", "-g", "-D_GNU_SOURCE", "-pthread", project.no_runtime())


def test_requests_in_a_pool(xprof, record, waiting, worker_pool):
    """How long a request was in a worker is what the worker itself has measured, and its calls belong to the request."""
    process = waiting(worker_pool, 500)
    session = record("--off-cpu", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    took_us = [int(one) for one in process.stdout.readline().split()]
    assert process.stdout.readline() == "done\n"
    recorded = session.stop().adds_up()
    done = xprof("explain", "--json", "--request=handle_request", "--slowest=1000", recorded.directory)
    assert done.returncode == 0, done.stderr
    calls = sorted(json.loads(done.stdout)["slow_calls"], key=lambda call: call["start_ns"])
    found, has_all_waits = 0, not recorded.manifest["waits"]["filtered"]["not_chosen"]
    for call, us in zip(calls, took_us, strict=True):
        spans = [span for span in call["woken_threads"] if any(callee["function"] == "work_on" for callee in span["callees"])]
        assert len(spans) <= 1
        for span in spans:  # a worker that has not slept yet may take the request instead
            assert span["thread"]["name"] == "pool" and span["woken_by"]["tid"] == process.pid
            (work,) = [callee for callee in span["callees"] if callee["function"] == "work_on"]
            # The program's clock is read within the call.
            assert work["calls"] == 1 and 1000 * (us - 1) <= work["ns"] <= span["duration_ns"] <= call["duration_ns"]
            states = [wait["state"] for wait in span["waits"]]
            assert us < LONG_US or work["ns"] <= 1200 * us and ("sleeping" in states or not has_all_waits), states
            found += 1
    assert found >= len(took_us) / 2


@pytest.fixture(scope="module")
def marked(program):
    return program("live/programs/marked.c", "-O2", "-g", "-D_GNU_SOURCE", "-pthread", project.no_runtime())


@pytest.mark.parametrize("sleds", [["--no-sleds"], []])
def test_requests_between_probes(xprof, record, waiting, marked, sleds, tmp_path):
    """USDT probes mark 200 requests, 10 of which sleep: with and without calls, matched by thread and by an argument."""
    process = waiting(marked)
    # A wait that is shorter than a period may be represented by others.
    session = record("--off-cpu", "-F", 999, "--usdt=shop:*", *sleds, "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "done\n"
    recorded = session.stop()
    for pair in ("shop:begin..end", "shop:queued..answered/arg1"):
        done = xprof("explain", "--json", "--slowest=200", f"--request={pair}", recorded.directory)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        (request,) = found["requests"]
        assert (request["function"], request["calls"], request["is_found"]) == (pair, 200, False)
        calls = found["slow_calls"]
        assert len(calls) == 200 and all(call["thread"] == "worker" and call["function"] == pair for call in calls)
        slept = [call for call in calls if any(wait["state"] == "sleeping" and wait["blocked_ns"] >= 9_900_000 for wait in call["waits"])]
        assert len(slept) == 10
        # What the thread of the request called meanwhile.
        assert all([callee["function"] for callee in call["callees"]] == ([] if sleds else ["load_block"]) for call in slept)
        # Without calls, the place is the innermost function. On a busy machine, the wait for a CPU may be longer.
        (*_, cause) = sorted((cause["calls"], cause["place"]) for cause in found["causes"] if cause["kind"] == "wait")
        assert cause[0] >= 3 and cause[1] == ("sleep_ms" if sleds else "load_block"), found["causes"]
        assert f"requests: calls of {pair} (--request)" in " ".join(xprof("explain", f"--request={pair}", recorded.directory).stdout.split())
    for form in ("html", "perfetto"):
        made = xprof("export", f"--format={form}", "--request=shop:begin..end", "-o", tmp_path / form, recorded.directory)
        assert made.returncode == 0, made.stderr
    assert '"why":{"requests":["requests: calls of shop:begin..end (--request)",' in (tmp_path / "html").read_text()
    requests = [one for one in perfetto.Trace((tmp_path / "perfetto").read_bytes()).requests if one.tid[0] == "Slow requests"]
    assert len([one for one in requests if re.match(r"shop:begin..end \d+\.\d+ ms", one.tid[1])]) >= 10
    done = xprof("explain", "--request=shop:begin..answered/arg2", recorded.directory)
    assert done.returncode == 1 and "no request has begun and ended between the probes of --request" in done.stderr
