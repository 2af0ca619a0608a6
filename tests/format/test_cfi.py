# SPDX-License-Identifier: BSD-2-Clause
"""Checks unwind tables of real files: at the address of each row of readelf, xprof must find the same row."""
import bisect
import pathlib
import re
import shutil

import pytest

import project

CFI_ROWS = project.OUTPUT / "tests" / "format" / "cfi_rows"
RBP_SAME = -128
REGISTERS = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16))]

PROGRAM = r"""
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int sum(int n, int *values)
{
    char *copy = alloca(n * sizeof(*values)); /* through rbp */
    memcpy(copy, values, n * sizeof(*values));
    qsort(copy, n, sizeof(*values), compare);
    return copy[0];
}
struct __attribute__((aligned(64))) wide { double all[8]; };
double realigned(struct wide *from, int n, int c, int d, int e, int f, int g, int on_the_stack)
{
    struct wide copy = *from;
    char *more = alloca(n);
    printf("%p %p %d\n", (void *)&copy, more, on_the_stack);
    return copy.all[n & 7];
}
int main(int argc, char **argv)
{
    int values[] = { 3, 1, argc };
    struct wide wide = { { argc } };
    return sum(3, values) + realigned(&wide, argc, 3, 4, 5, 6, 7, 8) + strlen(argv[0]);
}
"""


class Table:
    def __init__(self, *args, cwd=None):
        done = project.run([CFI_ROWS, *args], cwd=cwd)
        assert done.returncode == 0, done.stderr
        head, *lines = done.stdout.splitlines()
        fields = head.split()
        self.head = {name: int(value) for name, value in zip(fields[::2], fields[1::2])}
        self.rows = [(int(f[0]), f[1], *map(int, f[2:])) for f in map(str.split, lines)]
        self.offsets = [row[0] for row in self.rows]
        assert self.head["rows"] == len(self.rows)

    def at(self, offset):
        i = bisect.bisect_right(self.offsets, offset) - 1
        return self.rows[i][1:] if i >= 0 else ("none", 0, 0)

    def known(self):
        """Returns the share of code with a rule, of the code that has an entry."""
        covered = sum(self.head[name] for name in (
            "known", "bad_entry", "cfa_register", "cfa_range", "cfa_expression", "ra_rule", "rbp_rule"))
        return self.head["known"] / covered


def segments(path):
    """Returns [(address, bytes in the file, offset)] of the code segments."""
    text = project.run(["readelf", "-lW", path]).stdout
    return [(int(m[2], 16), int(m[3], 16), int(m[1], 16)) for m in re.finditer(
        r"^\s*LOAD\s+(\S+)\s+(\S+)\s+\S+\s+(\S+)\s+\S+\s+[RW ]*E", text, re.M)]


def readelf_rows(path, section):
    """Returns [(start, end, {column: text})] of each row of each entry, as binutils interprets it."""
    text = project.run(["readelf", "--debug-dump=frames-interp", path], timeout=120).stdout
    found, inside, cies = [], False, {}
    for block in re.split(r"\n\n", text):
        lines = block.strip().splitlines()
        for i, line in enumerate(lines):
            if line.startswith("Contents of the "):
                inside = section in line
                cies = {}
            m = re.match(r"([0-9a-f]+) \S+ \S+ (CIE|FDE)(?: cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+))?", line)
            if not inside or not m:
                continue
            rows = table_rows(lines[i + 1:])
            if m[2] == "CIE":
                cies[int(m[1], 16)] = rows
            else:
                start, end = int(m[4], 16), int(m[5], 16)
                rows = rows or [(start, cies[int(m[3], 16)][0][1])]
                ends = [row[0] for row in rows[1:]] + [end]
                found += [(at, to, columns) for (at, columns), to in zip(rows, ends) if at < to]
    return found


def table_rows(lines):
    if not lines or not lines[0].split()[:2] == ["LOC", "CFA"]:
        return []
    names = lines[0].split()
    rows = [re.sub(r" \(", "(", line).split() for line in lines[1:]]  # "r3 (rbx)"
    return [(int(fields[0], 16), dict(zip(names[1:], fields[1:]))) for fields in rows]


def agrees(columns, row):
    """Returns whether our row equals readelf's. readelf shows that there is an expression, but not which one."""
    rule, cfa, rbp = row[:3]
    if columns["ra"] == "u":
        return rule == "end"
    if columns["CFA"] == "exp":
        return rule in ("plt", "deref", "signal", "none")
    register, offset = re.fullmatch(r"(\w+)([+-]\d+)", columns["CFA"]).groups()
    saved = columns.get("rbp", "u")
    other = register not in ("rsp", "rbp")
    sayable = int(offset) % 8 == 0 and 0 <= int(offset) < (8 << 12 if other else 8 << 16) and saved[0] in "usce"
    if columns["ra"] != "c-8" or not sayable:
        return rule == "none"
    if saved == "exp" and rule == "none":
        return True  # a register other than the CFA's
    expected = ("reg", REGISTERS.index(register) << 12 | int(offset) // 8) if other else (register, int(offset) // 8)
    if (rule, cfa) != expected:
        return False
    return rbp * 8 == int(saved[1:]) if saved[0] == "c" else saved == "exp" or rbp == RBP_SAME


def compare(path, table, section=".eh_frame", tables_of=None, but=()):
    """Compares each row at its first and last byte. Returns the number of equal rows."""
    code = segments(path)
    rows = readelf_rows(tables_of or path, section)
    agreed, wrong = 0, []
    for start, end, columns in rows:
        at = [(a, o) for a, size, o in code if a <= start < a + size]
        if not at or start in but:
            continue
        ours = {table.at(pc - at[0][0] + at[0][1]) for pc in (start, end - 1)}
        if len(ours) == 1 and agrees(columns, ours.pop()):
            agreed += 1
        else:
            wrong.append((hex(start), columns, table.at(start - at[0][0] + at[0][1])))
    assert not wrong, f"{len(wrong)} of {len(rows)} rows of {path}: {wrong[:5]}"
    return agreed


def report(path, table, agreed):
    print(f"{path}: {table.head['rows']} rows, {table.head['bytes']} bytes in {table.head['build_us'] / 1000:.1f} ms; "
          f"{100 * table.known():.3f} % of the code with an entry; readelf agrees on {agreed}")


def library(name):
    """Returns the path of a shared library, as the linker finds it."""
    m = re.search(rf"{re.escape(name)} \(.*x86-64.*\) => (\S+)", project.run(["/sbin/ldconfig", "-p"]).stdout)
    return m[1] if m else None


def build(tmp_path, *flags, source=PROGRAM, compiler="gcc", suffix=".c"):
    (tmp_path / f"program{suffix}").write_text(source)
    done = project.run([compiler, "-o", "program", f"program{suffix}", *flags], cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    return tmp_path / "program"


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2", "libcrypto.so.3", "perl", "python3", "gdb"])
def test_real_file(name):
    path = library(name) if ".so" in name else shutil.which(name, path="/usr/bin:/bin")
    if not path:
        pytest.skip(f"no {name} here")
    path = pathlib.Path(path).resolve()
    table = Table(path)
    agreed = compare(path, table)
    report(path, table, agreed)
    assert agreed > 1000
    assert table.known() > 0.99
    assert table.head["bytes"] < 12 * table.head["rows"] + 4096


def test_pieces():
    """The tables of parts of a large file, cut anywhere, are together the table of the file."""
    path = shutil.which("gdb", path="/usr/bin:/bin") or shutil.which("python3", path="/usr/bin:/bin")
    path = pathlib.Path(path).resolve()
    whole, size = Table(path), path.stat().st_size
    (first, last) = whole.offsets[0], whole.offsets[-1]
    entries = [start for start, _, _ in readelf_rows(path, ".eh_frame")[100:102]]
    cuts = sorted({0, 1 << 20, entries[0], entries[1] + 1, (first + last) // 2, size // 2 & ~4095, (1 << 32) - 1})
    pieces = [Table(path, start, end) for start, end in zip(cuts, cuts[1:])]
    for start, end, piece in zip(cuts, cuts[1:], pieces):
        assert not piece.offsets or start <= piece.offsets[0] and piece.offsets[-1] <= end
    for offset in {at + by for at in whole.offsets for by in (-1, 0)}:
        piece = pieces[bisect.bisect_right(cuts, offset) - 1]
        assert known(piece, offset) == known(whole, offset), hex(offset)
    assert sum(piece.head["known"] for piece in pieces) == whole.head["known"]


def known(table, offset):
    """Exotic rows have numbers per table."""
    row = table.at(offset)
    return row[:1] + row[3:] if row[0] == "deref" else row


def test_vdso(tmp_path):
    table = Table("--vdso", cwd=tmp_path)
    agreed = compare(tmp_path / "vdso.so", table)
    report("vdso", table, agreed)
    assert agreed > 5


def test_signal_return_of_the_c_library():
    path = pathlib.Path(library("libc.so.6")).resolve()
    code = path.read_bytes()
    at = code.find(b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05")
    table = Table(path)
    assert at > 0
    assert [table.at(at + i)[0] for i in (-1, 0, 8)] == ["signal"] * 3


@pytest.fixture(name="debug_frame_only")
def debug_frame_only_(tmp_path):
    return build(tmp_path, "-O2", "-g", "-fno-asynchronous-unwind-tables")


def test_debug_frame(debug_frame_only):
    table = Table(debug_frame_only)
    assert compare(debug_frame_only, table, ".debug_frame") > 10
    compare(debug_frame_only, table)  # of start files and the PLT
    assert {"rsp", "rbp", "deref", "end"} <= {row[1] for row in table.rows}


@pytest.mark.parametrize("how", ["zlib-gabi", "zlib-gnu"])
def test_compressed_debug_frame(debug_frame_only, how):
    plain = Table(debug_frame_only).rows
    done = project.run(["objcopy", f"--compress-debug-sections={how}", debug_frame_only])
    assert done.returncode == 0, done.stderr
    assert Table(debug_frame_only).rows == plain


def test_other_debug_sections_stay_compressed(debug_frame_only, tmp_path):
    plain, mib = Table(debug_frame_only), 64
    (tmp_path / "large").write_bytes(bytes(mib << 20))
    done = project.run(["objcopy", "--add-section", ".debug_types=large", "--compress-debug-sections=zlib-gabi", debug_frame_only],
                       cwd=tmp_path)
    assert done.returncode == 0
    own = Table(debug_frame_only)
    assert own.rows == plain.rows and own.head["peak_kib"] < plain.head["peak_kib"] + 1024 * mib // 4


def test_stripped(tmp_path):
    program = build(tmp_path, "-O2")
    plain = Table(program).rows
    assert project.run(["strip", program]).returncode == 0
    assert Table(program).rows == plain


def test_without_the_search_table(tmp_path):
    """.eh_frame_hdr, the search table of the C++ runtime, is optional: old linkers did not write it."""
    program = build(tmp_path, "-O2", "-Wl,--no-eh-frame-hdr")
    table = Table(program)
    assert "GNU_EH_FRAME" not in project.run(["readelf", "-lW", program]).stdout
    assert compare(program, table) > 10


def plt_rules(program):
    """Returns our rows of .plt: the first stub at its start and after its push, and the other stubs."""
    m = re.search(r"\] \.plt\s+PROGBITS\s+\S+ (\S+)", project.run(["readelf", "-SW", program]).stdout)
    table, start = Table(program), int(m[1], 16)
    return [table.at(start + at)[:2] for at in (0, 6, 16, 31, 32)]


@pytest.mark.parametrize("flags, threshold", [([], 11), (["-Wl,-z,ibtplt"], 9)])
def test_calls_of_libraries(tmp_path, flags, threshold):
    program = build(tmp_path, "-O2", "-Wl,-z,lazy", *flags)
    assert plt_rules(program) == [("rsp", 2), ("rsp", 3)] + [("plt", threshold)] * 3


@pytest.mark.parametrize("flags, threshold", [([], 11), (["-fcf-protection", "-Wl,-z,force-ibt"], 9)])
def test_calls_of_libraries_without_entries(tmp_path, flags, threshold):
    """lld writes no unwind entries for the PLT."""
    if not shutil.which("ld.lld"):
        pytest.skip("no lld here")
    program = build(tmp_path, "-O2", "-fuse-ld=lld", "-Wl,-z,lazy", *flags, compiler=project.CLANG)
    assert plt_rules(program) == [("rsp", 2), ("rsp", 3)] + [("plt", threshold)] * 3
    second = re.search(r"\] \.plt\.sec\s+PROGBITS\s+\S+ (\S+)", project.run(["readelf", "-SW", program]).stdout)
    assert bool(second) == (threshold == 9)
    if second:
        assert Table(program).at(int(second[1], 16) + 20)[:2] == ("rsp", 1)


@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_start_and_end_of_a_program(tmp_path, compiler):
    """.init and .fini have no unwind entries."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    program = build(tmp_path, "-O2", compiler=compiler)
    table, listed = Table(program), project.run(["readelf", "-SW", program]).stdout
    for name in (".init", ".fini"):
        _, start, size = (int(n, 16) for n in re.search(rf"\] {name} +PROGBITS +(\S+) (\S+) (\S+)", listed).groups())
        code = program.read_bytes()[start : start + size]
        reserved = re.match(rb"(\xf3\x0f\x1e\xfa)?(\x48\x83\xec\x08|\x50)", code).end()
        for at in range(size):
            assert table.at(start + at) == ("rsp", 2 if reserved <= at < size - 1 else 1, RBP_SAME), (name, at, code)


def test_none_at_all(tmp_path):
    source = 'void _start(void) { __asm__("mov $60, %eax; xor %edi, %edi; syscall"); }'
    program = build(tmp_path, "-O2", "-nostdlib", "-static", "-fno-asynchronous-unwind-tables", source=source)
    done = project.run([CFI_ROWS, program])
    assert (done.returncode, done.stderr) == (1, f"{program}: No such file or directory\n")


def test_clang(tmp_path):
    program = build(tmp_path, "-O2", "-g", "-fno-asynchronous-unwind-tables", compiler=project.CLANG)
    assert compare(program, Table(program), ".debug_frame") > 10


def test_go(tmp_path):
    if not shutil.which("go"):
        pytest.skip("no go here")
    (tmp_path / "main.go").write_text('package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n')
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-p=1"}
    done = project.run(["go", "build", "-o", "program", "main.go"], cwd=tmp_path, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    program = tmp_path / "program"
    table = Table(program)
    symbols = project.run(["nm", "-n", program]).stdout

    def code_of(pattern):
        m = re.search(rf"^([0-9a-f]+) . runtime\.{pattern}(?:\.abi0)?\n([0-9a-f]+)", symbols, re.M)
        return range(int(m[1], 16), int(m[2], 16))

    sigreturn, goexit = code_of("sigreturn(?:__sigaction)?"), code_of("goexit")
    switching = [code_of(name) for name in ("mcall", "systemstack", "morestack", "asmcgocall")]
    agreed = compare(program, table, ".debug_frame", but={pc for code in (sigreturn, goexit, *switching) for pc in code})
    report(program, table, agreed)
    assert agreed > 1000
    address, _, offset = segments(program)[0]

    def rules(code):
        return [table.at(pc - address + offset)[0] for pc in code]

    assert rules(sigreturn)[0] == "signal"
    # The stack of a goroutine ends there. Go's entries mark neither this end nor the places where its runtime switches
    # stacks.
    assert rules(goexit)[:8] == ["end"] * 7 + ["none"]
    for code, expected in zip(switching, ("end", "switch", "switch", "switch")):
        found = rules(code)
        assert found[0] == "rsp" and {"end", "switch"} & set(found) == {expected}, (code, found)


def test_musl():
    path = pathlib.Path("/lib/ld-musl-x86_64.so.1")
    if not path.exists():
        pytest.skip("no musl here")
    table = Table(path)
    at = path.read_bytes().find(b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05")
    assert at > 0
    assert [table.at(at + i)[0] for i in (-2, -1, 0, 8, 9)] == ["none", "signal", "signal", "signal", "none"]


def test_musl_in_a_static_program(tmp_path):
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc here")
    source = "#include <signal.h>\nstatic void on(int s) { (void)s; }\nint main(void) { signal(2, on); return 0; }\n"
    program = build(tmp_path, "-O2", "-g", "-static", source=source, compiler="musl-gcc")
    table = Table(program)
    assert compare(program, table) > 1
    at = program.read_bytes().find(b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05")
    assert [table.at(at + i)[0] for i in (-1, 8)] == ["signal", "signal"]
