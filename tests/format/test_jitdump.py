# SPDX-License-Identifier: BSD-2-Clause
"""jitdumps written by us give perf names, lines and unwinding tables; what JIT runtimes write is read rightly."""
import os
import pathlib
import re
import shutil
import struct

import pytest

import perf_tool
import project

GENERATOR = project.OUTPUT / "tests" / "format" / "jitdump_gen"
PID = 4711
BASE = 0x7F0000000000
CODE = b"\x55" + b"\x90" * 60 + b"\x5d\xc3\x90"

# A recording by hand, as small as perf takes it. Its clock: ns = 5000000 + TSC / 2.
MULT, SHIFT, ZERO = 1 << 20, 21, 5000000
IDS = "<IIQII"


def record(kind, misc, form, *values, name=None, tsc=None):
    body = struct.pack("<" + form, *values)
    if name is not None:
        name = str(name).encode() + b"\0"
        body += name + bytes(-len(name) % 8)
    if tsc is not None:
        body += struct.pack(IDS, PID, PID, ZERO + tsc // 2 if tsc else 0, 0, 0)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def sample(tsc, *addresses):
    chain = [(1 << 64) - 512, *addresses]
    return record(9, 2, f"QIIQIIQQ{len(chain)}Q", addresses[0], PID, PID, ZERO + tsc // 2, 0, 0, 1000000, len(chain), *chain)


def number(path):
    """Of the process of this jitdump: that in its name, cut to 32 bits as perf cuts it."""
    return int(re.search(r"jit-(\d+)\.dump$", str(path))[1]) & 0xFFFFFFFF


def perf_data(path, markers, samples):
    """markers: jitdumps, as the processes of the numbers in their names have mapped them."""
    records = [record(79, 0, "5Q8B", SHIFT, MULT, ZERO, 0, (1 << 64) - 1, 1, *[0] * 7),
               record(3, 0, "II", PID, PID, name="jitted", tsc=0),
               *(record(10, 2, "IIQQQIIQQII", number(m), number(m), 0, 4096, 0, 0, 0, 0, 0, 4, 2, name=m, tsc=10000)
                 for m in markers),
               *samples]
    data = b"".join(records)
    bits = 1 << 8 | 1 << 9 | 1 << 10 | 1 << 13 | 1 << 18 | 1 << 20 | 1 << 23 | 1 << 24
    attr = struct.pack("<IIQQQQQIIQQQQIiQIHH", 1, 112, 0, 1000, 0x1A7, 0, bits, *[0] * 12) + struct.pack("<QQ", 104, 0)
    path.write_bytes(b"PERFILE2" + struct.pack("<12Q", 104, 128, 104, 128, 232, len(data), *[0] * 6) + attr + data)


def describe(path, *rows):
    text = "".join("\t".join(v if isinstance(v, str) else v.hex() if isinstance(v, bytes) else f"{v:x}" for v in row) + "\n" for row in rows)
    done = project.run([GENERATOR, path, f"{PID:x}"], stdin=None, input=text)
    assert done.returncode == 0, done.stderr


@pytest.fixture(**perf_tool.fixture_params())
def perf(request, tmp_path):
    run = perf_tool.Perf(request.param, tmp_path / "home")

    def run_here(*args):
        # Recordings by hand have no kernel, of which perf warns.
        return run(*args, cwd=tmp_path, warnings=args[0] == "report")

    run_here.path = run.path
    return run_here


@pytest.fixture
def injected(perf, tmp_path):
    """injected(rows, samples) -> frames of `perf script` of the samples, a list of (function, offset, line) for each."""
    def inject(rows, samples, images=()):
        dumps = [tmp_path / f"jit-{PID}.dump", *(tmp_path / f"jit-{PID}{number:09}.dump" for number in range(1, len(images) + 1))]
        for dump, of_image in zip(dumps, [rows, *images]):
            describe(dump, *of_image)
        perf_data(tmp_path / "perf.data", dumps, samples)
        assert perf("inject", "--jit", "-i", "perf.data", "-o", "out.data") == ""
        text = perf("script", "-i", "out.data", "-F", "time,ip,sym,symoff,srcline")
        # "  85 hot+0x5" and, where there is one, "  hot.js:20" below
        chains = []
        for block in text.strip().split("\n\n"):
            chains.append([])
            for line in block.splitlines()[1:]:
                if frame := re.match(r"\s+[0-9a-f]+ (.+)$", line):
                    name, _, offset = frame[1].rpartition("+0x")
                    chains[-1].append([name, int(offset, 16), ""] if name else [frame[1], 0, ""])
                elif line.strip():
                    chains[-1][-1][2] = line.strip()
        return chains
    return inject


def test_names(injected, perf):
    """The function that was at an address when the sample was taken; a move, and other code at the old place."""
    rows = [("load", 1000, 1, BASE, "LazyCompile:*first /x.js:1:1", CODE),
            ("load", 1000, 2, BASE + 0x100, "Größe", CODE),
            ("move", 3000, 1, BASE, BASE + 0x1000, len(CODE)),
            ("load", 4000, 3, BASE, "third", CODE),
            ("close", 9000)]
    samples = [sample(2000, BASE + 5, BASE + 0x110), sample(3500, BASE + 0x1005), sample(5000, BASE + 7, BASE + 0x1006)]
    chains = injected(rows, samples)
    first, second = "LazyCompile:*first /x.js:1:1", "Größe"
    assert [[(name, offset) for name, offset, _ in chain] for chain in chains] == [
        [(first, 5), (second, 16)], [(first, 5)], [("third", 7), (first, 6)]]
    report = perf("report", "-i", "out.data", "--stdio", "--no-children", "-g", "none", "-F", "sample,sym")
    counted = {name.strip(): int(count) for count, name in re.findall(r"^ +(\d+) +\[\.\] (.+)$", report, re.M)}
    assert counted == {first: 2, "third": 1}


def test_images(injected):
    """Programs that ran one after the other under one number: a file for each, whose codes have numbers of their own."""
    first = [("load", 1000, 0, BASE, "first", CODE), ("close", 2900)]
    second = [("load", 3000, 1 << 20, BASE, "second", CODE), ("close", 9000)]
    chains = injected(first, [sample(2000, BASE + 5), sample(5000, BASE + 7)], [second])
    assert [[(name, offset) for name, offset, _ in chain] for chain in chains] == [[("first", 5)], [("second", 7)]]


def test_lines(injected, perf, tmp_path):
    """Lines hold from their address on; the entry at the function's end gives the last one its extent."""
    source = tmp_path / "hot.js"
    source.write_text("".join(f"line {i}\n" for i in range(1, 40)))
    rows = [("debug", 1000, BASE, *(v for address, number in ((0, 10), (16, 20), (32, 30), (len(CODE), 30)) for v in (BASE + address, number, str(source)))),
            ("load", 1000, 1, BASE, "hot", CODE),
            ("load", 1000, 2, BASE + 0x100, "cold", CODE)]
    chains = injected(rows, [sample(2000 + at, BASE + at) for at in (0, 15, 16, 31, 32, 61, 0x101)])
    *hot, cold = [line for ((_, _, line),) in chains]
    assert hot == [f"hot.js:{n}" for n in (10, 10, 20, 20, 30, 30)] and "hot.js" not in cold
    annotated = perf("annotate", "-i", "out.data", "--stdio", "-l", "-s", "hot")
    assert re.search(r"hot\.js:10\b", annotated) and re.search(r"\bret\b", annotated), annotated


def eh_frame(size):
    """.eh_frame and its header for code of so many bytes, at the places at which perf puts them. push; ...; pop; ret."""
    at = (size + 7) & -8
    cie = struct.pack("<IIB3sBBBBB", 20, 0, 1, b"zR\0", 1, 0x78, 16, 1, 0x1B) + b"\x0c\x07\x08\x90\x01" + bytes(2)
    program = b"\x41\x0e\x10\x86\x02" + b"\x7d\x0c\x07\x08"
    fde_at = at + len(cie)
    fde = struct.pack("<IIiIB", 24, len(cie) + 4, -(fde_at + 8), size, 0) + program
    fde += bytes(28 - len(fde))
    frame = cie + fde + bytes(4)
    header_at = at + len(frame)
    return frame, b"\x01\x1b\x03\x3b" + struct.pack("<iIii", at - (header_at + 4), 1, -header_at, fde_at - header_at)


def test_unwinding_info(injected, tmp_path):
    frame, header = eh_frame(len(CODE))
    rows = [("unwind", 1000, len(frame + header), frame, header), ("load", 1000, 1, BASE, "hot", CODE),
            ("load", 1000, 2, BASE + 0x1000, "cold", CODE)]
    assert [[name for name, _, _ in chain] for chain in injected(rows, [sample(2000, BASE + 5), sample(2001, BASE + 0x1005)])] == [["hot"], ["cold"]]
    image = tmp_path / f"jitted-{PID}-1.so"
    ((text_at, text_bytes),) = re.findall(r"\.text +PROGBITS +(\w+) \w+ (\w+)", project.run(["readelf", "-SW", image]).stdout)
    text_at, text_bytes = int(text_at, 16), int(text_bytes, 16)
    assert text_bytes == len(CODE)
    # readelf and gdb's way, and the lookup table that perf's unwinders use
    frames = project.run(["readelf", "--debug-dump=frames-interp", image])
    assert frames.stderr == "" and f"pc={text_at:016x}..{text_at + len(CODE):016x}" in frames.stdout
    assert re.search(rf"^{text_at + 1:016x} rsp\+16 +c-16 +c-8", frames.stdout, re.M), frames.stdout
    sections = dict(re.findall(r"\] (\.eh_frame\w*) +PROGBITS +(\w+)", project.run(["readelf", "-SW", image]).stdout))
    frame_at, header_at = int(sections[".eh_frame"], 16), int(sections[".eh_frame_hdr"], 16)
    data = image.read_bytes()
    pointer, count, location, entry = struct.unpack_from("<iIii", data, header_at + 4)
    assert (header_at + 4 + pointer, count, header_at + location, header_at + entry) == (frame_at, 1, text_at, frame_at + 24)
    assert ".eh_frame" not in project.run(["readelf", "-SW", tmp_path / f"jitted-{PID}-2.so"]).stdout


FUNCTIONS = r"""
#include <string>
#include <vector>
struct Guard { std::vector<int> &v; ~Guard() { v.clear(); } };
extern "C" __attribute__((noinline)) int thrower(int n) { if (n > 3) throw n; return n; }
extern "C" __attribute__((noinline)) int catcher(int n) { std::vector<int> v(n); Guard g{v}; try { return thrower(n); } catch (int e) { return e; } }
extern "C" __attribute__((noinline)) int aligned(int n) { alignas(64) char a[256]; for (auto &c : a) c = n++; __builtin_memset(a + n % 9, 1, n % 7); return a[n % 256]; }
extern "C" __attribute__((noinline)) int variable(int n) { char *a = (char *)__builtin_alloca(n); __builtin_memset(a, n, n); return a[n / 2] + catcher(n); }
extern "C" __attribute__((noinline)) int leaf(int n) { return n * 3; }
"""


def rows_of(text, start):
    """{offset in the function: rules} of the entry of `readelf --debug-dump=frames-interp` for the function there."""
    for entry in re.split(r"\n\n", text):
        if f"pc={start:016x}.." in entry:
            lines = [line.split() for line in entry.splitlines()]
            names = next(line for line in lines if line[:1] == ["LOC"] or line is lines[-1])[1:]
            return {int(line[0], 16) - start: dict(zip(names, line[1:])) for line in lines if re.fullmatch(r"[0-9a-f]{16}", line[0] if line else "")}
    return None


def test_unwinding_of_compilers(injected, tmp_path):
    """What gcc has in .eh_frame, laid out for single functions: each of perf's images unwinds as the library does."""
    (tmp_path / "functions.cpp").write_text(FUNCTIONS)
    library = tmp_path / "functions.so"
    made = project.run(["g++", "-O2", "-shared", "-fPIC", tmp_path / "functions.cpp", "-o", library])
    assert made.returncode == 0, made.stderr
    names = ("thrower", "catcher", "aligned", "variable", "leaf")
    found = {name: (int(at, 16), int(size, 16)) for at, size, name in re.findall(r"^(\w+) (\w+) T (\w+)$", project.run(["nm", "-S", library]).stdout, re.M) if name in names}
    assert set(found) == set(names)
    at, = re.findall(r"\] \.eh_frame +PROGBITS +(\w+)", project.run(["readelf", "-SW", library]).stdout)
    for name in (".eh_frame", ".text"):
        project.run(["objcopy", "-O", "binary", "-j", name, library, tmp_path / name[1:]])
    laid = project.run([project.OUTPUT / "tests" / "format" / "eh_frame_gen", tmp_path / "eh_frame", at], stdin=None,
                     input="".join(f"{start:x} {size:x}\n" for start, size in found.values())).stdout.splitlines()
    rows = []
    for index, ((name, (start, size)), line) in enumerate(zip(found.items(), laid)):
        frame, header = line.split()
        rows += [("unwind", 1000, 0, frame, header), ("load", 1000, index, BASE + start, name, b"\x90" * size)]
    injected(rows, [sample(2000, BASE + found["leaf"][0])])
    wanted = project.run(["readelf", "--debug-dump=frames-interp", library]).stdout
    for index, (name, (start, size)) in enumerate(found.items()):
        done = project.run(["readelf", "--debug-dump=frames-interp", tmp_path / f"jitted-{PID}-{index}.so"])
        rows = rows_of(done.stdout, 0x80)
        assert rows == rows_of(wanted, start) and done.stderr == "" and (rows or name == "leaf"), name


def test_code_bytes(injected, tmp_path):
    """The code that perf annotates is the code that was dumped, also of one function that fills pages."""
    long = bytes(range(256)) * 1000
    injected([("load", 1000, 1, BASE, "hot", CODE), ("load", 1000, 2, BASE + 0x1000, "long", long)], [sample(2000, BASE + 5)])
    for index, code in ((1, CODE), (2, long)):
        image = tmp_path / f"jitted-{PID}-{index}.so"
        project.run(["objcopy", "-O", "binary", "-j", ".text", image, tmp_path / "text"])
        assert (tmp_path / "text").read_bytes() == code


def test_version_of_the_specification(xprof, perf, tmp_path):
    """perf rejects version 2, and check says so."""
    dump = tmp_path / f"jit-{PID}.dump"
    describe(dump, ("load", 1000, 1, BASE, "hot", CODE))
    data = dump.read_bytes()
    dump.write_bytes(data[:4] + struct.pack("<I", 2) + data[8:])
    checked = xprof.check(dump)
    assert checked.returncode == 1 and "0x4: perf inject: The version is 2" in checked.stdout
    perf_data(tmp_path / "perf.data", [dump], [sample(2000, BASE)])
    done = project.run([perf.path, "inject", "--jit", "-i", "perf.data", "-o", "out.data"], cwd=tmp_path)
    assert "wrong jitdump version 2" in done.stderr


# What runtimes write themselves.

JS = """
function hot(n) { let s = 0; for (let i = 0; i < n; i++) { s = (s * 31 + i) % 1000003; } return s; }
const end = Date.now() + 300; let x = 0;
while (Date.now() < end) x += hot(10000);
"""
PHP = """<?php function hot($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s = ($s * 31 + $i) % 1000003; } return $s; }
for ($i = 0; $i < 100; $i++) hot(10000);
"""
PYTHON = "def hot(n): return sum(i * i for i in range(n))\nfor _ in range(10): hot(1000)\n"


def runtime_dump(start, argv, cwd, places, **environment):
    """The jitdump that a process leaves, None when it leaves none. It is removed where it is not ours."""
    process = start(argv, cwd=cwd, env={**os.environ, **environment})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    for place in places:
        for path in pathlib.Path(place).glob(f"**/jit-{process.pid}.dump" if place == cwd else f"jit-{process.pid}.dump"):
            content = path.read_bytes()
            path.unlink()
            pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
            kept = cwd / "runtime.dump"
            kept.write_bytes(content)
            return kept
    return None


def loads(xprof, dump):
    """{name: (address, size)} of what the strict reader prints, which must be all of the file."""
    done = xprof.dump(dump)
    assert done.returncode == 0, done.stderr
    content, last = dump.read_bytes(), re.findall(r"^0x(\w+) +\d+ \w+", done.stdout, re.M)[-1]
    assert int(last, 16) + struct.unpack_from("<I", content, int(last, 16) + 4)[0] == len(content)
    return {name: (int(address, 16), int(size)) for address, size, name in re.findall(r" load \d+/\d+ code \d+ at (\w+) (\d+) bytes (.*)$", done.stdout, re.M)}


def test_node(xprof, start, tmp_path):
    if not shutil.which("node"):
        pytest.skip("no node here")
    (tmp_path / "hot.js").write_text(JS)
    dump = runtime_dump(start, ["node", "--perf-prof", "--perf-prof-unwinding-info", "hot.js"], tmp_path, [tmp_path])
    found = loads(xprof, dump)
    assert len(found) > 500 and any(re.search(r"hot\.js|hot", name) for name in found)
    printed = xprof.dump(dump).stdout
    assert "the header last, " in printed
    assert re.search(r" debug of 0x\w+, \d+ lines\n +0x\w+ node:internal/\S+:\d+", printed)
    checked = xprof.check(dump)
    # The names of scripts have zero bytes in them in some versions of V8, which perf cannot know either.
    assert checked.returncode == 0 or "bytes after its lines" in checked.stdout, checked.stdout


LLVM = r"""
volatile int sink;
__attribute__((noinline)) int hot(int n)
{
	for (int i = 0; i < n; i++)
		sink += i;
	return sink;
}
int main(void) { return hot(1000) & 0; }
"""


@pytest.mark.parametrize("version", [v for v in (14, 19) if shutil.which(f"lli-{v}") and shutil.which(f"clang-{v}")] or [None])
def test_llvm(xprof, start, tmp_path, version):
    if not version:
        pytest.skip("no lli here")
    (tmp_path / "hot.c").write_text(LLVM)
    made = project.run([f"clang-{version}", "-O1", "-g", "-S", "-emit-llvm", "hot.c", "-o", "hot.ll"], cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    # The older engine of LLVM, which tells perf of its code where the listener was built.
    dump = runtime_dump(start, [f"lli-{version}", "-jit-kind=mcjit", "hot.ll"], tmp_path, [tmp_path], JITDUMPDIR=str(tmp_path))
    if not dump:
        pytest.skip(f"this LLVM {version} was built without its listener for perf")
    found = loads(xprof, dump)
    assert set(found) == {"hot", "main"}
    checked = xprof.check(dump)
    assert checked.returncode == 0 and "2 functions of " in checked.stdout and " 2 with lines" in checked.stdout, checked.stdout
    # LLVM's addresses of lines are those of perf's images of the time, whose code was behind 64 bytes.
    assert f"0x{found['hot'][0] + 64:x} {tmp_path}/hot.c:4\n" in xprof.dump(dump).stdout


def test_php(xprof, start, tmp_path):
    if not shutil.which("php") or "OPcache" not in project.run(["php", "-m"]).stdout:
        pytest.skip("no PHP with OPcache here")
    (tmp_path / "hot.php").write_text(PHP)
    argv = ["php", "-d", "opcache.enable_cli=1", "-d", "opcache.jit=tracing", "-d", "opcache.jit_buffer_size=16M", "-d", "opcache.jit_debug=0x20", "hot.php"]
    dump = runtime_dump(start, argv, tmp_path, ["/tmp", tmp_path])
    assert any("hot" in name for name in loads(xprof, dump))
    checked = xprof.check(dump)
    assert checked.returncode == 0 and checked.stdout.strip().endswith("closed"), checked.stdout


def pythons():
    """Pythons that can write jitdumps: 3.13 or later, on a machine of which they know how."""
    knows = "import sys, sysconfig; sys.exit(not (sys.version_info >= (3, 13) and sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE')))"
    found = [path for path in map(shutil.which, ("python3.14", "python3.13", "python3")) if path]
    return [path for path in found if project.run([path, "-c", knows]).returncode == 0]


def test_cpython(xprof, start, tmp_path):
    if not pythons():
        pytest.skip("no CPython of version 3.13 or later here")
    (tmp_path / "hot.py").write_text(PYTHON)
    dump = runtime_dump(start, [pythons()[0], "-X", "perf_jit", "hot.py"], tmp_path, ["/tmp"])
    assert any(re.match(r"py::hot:.*hot\.py", name) for name in loads(xprof, dump))
    checked = xprof.check(dump)
    assert checked.returncode == 0, checked.stdout
    assert re.search(r"ok, jitdump of pid \d+: (\d+) functions of .* \1 with unwinding data", checked.stdout)


def test_cut_off(xprof, tmp_path):
    """A file that its runtime is still writing: what is whole is printed, and then said what is not."""
    dump = tmp_path / "jit-1.dump"
    describe(dump, ("load", 1000, 1, BASE, "hot", CODE), ("load", 2000, 2, BASE, "cold", CODE))
    whole = dump.read_bytes()
    end = 40 + 56 + 4 + len(CODE)
    for size in range(41, len(whole)):
        dump.write_bytes(whole[:size])
        done = xprof.dump(dump)
        if size == end:
            assert done.returncode == 0
            continue
        assert done.returncode == 1 and "The file ends inside a" in done.stderr, size
        assert (" hot\n" in done.stdout) == (size > end) and " cold\n" not in done.stdout
