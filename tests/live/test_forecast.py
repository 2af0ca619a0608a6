# SPDX-License-Identifier: BSD-2-Clause
"""Checks the forecast of a recording's cost, from its first calls or from a dry run."""
import re
import signal
import statistics
import time

import pytest

import leftovers
import project
import recording
import targets

pytestmark = pytest.mark.uprobes

alone = pytest.mark.alone("measures what calls cost")

FORECAST = re.compile(
    r"forecast: (\d+) sleds, (?:no calls now|calls not counted|about ([\d ]+) calls/s(?:: the target (.*))?);"
    r" 1 000 calls/s take ([\d.e-]+) % of a core, ([\d ]+) a whole one(?:; in children of the target ([\d.e-]+) %)?"
    r"; \d+ KiB of code become private memory$",
    re.M,
)


def number(text):
    return int(text.replace(" ", "")) if text else 0


def forecast(text):
    """Returns (sleds, calls per second, effect on the target, share of a core for 1 000 calls/s)."""
    found = FORECAST.search(text)
    assert found, text
    share = float(found[4]) / 100
    # Both figures must agree.
    assert 0.8 < share * number(found[5]) / 1000 < 1.2, text
    return int(found[1]), number(found[2]), found[3], share


def what_it_does(forecast):
    """Returns the text of a forecast, from its figures in the manifest."""
    factor = 1 / (1 - min(forecast["cost_share"], 0.95))
    if factor >= 2:
        return f"uses {factor:.1f} times the CPU time"
    return f"uses {100 * (factor - 1):.{1 if factor < 1.0995 else 0}f} % more CPU time"


def test_dry_run_leaves_nothing(xprof, busy, program):
    # Other recordings with --follow probe the dynamic linker of all processes.
    target = busy(pause_us=1000, path=program("live/programs/victim.c", "-O2", "-static", project.no_runtime()))
    done = xprof("record", "--dry-run", "-p", target.pid)
    assert done.returncode == 0, done.stderr
    assert f"process {target.pid} " in done.stdout and " sleds" in done.stdout and " 0 refused" in done.stdout
    target.assert_works()
    # Not even the area for single-stepping exists.
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
    """
    Without uprobe_multi, there is no forecast: attaching probes as perf events would take longer than the measurement.
    """
    done = xprof("record", "--dry-run", "--uprobes=single", "-p", busy(pause_us=1000).pid)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no forecast: it needs uprobe_multi, Linux 6.6"


@alone
def test_dry_run_tells_the_rate(xprof, load):
    """The rate of the dry run is the rate of the calls that the program makes while it is recorded."""
    target = load(threads=1, hot_calls=100)
    ratios = []
    for _ in range(3):
        done = xprof("record", "--dry-run", "-p", target.pid)
        assert done.returncode == 0 and done.stdout.count("forecast: ") == 1, done.stderr
        sleds, told, _, _ = forecast(done.stdout)
        assert sleds == 6
        before, begin = target.counters(), time.monotonic()
        time.sleep(0.5)
        ratios.append(told / ((sum(target.counters()[1:]) - sum(before[1:])) / (time.monotonic() - begin)))
    # Counting probes slow the program down: they reported a tenth of its rate. Recording in memory costs less.
    assert 0.3 < statistics.median(ratios) < 3, ratios
    target.assert_works()
    leftovers.assert_nothing_left(target.pid)


@pytest.mark.parametrize("mode", ["probe", "patch", "auto"])
def test_forecast_is_what_was_recorded(record, load, mode):
    """
    The forecast agrees with the first moments of the recording, with the same clock and costs: in each mode, and in its
    text.
    """
    target = load(threads=2, hot_calls=60)
    session = record("--no-samples", "--call-mode", mode, "-p", target.pid).wait_attached()
    recording.wait_until(lambda: "forecast: " in session.messages(), "no forecast")
    before, cpu_s, begin = target.counters(), target.cpu_s(), time.monotonic()
    target.work_rate(1)
    calls, cpu_s = sum(target.counters()[1:]) - sum(before[1:]), target.cpu_s() - cpu_s
    elapsed_s = time.monotonic() - begin
    recorded = session.stop().adds_up()
    told = recorded.manifest["forecast"]
    sleds, rate, said, call = forecast(recorded.messages)
    assert sleds == 6 and said == what_it_does(told)
    assert call == pytest.approx(told["call_ns"] / 1e6, rel=0.06)
    assert rate == pytest.approx(told["calls_per_s"], rel=0.06)
    assert told["cost_cores"] == pytest.approx(told["calls_per_s"] * told["call_ns"] / 1e9)
    # A share of the CPU time does not depend on how much CPU time the target got.
    per_cpu_s = told["calls_per_s"] / (told["cost_cores"] / told["cost_share"]) if told["cost_share"] < 1 else None
    if per_cpu_s:
        assert 0.5 < per_cpu_s / (calls / cpu_s) < 2, (told, calls, cpu_s, elapsed_s)


def test_dry_run_of_probes_counts_nothing(xprof, busy):
    """A dry run does not count calls with probes, which would cost the target as much as a recording."""
    done = xprof("record", "--dry-run", "--call-mode=probe", "-p", busy(pause_us=1000).pid)
    assert re.search(r"^forecast: \d+ sleds, calls not counted; ", done.stdout, re.M), done.stdout


def test_idle_target(xprof, start, program, tmp_path):
    """For an idle target, the forecast states the cost per call."""
    path = program("live/programs/load.c", "-O2", project.no_runtime())
    process = start([path, "wait", 1, 1, 1, tmp_path / "counters"])
    assert process.stdout.readline() == "ready\n"
    shares = {}
    for mode in ("probe", "patch"):
        done = xprof("record", "--dry-run", "--call-mode", mode, "-p", process.pid)
        sleds, rate, said, shares[mode] = forecast(done.stdout)
        assert (sleds, rate, said) == (6, 0, None), done.stdout
    assert shares["patch"] < shares["probe"]
    done = xprof("record", "--dry-run", "-p", process.pid)
    in_memory = "patched, not in memory: " not in done.stdout
    assert f"6 sleds, 6 to patch{' (calls in memory)' * in_memory}, 0 refused" in done.stdout, done.stdout
    process.kill()
    process.wait()
    # No process runs the file.
    done = xprof("record", "--dry-run", "--exec", path)
    assert done.returncode == 0 and forecast(done.stdout)[:3] == (6, 0, None), done.stdout


def test_what_calls_of_children_cost(xprof, busy):
    """Calls of children are recorded through the kernel, so they cost more."""
    target = busy(pause_us=1000)
    told = {}
    for options in ([], ["--follow"], ["--follow", "--call-mode=patch"]):
        done = xprof("record", "--dry-run", *options, "-p", target.pid)
        told[len(options)] = forecast(done.stdout)[3], FORECAST.search(done.stdout)[6], done.stdout
    assert told[0][1] is None, told
    # They never have the cheapest nop.
    assert told[2][1] is None or float(told[2][1]) > 100 * told[2][0], told
    if "calls in memory" in told[1][2]:
        assert float(told[1][1]) > 300 * told[1][0] and told[1][0] < told[2][0] / 3, told


def test_children_and_programs(xprof, program, start, tmp_path):
    """
    With --follow, calls of existing children are counted. With --exec, sleds are probed in all processes, so calls are
    not counted.
    """
    path = program("live/programs/crowd.c", "-O1", project.no_runtime(), "-g0")
    process = start([path, "fork", tmp_path / "counters"])
    recording.wait_until(lambda: targets.children(process.pid), "no child")
    for options, called in ((["-p", process.pid], False), (["--follow", "-p", process.pid], True), (["--exec", path], False)):
        done = xprof("record", "--dry-run", *options)
        assert done.returncode == 0, done.stderr
        sleds, rate, _, _ = forecast(done.stdout)
        assert sleds >= 26000 and (rate > 1000) == called, (options, done.stdout)
    leftovers.assert_nothing_left(process.pid)
    process.terminate()
    assert process.wait(20) == 0


WARNING = re.compile(r"warning: recording costs (\d+) % of the target's CPU time \(([\d ]+) calls/s, ([\d.]+) (us|ns) each\);")


@pytest.mark.parametrize("mode", ["probe", "patch"])
def test_load_that_comes_later_is_told(record, load, mode):
    """
    When a heavy load starts later, xprof prints the cost once, also without a terminal, with a remedy for the mode.
    """
    target = load(threads=1, hot_calls=2000)
    target.process.send_signal(signal.SIGUSR2)
    target.wait_without_hot()
    session = record("--no-samples", f"--call-mode={mode}", "-p", target.pid).wait_attached()
    time.sleep(1.2)
    assert "warning: recording costs" not in session.messages()
    target.process.send_signal(signal.SIGUSR2)
    recording.wait_until(lambda: "warning: recording costs" in session.messages(), "no warning")
    time.sleep(1.2)
    recorded = session.stop().adds_up()
    (found,) = WARNING.findall(recorded.messages)
    share, rate, call, unit = int(found[0]) / 100, number(found[1]), float(found[2]), {"us": 1e-6, "ns": 1e-9}[found[3]]
    assert 0.25 <= share <= 1 and rate * call * unit <= 1.1
    for remedy in ("--functions '!NAME'", f"omit --call-mode {mode}"):
        assert remedy in recorded.messages
    assert ("--max-overhead 5%" in recorded.messages) == (mode != "probe")
