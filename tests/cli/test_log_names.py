# SPDX-License-Identifier: BSD-2-Clause
"""Checks the sources of function names for a log in `xprof report`."""
import json
import re

import pytest

import hand_made
import project
from reported import table

SOURCE = r"""
struct Machine { __attribute__((noinline)) int spin(int n); };
int Machine::spin(int n) { __asm__ volatile(""); return n * 3; }
extern "C" __attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n + 1; }
int main(int argc, char **argv) { Machine m; return m.spin(leaf(argc)); }
"""
NAMES = ("Machine::spin(int)", "leaf", "main")


@pytest.fixture
def app(program):
    return program.text("lognames", SOURCE, "-O2", project.no_runtime(), suffix=".cpp")


@pytest.fixture
def log(xprof, tmp_path, app):
    """Makes a log of one call of each function of NAMES."""
    lines = re.findall(r"^ *\d.*", xprof("list", app).stdout, re.M)
    ids = {line.split(None, 8)[8]: int(line.split()[0]) for line in lines}
    path = tmp_path / "lognames.5.fdr"
    path.write_bytes(hand_made.fdr_log({5: [(kind, ids[name], 10 * ids[name] + kind) for name in NAMES for kind in (0, 1)]}))
    return path


@pytest.fixture
def side(tmp_path, app):
    path = tmp_path / "other.xray.so"
    done = project.run([project.OUTPUT / "tests" / "format" / "instr_map_gen", path, app])
    assert done.returncode == 0, done.stderr
    return path


def reported(xprof, *args):
    """Returns {function: object}."""
    done = xprof("report", "--full-names", *args)
    return {name: row["Object"] or None for name, row in table(done.stdout).items()}


def test_nothing_known(xprof, log):
    assert set(reported(xprof, log)) == {"fn_1", "fn_2", "fn_3"}


def test_given_program(xprof, log, app):
    assert reported(xprof, "--instr-map", app, log) == dict.fromkeys(NAMES, app.name)


def test_given_side_elf(xprof, log, side):
    """A side ELF on the command line gives names; it has no code, so no object."""
    assert reported(xprof, "--instr-map", side, log) == dict.fromkeys(NAMES)


def test_given_program_is_believed(xprof, log, app, tmp_path):
    """Names come only from the program on the command line, not from the recording."""
    objects = [{"path": "/bin/true", "functions": 3, "first_id": 1}]
    (tmp_path / "manifest.json").write_text(json.dumps({"processes": [{"pid": 5, "log": log.name, "objects": objects}]}))
    assert reported(xprof, "--instr-map", app, log) == dict.fromkeys(NAMES, app.name)


def build_id(path):
    return re.search(r"Build ID: (\w+)", project.run(["readelf", "-n", path]).stdout)[1]


@pytest.mark.parametrize("known", [True, False])
def test_known_by_the_manifest(xprof, log, app, tmp_path, known):
    """A program gives names only if it has the build ID that the manifest recorded."""
    objects = [{"path": str(app), "build_id": build_id(app if known else "/bin/true"), "functions": 3, "first_id": 1}]
    (tmp_path / "manifest.json").write_text(json.dumps({"processes": [{"pid": 5, "log": log.name, "objects": objects}]}))


def test_file_without_functions(xprof, log, tmp_path):
    for path in ("/bin/true", tmp_path / "none"):
        done = xprof("report", "--instr-map", path, log)
        assert done.returncode == 1
        assert f"xprof: error: {path}: not a program or library with sleds" in done.stderr
