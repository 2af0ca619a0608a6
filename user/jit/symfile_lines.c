// SPDX-License-Identifier: BSD-2-Clause
#include "jit/symfile_lines.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct relocation {
	uint64_t offset; /* in .debug_line */
	uint64_t value;
};

struct reader {
	const uint8_t *bytes;
	size_t size;
	Elf *elf;
	GElf_Shdr names;
	size_t line_index; /* of .debug_line; 0: none */
	struct xp_dwarf_line_input input;
	struct relocation *relocations; /* in order of offset */
	size_t count;
};

static bool in_file(const struct reader *reader, const GElf_Shdr *header)
{
	return header->sh_type != SHT_NOBITS && header->sh_offset <= reader->size &&
	       header->sh_size <= reader->size - header->sh_offset;
}

static bool is_named(const struct reader *reader, const GElf_Shdr *header, const char *name)
{
	size_t bytes = strlen(name) + 1;

	return header->sh_name < reader->names.sh_size && bytes <= reader->names.sh_size - header->sh_name &&
	       !memcmp(reader->bytes + reader->names.sh_offset + header->sh_name, name, bytes);
}

static void find_sections(struct reader *reader)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(reader->elf, section))) {
		struct xp_dwarf_section found;

		if (!gelf_getshdr(section, &header) || !in_file(reader, &header) || header.sh_flags & SHF_COMPRESSED)
			continue;
		found = (struct xp_dwarf_section){ reader->bytes + header.sh_offset, header.sh_size };
		if (is_named(reader, &header, ".debug_line")) {
			reader->input.line = found;
			reader->line_index = elf_ndxscn(section);
		} else if (is_named(reader, &header, ".debug_line_str")) {
			reader->input.line_str = found;
		} else if (is_named(reader, &header, ".debug_str")) {
			reader->input.str = found;
		}
	}
}

/* Numbers that refer to other debug sections are relative to them, wherever the sections were loaded. */
static bool find_value(const struct reader *reader, const GElf_Shdr *symbols, const Elf64_Rela *rela, uint64_t *value)
{
	uint64_t at = ELF64_R_SYM(rela->r_info) * sizeof(Elf64_Sym);
	GElf_Shdr section;
	Elf64_Sym symbol;

	if (at >= symbols->sh_size || symbols->sh_size - at < sizeof(symbol))
		return false;
	memcpy(&symbol, reader->bytes + symbols->sh_offset + at, sizeof(symbol));
	if (symbol.st_shndx >= SHN_LORESERVE || !gelf_getshdr(elf_getscn(reader->elf, symbol.st_shndx), &section))
		return false;
	*value = symbol.st_value + (uint64_t)rela->r_addend + (section.sh_flags & SHF_ALLOC ? section.sh_addr : 0);
	return true;
}

static int read_relocations(struct reader *reader, const GElf_Shdr *relas)
{
	uint64_t count = XP_MIN(relas->sh_size / sizeof(Elf64_Rela), (uint64_t)XP_JIT_SYMFILE_RELOCATIONS_MAX);
	GElf_Shdr symbols;

	if (!gelf_getshdr(elf_getscn(reader->elf, relas->sh_link), &symbols) || symbols.sh_type != SHT_SYMTAB ||
	    !in_file(reader, &symbols) || !count)
		return 0;
	reader->relocations = calloc(count, sizeof(*reader->relocations));
	if (!reader->relocations)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++) {
		struct relocation *relocation = &reader->relocations[reader->count];
		Elf64_Rela rela;

		memcpy(&rela, reader->bytes + relas->sh_offset + i * sizeof(rela), sizeof(rela));
		relocation->offset = rela.r_offset;
		reader->count += find_value(reader, &symbols, &rela, &relocation->value);
	}
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct relocation *first = a, *second = b;

	return (first->offset > second->offset) - (first->offset < second->offset);
}

static int find_relocations(struct reader *reader)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int err = 0;

	while (!err && !reader->count && (section = elf_nextscn(reader->elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA &&
		    header.sh_info == reader->line_index && in_file(reader, &header) && !reader->relocations)
			err = read_relocations(reader, &header);
	if (reader->count)
		qsort(reader->relocations, reader->count, sizeof(*reader->relocations), by_offset);
	return err;
}

static uint64_t relocate(void *arg, uint64_t offset, uint64_t value)
{
	const struct reader *reader = arg;
	const struct relocation key = { .offset = offset }, *found;

	found = bsearch(&key, reader->relocations, reader->count, sizeof(key), by_offset);
	return found ? found->value : value;
}

int xp_jit_symfile_lines(struct xp_dwarf_lines *lines, const uint8_t *bytes, size_t size)
{
	struct reader reader = { .bytes = bytes, .size = size };
	size_t index;
	int err = 0;

	*lines = (struct xp_dwarf_lines){ 0 };
	elf_version(EV_CURRENT);
	reader.elf = elf_memory((char *)bytes, size); /* elf_memory() does not change the bytes */
	if (!reader.elf)
		return 0;
	if (!elf_getshdrstrndx(reader.elf, &index) && gelf_getshdr(elf_getscn(reader.elf, index), &reader.names) &&
	    in_file(&reader, &reader.names))
		find_sections(&reader);
	if (reader.line_index)
		err = find_relocations(&reader);
	reader.input.relocate = reader.count ? relocate : NULL;
	reader.input.arg = &reader;
	if (!err && reader.line_index)
		err = xp_dwarf_lines_read(lines, &reader.input);
	free(reader.relocations);
	elf_end(reader.elf);
	return err;
}
