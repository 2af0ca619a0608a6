#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_fdr_reader and fuzz_spool: `seed_fdr.py tests/fuzz/corpus`."""
import pathlib
import struct
import sys


class Log:
    """An FDR log with a record of every kind of its version."""

    def __init__(self, version):
        self.version = version

    def pack(self, form, *values):
        return struct.pack("<" + form, *values)

    def metadata(self, kind, form="", *values):
        return (bytes([kind << 1 | 1]) + self.pack(form, *values)).ljust(16, b"\0")

    def function(self, kind, fn_id, delta):
        return self.pack("II", fn_id << 4 | kind << 1, delta)

    def custom(self, text):
        form, value = ("ii", 10) if self.version == 5 else ("iQ", 200)
        return self.metadata(5, form, len(text), value) + text

    def body(self):
        yield self.metadata(2, "HQ", 1, 100)
        yield self.function(3, 7, 10)
        yield self.metadata(6, "Q", 2**64 - 1)
        yield self.function(0, 8, 10)
        yield self.custom(b"text")
        if self.version == 5:
            yield self.metadata(8, "iiH", 3, 4, 9) + b"\0\xff\n"
        yield self.metadata(3, "Q", 2**40)
        yield self.function(2, 8, 10)
        yield self.function(1, 7, 10)

    def buffer(self, tid):
        records = self.metadata(0, "i", tid) + self.metadata(4, "QI", 1700000000, 5)
        if self.version == 5:
            records += self.metadata(9, "i", 42)
        records += b"".join(self.body())
        if self.version == 5:
            return self.metadata(7, "Q", len(records)) + records
        return records + self.metadata(1) + self.metadata(5, "iQ", 8, 100) + bytes(8)

    def bytes(self):
        buffers = [self.buffer(1), self.buffer(2)]
        size = len(buffers[0]) if self.version == 1 else 0
        return self.pack("HHIQQQ", self.version, 1, 3, 10**9, size, 0) + b"".join(buffers)


def frame(tid, chunk, typed):
    return struct.pack("<IiIIQ16sII", 0x4D524658, tid, len(chunk), typed, 100, b"worker", 0, 0) + chunk


def note(kind, tid, content):
    return struct.pack("<IiIIQ16sII", 0x544F4E58, tid, len(content), kind, 0, b"", 0, 0) + content


def spool(version, typed):
    """
    Returns a spool as in spool_format.h, without the zeros at the end of its header. The fuzz target sets the
    checksums.
    """
    header = struct.pack("<8sIiQQQHHI16s256s", b"XPSPOOL", 2, 42, 10**9, 50, 10**18, version, 3, 0, b"comm", b"log.fdr")
    chunk = b"".join(Log(5 if typed else 1).body())
    frames = [frame(1, chunk, typed), frame(2, chunk, typed), frame(1, chunk, typed)]
    frames[1:1] = [note(1, 0, struct.pack("<5Q4IQ", 5, 6, 7, 0, 1, 0, 9, 0, 0, 3)), note(2, 1, struct.pack("<2I", 1, 99))]
    return header.ljust(384, b"\0") + b"".join(frames)


def main():
    corpus = pathlib.Path(sys.argv[1])
    for version in (1, 5):
        path = corpus / "fdr_reader" / f"v{version}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Log(version).bytes())
    for version, typed in ((1, 0), (5, 0), (1, 1)):
        path = corpus / "spool" / f"v{version}{'-typed' if typed else ''}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(spool(version, typed))


main()
