# SPDX-License-Identifier: BSD-2-Clause
"""perf.data: perf shows what xprof writes, without a warning."""
import re
import shutil
import struct

import pytest

import hand_made
import perf_tool
import project

GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
HZ = 2_000_000_000
TSC, NS = 10**15, 5_000_000_000  # of the same moment
SECOND = HZ  # in ticks
# Above the kernel's PID_MAX_LIMIT: perf looks into the mount namespace of a process that is there now.
PROG, SHELL, CHILD = 5_000_007, 5_000_010, 5_000_011

SOURCE = r"""
#define F __attribute__((noinline))
volatile int sink;
F int hot(int a) { for (int i = 0; i < a; i++) sink += i; return sink; }
F int cold(int a) { for (int i = 0; i < a; i++) sink -= i; return sink; }
F int outer(int a) { return hot(a) + cold(a); }
F int after(void) { return sink + 1; }
int main(int argc, char **argv) { (void)argv; return outer(argc) + after(); }
"""
FLAGS = {"pie": ["-fPIE", "-pie"], "no-pie": ["-fno-pie", "-no-pie"], "lld": ["-fPIE", "-pie", "-fuse-ld=lld"]}
BASE = 0x555555554000


@pytest.fixture(**perf_tool.fixture_params())
def perf(request, tmp_path):
    return perf_tool.Perf(request.param, tmp_path / "home")


@pytest.fixture
def build(program):
    def build_one(variant="pie", text=SOURCE):
        if variant == "lld" and not shutil.which("ld.lld"):
            pytest.skip("no ld.lld here")
        return program.text(f"perfdata-{variant}", text, "-g", "-O1", "-Wl,--build-id=sha1", *FLAGS[variant],
                            instrument=False)

    return build_one


class Image:
    """A program as a process maps it."""

    def __init__(self, path, build_id=None):
        self.path, self.build_id = path, build_id or perf_tool.build_id(path)
        headers = project.run(["readelf", "-hlW", path]).stdout
        self.bias = BASE if re.search(r"Type:\s+DYN", headers) else 0
        offset, vaddr, size = re.search(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+ R E", headers).groups()
        page = int(vaddr, 16) & -4096
        self.start, self.offset = self.bias + page, int(offset, 16) & -4096
        self.bytes = (int(vaddr, 16) + int(size, 16) - page + 4095) & -4096
        self.symbols = hand_made.symbols(path)

    def at(self, name, offset=4):
        return f"{self.bias + self.symbols[name] + offset:x}"

    def map(self, tsc, pid, tid=None, path=None):
        return ["map", tsc, pid, tid or pid, f"{self.start:x}", f"{self.bytes:x}", f"{self.offset:x}",
                self.build_id or "-", path or self.path]

    def chain(self, *names):
        return [self.at(name) for name in names]


def user(tsc, pid, tid, cpu, chain):
    return ["sample", tsc, pid, tid, cpu, 0, *chain]


@pytest.fixture
def write(tmp_path, xprof):
    """Returns write([[field, ...], ...]), which returns a path. perf always warns if the kernel's mapping is missing."""

    def write_one(lines, late_ns=10**9, level=1, *more):
        path, source = tmp_path / "perf.data", tmp_path / "in"
        if not any(line[0] == "kernel" for line in lines):
            lines = [["kernel", "ffffffff81000000", "1000000"], *lines]
        source.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
        with source.open() as stdin:
            done = project.run([GENERATOR, path, late_ns, HZ, TSC, NS, level, *more], stdin=stdin)
        assert done.returncode == 0, done.stderr
        checked = xprof.check(path)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        return path

    return write_one


def usual(image):
    """A process of two threads that was there before; 1000 samples, in order of time."""
    lines = [["comm", 0, 4001, 4001, "prog"], image.map(0, 4001), ["comm", TSC, 4001, 4002, "a worker"]]
    for i in range(1000):
        tsc = TSC + i * HZ // 1000
        if i % 10 < 7:
            lines.append(user(tsc, 4001, 4001, i % 2, image.chain("hot", "outer", "main")))
        else:
            lines.append(user(tsc, 4001, 4002, 3, image.chain("cold", "outer", "main")))
    return lines


@pytest.mark.parametrize("variant", FLAGS)
def test_shares(perf, write, build, variant):
    image = Image(build(variant))
    path, name = write(usual(image)), image.path.name
    assert perf.report(path, "comm", "dso", "sym") == {("prog", name, "hot"): 700, ("a worker", name, "cold"): 300}
    assert perf.report(path, "sym", children=True) == pytest.approx(
        {("hot",): 0.7, ("cold",): 0.3, ("outer",): 1, ("main",): 1})
    assert perf.report(path, "pid") == {("4001:prog",): 700, ("4002:a worker",): 300}


@pytest.mark.parametrize("level", [0, 1])
def test_waits(perf, xprof, write, build, level):
    """A second event, as of `perf record --off-cpu`; each of its samples stands for four waits of 2 ms."""
    image = Image(build())
    lines = usual(image)
    for i in range(100):
        lines.append(["wait", TSC + i * HZ // 100, 4001, 4002, 3, 0, *image.chain("cold", "outer", "main")])
    path = write(lines, 10**9, level, "waits")
    assert perf("evlist", "-i", path).split() == ["cpu-clock", "offcpu-time"]
    events = perf("script", "-i", path, "-F", "tid,period,event,sym", "-G")
    assert len(re.findall(r"4002 +8000000 +offcpu-time:", events)) == 100, events[:1000]
    assert len(re.findall(r"4001 +1000000 +cpu-clock:", events)) == 700
    shown = perf("report", "-i", path, "--stdio", "-g", "none", "-s", "sym", "-t", ",", "-n")
    by_event = re.findall(r"of event '(\S+)'\n# Event count \(approx\.\): (\d+)", shown)
    assert by_event == [("cpu-clock", str(10**9)), ("offcpu-time", str(800 * 10**6))], shown
    dumped = xprof.dump(path).stdout
    assert dumped.count('lock blocked 1500000 runnable 500000 chance 16384/65536 syscall 202 waker 9/10 "a waker"') == 100


def test_script(perf, write, build):
    image = Image(build())
    samples = perf.script(write(usual(image)))
    assert [s.time_ns for s in samples] == [NS + i * 1_000_000 for i in range(1000)]
    for i in 0, 5, 9, 999:
        s = samples[i]
        worker = i % 10 >= 7
        assert (s.pid, s.tid, s.comm) == ((4001, 4002, "a worker") if worker else (4001, 4001, "prog"))
        assert (s.cpu, s.period, s.event) == (3 if worker else i % 2, 1000000, "cpu-clock")
        assert s.names == ["cold" if worker else "hot", "outer", "main"]
        assert s.objects == [str(image.path)] * 3


def test_annotate(perf, write, build):
    image = Image(build())
    text = perf("annotate", "-i", write(usual(image)), "--stdio", "-s", "hot")
    assert "(700 samples" in text
    assert re.search(r"^ *100\.00 .*:", text, re.M), text
    assert "sink += i" in text  # the source, by DWARF


def test_processes(perf, write, build):
    """A process has a name before and after an exec. A child has its parent's mappings, or mappings of its own."""
    image = Image(build())
    chain = image.chain("hot", "main")
    path = write([
        ["comm", TSC, SHELL, SHELL, "sh"], image.map(TSC, SHELL), user(TSC + 1000, SHELL, SHELL, 0, chain),
        ["fork", TSC + 2000, TSC + 2000, CHILD, CHILD, SHELL, 1], user(TSC + 3000, CHILD, CHILD, 0, chain),
        ["exec", TSC + 4000, CHILD, CHILD, "new"], user(TSC + 5000, CHILD, CHILD, 0, chain),
        ["exit", TSC + 6000, CHILD, CHILD, SHELL],
        ["fork", TSC + 7000, TSC + 6500, CHILD, CHILD, SHELL, 0], ["comm", TSC + 7000, CHILD, CHILD, "third"],
        user(TSC + 7000, CHILD, CHILD, 0, chain),
        ["comm", TSC + 8000, SHELL, SHELL, "renamed"], user(TSC + 9000, SHELL, SHELL, 0, chain)])
    found = [(s.comm, s.pid, s.names[0]) for s in perf.script(path)]
    assert found == [("sh", SHELL, "hot"), ("sh", CHILD, "hot"), ("new", CHILD, "hot"), ("third", CHILD, "[unknown]"),
                     ("renamed", SHELL, "hot")]
    events = perf("script", "-i", path, "--show-task-events")
    for event in (f"PERF_RECORD_FORK({CHILD}:{CHILD}):({SHELL}:{SHELL})", f"COMM exec: new:{CHILD}/{CHILD}",
                  f"PERF_RECORD_EXIT({CHILD}:{CHILD}):({SHELL}:{SHELL})"):
        assert event in events


def test_kernel(perf, write, build):
    symbols = perf_tool.kernel_symbols()
    build_id = perf_tool.kernel_build_id()
    if not {"_text", "_etext", "vfs_read", "do_syscall_64"} <= symbols.keys() or not build_id:
        pytest.skip("this kernel hides its symbols or has no build id")
    image = Image(build())
    lines = [
        ["buildid", build_id, "[kernel.kallsyms]"],
        ["kernel", f"{symbols['_text']:x}", f"{symbols['_etext'] - symbols['_text']:x}"],
        ["module", "ffffffffff000000", "10000", "[made_up]"],
        ["comm", TSC, PROG, PROG, "prog"], image.map(TSC, PROG)]
    kernel = [f"{symbols[name] + 4:x}" for name in ("vfs_read", "do_syscall_64")]
    for i in range(90):
        lines.append(["sample", TSC + 1000 * i, PROG, PROG, 0, 2, *kernel, *image.chain("outer", "main")])
    for i in range(10):
        lines.append(["sample", TSC + 100000 + i, 2, 2, 0, 1, "ffffffffff001000"])
    path = write(lines)
    assert perf.report(path, "dso") == {("[kernel.kallsyms]",): 90, ("[made_up]",): 10}
    assert perf.script(path)[0].names == ["vfs_read", "do_syscall_64", "outer", "main"]
    assert build_id in perf("buildid-list", "-i", path)


def test_module(perf, write, tmp_path):
    """Named by its file; a .ko is an object file whose text is loaded at the module's address."""
    source, module = tmp_path / "module.c", tmp_path / "made-up.ko"
    source.write_text("int first(int a) { return a + 1; }\nint module_read(int a) { return a * 3; }\n")
    assert project.run([project.CLANG, "-c", source, "-o", module]).returncode == 0
    at = 0xFFFFFFFFC0001000
    address = at + hand_made.symbols(module)["module_read"] + 2
    path = write([
        ["kernel", "ffffffff81000000", "3f000000"], ["module", f"{at:x}", "4000", module],
        ["comm", TSC, PROG, PROG, "prog"],
        *[["sample", TSC + i, PROG, PROG, 0, 1, f"{address:x}"] for i in range(9)]])
    assert perf.report(path, "dso", "sym") == {("[made_up]", "module_read"): 9}


def test_build_id(perf, write, build, tmp_path):
    """perf takes no names from a binary that was replaced. Its cache has the names of the binary that ran."""
    ran = Image(build())
    place = tmp_path / "program"
    lines = [["comm", TSC, PROG, PROG, "prog"], ran.map(TSC, PROG, path=place),
             user(TSC + 1, PROG, PROG, 0, ran.chain("hot", "main"))]
    path = write(lines)
    shutil.copy(ran.path, place)
    assert perf.script(path)[0].names == ["hot", "main"]
    shutil.copy(build("pie", SOURCE.replace("hot", "other_name")), place)
    assert perf.script(path)[0].names == ["[unknown]", "[unknown]"]
    place.unlink()
    assert perf.script(path)[0].names == ["[unknown]", "[unknown]"]
    perf.cache("--add", ran.path)
    assert perf.script(path)[0].names == ["hot", "main"]


def test_no_build_id(perf, write, build):
    image = Image(build())
    image.build_id = None
    assert perf.report(write(usual(image)), "sym") == {("hot",): 700, ("cold",): 300}


def test_order(perf, write, build):
    """Records are late, over many rounds: perf sorts them without a warning."""
    image = Image(build())
    lines = [["comm", 0, PROG, PROG, "prog"], image.map(0, PROG)]
    for i in range(300):
        late = SECOND * 9 // 10 if i % 7 == 3 else 0
        lines.append(user(TSC + i * SECOND // 10 + SECOND - late, PROG, PROG, 0, image.chain("hot")))
    samples = perf.script(write(lines))
    times = [s.time_ns for s in samples]
    assert len(times) == 300 and times == sorted(times)
    assert all(s.names == ["hot"] for s in samples)


def test_cut_off(perf, write, build):
    """After a crash, perf reads the records that were written before."""
    image = Image(build())
    samples = usual(image)[3:]
    path = write([*usual(image), ["sync"], *samples, ["sync"], *samples, ["cut"]])
    found = perf.script(path)
    assert len(found) == 2000
    assert found[0].names == ["hot", "outer", "main"]
    assert perf.report(path, "sym") == {("hot",): 1400, ("cold",): 600}


def test_compression(perf, write, build, xprof):
    """The same to perf and to xprof, whether samples are compressed or not, or the last half is, and much smaller."""
    lines = usual(Image(build()))
    seen = []
    for level, least, most in (0, 80_000, 100_000), (1, 0, 25_000), (19, 0, 25_000), ("1@40000", 40_000, 65_000):
        path = write(lines, level=level)
        dumped = xprof.dump(path).stdout
        samples = [line.split(maxsplit=1)[1] for line in dumped.splitlines() if " SAMPLE ip " in line]
        seen.append((perf("script", "-i", path), samples))
        assert (" COMPRESSED " in dumped) == (level != 0)
        assert len(samples) == 1000 and least < path.stat().st_size < most
    assert seen[1:] == seen[:1] * 3


def test_deep_chains(perf, write, build):
    image = Image(build())
    path = write([["comm", 0, PROG, PROG, "prog"], image.map(0, PROG),
                  user(TSC, PROG, PROG, 0, image.chain(*["hot"] * 4090, "main"))])
    assert len(perf.script(path)[0].names) == 127  # kernel.perf_event_max_stack, from the leaf on
    assert perf.report(path, "sym", children=True, args=["--max-stack", "5000"]) == {("hot",): 1, ("main",): 1}


def test_header(perf, write, build):
    text = perf("report", "-i", write(usual(Image(build()))), "--header-only")
    for line in (
        "# hostname : the-host", "# os release : 6.7.8-made-up", "# perf version : xprof 9.9", "# arch : x86_64",
        "# nrcpus online : 3", "# nrcpus avail : 4", "# cpudesc : A made up CPU", "# total memory : 123456 kB",
        "# cmdline : xprof record a b", "# time of first sample : 5.000000", "# time of last sample : 5.999000",
        "# clockid: monotonic (1)",
        "# reference time: 2023-11-14 22:13:20.000000 = 1700000000.000000 (TOD) = 5.000000000 (monotonic)",
    ):
        assert line in text
    assert "name = cpu-clock" in text


class Jitdump:
    """A jitdump of code at one address; each function replaces the one before."""

    CODE = b"\x90" * 63 + b"\xc3"

    def __init__(self, path, pid, stamp, arch):
        self.path, self.pid, self.index = path, pid, 0
        path.write_bytes(struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, pid, stamp, arch))

    def load(self, stamp, address, name):
        text = name.encode() + b"\0"
        size = 16 + 40 + len(text) + len(self.CODE)
        with self.path.open("ab") as out:
            out.write(struct.pack("<IIQIIQQQQ", 0, size, stamp, self.pid, self.pid, address, address, len(self.CODE),
                                  self.index) + text + self.CODE)
        self.index += 1


@pytest.mark.parametrize("arch", [0, 1], ids=["monotonic", "tsc"])
def test_jitdump(perf, write, build, tmp_path, arch):
    """perf inject --jit: code at the same address is named by time, whichever clock its times are of."""
    image, address = Image(build()), 0x7F0000001000
    stamp = lambda ticks: TSC + ticks if arch else NS + ticks // 2
    dump = Jitdump(tmp_path / f"jit-{PROG}.dump", PROG, stamp(0), arch)
    dump.load(stamp(0), address, "first")
    dump.load(stamp(6000), address, "second")
    path = write([
        ["comm", 0, PROG, PROG, "prog"], image.map(0, PROG),
        ["map", 0, PROG, PROG, f"{address - 4096:x}", "10000", "0", "-", "//anon"],
        ["jit", TSC + 40 * SECOND, tmp_path / f"jit-{PROG}.dump"],
        *[user(TSC + 3000 + i, PROG, PROG, 0, [f"{address + 8:x}", *image.chain("main")]) for i in range(10)],
        *[user(TSC + 9000 + i, PROG, PROG, 0, [f"{address + 8:x}", *image.chain("main")]) for i in range(20)]])
    injected = tmp_path / "injected.data"
    perf("inject", "--jit", "-i", path, "-o", injected)
    assert perf.report(injected, "sym") == {("first",): 10, ("second",): 20}
    assert perf.report(injected, "sym", children=True)["main",] == pytest.approx(1)


def test_jitdump_of_a_long_recording(perf, write, build, tmp_path):
    """The mark of the jitdump follows all samples. perf has processed most of them by then."""
    image, address = Image(build()), 0x7F0000001000
    dump = Jitdump(tmp_path / f"jit-{PROG}.dump", PROG, TSC, 1)
    dump.load(TSC, address, "first")
    dump.load(TSC + 10 * SECOND, address, "second")
    path = write([
        ["map", 0, PROG, PROG, f"{address - 4096:x}", "10000", "0", "-", "//anon"],
        ["comm", TSC, PROG, PROG, "prog"], image.map(TSC, PROG),
        *[user(TSC + i * SECOND // 10 + 1000, PROG, PROG, 0, [f"{address + 8:x}", *image.chain("main")])
          for i in range(300)],
        ["jit", TSC + 40 * SECOND, tmp_path / f"jit-{PROG}.dump"]])
    injected = tmp_path / "injected.data"
    perf("inject", "--jit", "-i", path, "-o", injected)
    assert perf.report(injected, "sym") == {("first",): 100, ("second",): 200}
