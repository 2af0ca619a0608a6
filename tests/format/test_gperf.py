# SPDX-License-Identifier: BSD-2-Clause
"""
Checks gperftools profiles: google-pprof and go tool pprof show xprof's addresses of real programs with the right names,
numbers and calls; xprof reads libprofiler's files.
"""
import collections
import os
import pathlib
import re
import shutil
import struct

import pytest

import project
import recording

GENERATOR = project.OUTPUT / "tests" / "format" / "gperf_gen"
PERIOD_US = 10101
PAGE = 4096
SYM_OFFSET = 0x1000
KERNEL = 0xFFFFFFFF81000000

SOURCE = r"""
#define F __attribute__((noinline))
volatile int sink;
F int before(void) { return sink + 1; }
F int hot(int a) { for (int i = 0; i < a; i++) sink += i; return sink; }
F int cold(int a) { for (int i = 0; i < a; i++) sink -= i; return sink; }
F int after(void) { return sink + 2; }
F int outer(int a) { return hot(a) + cold(a); }
F int recursive(int a) { return a ? recursive(a - 1) + 1 : hot(a) + 1; }
F int behind(void) { return sink + 3; }
int main(int argc, char **argv) { (void)argv; return outer(argc) + recursive(argc) + before() + after() + behind(); }
"""

LIBRARY = r"""
#define F __attribute__((noinline))
volatile int lib_sink;
F int lib_before(void) { return lib_sink + 1; }
F int lib_leaf(int a) { return lib_sink += a; }
F int lib_after(void) { return lib_sink + 1; }
F int lib_entry(int a) { return lib_leaf(a) + 2; }
F int lib_behind(void) { return lib_sink + 4; }
"""

VARIANTS = {
    "pie": ["-fPIE", "-pie"],
    "no-pie": ["-fno-pie", "-no-pie"],
    "pie-one-segment": ["-fPIE", "-pie", "-Wl,-z,noseparate-code"],
    "no-pie-one-segment": ["-fno-pie", "-no-pie", "-Wl,-z,noseparate-code"],
    "pie-lld": ["-fPIE", "-pie", "-fuse-ld=lld"],
    "no-pie-lld": ["-fno-pie", "-no-pie", "-fuse-ld=lld"],
}


class Image:
    """An ELF file as a process maps it: its symbols and executable mappings."""

    def __init__(self, path, base, shown_path=None):
        self.path, self.shown_path = path, shown_path or path
        headers = project.run(["readelf", "-hlW", path]).stdout
        self.bias = base if re.search(r"Type:\s+DYN", headers) else 0
        segments = re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+ R E", headers)
        self.segments = [tuple(int(n, 16) for n in segment) for segment in segments]
        assert self.segments
        self.symbols = {}
        for line in project.run(["nm", "-S", path]).stdout.splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[2] in "tT":
                self.symbols[fields[3]] = (int(fields[0], 16), int(fields[1], 16))

    def first(self, name):
        """Returns the first instruction of a function. The byte before belongs to another function."""
        return self.bias + self.symbols[name][0]

    def last(self, name):
        """Returns the address after the last byte: the return address of a call that does not return."""
        return self.bias + sum(self.symbols[name])

    def middle(self, name):
        return self.bias + self.symbols[name][0] + self.symbols[name][1] // 2

    def lines(self, cut=None):
        """Returns (start, line) of each mapping. cut: an address that splits a mapping."""
        found = []
        for offset, vaddr, size in self.segments:
            start = (self.bias + vaddr) & -PAGE
            end = (self.bias + vaddr + size + PAGE - 1) & -PAGE
            starts = [start] if cut is None else [start, cut & -PAGE]
            for at, to in zip(starts, [*starts[1:], end]):
                found.append((at, self._line(at, to, (offset & -PAGE) + at - start)))
        return found

    def _line(self, start, end, offset):
        exec_offset, exec_vaddr, _ = self.segments[0]
        fields = ["object", f"{start:x}", f"{end:x}", f"{offset:x}", str(self.shown_path)]
        return "\t".join([*fields, f"{self.bias:x}", f"{exec_vaddr:x}", f"{exec_offset:x}"])


def name_line(start, end, name):
    return start, f"object\t{start:x}\t{end:x}\t0\t{name}"


class Symbols:
    """Names of code without a file."""

    def __init__(self, path, start, end, symbols):
        self.path, self.start, self.end = path, start, end
        text = "".join(f"{address:x}\t{size:x}\t{name}\n" for address, size, name in sorted(symbols))
        done = generate(["symbols", path, f"{start:x}", f"{end:x}"], text, path.with_suffix(".in"))
        assert done.returncode == 0, done.stderr

    def lines(self):
        start, bias = self.start, self.start - SYM_OFFSET
        fields = ["object", f"{start:x}", f"{self.end:x}", f"{SYM_OFFSET:x}", str(self.path), f"{bias:x}"]
        return [(start, "\t".join([*fields, f"{SYM_OFFSET:x}", f"{SYM_OFFSET:x}"]))]


def generate(args, text, source):
    source.write_text(text)
    with source.open() as stdin:
        return project.run([GENERATOR, *args], stdin=stdin)


@pytest.fixture
def profile(tmp_path, xprof):
    """Writes a profile: profile([(count, [pc, ...])], lines) -> its path. PCs are numbers, or strings followed by !."""

    def write(chains, lines):
        moved = lambda start: start & 0xFFFFFFFFFFFF | 1 << 48 if start >> 63 else start
        text = "".join(line + "\n" for _, line in sorted(lines, key=lambda item: moved(item[0])))
        for count, pcs in chains:
            text += "\t".join(["chain", str(count), *(pc if isinstance(pc, str) else f"{pc:x}" for pc in pcs)]) + "\n"
        path = tmp_path / "a.prof"
        done = generate(["profile", path, PERIOD_US], text, tmp_path / "a.in")
        assert done.returncode == 0, done.stderr
        checked = xprof.check(path)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        samples = sum(count for count, _ in chains)
        assert f": ok, gperftools CPU profile: {samples} samples of {PERIOD_US} us, " in checked.stdout
        return path

    return write


# The readers: each returns the content of a profile as {name: samples}, {name: samples} and {(caller, callee):
# samples}.

Shown = collections.namedtuple("Shown", "flat cum calls errors")


class Perl:
    """
    google-pprof takes names from the program and from libraries. Its callgrind output lacks the outermost call of a
    chain.
    """

    def __init__(self):
        self.path = shutil.which("google-pprof")

    def __call__(self, path, program):
        # One session, because each start reads the symbols of all binaries again.
        calls, commands = path.with_suffix(".calls"), path.with_suffix(".commands")
        commands.write_text(f"top1000000\ncallgrind {calls}\n")
        with commands.open() as stdin:
            done = project.run([self.path, "--interactive", program, path], stdin=stdin)
        assert done.returncode == 0, done.stderr
        flat, cum = {}, {}
        for line in done.stdout.splitlines():
            match = re.match(r"\s*(\d+)\s+\S+%\s+\S+%\s+(\d+)\s+\S+%\s?(.*)", line)
            if match:
                name = match.group(3).strip()
                assert name not in flat, f"{name} stands there twice"
                flat[name], cum[name] = int(match.group(1)), int(match.group(2))
        return Shown(flat, cum, callgrind_calls(calls.read_text()), done.stderr)


def callgrind_calls(text):
    names, calls = {}, collections.Counter()
    caller = callee = None
    for line in text.splitlines():
        match = re.match(r"(c?fn)=(?:\((\d+)\))? ?(.*)", line)
        if match:
            key, number, name = match.groups()
            if number and name:
                names[number] = name
            name = name or names.get(number, "")
            if key == "fn":
                caller, callee = name, None
            else:
                callee = name
        elif callee and not line.startswith(("calls", "cfl")) and line.strip():
            calls[caller, callee] += int(line.split()[-1])
            callee = None
    return dict(calls)


class Go:
    """go tool pprof takes names from DWARF and Go's own table; it ignores the program's name."""

    OPTIONS = ["-nodecount=0", "-nodefraction=0", "-edgefraction=0", "-sample_index=samples"]

    def __init__(self):
        self.path = shutil.which("go")

    def __call__(self, path, program):
        top = self.run(["-top"], path)
        flat, cum = {}, {}
        for line in top.stdout.splitlines():
            match = re.match(r"\s*(\d+)\s+\S+\s+\S+\s+(\d+)\s+\S+\s+(.*)", line)
            if match:
                name = match.group(3).removesuffix(" (inline)")
                flat[name], cum[name] = int(match.group(1)), int(match.group(2))
        calls = callgrind_calls(self.run(["-callgrind"], path).stdout)
        return Shown(flat, cum, calls, top.stderr)

    def run(self, what, path):
        environment = {"HOME": str(path.parent), "PPROF_TMPDIR": str(path.parent)}
        output = path.with_suffix(".out")
        done = project.run([self.path, "tool", "pprof", *what, *self.OPTIONS, f"-output={output}", path],
                         env={**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        done.stdout = output.read_text()
        return done


@pytest.fixture(params=[Perl, Go], ids=["google-pprof", "go-tool-pprof"])
def reader(request):
    made = request.param()
    if not made.path:
        pytest.skip(f"no {request.node.callspec.id} here")
    return made


def expected(chains):
    """Returns flat, cum and calls of chains of names, the innermost first."""
    flat, cum, calls = collections.Counter(), collections.Counter(), collections.Counter()
    for count, names in chains:
        flat[names[0]] += count
        for name in set(names):
            cum[name] += count
        for callee, caller in set(zip(names, names[1:])):
            calls[caller, callee] += count
    return flat, cum, calls


def assert_shows(shown, chains, reader):
    flat, cum, calls = expected(chains)
    assert shown.cum == dict(cum)
    assert {name: count for name, count in shown.flat.items() if count} == dict(flat)
    if isinstance(reader, Perl):
        # Its loop ends one call too early.
        calls = expected([(count, names[:-1]) for count, names in chains if names[1:]])[2]
    assert shown.calls == dict(calls)


def unalign_text(path):
    """Sets p_align to 1, as xprof does in its copy of a binary whose code starts inside a page (elf/copy.h)."""
    data = bytearray(path.read_bytes())
    (table,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    for at in range(table, table + 56 * count, 56):
        if struct.unpack_from("<II", data, at) == (1, 5):  # PT_LOAD, PF_R | PF_X
            struct.pack_into("<Q", data, at + 48, 1)
            break
    path.write_bytes(data)


@pytest.fixture
def build(program):
    def build_one(name, text=SOURCE, *flags):
        path = program.text(f"gperf-{name}", text, "-g", "-O1", *flags, instrument=False)
        if "-fuse-ld=lld" in flags:
            unalign_text(path)
        return path

    return build_one


def linked(tmp_path, target, name="link.so"):
    link = tmp_path / name
    link.symlink_to(target)
    return link


BASE = 0x555555554000

# Functions, innermost first. Callers are at the end of their functions, where a return address that is not reduced by
# one belongs to the next function.
CHAINS = [(500, ["hot", "outer", "main"]), (300, ["cold", "outer", "main"]), (7, ["before", "main"])]


def addressed(image, chains):
    return [(count, [image.first(names[0]), *(image.last(name) for name in names[1:])]) for count, names in chains]


@pytest.mark.parametrize("variant", VARIANTS)
def test_programs(reader, profile, build, tmp_path, variant):
    """google-pprof gets the right program, or another one; then it can only use the mappings."""
    if "lld" in variant and not shutil.which("ld.lld"):
        pytest.skip("no ld.lld here")
    path = build(variant, SOURCE, *VARIANTS[variant])
    image = Image(path, BASE, linked(tmp_path, path))
    made = profile(addressed(image, CHAINS), image.lines())
    for argument in [path, "/bin/true"] if isinstance(reader, Perl) else [path]:
        assert_shows(reader(made, argument), CHAINS, reader)


@pytest.mark.parametrize("variant", ["pie", "no-pie", "pie-lld"])
def test_split_mapping(reader, profile, build, tmp_path, variant):
    """mprotect() has remapped a page in the middle: names are also found in the second mapping."""
    if "lld" in variant and not shutil.which("ld.lld"):
        pytest.skip("no ld.lld here")
    text = SOURCE.replace("F int outer", f"F __attribute__((aligned({PAGE}))) int outer")
    path = build(f"{variant}-padded", text, *VARIANTS[variant])
    image = Image(path, BASE, linked(tmp_path, path))
    cut = image.first("outer")
    assert image.first("hot") < cut == cut & -PAGE
    shown = reader(profile(addressed(image, CHAINS), image.lines(cut)), path)
    assert_shows(shown, CHAINS, reader)


@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_library(reader, profile, build, tmp_path, linker):
    if linker == "lld" and not shutil.which("ld.lld"):
        pytest.skip("no ld.lld here")
    path = build("pie", SOURCE, *VARIANTS["pie"])
    built = build(f"lib-{linker}", LIBRARY, "-shared", "-fPIC", *(["-fuse-ld=lld"] if linker == "lld" else []))
    library = shutil.copy(built, tmp_path / "libwork.so.1.2")
    main = Image(path, BASE, linked(tmp_path, path))
    lib = Image(library, 0x7FFFF7C00000)
    named = [(40, ["lib_leaf", "lib_entry", "outer", "main"]), (2, ["hot", "outer", "main"])]
    chains = [(40, [lib.first("lib_leaf"), lib.last("lib_entry"), main.last("outer"), main.last("main")]),
              (2, [main.first("hot"), main.last("outer"), main.last("main")])]
    assert_shows(reader(profile(chains, main.lines() + lib.lines()), path), named, reader)


def test_plugin(reader, profile, build, tmp_path):
    """The shared object has a name without .so."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    plugin = shutil.copy(build("lib-bfd", LIBRARY, "-shared", "-fPIC"), tmp_path / "work.plugin")
    main = Image(path, BASE, linked(tmp_path, path))
    lib = Image(plugin, 0x7FFFF7C00000, linked(tmp_path, plugin, "work.plugin.so"))
    named = [(9, ["lib_leaf", "lib_entry", "main"]), (2, ["hot", "outer", "main"])]
    chains = [(9, [lib.first("lib_leaf"), lib.last("lib_entry"), main.last("main")]),
              (2, [main.first("hot"), main.last("outer"), main.last("main")])]
    assert_shows(reader(profile(chains, main.lines() + lib.lines()), path), named, reader)


@recording.in_turn("chain, variant", [["hot", "outer", "main"], ["hot", "main"], ["hot"]], ["pie", "no-pie"])
def test_single_chain(reader, profile, build, tmp_path, variant, chain):
    """A caller of all samples stays: both readers would remove it as the frame of a signal handler."""
    path = build(variant, SOURCE, *VARIANTS[variant])
    image = Image(path, BASE, linked(tmp_path, path))
    for count in 2, 1001:
        named = [(count, chain)]
        shown = reader(profile(addressed(image, named), image.lines()), path)
        assert_shows(shown, named, reader)
        assert "Removing" not in shown.errors


@pytest.mark.parametrize("others", [0, 1, 3])
def test_shared_caller(reader, profile, build, tmp_path, others):
    """A caller of nearly all samples stays: Go's reader would remove it if at most one sample in 32 has another caller."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    records = 100 - others
    chains = [(1, [image.first("hot") + i % 10, image.last("outer"), image.last("main") - i // 10])
              for i in range(records)]
    chains += [(1, [image.first("cold"), image.last("main") - i]) for i in range(others)]
    named = [(1, ["hot", "outer", "main"])] * records + [(1, ["cold", "main"])] * others
    assert_shows(reader(profile(chains, image.lines()), path), named, reader)


def test_interrupted(reader, profile, build, tmp_path):
    """The user PC below kernel functions, or below a signal handler, is not a return address."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    kernel = kernel_symbols(tmp_path)
    named = [(5, ["asm_exc_page_fault", "hot", "outer", "main"]), (4, ["cold", "after", "main"])]
    chains = [(5, [KERNEL + 0x700, f"{image.first('hot'):x}!", image.last("outer"), image.last("main")]),
              (4, [image.middle("cold"), f"{image.first('after'):x}!", image.last("main")])]
    assert_shows(reader(profile(chains, image.lines() + kernel.lines()), path), named, reader)


def test_recursion(reader, profile, build, tmp_path):
    """A function that has just been called by itself has a PC equal to the return address of its caller."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    inside = image.middle("recursive")
    named = [(6, ["recursive", "recursive", "main"]), (1, ["hot", "recursive", "main"])]
    chains = [(6, [inside, inside, image.last("main")]), (1, [image.first("hot"), inside, image.last("main")])]
    shown = reader(profile(chains, image.lines()), path)
    flat, cum, _ = expected(named)
    assert (shown.flat["recursive"], shown.cum) == (flat["recursive"], dict(cum))
    if isinstance(reader, Go):
        # Go's graph has no edges from a function to itself.
        assert re.search(r"6 +recursive\n +recursive\n +main\n", reader.run(["-traces"], tmp_path / "a.prof").stdout)
    else:
        assert shown.calls["recursive", "recursive"] == 6


def kernel_symbols(tmp_path):
    names = ["entry_SYSCALL_64", "do_syscall_64", "vfs_write", "asm_exc_page_fault", "native_queued_spin_lock_slowpath"]
    at = [0x40, 0x200, 0x340, 0x700, 0x9000]
    size = [0x100, 0x80, 0, 0x20, 0x200]
    return Symbols(tmp_path / "kernel.so", KERNEL, KERNEL + 0x20000,
                   [(KERNEL + a, s, name) for a, s, name in zip(at, size, names)])


def test_kernel(reader, profile, build, tmp_path):
    path = build("no-pie", SOURCE, *VARIANTS["no-pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    kernel = kernel_symbols(tmp_path)
    entry = ["do_syscall_64", "entry_SYSCALL_64"]
    named = [(50, ["native_queued_spin_lock_slowpath", "vfs_write", *entry, "outer", "main"]),
             (30, ["vfs_write", *entry, "outer", "main"]),
             (2, ["[unknown]", *entry, "main"])]
    calls = [KERNEL + 0x280, KERNEL + 0x140]
    # vfs_write has no size, so it extends to the next symbol. After do_syscall_64 there is no symbol.
    chains = [(50, [KERNEL + 0x91FF, KERNEL + 0x700, *calls, image.last("outer"), image.last("main")]),
              (30, [KERNEL + 0x6FF, *calls, image.last("outer"), image.last("main")]),
              (2, [KERNEL + 0x280, *calls, image.last("main")])]
    assert_shows(reader(profile(chains, image.lines() + kernel.lines()), path), named, reader)
    allocated = kernel.path.stat().st_blocks * 512
    assert allocated <= 16 << 10


def test_kernel_without_names(reader, profile, build, tmp_path):
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    lines = [*image.lines(), name_line(0xFFFF000000000000, 0xFFFFFFFFFFFFFFFF, "[kernel]")]
    shown = reader(profile([(3, [KERNEL + 0x91F0, image.last("outer"), image.last("main")]),
                            (1, [image.first("hot"), image.last("main")])], lines), path)
    name = "[[kernel]]" if isinstance(reader, Go) else "0x0001ffff810091f0"
    assert shown.flat[name] == 3 and shown.cum == {name: 3, "outer": 3, "hot": 1, "main": 4}


def test_jit(reader, profile, build, tmp_path):
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    start = 0x7FFF00000000
    jit = Symbols(tmp_path / "jit-1.so", start, start + 0x300, [
        (start, 0x100, "LazyCompile:*fib /srv/app.js:3:14"),
        (start + 0x100, 0x100, "_ZN3jit4loopEi"),
        (start + 0x200, 0x100, "LFoo;::run"),
    ])
    named = [(11, ["LazyCompile:*fib_/srv/app.js:3:14", "jit::loop", "outer", "main"]), (2, ["LFoo;::run", "main"])]
    chains = [(11, [start, start + 0x200, image.last("outer"), image.last("main")]),
              (2, [start + 0x200, image.last("main")])]
    assert_shows(reader(profile(chains, image.lines() + jit.lines()), path), named, reader)


def test_jit_without_names(reader, profile, build, tmp_path):
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    start = 0x7FFF00000000
    lines = [*image.lines(), name_line(start, start + 0x10000, "[anon]")]
    shown = reader(profile([(3, [start + 0x40, image.last("outer"), image.last("main")]),
                            (1, [image.first("hot"), image.last("main")])], lines), path)
    name = "[[anon]]" if isinstance(reader, Go) else "0x00007fff00000040"
    assert shown.flat[name] == 3 and shown.cum == {name: 3, "outer": 3, "hot": 1, "main": 4}


def vdso(tmp_path):
    """Writes this process's vDSO to a file, with the functions that it exports."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            break
    else:
        pytest.skip("this kernel has no vDSO")
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        image = memory.read(end - start)
    path = tmp_path / "vdso.image"
    path.write_bytes(image)
    symbols = {}
    for line in project.run(["nm", "-D", "-S", path]).stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] == "T":
            symbols[int(fields[0], 16)] = (int(fields[1], 16), fields[3].split("@")[0])
    assert symbols
    return start, end, [(start + at, size, name) for at, (size, name) in symbols.items()]


def test_vdso(reader, profile, build, tmp_path):
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    start, end, symbols = vdso(tmp_path)
    synthesized = Symbols(tmp_path / "vdso.so", start, end, symbols)
    chains = [(3, [at + size - 1, image.last("main")]) for at, size, _ in symbols]
    named = [(3, [name, "main"]) for _, _, name in symbols]
    assert_shows(reader(profile(chains, image.lines() + synthesized.lines()), path), named, reader)


UNMAPPED = [0, 1, 0x1234, 0x7FFF12345678, 0x4141414141414141, BASE - 8, 0x7FFFFFFFFFFF]


def test_no_mapping(reader, profile, build, tmp_path):
    """Addresses without a mapping, sampled or found by the unwinder as callers, do not disturb the other names."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    sampled = [(3, [address, image.last("outer"), image.last("main")]) for address in UNMAPPED]
    callers = [(1, [image.first("cold"), address]) for address in UNMAPPED if address > 1]
    chains = [*sampled, (2, [image.first("hot"), image.last("outer")]), *callers]
    shown = reader(profile(chains, image.lines()), path)
    unknown = 3 * len(UNMAPPED) + len(callers)
    assert shown.cum["outer"] == 3 * len(UNMAPPED) + 2 and shown.cum["main"] == 3 * len(UNMAPPED)
    assert shown.flat["hot"] == 2 and shown.flat["cold"] == len(callers)
    assert sum(shown.flat.values()) == sum(count for count, _ in chains)
    others = {name: count for name, count in shown.cum.items() if name not in ("outer", "main", "hot", "cold")}
    if isinstance(reader, Go):
        assert others == {"[[unknown]]": unknown}
    else:
        assert all(re.match("0x0000[89a-f]", name) for name in others), others
        assert sum(others.values()) == unknown


def test_deep(reader, profile, build, tmp_path):
    """Too deep stacks lose their outermost functions."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    image = Image(path, BASE, linked(tmp_path, path))
    deep = [image.first("hot"), *[image.middle("recursive")] * 1500, image.last("main")]
    shown = reader(profile([(2, deep), (1, [image.first("cold"), image.last("main")])], image.lines()), path)
    assert shown.cum == {"hot": 2, "recursive": 2, "cold": 1, "main": 1}


def test_empty(reader, profile, build, tmp_path):
    """A profile without samples and mappings is valid."""
    path = build("pie", SOURCE, *VARIANTS["pie"])
    assert reader(profile([], []), path)[:3] == ({}, {}, {})


# libprofiler's files

Truth = collections.namedtuple("Truth", "content samples records")


@pytest.fixture(scope="module")
def libprofiler(program, tmp_path_factory):
    """Makes a profile of a program that profiles itself."""
    text = SOURCE.replace("return outer(argc)", "for (int i = 0; i < 20000; i++) outer(20000); return outer(argc)")
    try:
        flags = ["-g", "-O1", "-Wl,--no-as-needed", "-lprofiler"]
        path = program.text("gperf-libprofiler", text, *flags, instrument=False)
    except AssertionError as error:
        if "lprofiler" in str(error):
            pytest.skip("no libprofiler here")
        raise
    profile_path = tmp_path_factory.mktemp("libprofiler") / "ref.prof"
    done = project.run([path], env={**os.environ, "CPUPROFILE": str(profile_path), "CPUPROFILE_FREQUENCY": "250"})
    assert profile_path.exists(), done.stderr
    content = profile_path.read_bytes()
    slots = struct.unpack_from(f"<{len(content) // 8}Q", content)
    at, records = 5, []
    while slots[at]:
        records.append((slots[at], slots[at + 2 : at + 2 + slots[at + 1]]))
        at += 2 + slots[at + 1]
    assert slots[at : at + 3] == (0, 1, 0) and records
    return Truth(content, sum(count for count, _ in records), records)


def trailer_end(truth):
    return 40 + 8 * sum(2 + len(pcs) for _, pcs in truth.records) + 24


def test_libprofiler(xprof, libprofiler, tmp_path):
    path = tmp_path / "ref.prof"
    path.write_bytes(libprofiler.content)
    checked = xprof.check(path)
    assert checked.returncode == 0, checked.stdout
    assert f"ok, gperftools CPU profile: {libprofiler.samples} samples of 4000 us, " in checked.stdout
    dumped = xprof.dump(path)
    assert dumped.returncode == 0, dumped.stderr
    assert "period 4000 us (250.0 Hz)" in dumped.stdout
    rows = [line.split()[1:] for line in dumped.stdout.splitlines() if re.match(r"0x\w+ +\d+ ", line)]
    assert [(int(count), tuple(int(pc, 16) for pc in pcs)) for count, *pcs in rows] == libprofiler.records


def test_cut_off(xprof, libprofiler, tmp_path):
    """Records or a trailer that end anywhere are reported."""
    path = tmp_path / "cut.prof"
    for size in range(16, trailer_end(libprofiler), 8):
        path.write_bytes(libprofiler.content[:size])
        checked = xprof.check(path)
        assert checked.returncode == 1 and "The file ends" in checked.stdout, size
        dumped = xprof.dump(path)
        assert dumped.returncode == 1 and "The file ends" in dumped.stderr, size
