# SPDX-License-Identifier: BSD-2-Clause
"""--min-duration drops short calls as XRay's func_duration_threshold_us does, and counts them."""
import collections
import signal

import pytest

import project
import recording
from recording import CLANGS, ENTER, EXIT, MODES, TAIL, in_turn

pytestmark = pytest.mark.uprobes


@pytest.fixture
def record(record, mode):
    return lambda *args, **options: record("--call-mode", mode, *args, **options)


LENGTHS = ("live/programs/lengths.c", "-O1")
SHORT = {"short_leaf", "quick", "last"}
LONG = {"long_leaf", "slow", "outer"}
LIMIT_US = 1000


def kept_calls(log):
    """Returns the ticks of each call in the log: {function: [ticks]}."""
    found = collections.defaultdict(list)
    stack = []
    for one in log.records():
        if one.kind == ENTER:
            stack.append(one)
        elif one.kind in (EXIT, TAIL):
            begun = stack.pop()
            assert begun.id == one.id
            found[one.name].append(one.tsc - begun.tsc)
    assert not stack
    return found


def check(recorded, output):
    counted = recording.printed_calls(output)
    assert set(counted) == SHORT | LONG
    totals = recorded.ok().totals
    kept = kept_calls(recorded.log())
    assert {name: len(kept[name]) for name in LONG} == {name: counted[name] for name in LONG}
    # A short call is kept only when it took long after all, because the machine did something else.
    limit = LIMIT_US * recorded.manifest["clock"]["hz"] // 10**6
    assert all(ticks >= limit for calls in kept.values() for ticks in calls), kept
    kept_short = sum(len(kept[name]) for name in SHORT)
    counted_short = sum(counted[name] for name in SHORT)
    assert kept_short < counted_short / 10, "nothing is dropped"
    assert totals["seen"] == 2 * sum(counted.values())
    assert totals["filtered"]["min_duration"] == 2 * (counted_short - kept_short)
    assert totals["filtered"]["total"] == totals["filtered"]["min_duration"]
    return kept


@pytest.mark.parametrize("mode", ["patch"])
def test_in_a_running_process(program, record, waiting):
    process = waiting(program(*LENGTHS))
    session = record(f"--min-duration={LIMIT_US}us", "-p", process.pid).wait_attached()
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=60)
    check(session.finish(), output)


@in_turn("mode, clang", MODES, CLANGS)
def test_same_calls_as_the_runtime_keeps(program, record, tmp_path, clang):
    path = program(*LENGTHS, clang=clang)
    truth = recording.calls(recording.runtime_records(path, tmp_path, threshold_us=LIMIT_US))
    recorded = record(f"--min-duration={LIMIT_US}us", "--", path).finish()
    kept = check(recorded, recorded.output)
    kept_by_runtime = {name: truth[name, ENTER] for name in LONG}
    assert {name: len(kept[name]) for name in LONG} == kept_by_runtime
    counted = recording.printed_calls(recorded.output)
    assert sum(truth[name, ENTER] for name in SHORT) < sum(counted[name] for name in SHORT) / 10, "XRay's runtime keeps short calls"


@pytest.mark.parametrize("mode", MODES)
def test_sum_with_losses(program, record):
    """The numbers of dropped, lost and written calls add up to all calls."""
    path = program("live/programs/hot.c", "-O2")
    # Many times what a probe costs, which a call in it takes at least.
    recorded = record("--buffer=4096", "--min-duration=20us", "--", path, 2, 20000).finish().adds_up()
    totals = recorded.totals
    in_memory = recorded.manifest["processes"][0]["objects"][0]["call_mode"] == "memory"
    # There, short calls do not fill anything.
    assert in_memory or totals["lost"]["ring"] > 0, "the test proves nothing"
    assert totals["filtered"]["min_duration"] > 0
    assert totals["seen"] == 2 * recording.printed_calls(recorded.output)["hop"]
    for version in project.LLVM_VERSIONS:
        assert project.LlvmXray(version)("account", recorded.log().path).returncode == 0


@pytest.mark.parametrize("mode", MODES)
def test_calls_with_an_event_are_kept(program, record):
    """A call with an event is kept even if it is short, because the event belongs to the call."""
    source = """
    static volatile long sink;
    __attribute__((noinline)) void quick(long n) { sink += n; }
    __attribute__((noinline)) void noted(long n) { quick(n); __xray_customevent("note", 4); sink += n; }
    __attribute__((xray_never_instrument)) int main(void) { for (long i = 0; i < 100; i++) { noted(i); quick(i); } }
    """
    path = program.text("noted", source, "-O1")
    recorded = record("--min-duration=5s", "--", path).finish().ok()
    kept = kept_calls(recorded.log())
    assert {name: len(calls) for name, calls in kept.items()} == {"noted": 100}
    assert recorded.totals["written"] == 300
    assert recorded.totals["filtered"]["min_duration"] == recorded.totals["filtered"]["total"] == 400


@pytest.mark.parametrize("mode", ["memory"])
def test_functions(program, record):
    """Sleds of other functions are not even attached."""
    recorded = record("--functions=*leaf", "--functions=!long*", "--", program(*LENGTHS)).finish().ok()
    counted = recording.printed_calls(recorded.output)
    assert recorded.log().calls()["short_leaf", ENTER] == counted["short_leaf"]
    assert recorded.totals["seen"] == 2 * counted["short_leaf"]
