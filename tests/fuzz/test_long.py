# SPDX-License-Identifier: BSD-2-Clause
"""Checks `make fuzz-long` with two small targets: the crashes that it finds, keeps and reports."""
import os
import pathlib
import shutil

import pytest

import project

SOURCE = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile int reached;

	if (size && data[0] == 'a')
		reached = 1;
	if (size > 1 && data[0] == 'a' && data[1] == 'b' && IS_WRONG)
		abort();
	return 0;
}
"""


@pytest.fixture
def place(tmp_path):
    """Makes a directory with the script, two targets and their corpora."""
    here = pathlib.Path(__file__).parent
    fuzz, programs = tmp_path / "tests" / "fuzz", tmp_path / "output" / "tests" / "fuzz"
    programs.mkdir(parents=True)
    for name in "right", "wrong":
        (fuzz / "corpus" / name).mkdir(parents=True)
        (fuzz / "corpus" / name / "seed").write_bytes(b"x")
        source = fuzz / f"fuzz_{name}.c"
        source.write_text(SOURCE)
        done = project.run([project.CLANG, "-g", "-fsanitize=fuzzer", f"-DIS_WRONG={int(name == 'wrong')}",
                          "-o", programs / f"fuzz_{name}", source])
        assert done.returncode == 0, done.stderr
    shutil.copy(here / "long", fuzz)
    return fuzz


def run(place, *arguments):
    return project.run([place / "long", *arguments], env=dict(os.environ, O=str(place.parent.parent / "output")))


def test_what_is_found(place):
    right = place / "corpus" / "right"
    done = run(place, "1")
    assert done.returncode == 1, done.stderr
    command = done.stdout.splitlines()[-1].split()
    assert command[0].endswith("/fuzz_wrong") and "fuzz_wrong-crash-" in command[1]
    assert project.run(command).returncode != 0
    added = sorted(right.iterdir())
    assert right / "seed" in added and any(entry.read_bytes().startswith(b"a") for entry in added)
    # And a run that finds nothing.
    done = run(place, "1", "fuzz_right")
    assert done.returncode == 0, done.stderr
    assert "fuzz_right: " in done.stdout and " 0 failed" in done.stdout
    assert sorted(right.iterdir()) == added
