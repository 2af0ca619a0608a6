# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a recording's cost before it begins."""
import re
import statistics
import time

import pytest

import leftovers

pytestmark = pytest.mark.uprobes

alone = pytest.mark.alone("measures what calls cost")

FORECAST = re.compile(
    r"forecast: (\d+) sleds, about ([\d ]+) calls/s: recording them takes ([\d.]+) % of one core,"
    r" ([\d.]+) % of the target's CPU time(?:; it will run ([\d.]+) times slower)?$",
    re.M,
)


def forecast(text):
    """(sleds, calls a second, share of a core, share of the target's CPU time)."""
    found = FORECAST.search(text)
    assert found, text
    return int(found[1]), int(found[2].replace(" ", "")), float(found[3]) / 100, float(found[4]) / 100


def test_dry_run_attaches_nothing(xprof, busy):
    target = busy(pause_us=1000)
    done = xprof("record", "--dry-run", "-p", target.pid)
    assert done.returncode == 0, done.stderr
    assert f"process {target.pid} " in done.stdout and " sleds" in done.stdout and " 0 refused" in done.stdout
    target.assert_works()
    # Not even the area to single-step in: only entries were counted.
    assert leftovers.probe_areas(target.pid) == 0
    leftovers.assert_nothing_left(target.pid)


def test_dry_run_without_sleds(xprof, start):
    process = start(["sleep", "100"])
    for target in (["-p", process.pid], ["-t", process.pid], ["-a"]):
        done = xprof("record", "--dry-run", *target)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "samples only"), done.stderr
    done = xprof("record", "--dry-run", "--", "true")
    assert done.returncode == 2 and "--dry-run describes what runs, and starts no command" in done.stderr


def test_needs_uprobe_multi(xprof, busy):
    """Probes of perf events would take too long to set for a moment's count."""
    done = xprof("record", "--dry-run", "--uprobes=single", "-p", busy(pause_us=1000).pid)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no forecast: it needs uprobe_multi, Linux 6.6"


@alone
def test_dry_run_tells_the_rate(xprof, load):
    """Neighbours on a busy machine change the rate from moment to moment, so the median of some."""
    target = load(threads=1, hot_calls=100)
    rates = []
    for _ in range(5):
        before, begin = target.counters(), time.monotonic()
        done = xprof("record", "--dry-run", "-p", target.pid)
        calls = sum(target.counters()[1:]) - sum(before[1:])
        rate = calls / (time.monotonic() - begin)
        assert done.returncode == 0 and done.stdout.count("forecast") == 1, done.stderr
        sleds, told, _, _ = forecast(done.stdout)
        assert sleds == 6
        rates.append(told / rate)
    assert 0.3 < statistics.median(rates) < 3, rates
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


@alone
@pytest.mark.parametrize("mode, hot_calls", [("probe", 60), ("auto", 1500)])
def test_forecast_is_what_it_costs(record, load, mode, hot_calls):
    """The share of the CPU time that the hits took, at the cost of each that xprof has measured, within a factor of two."""
    pairs = []
    target = load(threads=2, hot_calls=hot_calls)
    for _ in range(3):
        session = record("--no-samples", "--sled-mode", mode, "-p", target.pid).wait_attached()
        cpu_s, calls = target.cpu_s(), sum(target.counters()[1:])
        target.work_rate(1)
        cpu_s, calls = target.cpu_s() - cpu_s, sum(target.counters()[1:]) - calls
        recorded = session.stop().adds_up()
        told = recorded.manifest["forecast"]
        (process,) = recorded.manifest["processes"]
        patched = process["objects"][0]["sled_mode"] == "patch"
        hits = ("patched", "patched") if patched else ("entry", "exit")
        cost = calls * sum(told["hit_ns"][hit] for hit in hits) / 1e9 / cpu_s
        _, _, _, said = forecast(recorded.messages)
        assert abs(said - told["cost_share"]) < 0.006
        pairs.append((told["cost_share"], min(cost, 1)))
    share, cost = (statistics.median(column) for column in zip(*pairs))
    assert cost / 2 < share < cost * 2, pairs
