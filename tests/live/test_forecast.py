# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a recording's cost before it begins."""
import re
import signal
import time

import pytest

import leftovers
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

alone = pytest.mark.alone("measures what calls cost")

FORECAST = re.compile(
    r"forecast: (\d+) sleds, (?:no calls now|about ([\d ]+) calls/s(?: \(counted: 1 function in \d+\))?: the target will (.*));"
    r" 1 000 calls/s take ([\d.e-]+) % of a core, ([\d ]+) a whole one(?:; in children of the target ([\d.e-]+) %)?$",
    re.M,
)


def number(text):
    return int(text.replace(" ", "")) if text else 0


def forecast(text):
    """(sleds, calls a second, what it does to the target, share of a core that 1 000 calls a second take)."""
    found = FORECAST.search(text)
    assert found, text
    share = float(found[4]) / 100
    # The two figures are one.
    assert 0.8 < share * number(found[5]) / 1000 < 1.2, text
    return int(found[1]), number(found[2]), found[3], share


def what_it_does(forecast):
    """The words of a forecast, from its figures in the manifest."""
    factor = 1 / (1 - forecast["cost_share"])
    if forecast["slowdown"] >= 1.05:
        return f"run {forecast['slowdown']:.1f} times slower"
    if factor >= 2:
        return f"use {factor:.1f} times the CPU time"
    return f"use {100 * (factor - 1):.{1 if factor < 1.0995 else 0}f} % more CPU time"


def test_dry_run_attaches_nothing(xprof, busy, program):
    # Not even that of others who follow children, and probe the dynamic linker of all processes.
    target = busy(pause_us=1000, path=program("live/programs/victim.c", "-O2", "-static", project.no_runtime()))
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
    assert done.returncode == 2 and "--dry-run cannot be used with CMD" in done.stderr


def test_needs_uprobe_multi(xprof, busy):
    """Probes of perf events would take too long to set for a moment's count."""
    done = xprof("record", "--dry-run", "--uprobes=single", "-p", busy(pause_us=1000).pid)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no forecast: it needs uprobe_multi, Linux 6.6"


def median_is_within(values, count, least, most):
    """Whether that is certain of the median of so many values, whatever those are that are not there yet."""
    return sum(least < value < most for value in values) > count // 2


@alone
def test_dry_run_tells_the_rate(xprof, load):
    """Neighbours on a busy machine change the rate from moment to moment, so the median of some."""
    target = load(threads=1, hot_calls=100)
    rates = []
    while len(rates) < 5 and not median_is_within(rates, 5, 0.3, 3):
        before, begin = target.counters(), time.monotonic()
        done = xprof("record", "--dry-run", "-p", target.pid)
        calls = sum(target.counters()[1:]) - sum(before[1:])
        rate = calls / (time.monotonic() - begin)
        assert done.returncode == 0 and done.stdout.count("forecast") == 1, done.stderr
        sleds, told, _, _ = forecast(done.stdout)
        assert sleds == 6
        rates.append(told / rate)
    assert median_is_within(rates, 5, 0.3, 3), rates
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


# What the entry and the exit of a call hit.
HITS = {"probe": ("entry", "exit"), "patch": ("patched", "patched")}


# Not in memory: probes count the calls that it will record, and slow them down where traps take microseconds. What the
# figures make of a rate of calls has tests/unit/test_forecast.c.
@alone
@pytest.mark.parametrize("mode, hot_calls", [("probe", 60), ("patch", 1500)])
def test_forecast_is_what_it_costs(record, load, mode, hot_calls):
    """The share of the CPU time that the hits took, at the cost of each that xprof has measured, within a factor of two."""
    ratios = []
    target = load(threads=2, hot_calls=hot_calls)
    while len(ratios) < 3 and not median_is_within(ratios, 3, 0.5, 2):
        session = record("--no-samples", "--sled-mode", mode, "-p", target.pid).wait_attached()
        cpu_s, calls = target.cpu_s(), sum(target.counters()[1:])
        target.work_rate(1)
        cpu_s, calls = target.cpu_s() - cpu_s, sum(target.counters()[1:]) - calls
        recorded = session.stop().adds_up()
        told = recorded.manifest["forecast"]
        (process,) = recorded.manifest["processes"]
        hits = HITS[process["objects"][0]["sled_mode"]]
        cost = calls * sum(told["hit_ns"][hit] for hit in hits) / 1e9 / cpu_s
        sleds, _, said, call = forecast(recorded.messages)
        assert sleds == 6 and said == what_it_does(told)
        assert call == pytest.approx(told["call_ns"] / 1e6, rel=0.06)
        ratios.append(told["cost_share"] / min(cost, 1))
    assert median_is_within(ratios, 3, 0.5, 2), ratios


def test_idle_target(xprof, start, program, tmp_path):
    """What a call takes is told when there are none, too."""
    path = program("live/programs/load.c", "-O2", project.no_runtime())
    process = start([path, "wait", 1, 1, 1, tmp_path / "counters"])
    assert process.stdout.readline() == "ready\n"
    shares = {}
    for mode in ("probe", "patch"):
        done = xprof("record", "--dry-run", "--sled-mode", mode, "-p", process.pid)
        sleds, rate, said, shares[mode] = forecast(done.stdout)
        assert (sleds, rate, said) == (6, 0, None), done.stdout
    assert shares["patch"] < shares["probe"]
    done = xprof("record", "--dry-run", "-p", process.pid)
    in_memory = "patched, not in memory: " not in done.stdout
    assert f"6 sleds, 6 to patch{' (calls in memory)' * in_memory}, 0 refused" in done.stdout, done.stdout
    process.kill()
    process.wait()
    # Nothing runs the file.
    done = xprof("record", "--dry-run", "--exec", path)
    assert done.returncode == 0 and forecast(done.stdout)[:3] == (6, 0, None), done.stdout


def test_what_calls_of_children_cost(xprof, busy):
    """They are not recorded in memory."""
    target = busy(pause_us=1000)
    told = {}
    for options in ([], ["--follow"], ["--follow", "--sled-mode=patch"]):
        done = xprof("record", "--dry-run", *options, "-p", target.pid)
        told[len(options)] = forecast(done.stdout)[3], FORECAST.search(done.stdout)[6], done.stdout
    assert told[0][1] is None, told
    # They never have the cheapest nop.
    assert told[2][1] is None or float(told[2][1]) > 100 * told[2][0], told
    if "calls in memory" in told[1][2]:
        assert float(told[1][1]) > 300 * told[1][0] and told[1][0] < told[2][0] / 3, told


def test_children_and_programs(xprof, program, start, tmp_path):
    """With --follow and --exec, from the processes that are there: children of the target, and those that run the file."""
    path = program("live/programs/crowd.c", "-O1", project.no_runtime(), "-g0")
    process = start([path, "fork", tmp_path / "counters"])
    recording.wait_until(lambda: targets.children(process.pid), "no child")
    for options, called in ((["-p", process.pid], False), (["--follow", "-p", process.pid], True), (["--exec", path], True)):
        done = xprof("record", "--dry-run", *options)
        sleds, rate, _, _ = forecast(done.stdout)
        assert sleds == 26000 and (rate > 1000) == called, (options, done.stdout)
        # 13 000 probes in each process would take a second.
        assert ("calls/s (counted: 1 function in " in done.stdout) == called, done.stdout
    with_budget = xprof("record", "--dry-run", "--max-overhead=5%", "--follow", "-p", process.pid)
    assert forecast(with_budget.stdout)[1] > 1000 and "(counted" not in with_budget.stdout
    leftovers.assert_nothing_left(process.pid)
    process.terminate()
    assert process.wait(20) == 0


WARNING = re.compile(r"warning: recording takes (\d+) % of the target's CPU time \(([\d ]+) calls/s, ([\d.]+) (us|ns) each\);")


@pytest.mark.parametrize("mode", ["probe", "patch"])
def test_load_that_comes_later_is_told(record, load, mode):
    """Once, without a terminal, with what helps in this mode."""
    target = load(threads=1, hot_calls=2000)
    target.process.send_signal(signal.SIGUSR2)
    target.wait_without_hot()
    session = record("--no-samples", f"--sled-mode={mode}", "-p", target.pid).wait_attached()
    time.sleep(1.2)
    assert "warning: recording takes" not in session.messages()
    target.process.send_signal(signal.SIGUSR2)
    recording.wait_until(lambda: "warning: recording takes" in session.messages(), "no warning")
    time.sleep(1.2)
    recorded = session.stop().adds_up()
    (found,) = WARNING.findall(recorded.messages)
    share, rate, call, unit = int(found[0]) / 100, number(found[1]), float(found[2]), {"us": 1e-6, "ns": 1e-9}[found[3]]
    assert 0.25 <= share <= 1 and rate * call * unit <= 1.1
    for remedy in ("--functions '!NAME'", f"omit --sled-mode {mode}"):
        assert remedy in recorded.messages
    assert ("--max-overhead 5%" in recorded.messages) == (mode != "probe")
