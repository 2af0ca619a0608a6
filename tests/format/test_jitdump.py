# SPDX-License-Identifier: BSD-2-Clause
"""perf gets names and lines from jitdumps of xprof; xprof reads jitdumps of JIT runtimes correctly."""
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

# A hand-made recording, as small as perf accepts. Its clock: ns = 5000000 + TSC / 2.
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
    """Returns the process of a jitdump: the number in its name, cut to 32 bits as in perf."""
    return int(re.search(r"jit-(\d+)\.dump$", str(path))[1]) & 0xFFFFFFFF


def perf_data(path, markers, samples):
    """Makes a perf.data. markers: jitdumps, mapped by the processes in their names."""
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
        # Hand-made recordings have no kernel mapping, so perf prints a warning.
        return run(*args, cwd=tmp_path, warnings=args[0] == "report")

    run_here.path = run.path
    return run_here


@pytest.fixture
def injected(perf, tmp_path):
    """
    Runs perf inject: injected(rows, samples) -> for each sample the frames of `perf script` as [(function, offset,
    line)].
    """
    def inject(rows, samples, images=()):
        dumps = [tmp_path / f"jit-{PID}.dump", *(tmp_path / f"jit-{PID}{number:09}.dump" for number in range(1, len(images) + 1))]
        for dump, of_image in zip(dumps, [rows, *images]):
            describe(dump, *of_image)
        perf_data(tmp_path / "perf.data", dumps, samples)
        assert perf("inject", "--jit", "-i", "perf.data", "-o", "out.data") == ""
        text = perf("script", "-i", "out.data", "-F", "time,ip,sym,symoff,srcline")
        # "  85 hot+0x5", sometimes followed by "  hot.js:20"
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
    """
    A sample gets the function that was at its address at its time, also after a move, and after other code replaced it.
    """
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
    """Programs that ran one after the other with the same PID have a file each, with their own code indexes."""
    first = [("load", 1000, 0, BASE, "first", CODE), ("close", 2900)]
    second = [("load", 3000, 1 << 20, BASE, "second", CODE), ("close", 9000)]
    chains = injected(first, [sample(2000, BASE + 5), sample(5000, BASE + 7)], [second])
    assert [[(name, offset) for name, offset, _ in chain] for chain in chains] == [[("first", 5)], [("second", 7)]]


def test_lines(injected, perf, tmp_path):
    """A line applies from its address on. The entry at the end of the function ends the last line."""
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


def test_code_bytes(injected, tmp_path):
    """perf annotates the code that was dumped, also a function that fills pages."""
    long = bytes(range(256)) * 1000
    injected([("load", 1000, 1, BASE, "hot", CODE), ("load", 1000, 2, BASE + 0x1000, "long", long)], [sample(2000, BASE + 5)])
    for index, code in ((1, CODE), (2, long)):
        image = tmp_path / f"jitted-{PID}-{index}.so"
        project.run(["objcopy", "-O", "binary", "-j", ".text", image, tmp_path / "text"])
        assert (tmp_path / "text").read_bytes() == code


def test_version_of_the_specification(xprof, perf, tmp_path):
    """perf rejects version 2, and check reports that."""
    dump = tmp_path / f"jit-{PID}.dump"
    describe(dump, ("load", 1000, 1, BASE, "hot", CODE))
    data = dump.read_bytes()
    dump.write_bytes(data[:4] + struct.pack("<I", 2) + data[8:])
    checked = xprof.check(dump)
    assert checked.returncode == 1 and "0x4: perf inject: The version is 2" in checked.stdout
    perf_data(tmp_path / "perf.data", [dump], [sample(2000, BASE)])
    done = project.run([perf.path, "inject", "--jit", "-i", "perf.data", "-o", "out.data"], cwd=tmp_path)
    assert "wrong jitdump version 2" in done.stderr


# Jitdumps written by runtimes.

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
    """Returns the jitdump that a process writes, or None. Removes a jitdump outside of the test's directory."""
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
    """Returns {name: (address, size)} from the output of the strict dumper, which must cover the whole file."""
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
    # Some versions of V8 put zero bytes into names of scripts; perf cannot read these, either.
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
    # LLVM's older engine, which writes jitdumps if it was built with perf's listener.
    dump = runtime_dump(start, [f"lli-{version}", "-jit-kind=mcjit", "hot.ll"], tmp_path, [tmp_path], JITDUMPDIR=str(tmp_path))
    if not dump:
        pytest.skip(f"this LLVM {version} was built without its listener for perf")
    found = loads(xprof, dump)
    assert set(found) == {"hot", "main"}
    checked = xprof.check(dump)
    assert checked.returncode == 0 and "2 functions of " in checked.stdout and " 2 with lines" in checked.stdout, checked.stdout
    # LLVM's line addresses are for older perf, whose images had the code after 64 bytes.
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
    """Returns the Pythons that can write jitdumps: 3.13 or later, on a supported machine."""
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
    """A runtime is still writing the file: complete records are printed, then a message reports the incomplete one."""
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
