/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies the parts of a binary that name its code: the headers, symbol tables, notes, sled tables, Go's function
 * tables, and the debug information for functions, inlined functions and lines. Everything else, such as code and
 * constants, is a hole in the copy. File offsets stay the same, so these tools can read the copy like the binary: nm,
 * addr2line, perf, `go tool pprof`, llvm-xray, xprof. A disassembler finds only zeros.
 *
 * The binary is untrusted: a process without privileges (confined.h) reads it and returns the ranges to copy.
 *
 * `go tool pprof` assumes that a mapping of a binary starts at the first executable segment: at p_vaddr in Go 1.19, at
 * p_vaddr - p_vaddr % p_align in Go 1.24 (cmd/internal/objfile/elf.go, loadAddress()). For binaries from lld, the two
 * differ. A copy then gets a p_align of 1, so that all versions find the names.
 */
#ifndef XPROF_ELF_COPY_H
#define XPROF_ELF_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Limits of a copy: 2 million symbols with names of 40 bytes. Larger debug information is omitted, and the sizes of its
 * sections become 0.
 */
#define XP_ELF_COPY_BYTES_MAX (128ull << 20)
#define XP_ELF_COPY_DEBUG_BYTES_MAX (32ull << 20)

/* Facts about a copied binary. */
struct xp_elf_copied {
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0: none */
	bool has_code; /* exec_vaddr and exec_offset are known: the start of the first executable segment in the copy */
	bool lacks_debug; /* the debug information was too large */
	uint64_t exec_vaddr;
	uint64_t exec_offset;
};

/*
 * Copies the ELF file from_fd to the empty file to_fd. *bytes is the maximum to write, and is reduced by the bytes
 * written. A small binary that is not for x86-64 is copied completely. Returns 0 or -errno: -EFBIG if the copy exceeds
 * a limit, -EINVAL if from_fd is not a regular file, -ENOEXEC if it is malformed, -ETIMEDOUT, -ENOMEM, or an error of
 * fork(2), read(2) or write(2).
 */
int xp_elf_copy(int from_fd, int to_fd, struct xp_elf_copied *copied, uint64_t *bytes);

/* The function that runs in the confined reader (xp_confined_read). Public for its fuzz target. */
int xp_elf_copy_plan(int fd, FILE *out, const void *arg);

#endif
