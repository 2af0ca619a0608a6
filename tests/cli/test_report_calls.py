# SPDX-License-Identifier: BSD-2-Clause
"""Compares percentiles of calls in `xprof report` with `llvm-xray account` and with the exact durations."""
import csv
import io
import random

import pytest

import hand_made
from reported import on_terminal, report, table

HZ = 1000
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# With more than 32 calls of a function, percentiles are approximate: durations.h. Three digits are printed.
ERROR, DIGITS = 0.5 / 64, 0.005
FEW, MANY, MORE = 1, 2, 3


def durations():
    """Returns {function: durations} at 1000 Hz: from 1 ms to a quarter of an hour, most of them short."""
    rng = random.Random(7)
    return {
        FEW: [rng.randrange(1, 5000) for _ in range(31)],
        MANY: [int(1.001 ** rng.randrange(1, 13000)) + 1 for _ in range(6000)],
        MORE: [rng.choice([3, 5, 900]) for _ in range(1000)],
    }


def log(path, of=None):
    """
    Makes a log with half of the calls in each of two threads. Returns {function: (start of the slowest call in s, its
    duration in s)}.
    """
    threads, slowest = {11: [], 12: []}, {}
    for tid, calls in threads.items():
        now = 1000
        for function, all_of_it in (of or durations()).items():
            for cycles in all_of_it[tid % 2::2]:
                calls += [(0, function, now), (1, function, now + cycles)]
                if cycles > slowest.get(function, (0, 0))[1]:
                    slowest[function] = (now, cycles)
                now += cycles + 1
    path.write_bytes(hand_made.fdr_log(threads, hz=HZ))
    return {function: ((at - 1000) / HZ, cycles / HZ) for function, (at, cycles) in slowest.items()}


def seconds(cell):
    number, unit = cell.split()
    return float(number) * UNITS[unit]


def percentile(values, thousandths):
    return sorted(values)[len(values) * thousandths // 1000] / HZ


@pytest.fixture(scope="module")
def recorded(xprof, tmp_path_factory):
    path = tmp_path_factory.mktemp("calls") / "app.fdr"
    return path, log(path), table(report(xprof, path).stdout)


def test_percentiles(recorded):
    _, slowest, rows = recorded
    for function, values in durations().items():
        row = rows[f"fn_{function}"]
        error = DIGITS + (ERROR if function != FEW else 0)
        for column, thousandths in (("P50", 500), ("P90", 900), ("P99", 990)):
            assert seconds(row[column]) == pytest.approx(percentile(values, thousandths), rel=error)
        assert seconds(row["Max"]) == pytest.approx(max(values) / HZ, rel=DIGITS)
        assert seconds(row["Max"]) == pytest.approx(slowest[function][1], rel=DIGITS)
        assert seconds(row["When"]) == pytest.approx(slowest[function][0], rel=DIGITS)


def test_percentiles_equal_those_of_llvm_xray(recorded, llvm_xray):
    path, _, rows = recorded
    done = llvm_xray("account", path, "-f", "csv")
    assert done.returncode == 0, done.stderr
    accounts = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(accounts) == 3
    for account in accounts:
        row = rows[f"fn_{account['funcid']}"]
        assert row["Calls"] == account["count"]
        for column, its in (("P50", "median"), ("P90", "90%ile"), ("P99", "99%ile"), ("Max", "max")):
            assert seconds(row[column]) == pytest.approx(float(account[its]), rel=ERROR + DIGITS)


def cut(text):
    return text.split("Function")[0].split()


def test_a_narrow_terminal_has_the_most_telling_ones(xprof, recorded):
    path = recorded[0]
    headers = {}
    for columns in (40, 80, 120):
        text = on_terminal(xprof, path, columns=columns, PAGER="cat", NO_COLOR="1")
        headers[columns] = [cut(line) for line in text.splitlines() if line.endswith("Object")][0]
        assert columns == 40 or max(map(len, text.splitlines())) <= columns
    assert headers[40] == ["Calls", "Total", "Mean"]
    assert headers[80] == ["Calls", "Total", "Mean", "P50", "P99", "Max"]
    assert headers[120] == ["Calls", "Total", "Mean", "P50", "P90", "P99", "Max", "When"]
