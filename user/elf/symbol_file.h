/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared object without code that gives names to code which has no file: JIT code, the kernel, the vDSO. The mapping
 * line of a profile that leads to it makes google-pprof, `go tool pprof` and google/pprof name its functions: the first
 * and the last by .symtab, Go's by .gopclntab. They open it only under a name that ends in ".so".
 *
 * Source of the format: the ELF64 specification; of .gopclntab, "Go 1.2 Runtime Symbol Information" and what reads it,
 * Go's debug/gosym/pclntab.go.
 */
#ifndef XPROF_SYM_ELF_H
#define XPROF_SYM_ELF_H

#include <stddef.h>
#include <stdint.h>

/*
 * The offset of a mapping line of the whole range, and p_vaddr and p_offset of the one PT_LOAD. So in gperf_cures.h's
 * terms bias is the range's start minus this, exec_vaddr and exec_offset are this.
 */
#define XP_SYM_ELF_OFFSET 0x1000ull

struct xp_sym {
	uint64_t address; /* within the range */
	uint64_t size;	  /* 0: up to the next symbol; what reaches into that is cut */
	const char *name; /* mangled or not; blanks become '_', for google-pprof --callgrind ends a name at one */
};

/*
 * syms are sorted and no two have the same address. What lies between them is named "[unknown]", for google-pprof would
 * give it to the function before. start: the bounds of the range, end exclusive; as long as the range is the hole in
 * the file, so give far-off parts, such as the kernel's modules, files of their own.
 *
 * Writes the whole file to fd, an empty regular file. -EINVAL for syms or a range that are not so, -EFBIG when the
 * range or the names exceed 4 GiB, -ENOMEM, those of pwrite(2).
 */
int xp_sym_elf_write(int fd, uint64_t start, uint64_t end, const struct xp_sym *syms, size_t count);

#endif
