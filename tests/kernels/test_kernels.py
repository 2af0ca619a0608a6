# SPDX-License-Identifier: BSD-2-Clause
"""
Checks xprof on other kernels: each runs in a virtual machine, as the table `machines` says, at most two at a time. The
tests read the results of the machines.
"""
import collections
import json
import pathlib
import re
import shutil
import signal
import struct

import pytest

import leftovers
import perf_tool
import profiles
import recording
import wait_records
from recording import ENTER, ENTER_ARGS


def has_multi(guest):
    return guest.version >= (6, 6)


def modes(recorded):
    return {o["call_mode"] for p in recorded.manifest["processes"] for o in p["objects"]}


def calls_of(recorded, log, program):
    """Returns {(function, kind): count}. Entries with arguments count as entries."""
    counts = collections.Counter()
    for (name, kind), count in recording.calls(recording.read_log(recorded.directory / log, program)).items():
        counts[name, ENTER if kind == ENTER_ARGS else kind] += count
    return counts


def assert_checked(xprof, recorded):
    done = xprof.check(recorded.directory)
    assert done.returncode == 0, done.stdout + done.stderr


# The machine


def test_boots(left):
    if left.failure:
        pytest.fail(left.failure, pytrace=False)
    print(left.text("steps"))
    assert left.text("release").strip() == left.release
    assert all(line.endswith("with status 0") for line in left.text("steps").splitlines()), left.steps()


def test_no_kernel_message(guest):
    assert guest.complaints() == "", guest.complaints() + guest.machine.tail()


@pytest.mark.steps("doctor")
def test_doctor(guest):
    assert guest.status("doctor") == 0
    doctor = guest.text("doctor")
    states = {m[2]: m[1] for m in re.finditer(r"^(ok|degraded|missing) +(\S+(?: \S+)*?)  ", doctor, re.M)}
    for name in ("kernel", "BTF", "ring buffer", "tracepoints", "uprobes", "perf events", "patched sleds",
                 "calls", "samples", "waits"):
        assert states[name] == "ok", doctor
    way = "by ptrace" if "proc_mem.force_override=never" in guest.text("cmdline") else "through /proc/PID/mem"
    assert f"xprof writes the calls {way}" in doctor, doctor
    assert states["uprobe_multi"] == ("ok" if has_multi(guest) else "degraded"), doctor


# The programs

# The kernel's limit is a million (BPF_COMPLEXITY_LIMIT_INSNS).
VERIFIED_MAX = 50000


def verified(guest, name):
    """Returns {program: instructions that the verifier processed}."""
    return {program: int(count) for program, count in map(str.split, guest.text(f"{name}.verified").splitlines())}


@pytest.mark.steps("loads")
def test_programs_of_every_compiler_load(guest):
    loads = sorted(guest.directory.glob("load-*.status"))
    assert loads
    failed = {p.name: p.with_suffix("").read_text() for p in loads if int(p.read_text())}
    assert not failed, failed


def test_verification_is_far_from_the_limit(guest):
    for path in sorted(guest.directory.glob("*.verified")):
        counts = verified(guest, path.stem)
        print(path.stem, sum(counts.values()), max(counts.items(), key=lambda item: item[1]))
        assert len(counts) > 5 and 0 < max(counts.values()) < VERIFIED_MAX, (path.stem, counts)


# Calls

CALLS = {
    "command": "memory",
    "shell": "memory",
    "running": "memory",
    "patched": "patch",
    "single": "patch",
    "arguments": "memory",
    "running_probed": "probe",
    "single_probed": "probe",
    "probed_arguments": "probe",
}


@pytest.mark.steps("{name}")
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_exact(guest, xprof, programs, truth, name):
    recorded = guest.recording(name).ok()
    assert_checked(xprof, recorded)
    assert calls_of(recorded, recorded.log().path, programs["calls"]) == truth("calls")
    assert recorded.totals["seen"] == recorded.totals["written"]
    assert modes(recorded) == {CALLS[name]}, recorded.messages
    single = name.startswith("single") or not has_multi(guest)
    assert recorded.manifest["attach"]["method"] == ("perf_uprobe" if single else "uprobe_multi")
    assert recorded.manifest["kernel"]["release"] == guest.release
    if (guest.directory / f"{name}.target").exists():
        assert guest.text(f"{name}.target").strip() == "0"


CROSSING_ROUNDS = 600


@pytest.mark.steps("crossing_{mode}")
@pytest.mark.parametrize("mode", ["probe", "patch", "memory"])
def test_preempted_programs(guest, xprof, programs, mode):
    """Checks calls, arguments and payloads of eight threads, each with its own functions and events (crossing.c)."""
    recorded = guest.recording(f"crossing_{mode}").ok()
    assert modes(recorded) == {mode}, recorded.messages
    printed = recording.printed_calls(recorded.output)
    assert printed == {f"own_{t}": CROSSING_ROUNDS for t in range(8)}
    listed = json.loads(xprof("list", "--json", programs["crossing"]).stdout)["objects"][0]["functions"]
    names = {str(function["id"]): function["name"] for function in listed if function["calls"] == "sled"}
    dump = re.sub(r"( function (\d+) delta \d+)$", lambda m: f"{m[1]} {names[m[2]]}", xprof.dump(recorded.log().path).stdout, flags=re.M)
    entered = collections.Counter(re.findall(r" enter-args function \d+ delta \d+ (own_\d)$", dump, re.M))
    left = collections.Counter(re.findall(r" exit function \d+ delta \d+ (own_\d)$", dump, re.M))
    assert entered == left == printed
    found = re.findall(r" (own_\d)\n" + r".* CallArgument 0x(\w+)\n" * 6, dump)
    calls = sorted((int(name[-1]), *(int(word, 16) for word in words)) for name, *words in found)
    numbers = [(t, n, n + t, n - t, n * t, ~n) for t in range(8) for n in range(CROSSING_ROUNDS)]
    assert calls == sorted((t, t, *(a % 2**64 for a in rest)) for t, *rest in numbers)
    payloads = [(t, n, 600 if n % 64 == 0 else 100 if n % 2 else 16) for t in range(8) for n in range(CROSSING_ROUNDS)]
    custom = re.findall(r' CustomEvent (\d+) bytes "(\d):(\d+) ', dump)
    assert sorted((int(t), int(n), int(size)) for size, t, n in custom) == payloads
    typed = re.findall(r' TypedEvent type (\d+) (\d+) bytes "(\d):(\d+) ', dump)
    assert sorted((int(t), int(n), int(size)) for _, size, t, n in typed) == payloads
    assert all(int(kind) == 0x1000 + int(t) for kind, _, t, _ in typed)


@pytest.mark.steps("{name}")
@pytest.mark.parametrize("name", ["throws", "throws_probed"])
def test_exceptions(guest, programs, truth, name):
    recorded = guest.recording(name).ok()
    found, expected = calls_of(recorded, recorded.log().path, programs["throws"]), truth("throws")
    entered = {function: n for (function, kind), n in expected.items() if kind == ENTER}
    assert {function: found[function, ENTER] for function in entered} == entered
    assert guest.text(f"{name}.target").strip() == "0"


@pytest.mark.steps("events")
def test_events(guest, xprof):
    recorded = guest.recording("events").ok()
    assert_checked(xprof, recorded)
    dump = xprof.dump(recorded.log().path).stdout
    # Three sizes, through five functions and six functions; the log has some custom events of its own.
    assert dump.count("TypedEvent") == 18 and dump.count("CustomEvent") >= 15


@pytest.mark.steps("children")
def test_children(guest, xprof, programs):
    recorded = guest.recording("children").ok()
    assert_checked(xprof, recorded)
    entered = [calls_of(recorded, log.path, programs["forks"])["step", ENTER] for log in recorded.logs]
    assert sorted(entered) == [5, 10]


@pytest.mark.steps("exec")
def test_every_process_of_a_program(guest, xprof, programs, truth):
    recorded = guest.recording("exec").ok()
    assert_checked(xprof, recorded)
    assert [calls_of(recorded, log.path, programs["calls"]) for log in recorded.logs] == [truth("calls")] * 2


# Samples


def assert_samples(recorded, count):
    assert recorded.status == 0, recorded.messages
    samples = recorded.manifest["samples"]
    assert samples["lost"] == 0 and samples["written"] >= count, samples
    assert samples["written"] == sum(entry["samples"] for entry in samples["profiles"])
    return samples


def reported(text):
    """Returns {function: (flat, cumulative)} of `xprof report`."""
    rows = re.findall(r"^ +(\d+) +[\d.]+% +(\d+) +[\d.]+%(?: +\d+ .*?s)? {2,}(\S+) ", text, re.M)
    return {name: (int(flat), int(cum)) for flat, cum, name in rows}


def assert_shares(report):
    """Checks the shares of live/programs/shares.c: three quarters and one quarter of the time."""
    top = reported(report)
    a, b = top["work_a"][1], top["work_b"][1]
    assert 0.65 < a / (a + b) < 0.85, report


@pytest.mark.steps("stacks")
def test_whole_stacks(guest, xprof):
    """Checks the stacks of a program without frame pointers."""
    recorded = guest.recording("stacks")
    stacks = assert_samples(recorded, 50)["stacks"]
    assert_checked(xprof, recorded)
    assert stacks["seen"] >= 50 and stacks["complete"] >= 0.95 * stacks["seen"], stacks


@pytest.mark.steps("shares_fp")
def test_frame_pointers(guest, xprof):
    recorded = guest.recording("shares_fp")
    assert_samples(recorded, 50)
    assert_checked(xprof, recorded)
    assert_shares(guest.text("shares_fp.report"))


@pytest.mark.steps("shares_none")
def test_no_callers(guest, xprof):
    recorded = guest.recording("shares_none")
    assert_samples(recorded, 10)
    assert_checked(xprof, recorded)
    (profile,) = recorded.directory.glob("shares*.prof")
    assert {len(stack) for _, stack in profiles.Profile(profile).records} == {1}


@pytest.mark.steps("all")
def test_whole_machine(guest, xprof):
    recorded = guest.recording("all")
    samples = assert_samples(recorded, 50)
    assert_checked(xprof, recorded)
    pid = int(guest.text("all.target"))
    (entry,) = [e for e in samples["profiles"] if e["pid"] == pid]
    assert entry["samples"] > 20, samples["profiles"]
    assert len(samples["profiles"]) > 3
    assert_shares(guest.text("all.report"))


@pytest.mark.steps("shares_fp")
def test_perf_data(guest, programs, tmp_path):
    """perf reads the file, with the program in the directory of --symfs."""
    if not perf_tool.PATHS:
        pytest.skip("no perf here (Debian's linux-perf)")
    recorded = guest.recording("shares_fp")
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(programs["shares"], root / "bin/shares")
    perf = perf_tool.Perf(perf_tool.PATHS[0], tmp_path / "home")
    path = recorded.directory / "perf.data"
    rows = perf.report(path, "sym", args=["--symfs", root, "--force"])
    assert sum(rows.values()) == recorded.manifest["samples"]["written"]
    assert rows["spin",] > 0.5 * sum(rows.values()), rows


@pytest.mark.steps("waits")
def test_waits(guest, xprof):
    """Compares each thread's times with the kernel's accounts, which waits.c prints of itself."""
    recorded = guest.recording("waits")
    assert recorded.status == 0, recorded.messages
    assert_checked(xprof, recorded)
    waits = recorded.manifest["waits"]
    assert waits["seen"] == waits["written"] + sum(waits["filtered"].values()) + waits["lost"], waits
    assert waits["lost"] == waits["stacks_lost"] == waits["sums_lost"] == 0 < waits["written"], waits
    threads = {thread["tid"]: thread for thread in waits["threads"]}
    records = collections.defaultdict(list)
    for wait in wait_records.read(xprof, recorded.directory):
        records[wait.tid].append(wait)
    truths = [line.split() for line in guest.text("waits.output").splitlines()]
    assert len(truths) == 6
    for name, *numbers in truths:
        tid, waited_ns, switches, run_delay_ns, *_ = map(int, numbers)
        thread = threads[tid]
        off_s = thread["blocked_s"] + thread["runnable_s"]
        # With one CPU, a thread waits again between its last output and its exit.
        assert switches + 1 <= thread["waits"] <= switches + 12, (name, thread)
        assert thread["runnable_s"] > 0.99 * run_delay_ns / 1e9 - 0.003, (name, thread)
        if name in ("sleeper", "reader", "addressee", "starved"):
            # The program's clock includes its system calls, which are slow in an emulated CPU.
            assert off_s + thread["running_s"] > 0.98 * waited_ns / 1e9 - 0.003, (name, thread)
        if thread["waits"] == len(records[tid]):  # compared with xprof's own account, too
            runnable_s = sum(wait.runnable for wait in records[tid]) / 1e9
            assert runnable_s == pytest.approx(thread["runnable_s"], rel=0.01, abs=0.003), (name, thread)
            assert sum(wait.period for wait in records[tid]) / 1e9 == pytest.approx(off_s, rel=0.01, abs=0.003)
    assert any(threads[int(line[1])]["waits"] == len(records[int(line[1])]) for line in truths)
    (row,) = re.findall(r"^.* lock .*\bhanging\b.*$", guest.text("open_waits.report"), re.M)
    assert row.count(" < ") >= 3, row  # up to the thread's start function, which has no name here


@pytest.mark.steps("jit_{way}")
@pytest.mark.parametrize("way, function", [("map", "count_down"), ("list", "brief_")])
def test_jit(guest, xprof, way, function):
    """Checks the names of JIT code, from a perf map and from GDB's interface (a probe)."""
    recorded = guest.recording(f"jit_{way}")
    (entry,) = assert_samples(recorded, 20)["profiles"]
    assert_checked(xprof, recorded)
    assert entry["jit"]["functions"] > 0
    assert any(name.startswith(function) for name in reported(guest.text(f"jit_{way}.report")))


# steps that need uprobe_multi report that it is missing


@pytest.mark.steps("dry_run")
def test_forecast(guest):
    assert guest.status("dry_run") == 0, guest.text("dry_run.messages")
    output = guest.text("dry_run.output")
    assert re.search(r"6 sleds, 6 to patch \(calls in memory\), 0 refused$", output, re.M), output
    if has_multi(guest):
        assert re.search(r"^forecast: 6 sleds, about [\d ]+ calls/s", output, re.M), output
    else:
        assert re.search(r"^no forecast: .*Linux 6\.6", output, re.M), output


@pytest.mark.steps("budget")
def test_budget(guest, xprof, programs):
    if not has_multi(guest):
        assert guest.status("budget") == 3
        assert "needs uprobe_multi, Linux 6.6" in guest.text("budget.messages")
        assert not (guest.directory / "budget").exists()
        return
    recorded = guest.recording("budget").ok()
    assert_checked(xprof, recorded)
    _, hot, warm, cold = struct.unpack_from("=4Q", guest.path("budget.counters").read_bytes())
    (process,) = recorded.manifest["processes"]
    assert {f["name"] for o in process["objects"] for f in o["taken_out"]} == {"hot"}
    found = calls_of(recorded, recorded.log().path, programs["load"])
    assert (found["warm", ENTER], found["cold", ENTER]) == (warm, cold) and found["hot", ENTER] < hot


# The flight recorder


def flights(recorded, program):
    """Returns [(entry in the manifest, calls)] of the only process."""
    (process,) = recorded.manifest["processes"]
    return [(flight, calls_of(recorded, flight["log"], program)) for flight in process["flights"]]


@pytest.mark.steps("flight_crash")
def test_flight_of_a_crash(guest, xprof, programs):
    recorded = guest.recording("flight_crash").ok()
    assert_checked(xprof, recorded)
    ((flight, calls),) = flights(recorded, programs["rounds"])
    assert flight["cause"] == "killed" and flight["signal"] == signal.SIGSEGV
    assert calls["last", ENTER] == 1
    assert recorded.totals["overwritten"] > 0 and recorded.totals["written"] == flight["records"] > 100000
    assert guest.text("flight_crash.target").strip() == str(128 + signal.SIGSEGV)


@pytest.mark.steps("flight_asked")
def test_flight_on_request(guest, xprof, programs):
    recorded = guest.recording("flight_asked").ok()
    assert_checked(xprof, recorded)
    found = flights(recorded, programs["rounds"])
    assert [flight["cause"] for flight, _ in found] == ["asked", "end"]
    assert [calls["round_of", ENTER] for _, calls in found] == [200, 200]
    assert all(calls["one", ENTER] + calls["zero", ENTER] == 200 * 16 for _, calls in found)


# The target is not harmed


def differences(guest, name, program):
    """
    Returns where the code that the guest saved differs from the program, except bytes of patched sleds that may stay.
    """
    offset = int(guest.text(f"{name}.code.offset"), 16)
    here, there = guest.path(f"{name}.code").read_bytes(), pathlib.Path(program).read_bytes()[offset:]
    tails = leftovers.tails_of(program)
    return [offset + i for i, (a, b) in enumerate(zip(here, there)) if a != b and offset + i not in tails]


def assert_no_links(text):
    links = json.loads(text or "[]")
    assert not [link for link in links if link.get("type") in ("perf_event", "uprobe_multi", "kprobe_multi", "tracing")]


@pytest.mark.steps("survives")
@pytest.mark.parametrize("moment", ["0.2", "0.5", "0.8", "attached"])
def test_probes_go_with_a_killed_recorder(guest, programs, moment):
    assert differences(guest, f"survives-{moment}", programs["victim"]) == []
    assert guest.text("survives.progress").split() == ["1", "0"]
    assert_no_links(guest.text("survives.links"))


@pytest.mark.steps("restore")
def test_patched_sleds_are_put_back(guest, programs):
    """`xprof restore` and the next recording both restore sleds."""
    path = programs["victim"]
    assert differences(guest, "killed", path)
    assert guest.status("restore") == 0, guest.text("restore.output")
    assert differences(guest, "restored", path) == []
    recorded = guest.recording("next").adds_up()
    assert recorded.status == 0 and recorded.totals["written"] > 0 and modes(recorded) == {"memory"}
    assert differences(guest, "next", path) == []
    assert guest.text("restore.progress").split() == ["1", "0"]
    assert_no_links(guest.text("restore.links"))


@pytest.mark.steps("restore")
def test_recover(guest, xprof):
    assert guest.status("recover") == 0, guest.text("recover.output")
    directory = guest.path("killed")
    assert list(directory.glob("*.fdr")), guest.text("recover.output")
    checked = xprof.check(directory)
    assert checked.returncode == 0, checked.stdout + checked.stderr


# The kernel cannot remove breakpoints of a task that is killed while it attaches (shield.h).
RESTORED = re.compile(r"(first-guard|attaching|attaching-late) both( \(ended first\))? \d+ breakpoints until xprof restore;")


@pytest.mark.steps("kills_{mode}")
@pytest.mark.parametrize("mode", ["probe", "patch", "memory", "follow", "off_cpu", "all"])
def test_kills(guest, mode):
    """
    Kills xprof, its guard, and both: the target continues, and the kernel keeps neither BPF programs nor breakpoints.
    """
    lines = guest.text(f"kills_{mode}").splitlines()
    assert len(lines) == (7 if mode == "all" else 15), "\n".join(lines)
    assert all(line.endswith(" ok") or RESTORED.fullmatch(line) for line in lines), "\n".join(lines)
    assert mode == "all" or sum("(ended first)" not in line for line in lines) >= 10, "\n".join(lines)
