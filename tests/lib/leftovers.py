# SPDX-License-Identifier: BSD-2-Clause
"""
Finds what a recording must remove: changed code and breakpoints in a process, and BPF programs that no process holds.
"""
import functools
import glob
import json
import os
import pathlib
import re
import time

import project
import recording

OUR_PROGRAMS = re.compile(r"(sled_|stub_|task_((exec|fork|exit|new)$|prepare_ex|leave_by_e)|link_map_chan|jit_changed)")

# The longest wait for recordings of other workers. It is shorter than the time limit of a test, which would fail
# without naming a reason.
OTHERS_S = 80


def assert_nothing_left(pid):
    """
    Checks that the process has no breakpoint, and that no BPF program is without a process. Waits, because the kernel
    removes these a moment after a kill of xprof.
    """
    wait_until(lambda: not left_code(pid), lambda: f"left behind: {changed_code(pid)}")
    assert_no_orphans()


def left_code(pid):
    """
    Returns the code changed by recordings of this worker. While other workers record, ignores breakpoints in the
    dynamic linker: with --follow they are in all processes, so two workers could wait for each other until the time
    limit.
    """
    places = code_differences(pid)
    if any(not is_linker_probe(place) for place in places):
        return places
    return places if places and not others_record() else []


def is_linker_probe(place):
    path, _, byte = place
    return byte == 0xCC and pathlib.Path(path).name.startswith(("ld-linux", "ld-musl", "ld.so", "ld-2."))


def wait_until(condition, message):
    """
    Polls condition() until it is true. Waits longer while another xprof runs: with --follow, its probes in the dynamic
    linker are in all processes.
    """
    last = time.monotonic() + OTHERS_S
    end = time.monotonic() + recording.READY_S
    while not condition():
        if others_record():
            end = min(time.monotonic() + recording.READY_S, last)
        assert time.monotonic() < end, message()
        time.sleep(0.02)


def others_record():
    """Returns whether an xprof runs that this worker has not started."""
    found = False
    for comm in glob.glob("/proc/[0-9]*/comm"):
        try:
            name = pathlib.Path(comm).read_text(errors="replace")
            found = found or name == "xprof\n" and os.getpid() not in ancestors(int(comm.split("/")[2]))
        except OSError:
            pass  # the process has ended
    return found


def ancestors(pid):
    while pid > 1:
        yield pid
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])


def assert_no_orphans():
    """
    Waits until all BPF programs that no process holds now are freed. Ignores later ones: another test may kill an xprof
    meanwhile.
    """
    left = orphans()
    recording.wait_until(lambda: not left & orphans(), lambda: f"left behind: {left & orphans()}")


def code_differences(pid):
    """Returns where the code in a process's memory differs from that in its files: (path, address, byte in memory)."""
    for _ in range(100):
        try:
            return compare_code(pid)
        except OSError:
            pass  # the process has executed another program meanwhile
    raise AssertionError(f"process {pid} cannot be read")


SLED_BYTES = {"custom": 17, "typed": 22}


@functools.lru_cache(maxsize=64)
def sled_tails(path, inode, changed):
    """
    Returns the file offsets of the bytes of sleds that may stay changed. No thread executes them, as with XRay's own
    runtime.
    """
    listed = project.run([project.XPROF, "list", "--sleds", path]).stdout.splitlines()
    tails = set()
    for line in listed:
        fields = line.split()
        if fields and fields[0].isdigit():
            offset = int(fields[3], 0)
            tails.update(range(offset + 1 + (fields[1] != "exit"), offset + SLED_BYTES.get(fields[1], 11)))
    return tails


def tails_of(map_file):
    status = os.stat(map_file)
    return sled_tails(map_file, status.st_ino, status.st_ctime_ns)


def compare_code(pid, with_tails=False):
    differences = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
            fields = line.split(maxsplit=5)
            if "x" not in fields[1] or len(fields) < 6 or not fields[5].startswith("/"):
                continue
            if fields[5].startswith("/memfd:xprof "):
                continue  # xprof's trampoline, which stays; a child has a copy of its parent's
            start, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(start)
            here = memory.read(end - start)
            with open(f"/proc/{pid}/map_files/{start:x}-{end:x}", "rb") as file:
                file.seek(int(fields[2], 16))
                there = file.read(end - start)
            if here == there:
                continue
            tails = () if with_tails else tails_of(f"/proc/{pid}/map_files/{start:x}-{end:x}")
            differences += [
                (fields[5], start + i, here[i]) for i in differing(here, there) if int(fields[2], 16) + i not in tails
            ]
    return differences


BLOCK = 4096


def differing(here, there):
    """Returns the indices of different bytes. Compares blocks first, because most blocks are equal."""
    for block in range(0, len(here), BLOCK):
        if here[block : block + BLOCK] != there[block : block + BLOCK]:
            yield from (i for i in range(block, min(block + BLOCK, len(here), len(there))) if here[i] != there[i])


def changed_code(pid):
    """Returns the first differences of code_differences(), as text."""
    return [f"{path} {address:#x}: {byte:#x}" for path, address, byte in code_differences(pid)[:5]]


def breakpoints(pid):
    """Returns the places where a breakpoint is."""
    return [place for place in code_differences(pid) if place[2] == 0xCC]


def restore(xprof, pid):
    """Runs `xprof restore`, which waits until all tasks of a killed xprof have ended."""
    return xprof("restore", "-p", pid)


def held_programs():
    """Returns the IDs of the BPF programs that processes hold."""
    held = set()
    # Unlike pathlib's glob, this one skips a process that ends during the search.
    for descriptor in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if not os.readlink(descriptor).startswith("anon_inode:bpf"):
                continue
            # The link of a probe contains the name of its file, which may have any bytes.
            text = pathlib.Path(descriptor.replace("/fd/", "/fdinfo/")).read_text(errors="replace")
            held.update(int(m) for m in re.findall(r"^prog_id:\s*(\d+)", text, re.M))
        except OSError:
            pass  # closed meanwhile
    return held


def orphans():
    """Returns xprof's BPF programs that no process holds."""
    if not project.bpftool():
        return set()
    listed = json.loads(project.run([project.bpftool(), "-j", "prog", "show"]).stdout or "[]")
    ours = {p["id"]: p["name"] for p in listed if OUR_PROGRAMS.match(p.get("name", ""))}
    held = held_programs() if ours else set()
    return {f"{name} ({number})" for number, name in ours.items() if number not in held}


def uprobe_links(pid):
    """Returns the uprobe links that a process holds: a (descriptor, name of the program) per link."""
    names = {p["id"]: p.get("name", "") for p in json.loads(project.run([project.bpftool(), "-j", "prog", "show"]).stdout)}
    found = []
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        fields = dict(line.split(":", 1) for line in info.read_text(errors="replace").splitlines() if ":" in line)
        if fields.get("link_type", "").strip() in ("uprobe_multi", "perf"):
            found.append((int(info.name), names[int(fields["prog_id"])]))
    return sorted(found)


def probe_areas(pid):
    """
    Returns the number of [uprobes] areas of a process. They show that a process was probed, and remain after a
    recording.
    """
    return pathlib.Path(f"/proc/{pid}/maps").read_text().count("[uprobes]")
