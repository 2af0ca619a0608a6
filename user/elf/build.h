/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes small ELF files without code for tools that look up names in them: sections in, file out. 64-bit,
 * little-endian, x86-64, ET_DYN.
 *
 * Source of the format: the ELF64 specification.
 */
#ifndef XPROF_ELF_BUILD_H
#define XPROF_ELF_BUILD_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_ELF_SECTIONS_MAX 8

struct xp_elf_section {
	const char *name;
	uint32_t type;
	uint64_t flags;
	uint64_t addr;
	uint64_t size;
	uint64_t align; /* alignment of the file offset, a power of two */
	uint32_t link;
	uint32_t info;
	uint64_t entry_bytes;
	const void *bytes; /* owned by the caller; NULL: a hole, zeros that use no disk space */
	bool is_loaded;	   /* covered by a PT_LOAD with read and execute permission */
};

/*
 * Writes the whole file to fd, an empty regular file. sections[i] gets the index i + 1, and the sections are written in
 * their order. .shstrtab is added after them. Returns 0 or -errno: -EINVAL for more than XP_ELF_SECTIONS_MAX sections,
 * or an error of pwrite(2).
 */
int xp_elf_write(int fd, const struct xp_elf_section *sections, size_t count);

/* A symbol table and its strings, both including the empty first entry. Owns its memory. */
struct xp_elf_symbols {
	Elf64_Sym *symbols;
	size_t count;
	char *strings;
	size_t string_bytes;
};

/*
 * Allocates `count` symbols with name_bytes of names in total, terminators included. Returns 0 or -errno: -EFBIG if
 * string offsets exceed 32 bits, -ENOMEM.
 */
int xp_elf_symbols_init(struct xp_elf_symbols *symbols, size_t count, uint64_t name_bytes);
/*
 * Adds a symbol, within the limits given to xp_elf_symbols_init(). type: STT_*. Returns the offset of the name in the
 * strings.
 */
uint32_t xp_elf_symbols_add(struct xp_elf_symbols *symbols, const char *name, unsigned char type, uint16_t section,
			    uint64_t value, uint64_t size);
void xp_elf_symbols_free(struct xp_elf_symbols *symbols);
/* The two sections. strings_index is the index that the second one will have. */
struct xp_elf_section xp_elf_symtab_section(const struct xp_elf_symbols *symbols, uint32_t strings_index);
struct xp_elf_section xp_elf_strtab_section(const struct xp_elf_symbols *symbols);

#endif
