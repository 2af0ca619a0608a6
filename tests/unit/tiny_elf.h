/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ELF file of 3 KiB with an XRay map, built byte by byte from the ELF64 specification and LLVM's emitXRayTable.
 * Tests use it for the reader, and fuzzers as a seed. All offsets are fixed, so a test can break any byte.
 */
#ifndef XPROF_TESTS_TINY_ELF_H
#define XPROF_TESTS_TINY_ELF_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum {
	/* Offsets in the file. */
	TINY_PHDR = 0x40, /* 0: executable, 1: data, 2: note */
	TINY_NOTE = 0x100,
	TINY_TEXT = 0x200,
	TINY_MAP = 0x400,
	TINY_RELA = 0x600,
	TINY_SYMTAB = 0x700,
	TINY_STRTAB = 0x880,
	TINY_SHSTRTAB = 0x980,
	TINY_SHDR = 0x9c0,
	TINY_BYTES = 0xc00,
	/* Sizes. */
	TINY_PHDR_BYTES = 56,
	TINY_SHDR_BYTES = 64,
	TINY_TEXT_BYTES = 0x200,
	/* Added to an offset to get its address. */
	TINY_TEXT_BIAS = 0x5000,
	TINY_DATA_BIAS = 0x8000,
	/* Sections. */
	TINY_S_TEXT = 1,
	TINY_S_MAP,
	TINY_S_RELA,
	TINY_S_SYMTAB,
	TINY_S_STRTAB,
	TINY_S_SHSTRTAB,
	TINY_SECTIONS,
};

struct tiny_elf {
	uint8_t bytes[TINY_BYTES];
	uint64_t base; /* 0x400000 in ET_EXEC */
	unsigned int sleds;
	unsigned int relocations;
	unsigned int symbols;
	unsigned int strings;
};

static inline void tiny_put(struct tiny_elf *elf, size_t at, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		elf->bytes[at + i] = value >> 8 * i;
}

static inline void tiny_program_header(struct tiny_elf *elf, unsigned int index, uint32_t type, uint32_t flags,
				       uint64_t offset, uint64_t vaddr, uint64_t size)
{
	size_t at = TINY_PHDR + index * TINY_PHDR_BYTES;

	tiny_put(elf, at, type, 4);
	tiny_put(elf, at + 4, flags, 4);
	tiny_put(elf, at + 8, offset, 8);
	tiny_put(elf, at + 16, vaddr, 8);
	tiny_put(elf, at + 24, vaddr, 8);
	tiny_put(elf, at + 32, size, 8);
	tiny_put(elf, at + 40, size, 8);
	tiny_put(elf, at + 48, 4, 8);
}

static inline size_t tiny_section_header(unsigned int index)
{
	return TINY_SHDR + index * TINY_SHDR_BYTES;
}

static inline void tiny_section(struct tiny_elf *elf, unsigned int index, uint32_t name, uint32_t type, uint64_t flags,
				uint64_t vaddr, uint64_t offset, uint64_t size)
{
	size_t at = tiny_section_header(index);

	tiny_put(elf, at, name, 4);
	tiny_put(elf, at + 4, type, 4);
	tiny_put(elf, at + 8, flags, 8);
	tiny_put(elf, at + 16, vaddr, 8);
	tiny_put(elf, at + 24, offset, 8);
	tiny_put(elf, at + 32, size, 8);
	tiny_put(elf, at + 48, 1, 8);
}

static inline void tiny_section_bytes(struct tiny_elf *elf, unsigned int index, uint64_t size)
{
	tiny_put(elf, tiny_section_header(index) + 32, size, 8);
}

static inline uint64_t tiny_text_vaddr(const struct tiny_elf *elf, uint64_t at)
{
	return elf->base + TINY_TEXT + TINY_TEXT_BIAS + at;
}

static inline uint64_t tiny_map_vaddr(const struct tiny_elf *elf, uint64_t at)
{
	return elf->base + TINY_MAP + TINY_DATA_BIAS + at;
}

/* pie: ET_DYN from address 0, otherwise ET_EXEC from 0x400000. */
static inline void tiny_init(struct tiny_elf *elf, int pie)
{
	static const uint8_t ident[] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };
	static const uint8_t note[] = { 4, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4, 5, 6, 7, 8 };
	static const char names[] = "\0.text\0xray_instr_map\0.rela.dyn\0.symtab\0.strtab\0.shstrtab";

	memset(elf, 0, sizeof(*elf));
	elf->base = pie ? 0 : 0x400000;
	memcpy(elf->bytes, ident, sizeof(ident));
	tiny_put(elf, 16, pie ? 3 : 2, 2); /* e_type */
	tiny_put(elf, 18, 62, 2);	   /* e_machine */
	tiny_put(elf, 20, 1, 4);
	tiny_put(elf, 32, TINY_PHDR, 8);
	tiny_put(elf, 40, TINY_SHDR, 8);
	tiny_put(elf, 52, 64, 2);
	tiny_put(elf, 54, TINY_PHDR_BYTES, 2);
	tiny_put(elf, 56, 3, 2);
	tiny_put(elf, 58, TINY_SHDR_BYTES, 2);
	tiny_put(elf, 60, TINY_SECTIONS, 2);
	tiny_put(elf, 62, TINY_S_SHSTRTAB, 2);

	tiny_program_header(elf, 0, 1, 5, TINY_TEXT, tiny_text_vaddr(elf, 0), TINY_TEXT_BYTES);
	tiny_program_header(elf, 1, 1, 6, TINY_MAP, tiny_map_vaddr(elf, 0), 0x200);
	tiny_program_header(elf, 2, 4, 4, TINY_NOTE, elf->base + TINY_NOTE, sizeof(note));
	memcpy(elf->bytes + TINY_NOTE, note, sizeof(note));

	memcpy(elf->bytes + TINY_SHSTRTAB, names, sizeof(names));
	tiny_section(elf, TINY_S_TEXT, 1, 1, 6, tiny_text_vaddr(elf, 0), TINY_TEXT, TINY_TEXT_BYTES);
	tiny_section(elf, TINY_S_MAP, 7, 1, 2, tiny_map_vaddr(elf, 0), TINY_MAP, 0);
	tiny_section(elf, TINY_S_RELA, 22, 4, 2, 0, TINY_RELA, 0);
	tiny_section(elf, TINY_S_SYMTAB, 32, 2, 0, 0, TINY_SYMTAB, 24);
	tiny_put(elf, tiny_section_header(TINY_S_SYMTAB) + 40, TINY_S_STRTAB, 4); /* sh_link */
	tiny_put(elf, tiny_section_header(TINY_S_SYMTAB) + 56, 24, 8);		  /* sh_entsize */
	tiny_section(elf, TINY_S_STRTAB, 40, 3, 0, 0, TINY_STRTAB, 1);
	tiny_section(elf, TINY_S_SHSTRTAB, 48, 3, 0, 0, TINY_SHSTRTAB, sizeof(names));
	elf->symbols = 1;
	elf->strings = 1;
}

static inline void tiny_code(struct tiny_elf *elf, size_t at, const void *code, size_t bytes)
{
	memcpy(elf->bytes + TINY_TEXT + at, code, bytes);
}

/* Puts a raw entry of the map. */
static inline void tiny_raw_sled(struct tiny_elf *elf, uint64_t address, uint64_t function, uint8_t kind,
				 uint8_t version)
{
	size_t at = TINY_MAP + 32 * elf->sleds++;

	assert(at + 32 <= TINY_RELA);
	tiny_put(elf, at, address, 8);
	tiny_put(elf, at + 8, function, 8);
	elf->bytes[at + 16] = kind;
	elf->bytes[at + 17] = 1;
	elf->bytes[at + 18] = version;
	tiny_section_bytes(elf, TINY_S_MAP, 32 * elf->sleds);
}

/* Puts an entry with its sled and function at these offsets of the code. */
static inline void tiny_sled(struct tiny_elf *elf, size_t sled, size_t function, uint8_t kind, uint8_t version)
{
	uint64_t place = tiny_map_vaddr(elf, 32 * elf->sleds);
	uint64_t address = tiny_text_vaddr(elf, sled), function_vaddr = tiny_text_vaddr(elf, function);

	if (version >= 2)
		tiny_raw_sled(elf, address - place, function_vaddr - (place + 8), kind, version);
	else
		tiny_raw_sled(elf, address, function_vaddr, kind, version);
}

static inline void tiny_relocation(struct tiny_elf *elf, uint64_t offset, uint32_t type, uint64_t addend)
{
	size_t at = TINY_RELA + 24 * elf->relocations++;

	assert(at + 24 <= TINY_SYMTAB);
	tiny_put(elf, at, offset, 8);
	tiny_put(elf, at + 8, type, 8);
	tiny_put(elf, at + 16, addend, 8);
	tiny_section_bytes(elf, TINY_S_RELA, 24 * elf->relocations);
}

/* info: binding << 4 | type. */
static inline void tiny_symbol(struct tiny_elf *elf, const char *name, uint8_t info, uint64_t vaddr, uint64_t size)
{
	size_t at = TINY_SYMTAB + 24 * elf->symbols++;

	assert(at + 24 <= TINY_STRTAB && TINY_STRTAB + elf->strings + strlen(name) < TINY_SHSTRTAB);
	tiny_put(elf, at, elf->strings, 4);
	elf->bytes[at + 4] = info;
	tiny_put(elf, at + 6, TINY_S_TEXT, 2);
	tiny_put(elf, at + 8, vaddr, 8);
	tiny_put(elf, at + 16, size, 8);
	memcpy(elf->bytes + TINY_STRTAB + elf->strings, name, strlen(name) + 1);
	elf->strings += strlen(name) + 1;
	tiny_section_bytes(elf, TINY_S_SYMTAB, 24 * elf->symbols);
	tiny_section_bytes(elf, TINY_S_STRTAB, elf->strings);
}

/* Makes a program with all six kinds of sleds, two functions, and names. */
static inline void tiny_example(struct tiny_elf *elf, int pie, uint8_t version)
{
	static const uint8_t conditional_tail[] = { 0xeb, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 0x85 };
	static const uint8_t custom[] = { 0xeb, 0x0f, 0x57, 0x0f, 0x1f, 0x40, 0x08, 0x4c, 0x89, 0xef, 0xe8 };
	static const uint8_t typed[] = { 0xeb, 0x14, 0x57, 0x56, 0x52, 0x48, 0x89, 0xf7,
					 0x4c, 0x89, 0xc6, 0x48, 0x89, 0xc2, 0xe8 };

	tiny_init(elf, pie);
	tiny_code(elf, 0x00, "\xeb\x09", 2);
	tiny_code(elf, 0x20, custom, sizeof(custom));
	tiny_code(elf, 0x40, typed, sizeof(typed));
	tiny_code(elf, 0x60, "\xc3", 1);
	tiny_code(elf, 0x84, "\xeb\x09", 2);
	tiny_code(elf, 0xa0, conditional_tail, sizeof(conditional_tail));
	tiny_sled(elf, 0x00, 0x00, 0, version);
	tiny_sled(elf, 0x20, 0x00, 4, version);
	tiny_sled(elf, 0x40, 0x00, 5, version);
	tiny_sled(elf, 0x60, 0x00, 1, version);
	tiny_sled(elf, 0x84, 0x80, 3, version); /* after an endbr64 */
	tiny_sled(elf, 0xa0, 0x80, 2, version);
	tiny_symbol(elf, "first", 0x12, tiny_text_vaddr(elf, 0), 0x80);
	tiny_symbol(elf, "_ZN2ns6secondEv", 0x12, tiny_text_vaddr(elf, 0x80), 0x80);
}

#endif
