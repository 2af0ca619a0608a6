# SPDX-License-Identifier: BSD-2-Clause
"""
Checks profiles and the files next to them: google-pprof and go tool pprof find the right names, also in programs that
this host cannot open.
"""
import collections
import os
import re
import shutil
import subprocess

import pytest

import project

GENERATOR = project.OUTPUT / "tests" / "format" / "profile_gen"
PERIOD_US = 10101
DISK, ANON, VDSO = 0, 1, 3
PAGE = 4096

PROGRAM = r"""
#define F __attribute__((noinline))
volatile int sink;
F int first(void) { return sink + 1; }
F int hot(int a) { for (int i = 0; i < a; i++) sink += i; return sink; }
F int cold(int a) { for (int i = 0; i < a; i++) sink -= i; return sink; }
F int outer(int a) { return hot(a) + cold(a) + 1; }
int main(int argc, char **argv) { (void)argv; return outer(argc) + first(); }
"""

LIBRARY = r"""
#define F __attribute__((noinline))
volatile int sink_%(n)s;
F int %(n)s_first(void) { return sink_%(n)s + 1; }
F int %(n)s_leaf(int a) { return sink_%(n)s += a; }
F int %(n)s_entry(int a) { return %(n)s_leaf(a) + 2; }
"""


class Elf:
    """Finds where the functions of an ELF file are when it is mapped."""

    def __init__(self, path):
        text = project.run(["nm", "-S", path]).stdout
        self.symbols = {
            m.group(3): (int(m.group(1), 16), int(m.group(2), 16))
            for m in re.finditer(r"^(\w+) (\w+) [tTwW] (\S+)$", text, re.M)
        }
        text = project.run(["readelf", "-lW", path]).stdout
        segment = re.search(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ R E", text)
        self.offset, self.vaddr, self.size = (int(v, 16) for v in segment.groups())
        self.is_fixed = "EXEC (" in project.run(["readelf", "-h", path]).stdout


class Recording:
    """Maps files and takes samples; write() makes the profile."""

    def __init__(self, directory):
        self.directory = directory
        self.directory.mkdir()
        self.profile = directory / "test.1.prof"
        self.lines = []
        self.maps = []
        self.expected = collections.Counter()
        self.expected_cum = collections.Counter()

    def map(self, start, end, offset, kind, inode, behind, path):
        self.lines.append(f"map\t{start:x}\t{end:x}\t{offset:x}\t{kind}\t{inode:x}\t{behind}\t{path}")
        self.maps.append(start)
        return len(self.maps) - 1

    def map_elf(self, elf, base, path, behind="-", inode=None):
        """Maps a file. behind: the file while the process lives; path: its name in the process."""
        if inode is None:
            inode = os.stat(behind if behind != "-" else path).st_ino
        start = (0 if elf.is_fixed else base) + elf.vaddr - elf.vaddr % PAGE
        end = start + (elf.vaddr % PAGE + elf.size + PAGE - 1) // PAGE * PAGE
        number = self.map(start, end, elf.offset - elf.offset % PAGE, DISK, inode, behind, path)

        def frame(name, is_caller=False):
            vaddr, size = elf.symbols[name]
            address = (0 if elf.is_fixed else base) + vaddr
            return f"{number:x}:{address + (size if is_caller else 0):x}"

        return frame

    def sample(self, count, *frames):
        """Adds a sample. frames: pairs of the generator's frame and the expected name, the leaf first."""
        self.lines.append("\t".join(["sample", str(count), *(frame for frame, _ in frames)]))
        self.expected[frames[0][1]] += count
        for name in {name for _, name in frames}:
            self.expected_cum[name] += count

    def write(self, while_it_lives=None):
        generator = subprocess.Popen(
            [GENERATOR, self.directory, str(PERIOD_US * 1000)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        generator.stdin.write("\n".join([*self.lines, "ready"]) + "\n")
        generator.stdin.flush()
        assert generator.stdout.readline() == "ready\n"
        if while_it_lives:
            while_it_lives()
        _, messages = generator.communicate(timeout=60)
        assert (generator.returncode, messages) == (0, "")

    def made(self):
        return sorted(p.name for p in (self.directory / "sym").glob("*"))


def read_by_go(profile, cwd):
    options = ["-top", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", "-sample_index=samples"]
    done = project.run(["go", "tool", "pprof", *options, profile], cwd=cwd, env={**os.environ, "HOME": "/nonexistent"})
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr
    rows = re.findall(r"^\s*(\d+)\s+\S+%\s+\S+%\s+(\d+)\s+\S+%\s+(.+?)(?: \(inline\))?$", done.stdout, re.M)
    assert rows, done.stdout
    return {name: (int(flat), int(cum)) for flat, cum, name in rows}


def read_by_perl(profile, cwd, program="/bin/true"):
    done = project.run(["google-pprof", "--text", program, profile], cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "Removing" not in done.stderr
    rows = re.findall(r"^\s*(\d+)\s+\S+%\s+\S+%\s+(\d+)\s+\S+%\s+(.+)$", done.stdout, re.M)
    return {name: (int(flat), int(cum)) for flat, cum, name in rows}


READERS = [
    pytest.param(read_by_go, id="go", marks=pytest.mark.skipif(not shutil.which("go"), reason="no go here")),
    pytest.param(
        read_by_perl, id="perl", marks=pytest.mark.skipif(not shutil.which("google-pprof"), reason="no google-pprof here")
    ),
]


@pytest.fixture(params=READERS)
def reader(request):
    return request.param


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "out")


@pytest.fixture
def build(program):
    """Builds a program or a library, with symbols and DWARF."""

    def build_one(name, source, *flags):
        return program.text(name, source, "-g", "-O1", *flags, instrument=False)

    return build_one


@pytest.fixture
def library(build):
    def library_of(name):
        return build(f"lib{name}", LIBRARY % {"n": name}, "-shared", "-fPIC")

    return library_of


def check(recording, reader, cwd=None):
    found = reader(recording.profile, cwd or recording.directory)
    expected = {
        name: (recording.expected.get(name, 0), total) for name, total in recording.expected_cum.items()
    }
    assert found == expected


def sample_program(recording, frame, prefix=""):
    recording.sample(7, (frame("hot"), "hot"), (frame("outer", True), "outer"), (frame("main", True), "main"))
    recording.sample(5, (frame("cold"), "cold"), (frame("outer", True), "outer"), (frame("main", True), "main"))
    recording.sample(3, (frame("first"), "first"), (frame("main", True), "main"))


KINDS = {
    "pie": ["-fPIE", "-pie"],
    "no-pie": ["-fno-pie", "-no-pie"],
    "no-pie-one-segment": ["-fno-pie", "-no-pie", "-Wl,-z,noseparate-code"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_program(kind, recording, reader, build):
    path = build("program", PROGRAM, *KINDS[kind])
    sample_program(recording, recording.map_elf(Elf(path), 0x555555554000, path, path))
    recording.write()
    check(recording, reader)
    assert len(recording.made()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_program(kind, recording, reader, build, tmp_path):
    path = tmp_path / "gone"
    shutil.copy(build("program", PROGRAM, *KINDS[kind]), path)
    sample_program(recording, recording.map_elf(Elf(path), 0x555555554000, f"{path} (deleted)", path))
    recording.write(path.unlink)
    check(recording, reader)


def test_replaced_library(recording, reader, build, library, tmp_path):
    """The new library at the same path has other functions at these addresses."""
    path = tmp_path / "libx.so"
    shutil.copy(library("old"), path)
    frame = recording.map_elf(Elf(path), 0x7F0000000000, path, path)
    recording.sample(9, (frame("old_leaf"), "old_leaf"), (frame("old_entry", True), "old_entry"))
    recording.sample(2, (frame("old_first"), "old_first"))

    def replace():
        shutil.copy(build("libnew", PROGRAM, "-shared", "-fPIC"), tmp_path / "new")
        (tmp_path / "new").rename(path)

    recording.write(replace)
    check(recording, reader)


def test_strange_paths(recording, reader, library, tmp_path):
    for number, name in enumerate(("with blank.so", "dollar$build.so", "back\\slash.so", "quote'd\".so", "größe.so")):
        short = f"f{number}"
        path = tmp_path / name
        shutil.copy(library(short), path)
        frame = recording.map_elf(Elf(path), 0x7F0000000000 + number * 0x100000, path, path)
        recording.sample(number + 1, (frame(f"{short}_leaf"), f"{short}_leaf"), (frame(f"{short}_entry", True), f"{short}_entry"))
    recording.write()
    check(recording, reader)


def test_other_mount_namespace(recording, reader, build, library, tmp_path):
    """Paths of a container are other files here, or do not exist."""
    own, host = tmp_path / "own", tmp_path / "host"
    own.mkdir()
    host.mkdir()
    shutil.copy(build("program", PROGRAM, "-fPIE", "-pie"), own / "app")
    shutil.copy(library("inner"), own / "libinner.so")
    shutil.copy("/bin/true", host / "app")
    sample_program(recording, recording.map_elf(Elf(own / "app"), 0x555555554000, host / "app", own / "app"))
    frame = recording.map_elf(Elf(own / "libinner.so"), 0x7F0000000000, host / "libinner.so", own / "libinner.so")
    recording.sample(4, (frame("inner_leaf"), "inner_leaf"), (frame("inner_entry", True), "inner_entry"))
    recording.write()
    shutil.rmtree(own)
    check(recording, reader)


def test_gone_too_soon(recording, reader, build, tmp_path):
    """If a file was gone before xprof opened it, another file at its path gives no names."""
    path = tmp_path / "short-lived"
    shutil.copy(build("program", PROGRAM, "-fPIE", "-pie"), path)
    frame = recording.map_elf(Elf(path), 0x555555554000, path, inode=path.stat().st_ino + 1)
    recording.sample(6, (frame("hot"), "[short-lived]"), (frame("main", True), "[short-lived]"))
    recording.write()
    check(recording, reader)


def test_reused_addresses(recording, reader, library):
    """After dlclose() and dlopen(), the second library is at the address of the first."""
    for count, name in ((8, "one"), (4, "two")):
        path = library(name)
        frame = recording.map_elf(Elf(path), 0x7F0000000000, path, path)
        recording.sample(count, (frame(f"{name}_leaf"), f"{name}_leaf"), (frame(f"{name}_entry", True), f"{name}_entry"))
    recording.write()
    check(recording, reader)


def test_part_of_a_segment(recording, reader, build):
    """
    A part of the segment was remapped, for example on huge pages: the rest of the file's mapping does not start at the
    segment's start.
    """
    path = build("padded", '__asm__(".text; .skip 16384");' + PROGRAM, "-fPIE", "-pie")
    elf = Elf(path)
    frame = recording.map_elf(elf, 0x555555554000, path, path)
    fields = recording.lines[0].split("\t")
    skipped = (min(elf.symbols[name][0] for name in ("first", "hot", "main")) - elf.vaddr) // PAGE * PAGE
    fields[1] = f"{int(fields[1], 16) + skipped:x}"
    fields[3] = f"{int(fields[3], 16) + skipped:x}"
    recording.lines[0] = "\t".join(fields)
    assert skipped
    sample_program(recording, frame)
    recording.write()
    check(recording, reader)


def test_code_without_names(recording, reader, build, tmp_path):
    path = build("program", PROGRAM, "-fPIE", "-pie")
    frame = recording.map_elf(Elf(path), 0x555555554000, path, path)
    jit = recording.map(0x7F1000000000, 0x7F1000100000, 0, ANON, 0, "-", "//anon")
    memfd = recording.map(0x7F2000000000, 0x7F2000100000, 0, DISK, 99, "-", "/memfd:code (deleted)")
    main = (frame("main", True), "main")
    recording.sample(6, (f"{jit:x}:7f1000000500", "[anon]"), main)
    recording.sample(2, (f"{jit:x}:7f1000000700", "[anon]"), main)
    recording.sample(1, (frame("hot"), "hot"), (f"{memfd:x}:7f2000000001", "[memfd_code]"), main)
    recording.sample(4, ("1234", "[unknown]"), main)
    recording.sample(3, (frame("cold"), "cold"), ("7f3000000000", "[unknown]"), ("0", "[unknown]"), main)
    recording.write()
    check(recording, reader)
    assert [name.split(".")[0] for name in recording.made()] == ["anon", "memfd_code", "program", "unknown"]


def vdso_functions(path):
    """Returns the vDSO's functions {offset: names}. path: where to write a copy of the vDSO."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        area = re.search(r"^(\w+)-(\w+) .*\[vdso\]$", maps.read(), re.M)
    if not area:
        pytest.skip("no vDSO here")
    start, end = (int(v, 16) for v in area.groups())
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        path.write_bytes(memory.read(end - start))
    functions = collections.defaultdict(set)
    for vaddr, name in re.findall(r"^(\w+) [TW] (\w+)", project.run(["nm", "-D", path]).stdout, re.M):
        functions[int(vaddr, 16)].add(name)
    return functions


def test_vdso(recording, reader, tmp_path):
    number = recording.map(0x7FFFF7FC1000, 0x7FFFF7FC3000, 0, VDSO, 0, "-", "[vdso]")
    functions = vdso_functions(tmp_path / "vdso")
    assert functions
    for count, vaddr in enumerate(functions, 1):
        recording.sample(count, (f"{number:x}:{0x7FFFF7FC1000 + vaddr:x}", min(functions[vaddr])))
    recording.write()
    check(recording, reader)


def kernel_functions(*names):
    with open("/proc/kallsyms", encoding="ascii", errors="replace") as table:
        found = {name: int(address, 16) for address, kind, name in (line.split()[:3] for line in table) if kind in "tT"}
    if not all(found.get(name) for name in names):
        pytest.skip("/proc/kallsyms does not tell the kernel's addresses")
    return [found[name] for name in names]


def test_kernel(recording, reader, build):
    """
    Kernel frames below system calls and faults: the user function was interrupted there, at its first instruction.
    """
    read, write, fault = kernel_functions("vfs_read", "vfs_write", "handle_mm_fault")
    path = build("program", PROGRAM, "-fPIE", "-pie")
    frame = recording.map_elf(Elf(path), 0x555555554000, path, path)
    main = (frame("main", True), "main")
    recording.sample(5, (f"{read + 4:x}", "vfs_read"), (frame("outer"), "outer"), main)
    recording.sample(3, (f"{write:x}", "vfs_write"), (frame("outer"), "outer"), main)
    recording.sample(2, (f"{fault + 8:x}", "handle_mm_fault"), (frame("hot"), "hot"), main)
    recording.sample(1, (f"{read + 4:x}", "vfs_read"), (f"{write + 9:x}", "vfs_write"), (frame("hot"), "hot"), main)
    recording.sample(4, ("fffffffff7ff0000", "[kernel]"), (frame("main"), "main"))
    recording.write()
    check(recording, reader)


def test_one_chain(recording, reader, build):
    path = build("program", PROGRAM, "-fno-pie", "-no-pie")
    frame = recording.map_elf(Elf(path), 0, path, path)
    recording.sample(100, (frame("hot"), "hot"), (frame("outer", True), "outer"), (frame("main", True), "main"))
    recording.write()
    check(recording, reader)


def test_directory_with_a_blank(reader, tmp_path, build):
    recording = Recording(tmp_path / "my recording")
    path = build("program", PROGRAM, "-fPIE", "-pie")
    frame = recording.map_elf(Elf(path), 0x555555554000, path, path)
    number = recording.map(0x7F1000000000, 0x7F1000100000, 0, ANON, 0, "-", "//anon")
    sample_program(recording, frame)
    recording.sample(2, (f"{number:x}:7f1000000500", "[anon]"))
    recording.write()
    check(recording, reader)


def test_renamed_directory(recording, reader, build, tmp_path):
    """A new recording in a directory of the same name is not mistaken for the renamed one."""
    for out in (recording, Recording(tmp_path / "next")):
        path = tmp_path / "lib.so"
        source = LIBRARY % {"n": "first" if out is recording else "second"}
        shutil.copy(build("lib", source, "-shared", "-fPIC"), path)
        name = "first_leaf" if out is recording else "second_leaf"
        frame = out.map_elf(Elf(path), 0x7F0000000000, f"{path} (deleted)", path)
        out.sample(3, (frame(name), name))
        out.write(path.unlink)
    recording.directory.rename(tmp_path / "out.old")
    (tmp_path / "next").rename(recording.directory)
    found = project.run(["google-pprof", "--text", "/bin/true", tmp_path / "out.old" / "test.1.prof"]).stdout
    assert "second_leaf" not in found


@pytest.mark.parametrize("command", [["go", "tool", "pprof", "-callgrind"], ["google-pprof", "--callgrind", "/bin/true"]])
def test_callgrind(command, recording, build):
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]} here")
    path = build("program", PROGRAM, "-fPIE", "-pie")
    sample_program(recording, recording.map_elf(Elf(path), 0x555555554000, path, path))
    number = recording.map(0x7F1000000000, 0x7F1000100000, 0, ANON, 0, "-", "//anon")
    recording.sample(2, (f"{number:x}:7f1000000500", "[anon]"))
    recording.write()
    done = project.run([*command, recording.profile], cwd=recording.directory)
    made = list(recording.directory.glob("*callgrind*"))
    text = made[0].read_text() if made else done.stdout
    named = set(re.findall(r"^c?fn=(?:\(\d+\) )?([^\s(]+)$", text, re.M))
    # google-pprof omits the outermost call of a chain.
    assert named | {"main"} == {"hot", "cold", "outer", "main", "first", "[anon]"}
