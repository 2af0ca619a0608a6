/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for function addresses from .symtab and .dynsym of an ELF file. */
#ifndef XPROF_ELF_SYMBOLS_H
#define XPROF_ELF_SYMBOLS_H

#include "elf/file.h"
#include "elf/sled_table.h"

/*
 * Of symbols for one address the one of the highest rank names it: functions before other types, global before weak
 * before local. 0: it names no code.
 */
uint32_t xp_symbol_rank(const GElf_Sym *symbol);

/* A longer name is no name: the longest that compilers make are some tens of thousands of bytes. */
#define XP_SYMBOL_BYTES_MAX 65536

/*
 * Sets functions[i].name for each function that a symbol covers: of .symtab first, of .dynsym where that has none;
 * the symbol that starts nearest, then that of the highest rank. The names lie in *pool, which the caller frees (NULL:
 * no names). A broken symbol table gives no names, which is no error; -ENOMEM is the only one.
 */
int xp_symbols_name(struct xp_elf_image *image, struct xp_function *functions, size_t count, char **pool);

#endif
