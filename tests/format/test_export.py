# SPDX-License-Identifier: BSD-2-Clause
"""
Checks exports of hand-made perf.data files: which thread ran what and when, across forks, execs and changed mappings.
"""
import json
import os
import pathlib
import random
import re
import resource
import shutil
import stat
import struct
import tempfile

import pytest

import hand_made
import perfetto
import profiles
import project

GENERATOR = project.OUTPUT / "tests" / "format" / "perfdata_gen"
NOBODY = 65534
HZ, TSC, NS = 1_000_000_000, 10**12, 10**12  # a tick is 1 ns

# The smallest gperftools profile, which lists no object: a recording contains one.
PROFILE = struct.pack("<8Q", 0, 3, 0, 1000, 0, 0, 1, 0)


@pytest.fixture
def recorded(tmp_path):
    """Makes a recording with this perf.data: recorded(lines) -> its directory."""

    def make(lines, level=0):
        directory = tmp_path / "recording"
        directory.mkdir()
        (directory / "a.prof").write_bytes(PROFILE)
        text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
        made = project.run([GENERATOR, directory / "perf.data", 10**9, HZ, TSC, NS, level], stdin=None, input=text)
        assert made.returncode == 0, made.stderr
        return directory

    return make


@pytest.fixture
def exported(xprof, recorded):
    """Returns the folded stacks of such a recording: exported(lines, *args)."""

    def export(lines, *args, level=0, status=0):
        done = xprof("export", "--format=folded", "-o", "-", *args, recorded(lines, level))
        assert done.returncode == status, done.stderr
        return sorted(done.stdout.splitlines()) if not status else done.stderr

    return export


def mapping(at, pid, start, path, offset="0"):
    return ("map", TSC + at, pid, pid, start, "1000", offset, "-", path)


def sample(at, pid, tid, cpu, *addresses, kernel=0):
    return ("sample", TSC + at, pid, tid, cpu, kernel, *addresses)


@pytest.mark.root
def test_recover_has_the_rights_of_the_owner(xprof, recorded):
    """
    Root makes no profile from files that the directory's owner cannot read. The other profiles belong to the owner.
    """
    directory = recorded([("comm", TSC, 7, 7, "own"), sample(1, 7, 7, 0, "1000")])
    with tempfile.TemporaryDirectory() as made:
        secret, own = pathlib.Path(made, "secret"), pathlib.Path(made, "own")
        os.chmod(made, 0o755)
        shutil.copytree(directory, secret)
        os.chmod(secret, 0o700)
        own.mkdir()
        os.chown(own, NOBODY, NOBODY)
        (own / "perf.data").symlink_to(secret / "perf.data")
        xprof("recover", own)
        assert not list(own.glob("*.prof"))
        (own / "perf.data").unlink()
        shutil.copy(secret / "perf.data", own)
        os.chown(own / "perf.data", NOBODY, NOBODY)
        done = xprof("recover", own)
        assert done.returncode == 0, done.stderr
        assert {path.stat().st_uid for path in [*own.glob("*.prof"), *own.glob("sym/*")]} == {NOBODY}


def test_recover_twice(xprof, recorded):
    """Code without a file has one file of names in sym/, even after several recoveries."""
    directory = recorded([("comm", TSC, 7, 7, "own"), mapping(0, 7, "1000", "//anon"), sample(1, 7, 7, 0, "1008"),
                          sample(2, 7, 7, 0, "ffffffff81000008", kernel=1)])
    found = []
    for _ in range(2):
        done = xprof("recover", directory)
        assert done.returncode == 0, done.stderr
        found.append(sorted(path.name for path in directory.glob("sym/*")))
    assert found[0] and found[0] == found[1]


def test_cut_off(xprof, recorded):
    """A perf.data may end anywhere: complete records are read, and an incomplete file gives an error."""
    directory = recorded([("comm", TSC, 7, 7, "cut"), *(sample(i, 7, 7, 0, f"{0x1000 + 16 * i:x}") for i in range(200))])
    data = (directory / "perf.data").read_bytes()
    end = sum(struct.unpack_from("<QQ", data, 40))
    found = []
    for size in sorted(random.Random(1).sample(range(104, end), 40)) + [len(data)]:
        (directory / "perf.data").write_bytes(data[:size])
        done = xprof("export", "--format=folded", "-o", "-", directory)
        assert done.returncode == (size != len(data)), (size, done.stderr)
        found.append(sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()))
    assert found == sorted(found) and found[-1] == 200 and len(set(found)) > 30


def test_names_of_processes_and_threads(exported):
    """The name of a program is the last name after its exec. A forked child starts with the name of its parent."""
    lines = [
        ("comm", TSC + 1, 7, 7, "sh"),
        mapping(2, 7, "1000", "/gone/sh"),
        sample(3, 7, 7, 0, "1010"),
        ("comm", TSC + 4, 7, 8, "a;b c"),
        sample(5, 7, 8, 1, "1020", "1031"),
        ("fork", TSC + 6, TSC + 6, 9, 9, 7, 1),
        sample(7, 9, 9, 0, "1010"),
        ("exec", TSC + 8, 7, 7, "app"),
        mapping(9, 7, "5000", "/gone/app"),
        sample(10, 7, 7, 0, "5010"),
        sample(11, 7, 7, 0, "1010"),
    ]
    assert exported(lines, "--by", "thread") == [
        "app (7);app (7);[unknown] 1",
        "app (7);app (7);app+0x10 1",
        "sh (7);a:b c (8);sh+0x30;sh+0x20 1",
        "sh (7);sh (7);sh+0x10 1",
        "sh (9);sh (9);sh+0x10 1",
    ]


@pytest.mark.parametrize("level", [0, 3])
def test_mappings_change_over_time(exported, level):
    """
    A later mapping replaces an earlier one from its time on. Compressed samples may follow the mapping in the file.
    """
    lines = [
        ("comm", TSC + 1, 7, 7, "app"),
        mapping(2, 7, "1000", "/gone/one"),
        sample(3, 7, 7, 0, "1010"),
        mapping(4, 7, "1000", "/gone/two"),
        sample(5, 7, 7, 0, "1010"),
        sample(6, 7, 7, 0, "2010"),
        mapping(7, 7, "2000", "//anon"),
        sample(8, 7, 7, 0, "2010"),
    ]
    assert exported(lines, "--by", "none", level=level) == ["[anon] 1", "[unknown] 1", "one+0x10 1", "two+0x10 1"]


def test_kernel_and_user_frames(exported):
    """
    Return addresses are reduced by one, to be inside the call. The sampled address, and the one that the kernel
    interrupted, are not.
    """
    lines = [
        ("kernel", "ffffffff81000000", "1000"),
        ("comm", TSC + 1, 7, 7, "app"),
        mapping(2, 7, "1000", "/gone/app"),
        sample(3, 7, 7, 0, "ffffffff81000010", "ffffffff81000021", "1010", "1021", kernel=2),
    ]
    assert exported(lines, "--by", "none") == ["app+0x20;app+0x10;[kernel]_[k];[kernel]_[k] 1"]


def test_selection(exported):
    """Without a manifest, times count from the first sample."""
    lines = [
        ("comm", TSC + 1, 7, 7, "app"),
        ("comm", TSC + 1, 8, 8, "other"),
        mapping(2, 7, "1000", "/gone/app"),
        mapping(2, 8, "1000", "/gone/other"),
        *(sample(10 + 10**9 * i, 7 + i % 2, 7 + i % 2, i % 3, f"10{i}0") for i in range(6)),
    ]
    assert exported(lines, "--by", "cpu", "-p", "7,9", "--from", "1s", "--to", "4.5") == [
        "cpu 1;app+0x40 1",
        "cpu 2;app+0x20 1",
    ]


def test_nothing_is_left(exported):
    lines = [("comm", TSC + 1, 7, 7, "app"), mapping(2, 7, "1000", "/gone/app"), sample(3, 7, 7, 0, "1010")]
    assert "nothing to export" in exported(lines, "--functions", "!app*", status=1)


def test_what_is_missing_is_told(xprof, tmp_path):
    """The message names the missing data, and blames a selection only if there was one."""

    def refused(*args):
        done = xprof("export", "--format=folded", "-o", "-", *args)
        assert done.returncode == 1 and done.stdout == ""
        return done.stderr

    profile = tmp_path / "app.prof"
    profile.write_bytes(PROFILE)
    text = tmp_path / "perf.data"
    assert "nothing to export: there is no XRay FDR log with calls" in refused("--calls", profile)
    assert "nothing to export: no sample was recorded" in refused(profile)
    assert "nothing to export: no sample is selected" in refused("-p", "1", profile)
    (tmp_path / "app.fdr").write_bytes(hand_made.fdr_log({1: [(hand_made.ENTER, 1, 5)]}))
    assert "nothing to export: no sample was recorded" in refused(tmp_path / "app.fdr")
    text.write_bytes(b"text")
    assert "neither a gperftools profile nor an XRay FDR log" in refused(text)
    text.write_bytes(b"PERFILE2")
    assert "give the directory of the recording" in refused(text)


def test_callers_of_a_profile(xprof, tmp_path):
    """If the second PC is one less than the first, it was equal before: the function has just returned."""
    path = tmp_path / "app.prof"
    records = [(2, [0x1011, 0x1010, 0x1011, 0x1050]), (3, [0x1020, 0x1011, 0x1050])]
    path.write_bytes(hand_made.profile(records, "00001000-00002000 r-xp 00000000 00:00 0 /gone/app\n"))
    done = xprof("export", "--format=folded", "-o", "-", "--by", "none", path)
    stacks = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert {stack[stack.index("app+"):]: int(count) for stack, count in stacks.items()} == {
        "app+0x4f;app+0x10;app+0x10;app+0x11": 2,
        "app+0x4f;app+0x10;app+0x20": 3,
    }


# Two threads, the second starts 1 s later. A tick is 1 ns.
CALLS = hand_made.fdr_log({
    1: [(hand_made.ENTER, 1, TSC), (hand_made.EXIT, 1, TSC + 10**9 // 2)],
    2: [(hand_made.ENTER, 2, TSC + 10**9), (hand_made.EXIT, 2, TSC + 10**9 + 5)],
})


def test_path_of_what_is_made(xprof, tmp_path):
    (tmp_path / "app.fdr").write_bytes(CALLS)
    done = xprof("export", "--format=html", tmp_path / "app.fdr")
    assert done.returncode == 0 and f"  {tmp_path}/recording.html  " in done.stderr, done.stderr


@pytest.mark.parametrize("args, kept", [
    (("--to", "1s"), "fn_1 500000000"),
    (("--from", "0.75s"), "fn_2 5"),
])
def test_times_of_a_lone_log_count_from_its_first_call(xprof, tmp_path, args, kept):
    log = tmp_path / "app.fdr"
    log.write_bytes(CALLS)
    done = xprof("export", "--calls", "--format=folded", "--by", "none", "-o", "-", *args, log)
    assert (done.returncode, done.stdout) == (0, kept + "\n"), done.stderr
    done = xprof("export", "--format=perfetto", "-o", tmp_path / "trace", *args, log)
    assert done.returncode == 0, done.stderr
    assert len(perfetto.Trace((tmp_path / "trace").read_bytes()).slices) == 1


ONE = [("comm", TSC + 1, 7, 7, "app"), mapping(2, 7, "1000", "/gone/app"), sample(3, 7, 7, 0, "1010")]
STACK = "app (7);app+0x10 1\n"
OTHER_USER = 65534


@pytest.mark.parametrize("form", ["pprof", "folded", "html"])
def test_root_opens_nothing_that_the_owner_of_a_recording_named(xprof, recorded, tmp_path, form):
    """
    A file with the name of an export is replaced by a new file of the owner. If it is a pipe, its reader gets no data.
    """
    directory = recorded(ONE)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.chmod(tmp_path, 0o755)
    os.chown(directory, OTHER_USER, OTHER_USER)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        done = xprof("export", f"--format={form}", "-q", directory)
        assert done.returncode == 0 and not done.stderr, done.stderr
        [made] = set(directory.iterdir()) - {directory / "a.prof", directory / "perf.data"}
        made.unlink()
        made.symlink_to(pipe)
        done = xprof("export", f"--format={form}", "-q", directory)
        assert done.returncode == 0 and not done.stderr, done.stderr
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        found = made.lstat()
        assert stat.S_ISREG(found.st_mode) and (found.st_uid, found.st_gid) == (OTHER_USER, OTHER_USER)
        # A file that the caller names is written even if it exists.
        assert xprof("export", "--format=folded", "-o", pipe, directory).returncode == 0
        assert os.read(reader, 100).decode() == STACK
    finally:
        os.close(reader)


def test_root_makes_no_file_where_others_lead_it(xprof, recorded, tmp_path):
    directory, link = recorded(ONE), tmp_path / "link"
    link.symlink_to(directory)
    os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    done = xprof("export", "--format=folded", link)
    assert done.returncode == 1 and "another user's symbolic link" in done.stderr
    directory.chmod(0o777)
    done = xprof("export", "--format=folded", directory)
    assert done.returncode == 1 and "name a file with --output" in done.stderr
    assert not list(directory.glob("samples.*"))
    assert xprof("export", "--format=folded", "-o", directory / "named", directory).returncode == 0
    assert (directory / "named").read_text() == STACK


def test_deep_recursion(xprof, tmp_path):
    """
    Deep stacks are shortened, so a small log gives no large file. The file and a message report that, and all time
    remains.
    """
    depth, log = 20000, tmp_path / "deep.5.fdr"
    calls = [(kind, 2 if at == depth else 1, 10 * (depth + depth + 1 - at if kind else at))
             for kind in (hand_made.ENTER, hand_made.EXIT)
             for at in (range(1, depth + 1) if kind == hand_made.ENTER else range(depth, 0, -1))]
    log.write_bytes(hand_made.fdr_log({5: calls}))
    sizes = {}
    for form in ("folded", "pprof", "html"):
        path = tmp_path / form
        done = xprof("export", "--calls", f"--format={form}", "-o", path, log)
        assert done.returncode == 0, done.stderr
        assert f"{depth - 1025} calls have stacks of more than 1024 functions: [deeper] stands for" in done.stderr
        sizes[form] = path.stat().st_size
    assert max(sizes.values()) < 16 << 20, sizes
    lines = [line.rsplit(" ", 1) for line in (tmp_path / "folded").read_text().splitlines()]
    assert sum(int(ns) for _, ns in lines) == calls[-1][2] - calls[0][2]
    (deepest,) = [frames.split(";") for frames, _ in lines if frames.endswith("fn_2")]
    assert deepest[-3:] == ["fn_1", "[deeper]", "fn_2"] and deepest.count("fn_1") == 1024
    if profiles.GO:
        top = profiles.go_top(tmp_path / "pprof", index="calls")
        assert top["fn_1"][0] + top["fn_2"][0] + top.get("[deeper]", (0,))[0] == depth, top


@pytest.mark.parametrize("off_hz, is_same", [(14, True), (HZ // 20000, True), (HZ // 100, False)])
@pytest.mark.parametrize("manifest", [False, True])
def test_estimates_of_one_clock(xprof, tmp_path, off_hz, is_same, manifest):
    """
    Logs of one recording may have different estimates of the frequency. They share a clock; the manifest has the best
    estimate.
    """
    for pid in (5, 6):
        calls = {pid: [(hand_made.ENTER, 1, TSC + 1000), (hand_made.EXIT, 1, TSC + 2000)]}
        (tmp_path / f"a.{pid}.fdr").write_bytes(hand_made.fdr_log(calls, HZ + (off_hz if pid == 6 else 0)))
    if manifest:
        (tmp_path / "manifest.json").write_text(json.dumps({"clock": {"start_tsc": TSC, "hz": HZ}}))
    done = xprof("export", "--calls", "--format=folded", "-o", "-", tmp_path)
    assert done.stdout.splitlines() == [f"a.{pid};fn_1 1000" for pid in ((5, 6) if is_same else (5,))], done
    assert (done.returncode, "Hz, that of another log" in done.stderr) == (not is_same, not is_same)


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


def test_process_of_many_programs(xprof, tmp_path):
    """A process that executed many programs does not slow down the search for each sample."""
    count = 60000  # quadratic time takes over 100 s
    images = [{"pid": 7, "image": i, "comm": f"p{i}", "file": "a.7.prof", "since_tsc": TSC + 1000 * i + 1} for i in range(1, count + 1)]
    (tmp_path / "a.7.prof").write_bytes(hand_made.profile([], ""))
    (tmp_path / "manifest.json").write_text(json.dumps({"clock": {"start_tsc": TSC, "hz": HZ}, "samples": {"profiles": images, "written": count}}))
    text = "".join(f"exec\t{TSC + 1000 * i}\t7\t7\tp{i}\nsample\t{TSC + 1000 * i + 1}\t7\t7\t0\t0\t1500\n" for i in range(1, count + 1))
    made = project.run([GENERATOR, tmp_path / "perf.data", 10**9, HZ, TSC, NS, 0], stdin=None, input=text)
    assert made.returncode == 0, made.stderr
    done = xprof("export", "--format=folded", "-o", "-", tmp_path, preexec_fn=limit_cpu)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(f"p{i} (7);[unknown] 1" for i in range(1, count + 1))


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))


def test_memory_of_a_file_that_expands(xprof, recorded):
    """
    65 KB expand to 1.8 million different stacks, each with its own function: 680 MB. Only the first stacks are read.
    """
    addresses = [f"{0x100000 + 8 * number:x}" for number in range(4096)]
    lines = [("map", TSC + pid, pid, pid, "100000", "1000000", f"{pid << 24:x}", "-", "/x") for pid in range(1, 451)]
    lines += [sample(1000 + pid, pid, pid, 0, *addresses) for pid in range(1, 451)]
    directory = recorded(lines, 19)
    assert (directory / "perf.data").stat().st_size < 100000
    done = xprof("report", "--by", "thread", directory, preexec_fn=limit_memory)
    assert done.returncode == 0, done.stderr
    missing, = map(int, re.findall(r"(\d+) samples are missing: the recording has too many different stacks", done.stderr))
    assert 300 < missing < 440
