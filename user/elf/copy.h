/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of binaries for tools that look up names in them: nm, addr2line, `go tool pprof`, xprof itself. The copy of a
 * large binary has holes instead of code and constants. Names and lines need only its symbols, debug information and
 * Go's tables. Disassemblers find nothing in it.
 *
 * `go tool pprof` takes a mapping of a binary to start where the first executable segment does: at its p_vaddr in Go
 * 1.19, at p_vaddr - p_vaddr % p_align in Go 1.24 (cmd/internal/objfile/elf.go, loadAddress()). They differ for what
 * lld links. A copy has a p_align of 1 in this case, so that all versions find the names.
 */
#ifndef XPROF_ELF_COPY_H
#define XPROF_ELF_COPY_H

#include <stdbool.h>
#include <stdint.h>

/* Files up to this size are copied completely. */
#define XP_ELF_COPY_WHOLE_BYTES (8ull << 20)

/*
 * Copies the ELF file from_fd to the empty file to_fd. *bytes is the most that may be written; on return, what is left
 * of it. Returns 0 or -errno: -EFBIG if *bytes is too small, -EINVAL if from_fd is not a regular file, -ENOMEM, or an
 * error of read(2) or write(2).
 */
int xp_elf_copy(int from_fd, int to_fd, uint64_t *bytes);

struct xp_elf_file;
/* Returns whether versions of `go tool pprof` take mappings of this binary to start at different addresses. */
bool xp_elf_start_is_ambiguous(const struct xp_elf_file *image);

#endif
