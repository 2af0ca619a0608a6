# SPDX-License-Identifier: BSD-2-Clause
"""The CPU time that a program has used, for comparison with its samples."""
import os
import pathlib
import re

import pytest


def printed(name, output):
    return float(re.search(rf"^{name} (\S+)$", output, re.M)[1])


def charged_of(output):
    """The CPU time that the kernel charged to the program, as the program prints it."""
    return printed("cpu", output)


def cpu_of(output):
    """
    The charged time without the pauses that the program noticed. In a pause a hypervisor took the CPU, sometimes for
    hundreds of milliseconds, without reporting it. The kernel charges the whole pause to the process, but there is a
    single sample of it.
    """
    return charged_of(output) - printed("paused", output)


def stolen_s():
    """
    Time that the hypervisor took from all CPUs since boot, as far as it reports that. A process is not charged for it,
    but cpu-clock events count the parts that are shorter than their period, because these only delay the events.
    """
    return int(pathlib.Path("/proc/stat").read_text().split(None, 9)[8]) / os.sysconf("SC_CLK_TCK")


STOLEN = {"before": 0.0}


@pytest.fixture
def stolen_before(monkeypatch):
    """The time stolen before the test, for assert_cpu_time()."""
    monkeypatch.setitem(STOLEN, "before", stolen_s())


# For time that a hypervisor takes for longer, or does not report, it is the other way round: recordings here were up to
# 8 % short of the kernel's accounting. Tests of which process is sampled tolerate that; the test of the time itself
# may try again.
TOLERANCE = 0.12


def assert_cpu_time(sampled_s, seconds, tolerance=TOLERANCE):
    allowed = tolerance * seconds + stolen_s() - STOLEN["before"]
    assert abs(sampled_s - seconds) <= allowed, f"{sampled_s:.3f} s sampled, {seconds:.3f} s used"
