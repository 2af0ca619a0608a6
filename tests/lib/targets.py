# SPDX-License-Identifier: BSD-2-Clause
"""Targets that notice when they are harmed."""
import os
import pathlib
import struct
import time

import leftovers
import recording


def cpu_s(pid):
    """The CPU time of a process."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED, as clock_getcpuclockid(3) has it


def wait_for_cpu_time(*pids, seconds=0.05):
    """Until each process has used so much CPU time. 0.05 s is that of thousands of traced calls."""
    ends = {pid: cpu_s(pid) + seconds for pid in pids}
    recording.wait_until(lambda: all(cpu_s(pid) >= end for pid, end in ends.items()), "it gets no CPU time")


class Busy:
    """live/programs/victim.c at work."""

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def rounds(self):
        fields = self.progress.read_text().split()
        assert not fields or fields[1] == "0", f"{fields[1]} results of the target were wrong"
        return int(fields[0]) if fields else 0

    def assert_works(self):
        """It lives, goes on, and what it computes is right."""
        before = self.rounds()
        recording.wait_until(
            lambda: self.process.poll() is not None or self.rounds() > before + 20, "the target makes no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"

    def works_during(self, session):
        """The recording that the session has made when the target has worked, for which a busy machine needs a while."""
        session.wait_attached()
        self.assert_works()
        return session.stop()

    def assert_unharmed(self):
        """What has to be true after every recording of it, however that ended."""
        self.assert_works()
        leftovers.assert_nothing_left(self.pid)
        self.assert_works()


class Load:
    """live/programs/load.c at work."""

    ROUNDS, HOT, WARM, COLD = range(4)

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def words(self):
        """The four counters, and the rounds of each thread."""
        return [word for (word,) in struct.iter_unpack("=Q", self.progress.read_bytes())]

    def counters(self):
        return self.words()[:4]

    def wait_without_hot(self):
        """Until no thread calls hot() any more, also none that was put aside in the middle of its calls."""
        since = self.words()

        def each_had_a_round():
            nonlocal since
            now = self.words()
            if now[self.HOT] != since[self.HOT]:
                since = now
            # The first may have begun, and had its calls counted, before.
            return all(done >= before + 2 for done, before in zip(now[4:], since[4:]))

        recording.wait_until(each_had_a_round, "no rounds without hot()", 60)

    def cpu_s(self):
        return cpu_s(self.pid)

    def work_rate(self, seconds):
        """Rounds in a second of its CPU time."""
        rounds, cpu_s = self.counters()[self.ROUNDS], self.cpu_s()
        time.sleep(seconds)
        return (self.counters()[self.ROUNDS] - rounds) / (self.cpu_s() - cpu_s)

    def assert_works(self):
        before = self.counters()[self.ROUNDS]
        recording.wait_until(
            lambda: self.process.poll() is not None or self.counters()[self.ROUNDS] > before + 3, "no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"


class Churn:
    """live/programs/churn.c at work."""

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def generations(self):
        return self.progress.stat().st_size if self.progress.exists() else 0

    def assert_works(self):
        before = self.generations()
        recording.wait_until(
            lambda: self.process.poll() is not None or self.generations() > before + 3, "the target makes no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"


def children(pid):
    """The process ids of its children."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text(errors="replace").rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            pass  # ended meanwhile
    return found


def runs(pid, path):
    """Does the process run this program?"""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", path)
    except OSError:
        return False


# Holds the lock by which recordings of a file take turns, and releases it after so many seconds: user/sled/sled_lock.c.
LOCKS = """
import fcntl, os, struct, sys, time
os.makedirs("/run/xprof", 0o700, exist_ok=True)
lock = os.open("/run/xprof/sleds.lock", os.O_RDWR | os.O_CREAT, 0o600)
F_OFD_SETLKW = 38
fcntl.fcntl(lock, F_OFD_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, os.stat(sys.argv[1]).st_ino, 1, 0))
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""
