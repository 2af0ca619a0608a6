/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for function addresses, from .symtab and .dynsym of an ELF file. */
#ifndef XPROF_ELF_SYMBOLS_H
#define XPROF_ELF_SYMBOLS_H

#include "elf/elf_file.h"
#include "elf/sled_table.h"

/*
 * Returns the rank of a symbol. Of several symbols at one address, the symbol with the highest rank gives the name:
 * functions before other types, then global before weak before local. If these are equal, the name with fewer leading
 * underscores wins, as in perf. 0: the symbol does not name code.
 */
uint32_t xp_symbol_rank(const GElf_Sym *symbol);
/*
 * Returns the rank of a symbol with this name. rank: as returned by xp_symbol_rank(). Depends only on the first
 * XP_SYMBOL_PREFIX_BYTES bytes of the name.
 */
uint32_t xp_symbol_name_rank(uint32_t rank, const char *name);
#define XP_SYMBOL_PREFIX_BYTES 8

/* Longer names are ignored. The longest names that compilers generate have a few tens of thousands of bytes. */
#define XP_SYMBOL_BYTES_MAX 65536

/*
 * Sets functions[i].name for each function that a symbol covers. .symtab takes precedence over .dynsym; then the symbol
 * that starts nearest, then the one with the highest rank. The names are in *pool, which the caller frees (NULL: no
 * names). A broken symbol table gives no names and is not an error. Returns 0 or -ENOMEM.
 */
int xp_symbols_name(struct xp_elf_file *image, struct xp_function *functions, size_t count, char **pool);

/* A name of a function. */
struct xp_symbol_alias {
	uint32_t function; /* index of the function */
	const char *name;
};

/*
 * Finds all names of functions, which are sorted by address: symbols at their first bytes. May find a name twice. The
 * caller frees *aliases and *pool. Returns 0 or -ENOMEM.
 */
int xp_symbols_aliases(struct xp_elf_file *image, const struct xp_function *functions, size_t count,
		       struct xp_symbol_alias **aliases, size_t *alias_count, char **pool);

#endif
