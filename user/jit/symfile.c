// SPDX-License-Identifier: BSD-2-Clause
#include "jit/symfile.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

struct reader {
	const uint8_t *bytes;
	size_t size;
	Elf *elf;
	bool relocatable;
	struct xp_jit_symfile *symfile;
	size_t room;
};

static bool in_file(const struct reader *reader, const GElf_Shdr *header)
{
	return header->sh_type != SHT_NOBITS && header->sh_offset <= reader->size &&
	       header->sh_size <= reader->size - header->sh_offset;
}

/* Returns the string, or NULL if it has no NUL inside the table. */
static const char *string_at(const struct reader *reader, const GElf_Shdr *strings, uint32_t offset)
{
	const char *text;

	if (offset >= strings->sh_size)
		return NULL;
	text = (const char *)reader->bytes + strings->sh_offset + offset;
	return memchr(text, 0, strings->sh_size - offset) ? text : NULL;
}

static int add_function(struct reader *reader, const struct xp_jit_function *function)
{
	struct xp_jit_symfile *symfile = reader->symfile;

	return XP_ARRAY_ADD(symfile->functions, symfile->count, reader->room, *function);
}

/*
 * Returns the address of a symbol. In linked files, symbol values are absolute; in relocatable files, they are relative
 * to the section. A linked file may still have relative values if the JIT compiler changed its header later.
 */
static uint64_t address_of(const struct reader *reader, const Elf64_Sym *symbol, const GElf_Shdr *section)
{
	bool absolute = !reader->relocatable && symbol->st_value >= section->sh_addr &&
			symbol->st_value - section->sh_addr < section->sh_size;

	return absolute ? symbol->st_value : section->sh_addr + symbol->st_value;
}

static int add_symbol(struct reader *reader, const Elf64_Sym *symbol, const GElf_Shdr *strings)
{
	struct xp_jit_function function;
	GElf_Shdr section;
	uint64_t offset;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
	    symbol->st_shndx >= SHN_LORESERVE || !gelf_getshdr(elf_getscn(reader->elf, symbol->st_shndx), &section) ||
	    !section.sh_addr)
		return 0;
	function.name = string_at(reader, strings, symbol->st_name);
	function.address = address_of(reader, symbol, &section);
	offset = function.address - section.sh_addr;
	if (!function.name || !*function.name || offset >= section.sh_size)
		return 0;
	function.size = symbol->st_size ? XP_MIN(symbol->st_size, section.sh_size - offset) : section.sh_size - offset;
	return add_function(reader, &function);
}

static int read_symbols(struct reader *reader, const GElf_Shdr *symbols)
{
	GElf_Shdr strings;
	int err = 0;

	if (symbols->sh_entsize != sizeof(Elf64_Sym) || !in_file(reader, symbols) ||
	    !gelf_getshdr(elf_getscn(reader->elf, symbols->sh_link), &strings) || !in_file(reader, &strings))
		return 0;
	for (uint64_t at = 0; !err && at + sizeof(Elf64_Sym) <= symbols->sh_size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;

		if (reader->symfile->count == XP_JIT_SYMFILE_FUNCTIONS_MAX)
			break;
		memcpy(&symbol, reader->bytes + symbols->sh_offset + at, sizeof(symbol));
		err = add_symbol(reader, &symbol, &strings);
	}
	return err;
}

static int compare(const void *a, const void *b)
{
	const struct xp_jit_function *x = a, *y = b;

	return xp_compare(x->address, y->address) ?: xp_compare(y->size, x->size);
}

/*
 * Keeps one function per address and shortens functions that overlap the next one, because later loads would replace
 * earlier code.
 */
static void tidy(struct xp_jit_symfile *symfile)
{
	struct xp_jit_function *functions = symfile->functions;
	size_t count = 0;

	if (symfile->count)
		qsort(functions, symfile->count, sizeof(*functions), compare);
	for (size_t i = 0; i < symfile->count; i++) {
		struct xp_jit_function *last = count ? &functions[count - 1] : NULL;

		if (last && last->address == functions[i].address)
			continue;
		if (last && functions[i].address - last->address < last->size)
			last->size = functions[i].address - last->address;
		functions[count++] = functions[i];
	}
	symfile->count = count;
}

static int read_sections(struct reader *reader)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header, names = { 0 };
	size_t index;
	bool done = false;
	int err = 0;

	if (elf_getshdrstrndx(reader->elf, &index) || !gelf_getshdr(elf_getscn(reader->elf, index), &names) ||
	    !in_file(reader, &names))
		names.sh_size = 0;
	while (!err && (section = elf_nextscn(reader->elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header))
			continue;
		name = string_at(reader, &names, header.sh_name);
		if (name && !strcmp(name, ".eh_frame") && header.sh_flags & SHF_ALLOC && header.sh_addr) {
			reader->symfile->eh_frame = header.sh_addr;
			reader->symfile->eh_frame_bytes = header.sh_size;
		}
		if (header.sh_type == SHT_SYMTAB && !done) {
			err = read_symbols(reader, &header);
			done = true;
		}
	}
	return err;
}

int xp_jit_symfile_read(struct xp_jit_symfile *symfile, const uint8_t *bytes, size_t size)
{
	struct reader reader = { .bytes = bytes, .size = size, .symfile = symfile };
	GElf_Ehdr header;
	int err;

	*symfile = (struct xp_jit_symfile){ 0 };
	elf_version(EV_CURRENT);
	reader.elf = elf_memory((char *)bytes, size); /* elf_memory() does not change the bytes */
	if (!reader.elf)
		return -EBADMSG;
	if (elf_kind(reader.elf) != ELF_K_ELF || !gelf_getehdr(reader.elf, &header) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != EM_X86_64) {
		elf_end(reader.elf);
		return -EBADMSG;
	}
	reader.relocatable = header.e_type == ET_REL;
	err = read_sections(&reader);
	elf_end(reader.elf);
	if (err)
		xp_jit_symfile_free(symfile);
	else
		tidy(symfile);
	return err;
}

void xp_jit_symfile_free(struct xp_jit_symfile *symfile)
{
	free(symfile->functions);
	*symfile = (struct xp_jit_symfile){ 0 };
}
