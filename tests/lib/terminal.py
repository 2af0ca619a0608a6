# SPDX-License-Identifier: BSD-2-Clause
"""Runs xprof in the foreground of a new terminal."""
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time

import recording


class Terminal:
    """A recording in a session whose controlling terminal is `master`. Its output goes to the terminal."""

    def __init__(self, xprof, directory, args, before=()):
        self.directory = directory
        self.shown = b""
        self.master, slave = pty.openpty()
        argv = [*map(str, before), xprof.path, "record", "-o", directory, *map(str, args)]
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def read(self):
        """Returns the output so far."""
        while self.master >= 0 and select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 4096)
            except OSError:  # no process holds the terminal any more
                data = b""
            if not data:
                break
            self.shown += data
        return self.shown.decode(errors="replace").replace("\r\n", "\n").replace("\x1b[K", "\n")

    def wait_for(self, text):
        recording.wait_until(
            lambda: text in self.read() or self.process.poll() is not None, lambda: f"no '{text}':\n{self.read()}"
        )
        assert self.process.poll() is None, self.read()
        return self

    def press(self, key):
        os.write(self.master, key)

    def signal_group(self, number):
        os.killpg(self.process.pid, number)

    def hang_up(self):
        self.read()
        os.close(self.master)
        self.master = -1

    def finish(self):
        end = time.monotonic() + recording.END_S
        while self.process.poll() is None:
            assert time.monotonic() < end, f"xprof does not end:\n{self.read()}"
            self.read()
            time.sleep(0.01)
        return recording.Recording(self.directory, self.process.returncode, self.read(), None)

    def close(self):
        """Ends the processes of the session."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                self.signal_group(number)
                self.process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        if self.master >= 0:
            os.close(self.master)
