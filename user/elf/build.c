// SPDX-License-Identifier: BSD-2-Clause
#include "elf/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define NAME_BYTES_MAX 32 /* length of a section name */
#define NAMES_NAME ".shstrtab"

struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[XP_ELF_SECTIONS_MAX];
	Elf64_Shdr sections[XP_ELF_SECTIONS_MAX + 2]; /* including the empty first section and .shstrtab */
	char names[(XP_ELF_SECTIONS_MAX + 2) * NAME_BYTES_MAX];
	size_t name_bytes;
	uint64_t end; /* end of the data placed so far */
};

static uint64_t align_up(uint64_t value, uint64_t align)
{
	return align > 1 ? (value + align - 1) & ~(align - 1) : value;
}

static uint32_t add_name(struct file *file, const char *name)
{
	size_t at = file->name_bytes, length = strnlen(name, NAME_BYTES_MAX - 1);

	memcpy(file->names + at, name, length);
	file->name_bytes += length + 1;
	return at;
}

static void add_section(struct file *file, const struct xp_elf_section *from)
{
	Elf64_Shdr *to = &file->sections[file->header.e_shnum++];

	file->end = align_up(file->end, from->align);
	*to = (Elf64_Shdr){
		.sh_name = add_name(file, from->name),
		.sh_type = from->type,
		.sh_flags = from->flags,
		.sh_addr = from->addr,
		.sh_offset = file->end,
		.sh_size = from->size,
		.sh_link = from->link,
		.sh_info = from->info,
		.sh_addralign = from->align,
		.sh_entsize = from->entry_bytes,
	};
	if (from->type != SHT_NOBITS)
		file->end += from->size;
	if (from->is_loaded)
		file->segments[file->header.e_phnum++] = (Elf64_Phdr){
			.p_type = PT_LOAD,
			.p_flags = PF_R | PF_X,
			.p_offset = to->sh_offset,
			.p_vaddr = to->sh_addr,
			.p_paddr = to->sh_addr,
			.p_filesz = to->sh_size,
			.p_memsz = to->sh_size,
			.p_align = to->sh_addralign,
		};
}

static size_t count_loaded(const struct xp_elf_section *sections, size_t count)
{
	size_t loaded = 0;

	for (size_t i = 0; i < count; i++)
		loaded += sections[i].is_loaded;
	return loaded;
}

static void plan(struct file *file, const struct xp_elf_section *sections, size_t count)
{
	const struct xp_elf_section names = { .name = NAMES_NAME, .type = SHT_STRTAB, .align = 1 };

	file->header = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 1,
		.e_shstrndx = count + 1,
	};
	file->name_bytes = 1;
	file->end = sizeof(Elf64_Ehdr) + count_loaded(sections, count) * sizeof(Elf64_Phdr);
	for (size_t i = 0; i < count; i++)
		add_section(file, &sections[i]);
	add_section(file, &names);
	file->sections[count + 1].sh_size = file->name_bytes;
	file->header.e_shoff = align_up(file->end + file->name_bytes, 8);
	if (file->header.e_phnum) {
		file->header.e_phoff = sizeof(Elf64_Ehdr);
		file->header.e_phentsize = sizeof(Elf64_Phdr);
	}
}

int xp_elf_write(int fd, const struct xp_elf_section *sections, size_t count)
{
	struct file file = { 0 };
	int err;

	if (count > XP_ELF_SECTIONS_MAX)
		return -EINVAL;
	plan(&file, sections, count);
	err = xp_pwrite_all(fd, &file.header, sizeof(file.header), 0);
	if (!err)
		err =
		    xp_pwrite_all(fd, file.segments, file.header.e_phnum * sizeof(*file.segments), sizeof(file.header));
	for (size_t i = 0; i < count && !err; i++)
		if (sections[i].bytes)
			err = xp_pwrite_all(fd, sections[i].bytes, sections[i].size, file.sections[i + 1].sh_offset);
	if (!err)
		err = xp_pwrite_all(fd, file.names, file.name_bytes, file.sections[count + 1].sh_offset);
	if (!err)
		err =
		    xp_pwrite_all(fd, file.sections, file.header.e_shnum * sizeof(*file.sections), file.header.e_shoff);
	return err;
}

int xp_elf_symbols_init(struct xp_elf_symbols *symbols, size_t count, uint64_t name_bytes)
{
	*symbols = (struct xp_elf_symbols){ .count = 1, .string_bytes = 1 };
	if (name_bytes >= UINT32_MAX)
		return -EFBIG;
	symbols->symbols = calloc(count + 1, sizeof(*symbols->symbols));
	symbols->strings = calloc(1, name_bytes + 1);
	if (symbols->symbols && symbols->strings)
		return 0;
	xp_elf_symbols_free(symbols);
	return -ENOMEM;
}

uint32_t xp_elf_symbols_add(struct xp_elf_symbols *symbols, const char *name, unsigned char type, uint16_t section,
			    uint64_t value, uint64_t size)
{
	size_t at = symbols->string_bytes, bytes = strlen(name) + 1;

	memcpy(symbols->strings + at, name, bytes);
	symbols->string_bytes += bytes;
	symbols->symbols[symbols->count++] = (Elf64_Sym){
		.st_name = at,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, type),
		.st_shndx = section,
		.st_value = value,
		.st_size = size,
	};
	return at;
}

void xp_elf_symbols_free(struct xp_elf_symbols *symbols)
{
	free(symbols->symbols);
	free(symbols->strings);
	*symbols = (struct xp_elf_symbols){ 0 };
}

struct xp_elf_section xp_elf_symtab_section(const struct xp_elf_symbols *symbols, uint32_t strings_index)
{
	return (struct xp_elf_section){
		.name = ".symtab",
		.type = SHT_SYMTAB,
		.size = symbols->count * sizeof(Elf64_Sym),
		.align = 8,
		.link = strings_index,
		.info = 1, /* index of the first symbol that is not local */
		.entry_bytes = sizeof(Elf64_Sym),
		.bytes = symbols->symbols,
	};
}

struct xp_elf_section xp_elf_strtab_section(const struct xp_elf_symbols *symbols)
{
	return (struct xp_elf_section){
		.name = ".strtab",
		.type = SHT_STRTAB,
		.size = symbols->string_bytes,
		.align = 1,
		.bytes = symbols->strings,
	};
}
