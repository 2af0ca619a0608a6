# SPDX-License-Identifier: BSD-2-Clause
"""The CPU time of a program, to compare with its samples."""
import os
import pathlib
import re

import pytest


def printed(name, output):
    return float(re.search(rf"^{name} (\S+)$", output, re.M)[1])


def charged_of(output):
    """Returns the CPU time that the kernel charged to the program, from the program's output."""
    return printed("cpu", output)


def cpu_of(output):
    """
    Returns the charged time without the pauses that the program noticed. In a pause, a hypervisor takes the CPU for up
    to hundreds of milliseconds without reporting it. The kernel charges the whole pause to the process, but takes only
    one sample.
    """
    return charged_of(output) - printed("paused", output)


def stolen_s():
    """
    Returns the time that the hypervisor took from all CPUs since boot, as far as it reports that time. The kernel does
    not charge stolen time to a process. But cpu-clock events count stolen times shorter than their period, because
    these only delay the events.
    """
    return int(pathlib.Path("/proc/stat").read_text().split(None, 9)[8]) / os.sysconf("SC_CLK_TCK")


STOLEN = {"before": 0.0}


@pytest.fixture
def stolen_before(monkeypatch):
    """Stores the stolen time at the start of the test, for assert_cpu_time()."""
    monkeypatch.setitem(STOLEN, "before", stolen_s())


# If the hypervisor takes a CPU for longer, or does not report it, there are too few samples: recordings were up to 8 %
# short of the kernel's accounting. Tests of which process is sampled tolerate that; the test of the time itself may run
# again.
TOLERANCE = 0.12


def assert_cpu_time(sampled_s, seconds, tolerance=TOLERANCE):
    allowed = tolerance * seconds + stolen_s() - STOLEN["before"]
    assert abs(sampled_s - seconds) <= allowed, f"{sampled_s:.3f} s sampled, {seconds:.3f} s used"
