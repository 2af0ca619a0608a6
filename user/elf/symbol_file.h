/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a shared object without code that contains names of code without a file: JIT code, the kernel, the vDSO. If
 * the mapping line of a profile refers to this file, google-pprof, `go tool pprof` and google/pprof find the names of
 * the functions there. google-pprof and google/pprof read .symtab; Go's tool reads .gopclntab. These tools open the
 * file only if its name ends in ".so".
 *
 * Source of the format: the ELF64 specification; for .gopclntab, "Go 1.2 Runtime Symbol Information" and its reader,
 * Go's debug/gosym/pclntab.go.
 */
#ifndef XPROF_ELF_SYMBOL_FILE_H
#define XPROF_ELF_SYMBOL_FILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The offset of the range in a mapping line, and p_vaddr and p_offset of the only PT_LOAD. So in gperf.h, bias is the
 * start of the range minus this offset, and exec_vaddr and exec_offset are this offset.
 */
#define XP_SYM_ELF_OFFSET 0x1000ull

struct xp_sym {
	uint64_t address; /* within the range */
	uint64_t size;	  /* 0: up to the next symbol; a size that reaches into the next symbol is clipped */
	const char
	    *name; /* mangled or not; spaces become '_', because google-pprof --callgrind ends a name at a space */
};

/*
 * Writes the whole file to fd, an empty regular file. syms are sorted and have distinct addresses. Gaps between them
 * are named "[unknown]", because google-pprof would attribute them to the preceding function. start and end (exclusive)
 * bound the range. The hole in the file is as long as the range, so put distant parts, such as the kernel's modules, in
 * separate files.
 *
 * Returns 0 or -errno: -EINVAL if syms or the range are invalid, -EFBIG if the range or the names exceed 4 GiB,
 * -ENOMEM, or an error of pwrite(2).
 */
int xp_symbol_file_write(int fd, uint64_t start, uint64_t end, const struct xp_sym *syms, size_t count);

#endif
