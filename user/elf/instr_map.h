/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The side ELF: a small shared object without code, from which `llvm-xray -instr_map=` reads the function names of an
 * FDR log. It replaces the program, because llvm-xray rejects maps with typed events, and because no single map
 * contains the functions of several binaries. It has one entry sled per function, at made-up addresses, the symbols,
 * and a line table if lines are known.
 *
 * Source of the format: the ELF64 specification; for the map see sled_table.h.
 */
#ifndef XPROF_ELF_INSTR_MAP_H
#define XPROF_ELF_INSTR_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "elf/line_table.h"

/*
 * Writes the whole file to fd, an empty regular file. names[i] is the mangled name of function id i + 1; NULL: unknown,
 * the name becomes "fn_<id>". lines: [count], or NULL for none. count: 1..XP_FUNCTION_ID_MAX. Returns 0 or -errno:
 * -EINVAL for any other count, -EFBIG if the names exceed 4 GiB, -ENOMEM, or an error of pwrite(2).
 */
int xp_instr_map_write(int fd, const char *const *names, const struct xp_source_line *lines, size_t count);

/* Returns the address of a function in such a file. function_id: 1 or more. */
uint64_t xp_instr_map_vaddr(uint32_t function_id);

#endif
