# SPDX-License-Identifier: BSD-2-Clause
"""The CPU time that a program has used, to be compared with what was sampled of it."""
import os
import pathlib
import re

import pytest


def printed(name, output):
    return float(re.search(rf"^{name} (\S+)$", output, re.M)[1])


def charged_of(output):
    """What the kernel charged the program with, as it prints it."""
    return printed("cpu", output)


def cpu_of(output):
    """
    Without the pauses that the program noticed: a hypervisor had taken the CPU, for hundreds of milliseconds at times, and
    had not told. The kernel charges the process with all of one, but there is a single sample of it.
    """
    return charged_of(output) - printed("paused", output)


def stolen_s():
    """
    Time that the hypervisor took from all CPUs since boot, as far as it tells. A process is not charged with it, but
    cpu-clock events count what is shorter than their period, for it only makes them late.
    """
    return int(pathlib.Path("/proc/stat").read_text().split(None, 9)[8]) / os.sysconf("SC_CLK_TCK")


STOLEN = {"before": 0.0}


@pytest.fixture
def stolen_before(monkeypatch):
    """What was stolen before the test, for assert_cpu_time()."""
    monkeypatch.setitem(STOLEN, "before", stolen_s())


# Of what a hypervisor takes for longer, or does not tell, it is the other way round: recordings here were up to 8 % short
# of what the kernel accounts. Tests of who is sampled allow for that; the one of the time itself
# may try again.
TOLERANCE = 0.12


def assert_cpu_time(sampled_s, seconds, tolerance=TOLERANCE):
    allowed = tolerance * seconds + stolen_s() - STOLEN["before"]
    assert abs(sampled_s - seconds) <= allowed, f"{sampled_s:.3f} s sampled, {seconds:.3f} s used"
