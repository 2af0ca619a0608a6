# SPDX-License-Identifier: BSD-2-Clause
"""
Compares `xprof list` with `llvm-xray extract` for programs of real compilers, and checks the side ELF that gives
llvm-xray names that it cannot find itself.
"""
import collections
import os
import re
import shutil
import struct

import pytest

import project

CLANGS = project.clang_versions()

SOURCE = r"""
#include <stdio.h>
#include <stddef.h>
#include <vector>
#define NOINLINE __attribute__((noinline))

namespace shapes {
struct Square {
	int side;
	explicit Square(int s);
	virtual ~Square();
	virtual int area() const;
	template <typename T> NOINLINE T scaled(T by) const { return side * by; }
};
Square::Square(int s) : side(s) {}
Square::~Square() {}
int Square::area() const { return side * side; }
}

NOINLINE int leaf(int a) { return printf("%d\n", a) * 3; }
NOINLINE int tail(int a) { if (a > 5) return leaf(a + 1); return a; }
NOINLINE int conditional(int a) { if (a == 3) return leaf(a); return tail(a); }
NOINLINE int several(int a) { switch (a) { case 1: return 3; case 2: puts("x"); return 7; } puts("y"); return leaf(a) + 1; }
[[clang::xray_always_instrument, clang::xray_log_args(1)]] NOINLINE int logged(int a) { return a ^ 5; }
[[noreturn]] NOINLINE void forever() { for (;;) puts("z"); }
static NOINLINE int hidden(int a) { return puts("hidden") + a; }
extern "C" NOINLINE int c_function(int a) { return hidden(a) * 2; }

int main(int argc, char **argv)
{
	shapes::Square square(argc);
	std::vector<int> v(argc, 3);

	if (argc > 100)
		forever();
	return square.area() + square.scaled(2.0) + tail(argc) + conditional(argc) + several(argc) +
	       logged(argc) + c_function(argc) + v.back() + (argv[0] == NULL);
}
"""

EVENTS = r"""
#include <stddef.h>
__attribute__((noinline)) void spread(long unused, const char *text, size_t size) { __xray_customevent(text, size); }
__attribute__((noinline)) void in_place(const char *text, size_t size) { __xray_customevent(text, size); }
int main(int argc, char **argv) { spread(0, argv[0], 1); in_place(argv[0], argc); return 0; }
"""

TYPED = r"""
#include <stddef.h>
__attribute__((noinline)) void typed(size_t type, const char *text, size_t size) { __xray_typedevent(type, text, size); }
__attribute__((noinline)) void turned(size_t size, const char *text, size_t type) { __xray_typedevent(type, text, size); }
int main(int argc, char **argv) { typed(argc, argv[0], 1); turned(1, argv[0], argc); return 0; }
"""

# Sleds of events call functions of XRay's runtime, which is not linked.
NO_EVENT_RUNTIME = ["-Wl,--defsym=__xray_CustomEvent=0", "-Wl,--defsym=__xray_TypedEvent=0"]

VARIANTS = {
    "pie": ["-O2", "-fPIE", "-pie"],
    "no-pie": ["-O2", "-no-pie", "-fno-pie"],
    "shared": ["-O2", "-fPIC", "-shared"],
    "endbr": ["-O2", "-fcf-protection=full", "-fPIE", "-pie"],
    "endbr-no-pie": ["-O1", "-fcf-protection=full", "-no-pie", "-fno-pie"],
    "O0": ["-O0"],
    "Os": ["-Os"],
    "sections": ["-O2", "-ffunction-sections", "-Wl,--gc-sections"],
    "static": ["-O2", "-static"],
    "entries-only": ["-O2", "-fxray-instrumentation-bundle=function-entry"],
    "emit-relocs": ["-O2", "-Wl,--emit-relocs"],
}

LLVM_KINDS = {
    "function-enter": "entry",
    "function-exit": "exit",
    "tail-exit": "tail",
    "log-args-enter": "args",
    "custom-event": "custom",
}

Sled = collections.namedtuple("Sled", "id kind address")


@pytest.fixture(params=CLANGS or [None], ids=lambda v: f"clang-{v}")
def clang(request):
    if request.param is None:
        pytest.skip("no clang with an llvm-xray of its version here")
    return f"clang-{request.param}"


@pytest.fixture
def build(program, clang):
    def build_text(name, text, *flags, suffix=".cc"):
        return program.text(name, text, *flags, project.no_runtime(clang), clang=clang, suffix=suffix)

    return build_text


def extract(llvm_xray, path, *flags):
    """Returns the sleds that llvm-xray reads, with the addresses of their functions and, with -symbolize, names."""
    done = llvm_xray("extract", *flags, path)
    assert done.returncode == 0, done.stderr
    pattern = (
        r"- \{ id: (\d+), address: (0x\w+), function: (0x\w+), kind: ([\w-]+), always-instrument: \w+"
        r"(?:, function-name: '?(.*?)'?)?, version: \d+ \}"
    )
    found = re.findall(pattern, done.stdout)
    assert len(found) == done.stdout.count("- { id:") > 0
    return [(Sled(int(i), LLVM_KINDS[kind], int(address, 16)), int(function, 16), name)
            for i, address, function, kind, name in found]


def rows(done):
    """Returns the lines about sleds, and about functions with sleds."""
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.split(" USDT probe")[0].splitlines() if re.match(r" *\d", line)]


def list_sleds(xprof, path):
    """Returns each sled and the rest of its line: offset, state of its bytes, details, name."""
    sleds = []
    for row in rows(xprof("list", "--sleds", path)):
        number, kind, address, offset, state, rest = row.split(maxsplit=5)
        sleds.append((Sled(int(number), kind, int(address, 16)), int(offset, 16), state, rest))
    return sleds


def list_functions(xprof, operand):
    """Returns {ID: (counts by kind, address, name)}."""
    functions = {}
    for row in rows(xprof("list", operand)):
        number, *counts, address, name = row.split(maxsplit=8)
        kinds = dict(zip(["entry", "exit", "tail", "args", "custom", "typed"], map(int, counts)))
        functions[int(number)] = (kinds, int(address, 16), name)
    return functions


def assert_like_llvm(xprof, llvm_xray, path):
    theirs = extract(llvm_xray, path)
    ours = list_sleds(xprof, path)
    # llvm-xray does not sort: both lists have the order of the map.
    assert [sled for sled, *_ in ours] == [sled for sled, *_ in theirs]
    functions = list_functions(xprof, path)
    assert {i: address for i, (_, address, _) in functions.items()} == {s.id: f for s, f, _ in theirs}
    for number, (kinds, _, _) in functions.items():
        assert kinds == {**dict.fromkeys(kinds, 0), **collections.Counter(s.kind for s, *_ in theirs if s.id == number)}
    return ours


def assert_bytes(path, sleds):
    """Checks that the file has the first bytes of a sled of this kind at each offset."""
    first = {"exit": b"\xc3", "custom": b"\xeb\x0f", "typed": b"\xeb\x14"}
    content = path.read_bytes()
    for sled, offset, state, _ in sleds:
        assert state == "intact"
        assert content[offset:].startswith(first.get(sled.kind, b"\xeb\x09")), sled


@pytest.mark.parametrize("variant", VARIANTS)
def test_programs(xprof, llvm_xray, build, variant):
    path = build(f"sleds-{variant}", SOURCE, *VARIANTS[variant])
    sleds = assert_like_llvm(xprof, llvm_xray, path)
    assert_bytes(path, sleds)
    kinds = {sled.kind for sled, *_ in sleds}
    assert kinds >= ({"entry"} if variant == "entries-only" else {"entry", "exit", "args"})
    if "-O2" in VARIANTS[variant] and variant != "entries-only":
        assert "tail" in kinds


@pytest.mark.parametrize("variant", ["pie", "no-pie", "shared", "endbr"])
def test_stripped(xprof, llvm_xray, build, tmp_path, variant):
    whole = build(f"sleds-{variant}", SOURCE, *VARIANTS[variant])
    stripped = tmp_path / "stripped"
    assert project.run(["strip", "-s", "-o", stripped, whole]).returncode == 0
    sleds = assert_like_llvm(xprof, llvm_xray, stripped)
    assert_bytes(stripped, sleds)
    assert [s for s, *_ in sleds] == [s for s, *_ in list_sleds(xprof, whole)]
    names = {name for _, _, name in list_functions(xprof, stripped).values()}
    # Exports of a shared object are in .dynsym, which strip keeps.
    assert ("shapes::Square::area() const" in names) == (variant == "shared")
    assert "-" in names


@pytest.mark.parametrize("variant", ["pie", "no-pie", "shared", "endbr"])
def test_names(xprof, build, variant):
    path = build(f"sleds-{variant}", SOURCE, *VARIANTS[variant])
    functions = list_functions(xprof, path)
    names = [name for _, _, name in functions.values()]
    assert {"leaf(int)", "main", "c_function", "hidden(int)", "shapes::Square::area() const", "logged(int)",
            "double shapes::Square::scaled<double>(double) const", "forever()"} <= set(names)
    by_name = {name: (number, kinds) for number, (kinds, _, name) in functions.items()}
    assert by_name["forever()"][1] == dict(entry=1, exit=0, tail=0, args=0, custom=0, typed=0)
    assert by_name["logged(int)"][1]["args"] == 1
    # Compares with nm, whose addresses come from the symbol table.
    symbols = project.run(["nm", "-C", path]).stdout
    for number, (_, address, name) in functions.items():
        assert re.search(rf"^0*{address:x} [tTwW] {re.escape(name)}$", symbols, re.M), (number, name)


def test_endbr_is_before_the_sled(xprof, build):
    """endbr64 precedes the sled, except in functions that only direct calls reach, which have no endbr64."""
    path = build("sleds-endbr", SOURCE, *VARIANTS["endbr"])
    content = path.read_bytes()
    functions = list_functions(xprof, path)
    seen = set()
    for sled, offset, *_ in list_sleds(xprof, path):
        if sled.kind not in ("entry", "args"):
            continue
        distance = sled.address - functions[sled.id][1]
        assert (content[offset - 4:offset] == b"\xf3\x0f\x1e\xfa") == (distance == 4)
        seen.add(distance)
    assert seen == {0, 4}


def test_conditional_tail(xprof, build, clang):
    """
    Before version 19, clang puts a sled before a conditional tail call, which it generates when it optimizes for size.
    """
    path = build("sleds-Os", SOURCE, *VARIANTS["Os"])
    disassembly = project.run(["objdump", "-d", "--no-show-raw-insn", path]).stdout
    conditional = 0
    for sled, *_, rest in list_sleds(xprof, path):
        if sled.kind != "tail":
            continue
        jump = re.search(rf"^ *{sled.address + 11:x}:\s+j(\w+)", disassembly, re.M).group(1)
        assert rest.startswith(f"if={jump} ") if jump != "mp" else "if=" not in rest
        conditional += jump != "mp"
    assert bool(conditional) == (clang != "clang-19")


@pytest.fixture
def event_level(clang):
    """Returns the optimization level: clang 14 crashes on most events when it optimizes."""
    return "-O0" if clang == "clang-14" else "-O2"


def test_custom_events(xprof, llvm_xray, build, event_level):
    path = build("events", EVENTS, event_level, *NO_EVENT_RUNTIME, suffix=".c")
    sleds = assert_like_llvm(xprof, llvm_xray, path)
    assert_bytes(path, sleds)
    details = [rest for sled, *_, rest in sleds if sled.kind == "custom"]
    if event_level == "-O2":
        assert details == ["data=rsi size=rdx spread", "data=rdi size=rsi in_place"]
    else:
        assert details == ["data=rax size=rcx spread", "data=rax size=rcx in_place"]


def test_typed_events(xprof, llvm_xray, build, event_level):
    path = build("typed", TYPED, event_level, *NO_EVENT_RUNTIME, suffix=".c")
    # llvm-xray lacks these names, so side ELFs exist. If it learns them, only shared objects need side ELFs.
    assert llvm_xray("extract", path).returncode != 0
    sleds = list_sleds(xprof, path)
    assert_bytes(path, sleds)
    details = [rest for sled, *_, rest in sleds if sled.kind == "typed"]
    if event_level == "-O2":
        assert details == ["type=rdi data=rsi size=rdx typed", "type=rdx data=rsi size=rdi turned"]
    else:
        assert details == ["type=rax data=rcx size=rdx typed", "type=rax data=rcx size=rdx turned"]
    assert [kinds["typed"] for kinds, *_ in list_functions(xprof, path).values()] == [1, 1, 0]


# Processes

LIBRARY = "int helper(int a) { return a * 2; }\nint other(int a) { return helper(a) + 1; }\n"
WAITER = """
#include <stdio.h>
#include <unistd.h>
int other(int a);
int work(int a) { return other(a); }
int main(void) { printf("%d\\n", work(1)); fflush(stdout); pause(); }
"""


@pytest.fixture
def waiter(build, start):
    library = build("sleds-library", LIBRARY, "-O0", "-fPIC", "-shared", "-nostartfiles", suffix=".c")
    path = build("sleds-waiter", WAITER, "-O0", library, f"-Wl,-rpath,{library.parent}", suffix=".c")
    process = start([path])
    assert process.stdout.readline() == "3\n"
    return process, path, library


def check_waiter(done, path, library):
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^# (\S+): (\d+) functions, ", done.stdout, re.M) == [(str(path), "2"), (str(library), "2")]
    names = {int(row.split()[0]): row.split()[-1] for row in rows(done)}
    assert names == {1: "work", 2: "main", 3: "helper", 4: "other"}


@pytest.mark.root
def test_process(xprof, waiter):
    process, path, library = waiter
    check_waiter(xprof("list", process.pid), path, library)


@pytest.mark.root
def test_process_without_map_files(xprof, waiter):
    """The owner of a process may not read map_files/; xprof uses the paths of the files instead."""
    process, path, library = waiter
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    drop = "-checkpoint_restore,-sys_admin"
    done = project.run(["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}", xprof.path, "list", process.pid])
    check_waiter(done, path, library)


@pytest.mark.root
def test_process_whose_library_was_replaced(xprof, build, start, tmp_path):
    """The mapped library is listed, not the new file at its path."""
    library = build("sleds-library", LIBRARY, "-O0", "-fPIC", "-shared", "-nostartfiles", suffix=".c")
    path = build("sleds-waiter", WAITER, "-O0", library, f"-Wl,-rpath,{library.parent}", suffix=".c")
    copy = tmp_path / library.name
    shutil.copy(library, copy)
    process = start([path], env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": str(copy)})
    assert process.stdout.readline() == "3\n"
    copy.unlink()
    copy.write_bytes(b"not what is mapped")
    done = xprof("list", process.pid)
    assert done.returncode == 0, done.stderr
    assert "helper" in done.stdout


@pytest.mark.root
def test_process_without_sleds(xprof, start):
    process = start(["sleep", "60"])
    done = xprof("list", process.pid)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"# \S*sleep: \d+ functions without sleds: ", done.stdout)
    done = xprof("list", "--sleds", process.pid)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no XRay sleds" in done.stderr and "-fxray-instrument" in done.stderr


# Refusals


def test_file_without_sleds(xprof):
    done = xprof("list", "--sleds", "/bin/sh")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "no XRay sleds" in done.stderr and "-fxray-instruction-threshold=1" in done.stderr


@pytest.mark.parametrize("content, words", [
    (b"", "not an ELF file"),
    (b"#!/bin/sh\n", "not an ELF file"),
    (b"\x7fELF\x02\x01\x01" + bytes(100), "neither"),
])
def test_other_files(xprof, tmp_path, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    done = xprof("list", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(path) in done.stderr and done.stderr.count("\n") == 1
    if words != "neither":
        assert words in done.stderr


def test_missing_file(xprof, tmp_path):
    done = xprof("list", tmp_path / "none")
    assert done.returncode == 1
    assert "No such file" in done.stderr


def test_numbers(xprof, tmp_path):
    done = xprof("list", "99999999999999999999")
    assert done.returncode == 1 and "./99999999999999999999" in done.stderr
    (tmp_path / "123").write_text("text")
    done = xprof("list", "./123", cwd=tmp_path)
    assert done.returncode == 1 and "not an ELF file" in done.stderr


def test_one_of_several_fails(xprof, build):
    path = build("sleds-pie", SOURCE, *VARIANTS["pie"])
    done = xprof("list", "--sleds", "/bin/sh", path)
    assert done.returncode == 1
    assert "main" in done.stdout and "/bin/sh" in done.stderr


def test_full_output(xprof, build):
    path = build("sleds-pie", SOURCE, *VARIANTS["pie"])
    with open("/dev/full", "w") as full:
        done = xprof("list", path, stdout=full)
    assert done.returncode == 1
    assert "No space left" in done.stderr


# The side ELF


def make_instr_map(tmp_path, *files):
    side = tmp_path / "side.so"
    done = project.run([project.OUTPUT / "tests" / "format" / "instr_map_gen", side, *files])
    assert done.returncode == 0, done.stderr
    return side


def make_log(path, ids):
    """Makes an FDR log of version 1, by the specification: one thread calls each function once."""
    metadata = lambda kind, payload: struct.pack("<B15s", kind << 1 | 1, payload)
    records = metadata(0, struct.pack("<i", 77)) + metadata(4, struct.pack("<QI", 1700000000, 0))
    records += metadata(2, struct.pack("<HQ", 0, 1000000))
    for number in ids:
        records += struct.pack("<II", number << 4, 100) + struct.pack("<II", number << 4 | 1 << 1, 50)
    records += metadata(1, b"")
    path.write_bytes(struct.pack("<HHIQQQ", 1, 1, 3, 10**9, len(records), 0) + records)
    return path


def account(llvm_xray, side, log):
    done = llvm_xray("account", f"-instr_map={side}", "-format=csv", log)
    assert done.returncode == 0, done.stderr
    found = re.findall(r'^(\d+),(\d+),(?:[^,]*,){6}"[^"]*","([^"]*)"', done.stdout, re.M)
    return {int(number): (int(calls), name) for number, calls, name in found}, done.stdout


def test_instr_map_of_typed_events(llvm_xray, build, event_level, tmp_path):
    path = build("typed", TYPED, event_level, *NO_EVENT_RUNTIME, suffix=".c")
    log = make_log(tmp_path / "log.fdr", [1, 2, 3])
    assert llvm_xray("account", f"-instr_map={path}", log).returncode != 0
    calls, text = account(llvm_xray, make_instr_map(tmp_path, path), log)
    assert calls == {1: (1, "typed"), 2: (1, "turned"), 3: (1, "main")}, text


def test_instr_map_of_several_objects(llvm_xray, build, tmp_path):
    """IDs of the second object follow those of the first. Every name is demangled."""
    first = build("sleds-pie", SOURCE, *VARIANTS["pie"])
    second = build("sleds-shared", SOURCE, *VARIANTS["shared"])
    names = []
    for path in (first, second):
        last = {}
        for sled, _, name in extract(llvm_xray, path, "-symbolize"):
            last[sled.id] = name
        names += [last[number] for number in sorted(last)]
    side = make_instr_map(tmp_path, first, second)
    theirs = extract(llvm_xray, side, "-symbolize")
    assert [sled.id for sled, *_ in theirs] == list(range(1, len(names) + 1))
    assert {sled.kind for sled, *_ in theirs} == {"entry"}
    assert [name for *_, name in theirs] == names
    assert "shapes::Square::area() const" in names
    log = make_log(tmp_path / "log.fdr", range(1, len(names) + 1))
    calls, text = account(llvm_xray, side, log)
    assert {number: name for number, (_, name) in calls.items()} == dict(enumerate(names, 1)), text
    for command in (["stack"], ["convert", "-symbolize", "-f", "yaml"]):
        done = llvm_xray(*command, f"-instr_map={side}", log)
        assert done.returncode == 0, done.stderr
        assert "leaf(int)" in done.stdout


def test_instr_map_without_names(llvm_xray, build, tmp_path):
    whole = build("sleds-no-pie", SOURCE, *VARIANTS["no-pie"])
    stripped = tmp_path / "stripped"
    assert project.run(["strip", "-s", "-o", stripped, whole]).returncode == 0
    theirs = extract(llvm_xray, make_instr_map(tmp_path, stripped), "-symbolize")
    assert [name for *_, name in theirs] == [f"fn_{i}" for i in range(1, len(theirs) + 1)]
