# SPDX-License-Identifier: BSD-2-Clause
"""
Shows each test of each cmocka binary to pytest. The list of tests comes from the source of the binary. The binary runs
once, when the first of its selected tests runs.
"""
import collections
import functools
import os
import re
import subprocess

import pytest

import project
import time_limit

LIMIT_S = 110
NAMED = re.compile(r"\b(?:cmocka_unit_test(?:_setup|_teardown|_setup_teardown)?|TEST(?:_WITH)?)\((\w+)")
RESULT = re.compile(r"^(not )?ok\b(?: \d+)?(?: -)?(?: # SKIP)? ?(\S+)?")
PLAN = re.compile(r"^1\.\.(\d+)$")


class UnitFailure(Exception):
    pass


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".c" and file_path.parent.name == "unit":
        return UnitFile.from_parent(parent, path=file_path)
    return None


class UnitFile(pytest.File):
    def collect(self):
        if not self.names:
            raise self.CollectError(f"{self.path} names no test")
        for name in self.names:
            yield UnitItem.from_parent(self, name=name)

    @functools.cached_property
    def names(self):
        lines = self.path.read_text().splitlines()
        return numbered(name for line in lines if not line.startswith("#") for name in NAMED.findall(line))

    @functools.cached_property
    def done(self):
        """Returns ({name: outcome}, the failure of the whole run or "", the output)."""
        binary = project.OUTPUT / "tests" / "unit" / self.path.stem
        if not binary.exists():
            return {}, f"{binary} is not built: run make unit", ""
        results, trouble, text = run_binary(binary)
        unknown = set(results) - set(self.names)
        if unknown:
            trouble = trouble or f"{binary.name} has tests that {self.path.name} does not name: {sorted(unknown)}"
        return results, trouble, text


class UnitItem(pytest.Item):
    def __init__(self, **kw):
        super().__init__(**kw)
        # All tests of a binary go to one worker, which runs the binary once.
        self.worker_group = self.parent.path.stem

    def runtest(self):
        results, trouble, text = self.parent.done
        outcome = results.get(self.name)
        # The tests that did not run report a failure of the whole run; if all ran, each test reports it.
        told = "failed" in results.values() or not set(results) >= set(self.parent.names)
        if outcome is None or trouble and not told:
            raise UnitFailure(f"{trouble or 'it did not run'}\n{text}")
        if outcome == "failed":
            raise UnitFailure(text)
        if outcome == "skipped":
            pytest.skip("the test skips itself here")

    def repr_failure(self, excinfo):
        return str(excinfo.value) if isinstance(excinfo.value, UnitFailure) else super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, self.name


def output_of(process, limit):
    """Returns (the output, whether the time limit killed the process)."""
    try:
        while True:
            try:
                return process.communicate(timeout=max(limit.left_s(), 0))[0], False
            except subprocess.TimeoutExpired as late:
                if limit.left_s() <= 0:
                    return (late.output or b"").decode(errors="replace"), True
    finally:
        # Wait only for the process itself: its children may keep the pipe open.
        process.kill()
        process.wait()
        process.stdout.close()


def run_binary(binary):
    """Returns ({name: outcome}, the failure of the whole run or "", the output)."""
    process = subprocess.Popen(
        [binary], cwd=project.REPO, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    output, is_late = output_of(process, time_limit.Limit(LIMIT_S))
    if is_late:
        return {}, f"{binary.name} took longer than {LIMIT_S} s", output
    results, planned = parse(output)
    failed = "failed" in results.values()
    trouble = ""
    if process.returncode < 0:
        trouble = f"{binary.name} was killed by signal {-process.returncode}"
    elif len(results) != planned or not results:
        trouble = f"{binary.name} ran {len(results)} of {planned} tests"
    elif process.returncode and not failed:
        trouble = f"{binary.name} ended with status {process.returncode}"
    return results, trouble, output


def numbered(names):
    """Appends a number to names that occur again."""
    counts = collections.Counter()
    found = []
    for name in names:
        counts[name] += 1
        found.append(name if counts[name] == 1 else f"{name}-{counts[name]}")
    return found


def environment():
    return {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}


def parse(output):
    names, outcomes, planned = [], [], 0
    for line in output.splitlines():
        plan = PLAN.match(line)
        result = RESULT.match(line)
        if plan:
            planned += int(plan.group(1))
        elif result:
            # cmocka 1.1 prints "not ok N # SKIP name"
            outcome = "skipped" if "# SKIP" in line else "failed" if result.group(1) else "passed"
            names.append(result.group(2) or f"test {len(names) + 1}")
            outcomes.append(outcome)
    return dict(zip(numbered(names), outcomes)), planned
