# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a recording's cost before it begins."""
import re
import statistics
import struct
import time

import pytest

import house
import victim

pytestmark = pytest.mark.uprobes

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
    target = busy(threads=2)
    done = xprof("record", "--dry-run", "-p", target.pid)
    assert done.returncode == 0, done.stderr
    assert f"process {target.pid} " in done.stdout and " sleds" in done.stdout and " 0 refused" in done.stdout
    target.assert_works()
    # Not even the area to single-step in: only entries were counted.
    assert house.breakpoints(target.pid) == 0
    victim.assert_nothing_left(target.pid)


def test_dry_run_tells_the_rate(xprof, load):
    """Within a factor of two; on a busy machine the moment that was counted may be an odd one, so the median of some."""
    target = load(threads=1, hot_calls=100)
    rates = []
    for _ in range(3):
        before, begin = target.counters(), time.monotonic()
        time.sleep(0.4)
        calls = sum(target.counters()[1:]) - sum(before[1:])
        rate = calls / (time.monotonic() - begin)
        done = xprof("record", "--dry-run", "-p", target.pid)
        assert done.returncode == 0 and done.stdout.count("forecast") == 1, done.stderr
        sleds, told, _, _ = forecast(done.stdout)
        assert sleds == 6
        rates.append(told / rate)
    assert 0.5 < statistics.median(rates) < 2, rates
    target.assert_works()
    victim.assert_nothing_left(target.pid)


def test_forecast_is_what_it_costs(record, load):
    """The tracing's share of the CPU time, from how much less work a second of it does, within a factor of two."""
    ratios = []
    target = load(threads=2, hot_calls=60)
    for _ in range(3):
        base = target.work_rate(0.5)
        session = record("--no-samples", "-p", target.pid).wait_attached()
        cost = 1 - target.work_rate(1) / base
        recorded = session.stop().adds_up()
        _, _, _, share = forecast(recorded.messages)
        ratios.append((share, cost))
    share, cost = (statistics.median(column) for column in zip(*ratios))
    assert cost / 2 - 0.02 < share < cost * 2 + 0.02, ratios
    told = recorded.manifest["forecast"]
    assert 0 < told["cost_share"] < 1 and told["hit_ns"]["exit"] > told["hit_ns"]["entry"] / 2 > 0
