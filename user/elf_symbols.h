/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for function addresses from .symtab and .dynsym of an ELF file. */
#ifndef XPROF_ELF_SYMBOLS_H
#define XPROF_ELF_SYMBOLS_H

#include "elf_image.h"
#include "elf_xray.h"

/* A longer name is no name: the longest that compilers make are some tens of thousands of bytes. */
#define XP_SYMBOL_BYTES_MAX 65536

/*
 * Sets functions[i].name for each function that a symbol covers: of .symtab first, of .dynsym where that has none;
 * the symbol that starts nearest, then functions before other types, global before weak before local. The names lie
 * in *pool, which the caller frees (NULL: no names). A broken symbol table gives no names, which is no error; -ENOMEM
 * is the only one.
 */
int xp_symbols_name(struct xp_elf_image *image, struct xp_function *functions, size_t count, char **pool);

#endif
