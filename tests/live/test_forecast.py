# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a recording's cost before it begins."""
import pytest

import house

pytestmark = pytest.mark.uprobes


def test_dry_run_attaches_nothing(xprof, busy):
    target = busy(threads=2)
    done = xprof("record", "--dry-run", "-p", target.pid)
    assert done.returncode == 0, done.stderr
    assert f"process {target.pid} " in done.stdout and " sleds" in done.stdout and " 0 refused" in done.stdout
    target.assert_works()
    assert house.breakpoints(target.pid) == 0
