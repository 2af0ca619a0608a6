/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a symfile as JIT compilers do: one section of code, which is already in memory, and its symbols. */
#ifndef XPROF_TEST_SYMFILE_H
#define XPROF_TEST_SYMFILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SYMFILE_NULL, SYMFILE_TEXT, SYMFILE_SYMTAB, SYMFILE_STRTAB, SYMFILE_EH_FRAME, SYMFILE_SECTIONS };

struct symfile {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SYMFILE_SECTIONS];
	Elf64_Sym symbols[8];
	char strings[256];
};

static inline uint32_t symfile_string(struct symfile *file, const char *text)
{
	uint32_t at = (uint32_t)file->sections[SYMFILE_STRTAB].sh_size;

	strcpy(file->strings + at, text);
	file->sections[SYMFILE_STRTAB].sh_size += strlen(text) + 1;
	return at;
}

/* Relocatable, with only the empty symbol. */
static inline void symfile_init(struct symfile *file, uint64_t text, uint64_t text_bytes)
{
	memset(file, 0, sizeof(*file));
	memcpy(file->header.e_ident, ELFMAG, SELFMAG);
	file->header.e_ident[EI_CLASS] = ELFCLASS64;
	file->header.e_ident[EI_DATA] = ELFDATA2LSB;
	file->header.e_ident[EI_VERSION] = EV_CURRENT;
	file->header.e_type = ET_REL;
	file->header.e_machine = EM_X86_64;
	file->header.e_version = EV_CURRENT;
	file->header.e_shoff = offsetof(struct symfile, sections);
	file->header.e_ehsize = sizeof(file->header);
	file->header.e_shentsize = sizeof(Elf64_Shdr);
	file->header.e_shnum = SYMFILE_SECTIONS;
	file->header.e_shstrndx = SYMFILE_STRTAB;
	file->sections[SYMFILE_STRTAB] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB,
		.sh_offset = offsetof(struct symfile, strings),
		.sh_size = 1,
		.sh_addralign = 1,
	};
	file->sections[SYMFILE_SYMTAB] = (Elf64_Shdr){
		.sh_type = SHT_SYMTAB,
		.sh_offset = offsetof(struct symfile, symbols),
		.sh_size = sizeof(Elf64_Sym),
		.sh_link = SYMFILE_STRTAB,
		.sh_info = 1,
		.sh_entsize = sizeof(Elf64_Sym),
		.sh_addralign = 8,
	};
	file->sections[SYMFILE_TEXT] = (Elf64_Shdr){
		.sh_name = symfile_string(file, ".text"),
		.sh_type = SHT_NOBITS,
		.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr = text,
		.sh_size = text_bytes,
		.sh_addralign = 16,
	};
}

/* The .eh_frame is already in memory, and not in the file. */
static inline void symfile_set_eh_frame(struct symfile *file, const void *eh_frame, uint64_t bytes)
{
	file->sections[SYMFILE_EH_FRAME] = (Elf64_Shdr){
		.sh_name = symfile_string(file, ".eh_frame"),
		.sh_type = SHT_NOBITS,
		.sh_flags = SHF_ALLOC,
		.sh_addr = (uintptr_t)eh_frame,
		.sh_size = bytes,
	};
}

static inline Elf64_Sym *symfile_add(struct symfile *file, const char *name, uint64_t value, uint64_t size)
{
	uint64_t *bytes = &file->sections[SYMFILE_SYMTAB].sh_size;
	Elf64_Sym *symbol = &file->symbols[*bytes / sizeof(*symbol)];

	*symbol = (Elf64_Sym){
		.st_name = symfile_string(file, name),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SYMFILE_TEXT,
		.st_value = value,
		.st_size = size,
	};
	*bytes += sizeof(*symbol);
	return symbol;
}

#endif
