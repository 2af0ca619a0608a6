# SPDX-License-Identifier: BSD-2-Clause
"""
Checks the folders of user/: a module includes only headers that its folder may use. CONTRIBUTING.md has the same table.
"""
import collections
import re

import project

USER = project.REPO / "user"

# Folder: folders whose headers it may include, in addition to its own. Each folder builds on the folders above it.
MAY_INCLUDE = {
    "base": "",
    "arch/x86_64": "base",
    "format": "base",
    "elf": "base arch/x86_64",
    "target": "base arch/x86_64 elf",
    "unwind": "base arch/x86_64 elf target",
    "functions": "base arch/x86_64 elf unwind",
    "event": "base",
    "kernel": "base arch/x86_64 elf target event",
    "sled": "base arch/x86_64 elf target functions event kernel",
    "trace": "base elf format target event sled",
    "budget": "base arch/x86_64 target kernel sled trace",
    "jit": "base elf format target unwind",
    "store": "base elf format target",
    "sample": "base arch/x86_64 elf format target event kernel unwind jit store",
    "model": "base elf format unwind",
    "report": "base elf format unwind model",
    "explain": "base elf format model report",
    "export": "base elf format store model report explain",
    "push": "base elf format model export",
    "record": "base arch/x86_64 elf format target event kernel sled trace budget unwind jit store sample export",
    "diff": "base elf format model report export",
}
# Maximum number of lines per folder.
CEILINGS = {
    "base": 4720,
    "arch/x86_64": 2490,
    "format": 7090,
    "elf": 5270,
    "target": 5560,
    "unwind": 4320,
    "functions": 2670,
    "event": 230,
    "kernel": 3930,
    "sled": 7890,
    "trace": 5100,
    "budget": 1990,
    "jit": 4300,
    "store": 1400,
    "sample": 3670,
    "model": 10060,
    "report": 3640,
    "explain": 4470,
    "export": 3700,
    "push": 2380,
    "record": 9100,
    "diff": 1340,
}
# The only header of user/ itself that folders may include is the option table.
ALSO = {("record/plan.h", "options.h")}


def folder_of(name):
    return name.rpartition("/")[0]


def includes():
    """Returns pairs (file, included header), relative to user/."""
    for path in sorted(USER.rglob("*.[ch]")):
        name = str(path.relative_to(USER))
        for header in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
            if (USER / header).exists():
                yield name, header


def test_folders():
    found = {folder_of(str(path.relative_to(USER))) for path in USER.rglob("*.[ch]")}
    assert found == {*MAY_INCLUDE, "", "man"}


def test_no_two_files_share_a_name():
    names = collections.Counter(path.name for path in [*USER.rglob("*.[ch]"), *(project.REPO / "bpf").glob("*.[ch]")])
    assert [name for name, count in names.items() if count > 1] == []


def test_rooms_have_ceilings():
    """Each folder has a maximum size. A commit that raises the maximum shows that in its diff."""
    found = {
        folder: sum(len(path.read_text().splitlines()) for path in (USER / folder).glob("*.[ch]")) for folder in CEILINGS
    }
    assert {folder: lines for folder, lines in found.items() if lines > CEILINGS[folder]} == {}
    assert {*CEILINGS} == {*MAY_INCLUDE}


def test_includes_follow_the_table():
    offending = [
        f"{name} includes {header}"
        for name, header in includes()
        if folder_of(name) not in ("", "man", folder_of(header))
        and folder_of(header) not in MAY_INCLUDE[folder_of(name)].split()
        and (name, header) not in ALSO
    ]
    assert offending == []


def test_contributing_has_this_table():
    rows = re.findall(r"^\| `([\w/]+)` \| [^|]+ \| ?([\w/ ]*?) ?\|$", (project.REPO / "CONTRIBUTING.md").read_text(), re.M)
    assert {folder: others.split() for folder, others in rows} == {folder: others.split() for folder, others in MAY_INCLUDE.items()}


def test_folders_build_upon_each_other():
    order = list(MAY_INCLUDE)
    assert all(order.index(other) < order.index(folder) for folder, others in MAY_INCLUDE.items() for other in others.split())


def test_headers_do_not_include_each_other_in_a_circle():
    wanted = {}
    for name, header in includes():
        if name.endswith(".h"):
            wanted.setdefault(name, set()).add(header)
    done = set()
    while ready := {name for name in wanted if name not in done and not (wanted[name] & set(wanted)) - done}:
        done |= ready
    assert set(wanted) - done == set()


LINES_MAX = 600
FUNCTION_LINES_MAX = 60


def test_sizes():
    """A larger file or function does more than one thing."""
    found = []
    for path in [*USER.rglob("*.[ch]"), *(project.REPO / "bpf").glob("*")]:
        lines = path.read_text().split("\n")
        if len(lines) > LINES_MAX + 1:
            found.append(f"{path.name}: {len(lines)} lines")
        begin = 0
        for number, line in enumerate(lines, 1):
            begin = number if line == "{" else begin
            if line == "}" and number - begin + 1 > FUNCTION_LINES_MAX:
                found.append(f"{path.name}:{begin}: a function of {number - begin + 1} lines")
    assert found == []


PARAMETERS_MAX = 6


def functions(text):
    """Returns (name, parameters) of each function that a C file defines."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    for name, parameters in re.findall(r"^\w[^;{}()]*\b(\w+)\(((?:[^()]|\([^()]*\))*)\)\n\{", text, re.M):
        yield name, re.sub(r"\([^()]*\)", "", parameters).split(",")


def test_parameters():
    """A function with more parameters should take a struct."""
    paths = [*USER.rglob("*.[ch]"), *(project.REPO / "bpf").glob("*.[ch]")]
    found = [(path.name, name, parameters) for path in paths for name, parameters in functions(path.read_text())]
    assert len(found) > 2000
    assert [(name, function) for name, function, parameters in found if len(parameters) > PARAMETERS_MAX] == []
