# SPDX-License-Identifier: BSD-2-Clause
"""Shows each test of each cmocka binary to pytest. A binary has no list of its tests, so it runs at collection."""
import os
import re
import subprocess

import pytest

import house

LIMIT_S = 120
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
        binary = house.OUTPUT / "tests" / "unit" / self.path.stem
        if not binary.exists():
            yield UnitItem.from_parent(self, name="build", outcome="failed", text=f"{binary} is not built: run make unit")
            return
        results, trouble, text = run_binary(binary)
        for name, outcome in results:
            yield UnitItem.from_parent(self, name=name, outcome=outcome, text=text)
        if trouble:
            yield UnitItem.from_parent(self, name="run", outcome="failed", text=f"{trouble}\n{text}")


class UnitItem(pytest.Item):
    def __init__(self, *, outcome, text, **kw):
        super().__init__(**kw)
        self.outcome = outcome
        self.text = text

    def runtest(self):
        if self.outcome == "failed":
            raise UnitFailure(self.text)
        if self.outcome == "skipped":
            pytest.skip("the test skips itself here")

    def repr_failure(self, excinfo):
        return str(excinfo.value) if isinstance(excinfo.value, UnitFailure) else super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, self.name


def run_binary(binary):
    """([(name, outcome)], what is wrong with the run as a whole or "", all that it printed)"""
    try:
        done = subprocess.run(
            [binary], cwd=house.REPO, env=environment(), timeout=LIMIT_S, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )
    except subprocess.TimeoutExpired as late:
        return [], f"{binary.name} took longer than {LIMIT_S} s", (late.output or b"").decode(errors="replace")
    results, planned = parse(done.stdout)
    failed = sum(outcome == "failed" for _, outcome in results)
    trouble = ""
    if done.returncode < 0:
        trouble = f"{binary.name} was killed by signal {-done.returncode}"
    elif len(results) != planned or not results:
        trouble = f"{binary.name} ran {len(results)} of {planned} tests"
    elif done.returncode and not failed:
        trouble = f"{binary.name} ended with status {done.returncode}"
    return results, trouble, done.stdout


def environment():
    return {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}


def parse(output):
    results, planned = [], 0
    for line in output.splitlines():
        plan = PLAN.match(line)
        result = RESULT.match(line)
        if plan:
            planned += int(plan.group(1))
        elif result:
            # cmocka 1.1 prints "not ok N # SKIP name"
            outcome = "skipped" if "# SKIP" in line else "failed" if result.group(1) else "passed"
            results.append((result.group(2) or f"test {len(results) + 1}", outcome))
    return results, planned
