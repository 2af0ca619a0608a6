/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for function addresses, from .symtab and .dynsym of an ELF file. */
#ifndef XPROF_ELF_SYMBOLS_H
#define XPROF_ELF_SYMBOLS_H

#include "elf/elf_file.h"
#include "elf/sled_table.h"

/*
 * The rank of a symbol. Among symbols at one address, the one with the highest rank gives the name: functions before
 * other types, then global before weak before local; then, as in perf, the name with fewer leading underscores. 0: not
 * a name for code.
 */
uint32_t xp_symbol_rank(const GElf_Sym *symbol);
/* The rank of a symbol with this name among those of the same rank. It depends on XP_SYMBOL_PREFIX_BYTES bytes. */
uint32_t xp_symbol_name_rank(uint32_t rank, const char *name);
#define XP_SYMBOL_PREFIX_BYTES 8

/* A longer name is ignored. The longest names that compilers generate have some tens of thousands of bytes. */
#define XP_SYMBOL_BYTES_MAX 65536

/*
 * Sets functions[i].name for each function that a symbol covers. .symtab takes precedence over .dynsym; then the symbol
 * that starts nearest, then the one with the highest rank. The names are in *pool, which the caller frees (NULL: no
 * names). A broken symbol table gives no names and is not an error. Returns 0 or -ENOMEM.
 */
int xp_symbols_name(struct xp_elf_file *image, struct xp_function *functions, size_t count, char **pool);

/* A name of a function. */
struct xp_symbol_alias {
	uint32_t function; /* its index */
	const char *name;
};

/*
 * Finds all names of functions, which are sorted by address: symbols at their first bytes. May find a name twice. The
 * caller frees *aliases and *pool. Returns 0 or -ENOMEM.
 */
int xp_symbols_aliases(struct xp_elf_file *image, const struct xp_function *functions, size_t count,
		       struct xp_symbol_alias **aliases, size_t *alias_count, char **pool);

#endif
