# SPDX-License-Identifier: BSD-2-Clause
"""Reads the type information (BTF) in a compressed kernel image: Documentation/arch/x86/boot.rst."""
import struct
import subprocess

TOOLS = {b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip", b"\x02\x21\x4c\x18": "lz4"}


def vmlinux(path):
    """Returns the ELF file in an image, as bytes. The size of the ELF file follows the compressed stream."""
    image = path.read_bytes()
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (image[0x1F1] + 1) * 512 + offset
    payload = image[begin : begin + length]
    (tool,) = [tool for magic, tool in TOOLS.items() if payload.startswith(magic)]
    done = subprocess.run([tool, "-dc"], input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout


def section(elf, name):
    """Returns the bytes of a section."""
    at, size, count, names = struct.unpack_from("<40xQ10xHHH", elf, 0)
    headers = [struct.unpack_from("<II16xQQ", elf, at + i * size) for i in range(count)]
    strings = headers[names][2]
    for offset, _, begin, length in headers:
        if elf.startswith(name + b"\0", strings + offset):
            return elf[begin : begin + length]
    raise KeyError(name)


def write_btf(path, out):
    out.write_bytes(section(vmlinux(path), b".BTF"))
