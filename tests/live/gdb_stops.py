# SPDX-License-Identifier: BSD-2-Clause
"""
Run by gdb: stops the program at random moments, and writes gdb's backtrace of each stop and then the result of
unwind_stops. gdb -batch -x gdb_stops.py --args PROGRAM...; the environment contains STOPS, TOOL and DIRECTORY.
"""
import json
import os
import random
import struct
import subprocess

import gdb

STACK_BYTES = 65536
# Those of struct xp_rec_sample.
OTHERS = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", *(f"r{n}" for n in range(8, 16))]


def stack_above(sp):
    """Returns as many bytes of the stack as can be read."""
    memory = gdb.selected_inferior()
    size = STACK_BYTES
    while size:
        try:
            return bytes(memory.read_memory(sp, size))
        except gdb.MemoryError:
            size -= 512 if size > 512 else size
    return b""


def frames():
    """
    Returns the addresses of the frames, innermost first. Omits inlined functions, which share the frame of their
    caller, and tail calls that gdb derives from debug information.
    """
    found = []
    frame = gdb.newest_frame()
    while frame is not None and frame.is_valid():
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            found.append(frame.pc())
        frame = frame.older()
    return found


def code_of(pid):
    """Returns the address range [start, end) of mapped code."""
    with open(f"/proc/{pid}/maps") as maps:
        lines = [line.split() for line in maps]
    return [[int(end, 16) for end in fields[0].split("-")] for fields in lines if "x" in fields[1]]


def register(name):
    return int(gdb.newest_frame().read_register(name)) & (1 << 64) - 1


def main():
    for setting in ("pagination off", "confirm off", "backtrace past-main on", "backtrace past-entry on"):
        gdb.execute(f"set {setting}")
    gdb.execute("set debuginfod enabled off")
    gdb.execute("handle SIGUSR1 SIGALRM SIGPROF nostop noprint pass")
    gdb.execute("handle SIGINT stop print nopass")
    gdb.execute("starti", to_string=True)
    random.seed(4)
    pid = gdb.selected_inferior().pid
    stops = []
    with open(f"{os.environ['DIRECTORY']}/stops", "wb") as file:
        # The dynamic linker is at work at first.
        pause = 0.2
        while len(stops) < int(os.environ["STOPS"]):
            # A thread of this interpreter would wait until gdb is done.
            timer = subprocess.Popen(["sh", "-c", f"sleep {pause:.4f}; kill -INT {pid}"])
            gdb.execute("continue", to_string=True)
            timer.wait()
            if not gdb.selected_inferior().pid:
                raise gdb.GdbError("the program ended")
            registers = [register(name) for name in ("rip", "rsp", "rbp")]
            stack = stack_above(registers[1])
            file.write(struct.pack("<18Q", *registers, len(stack), *map(register, OTHERS)) + stack)
            stops.append(frames())
            pause = random.uniform(0.0005, 0.006)
    ours = subprocess.run([os.environ["TOOL"], str(pid), file.name], stdout=subprocess.PIPE, check=True, text=True).stdout
    with open(f"{os.environ['DIRECTORY']}/result.json", "w") as file:
        json.dump({"code": code_of(pid), "gdb": stops, "ours": [line.split() for line in ours.splitlines()]}, file)
    gdb.execute("kill")


main()
