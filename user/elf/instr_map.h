/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The side ELF: a small shared object without code that tells `llvm-xray -instr_map=` the names of an FDR log's
 * functions, where the program itself will not do: llvm-xray refuses maps with typed events, and the functions of
 * shared objects are in no one map. It holds one entry sled for each function, at made-up addresses, and their symbols.
 *
 * Source of the format: the ELF64 specification; for the map see elf_xray.h.
 */
#ifndef XPROF_SIDE_ELF_H
#define XPROF_SIDE_ELF_H

#include <stddef.h>
#include <stdint.h>

/*
 * names[i]: the mangled name of function id i + 1; NULL: unknown, it becomes "fn_<id>". count: 1..XP_FUNCTION_ID_MAX.
 * Writes the whole file to fd, an empty regular file. -EINVAL for another count, -EFBIG when names exceed 4 GiB,
 * -ENOMEM, those of pwrite(2).
 */
int xp_side_elf_write(int fd, const char *const *names, size_t count);

/* Where the function of this id, 1 or more, stands in such a file. */
uint64_t xp_side_elf_vaddr(uint32_t function_id);

#endif
