# SPDX-License-Identifier: BSD-2-Clause
"""Target programs that check themselves for damage."""
import os
import pathlib
import struct
import time

import leftovers
import recording


def cpu_s(pid):
    """Returns the CPU time of a process."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED, as in clock_getcpuclockid(3)


def wait_for_cpu_time(*pids, seconds=0.05):
    """Waits until each process has used this much more CPU time. 0.05 s are enough for thousands of traced calls."""
    ends = {pid: cpu_s(pid) + seconds for pid in pids}
    recording.wait_until(lambda: all(cpu_s(pid) >= end for pid, end in ends.items()), "it gets no CPU time")


class Busy:
    """A running live/programs/victim.c."""

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
        """Checks that the program lives, makes progress, and computes right results."""
        before = self.rounds()
        recording.wait_until(
            lambda: self.process.poll() is not None or self.rounds() > before + 20, "the target makes no progress"
        )
        assert self.process.poll() is None, f"the target ended with status {self.process.returncode}"

    def works_during(self, session):
        """
        Ends the session after the program has made progress, and returns the recording. On a busy machine, progress
        takes a while.
        """
        session.wait_attached()
        self.assert_works()
        return session.stop()

    def assert_unharmed(self):
        """Checks what must be true after every recording of the program, even after a crash of xprof."""
        self.assert_works()
        leftovers.assert_nothing_left(self.pid)
        self.assert_works()


class Load:
    """A running live/programs/load.c."""

    ROUNDS, HOT, WARM, COLD = range(4)

    def __init__(self, process, path, progress):
        self.process = process
        self.pid = process.pid
        self.path = path
        self.progress = progress

    def words(self):
        """Returns the four counters, and the rounds of each thread."""
        return [word for (word,) in struct.iter_unpack("=Q", self.progress.read_bytes())]

    def counters(self):
        return self.words()[:4]

    def wait_without_hot(self):
        """Waits until no thread calls hot(), including threads that were preempted during their calls."""
        since = self.words()

        def each_had_a_round():
            nonlocal since
            now = self.words()
            if now[self.HOT] != since[self.HOT]:
                since = now
            # The first round may have started, and counted its calls, earlier.
            return all(done >= before + 2 for done, before in zip(now[4:], since[4:]))

        recording.wait_until(each_had_a_round, "no rounds without hot()", 60)

    def cpu_s(self):
        return cpu_s(self.pid)

    def work_rate(self, seconds):
        """Returns the number of rounds per second of CPU time."""
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
    """A running live/programs/churn.c."""

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
    """Returns the PIDs of its children."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text(errors="replace").rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            pass  # ended meanwhile
    return found


def runs(pid, path):
    """Returns whether the process runs this program."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", path)
    except OSError:
        return False


# Holds the lock that serializes recordings of a file, and releases it after this many seconds: user/sled/sled_lock.c.
LOCKS = """
import fcntl, os, struct, sys, time
os.makedirs("/run/xprof", 0o700, exist_ok=True)
lock = os.open("/run/xprof/sleds.lock", os.O_RDWR | os.O_CREAT, 0o600)
F_OFD_SETLKW = 38
fcntl.fcntl(lock, F_OFD_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, os.stat(sys.argv[1]).st_ino, 1, 0))
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""
