# SPDX-License-Identifier: BSD-2-Clause
"""The lines of relocatable files, as JIT compilers register them, against what llvm-dwarfdump reads."""
import re
import shutil
import struct

import pytest

import project

READER = project.OUTPUT / "tests" / "format" / "symfile_lines"
BASE = 0x7F0000001000

SOURCE = r"""
#include "parts/inline.h"
volatile int sink;
int hot(int n) {
	int s = 0;
	for (int i = 0; i < n; i++) s += (i & 1) ? step(i) : sink;
	return s;
}
__attribute__((section(".text.cold"))) int cold(int n) { return n ? hot(n) + 1 : sink; }
"""
HEADER = "extern volatile int sink;\nstatic inline int step(int i)\n{\n\tsink += i;\n\treturn sink;\n}\n"


def compilers():
    return [c for c in ("gcc", "clang-14", "clang-19") if shutil.which(c)] or [project.CLANG]


def place(path):
    """As a JIT compiler does: each section that is loaded gets an address. {section's number: address}"""
    data = bytearray(path.read_bytes())
    offset, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    at, places = BASE, {}
    for i in range(count):
        flags, = struct.unpack_from("<Q", data, offset + i * size + 8)
        if flags & 2:
            struct.pack_into("<Q", data, offset + i * size + 16, at)
            places[i] = at
        at += 0x10000
    placed = path.with_suffix(".placed")
    placed.write_bytes(data)
    return placed, places


def expected(path, places):
    """{address: (line, file)} by llvm-dwarfdump, whose sections all begin at 0: one at a time, in order of the table."""
    text = project.run(["llvm-dwarfdump", "--debug-line", path]).stdout
    names = dict((int(i), name) for i, name in re.findall(r'file_names\[ *(\d+)\]:\n\s+name: "([^"]+)"', text))
    starts = sequences(path)
    rows, found = iter(re.findall(r"^0x(\w{16}) +(\d+) +\d+ +(\d+) +\d+ +(\d+)(.*)$", text, re.M)), {}
    section = None
    for address, line, file, _, flags in rows:
        if section is None:
            section = starts.pop(0)
        if "end_sequence" in flags:
            section = None
            continue
        found[places[section] + int(address, 16)] = (int(line), names[int(file)])
    return found


def sequences(path):
    """The sections that .debug_line's addresses refer to, in their order."""
    numbers = dict((name, int(i)) for i, name in re.findall(r"^ +\[ *(\d+)\] (\S+)", project.run(["readelf", "-SW", path]).stdout, re.M))
    text = project.run(["readelf", "-rW", path]).stdout
    part = re.search(r"'\.rela\.debug_line'.*?\n\n", text + "\n\n", re.S)[0]
    return [numbers[name] for name in re.findall(r"R_X86_64_64 +\w+ +(\.text\S*)", part)]


@pytest.mark.parametrize("dwarf", ["2", "3", "4", "5"])
@pytest.mark.parametrize("compiler", compilers())
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_compilers(tmp_path, compiler, dwarf, level):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "inline.h").write_text(HEADER)
    (tmp_path / "source.c").write_text(SOURCE)
    made = project.run([compiler, f"-gdwarf-{dwarf}", level, "-fPIC", "-c", "source.c", "-o", "made.o"], cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    placed, places = place(tmp_path / "made.o")
    done = project.run([READER, placed])
    assert done.returncode == 0
    found = {}
    for row in done.stdout.splitlines():
        address, line, _, name = row.split(" ", 3)
        assert int(address, 16) not in found
        found[int(address, 16)] = (int(line), name)
    wanted = expected(tmp_path / "made.o", places)
    assert len(wanted) > 10
    assert {at: (line, name.rpartition("/")[2]) for at, (line, name) in found.items()} == {
        at: (line, name.rpartition("/")[2]) for at, (line, name) in wanted.items()}
    names = {name for _, name in found.values()}
    assert names <= {f"{tmp_path}/source.c", f"{tmp_path}/parts/inline.h", f"{tmp_path}/./parts/inline.h"}, names
