// SPDX-License-Identifier: BSD-2-Clause
#include "side_elf.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_xray.h"
#include "util.h"

#define TEXT_VADDR 0x1000ull
#define FUNCTION_BYTES 16ull /* addresses that each function is given: room for the sled that the map claims */
#define MAP_ENTRY_BYTES 32
#define MAP_VERSION 2

enum { SECTION_NULL, SECTION_TEXT, SECTION_MAP, SECTION_SYMTAB, SECTION_STRTAB, SECTION_SHSTRTAB, SECTIONS };

/* The names of the sections, and each one's offset. */
static const char section_names[] = "\0.text\0xray_instr_map\0.symtab\0.strtab\0.shstrtab";
static const uint32_t section_name_offsets[SECTIONS] = { 0, 1, 7, 22, 30, 38 };

/* Where each part stands in the file: the order is that of the members, the ELF header first. */
struct layout {
	uint64_t map_vaddr;
	uint64_t map_offset;
	uint64_t map_bytes;
	uint64_t symtab_offset;
	uint64_t symtab_bytes;
	uint64_t strtab_offset;
	uint64_t strtab_bytes;
	uint64_t shstrtab_offset;
	uint64_t headers_offset;
	uint64_t file_bytes;
};

static bool named(const char *name)
{
	return name && *name;
}

/* The text of a symbol whose name is not known; returns its length. */
static int made_up_name(char text[16], size_t index)
{
	return snprintf(text, 16, "fn_%zu", index + 1);
}

static uint64_t name_bytes(const char *name, size_t index)
{
	char text[16];

	return (named(name) ? strlen(name) : (size_t)made_up_name(text, index)) + 1;
}

static int plan(struct layout *layout, const char *const *names, size_t count)
{
	layout->strtab_bytes = 1;
	for (size_t i = 0; i < count; i++)
		layout->strtab_bytes += name_bytes(names[i], i);
	if (layout->strtab_bytes > UINT32_MAX)
		return -EFBIG;
	layout->map_vaddr = TEXT_VADDR + count * FUNCTION_BYTES;
	layout->map_offset = sizeof(Elf64_Ehdr);
	layout->map_bytes = count * MAP_ENTRY_BYTES;
	layout->symtab_offset = layout->map_offset + layout->map_bytes;
	layout->symtab_bytes = (count + 1) * sizeof(Elf64_Sym);
	layout->strtab_offset = layout->symtab_offset + layout->symtab_bytes;
	layout->shstrtab_offset = layout->strtab_offset + layout->strtab_bytes;
	layout->headers_offset = (layout->shstrtab_offset + sizeof(section_names) + 7) & ~7ull;
	layout->file_bytes = layout->headers_offset + SECTIONS * sizeof(Elf64_Shdr);
	return 0;
}

static void put_header(uint8_t *file, const struct layout *layout)
{
	Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = layout->headers_offset,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_SHSTRTAB,
	};

	memcpy(file, &header, sizeof(header));
}

static uint64_t function_vaddr(size_t index)
{
	return TEXT_VADDR + index * FUNCTION_BYTES;
}

/* Both fields count from their own place: address is the first, function the second. */
static void put_map(uint8_t *file, const struct layout *layout, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t *entry = file + layout->map_offset + i * MAP_ENTRY_BYTES;
		uint64_t place = layout->map_vaddr + i * MAP_ENTRY_BYTES;
		uint64_t address = function_vaddr(i) - place;
		uint64_t function = function_vaddr(i) - (place + sizeof(address));

		memcpy(entry, &address, sizeof(address));
		memcpy(entry + 8, &function, sizeof(function));
		entry[16] = XP_SLED_ENTRY;
		entry[17] = 1; /* always instrument */
		entry[18] = MAP_VERSION;
	}
}

static void put_symbols(uint8_t *file, const struct layout *layout, const char *const *names, size_t count)
{
	uint64_t at = 1;

	for (size_t i = 0; i < count; i++) {
		Elf64_Sym symbol = {
			.st_name = at,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = SECTION_TEXT,
			.st_value = function_vaddr(i),
			.st_size = FUNCTION_BYTES,
		};
		char made_up[16];
		const char *name = names[i];

		if (!named(name)) {
			made_up_name(made_up, i);
			name = made_up;
		}
		memcpy(file + layout->symtab_offset + (i + 1) * sizeof(symbol), &symbol, sizeof(symbol));
		memcpy(file + layout->strtab_offset + at, name, strlen(name) + 1);
		at += strlen(name) + 1;
	}
}

static void put_section_headers(uint8_t *file, const struct layout *layout)
{
	Elf64_Shdr headers[SECTIONS] = {
		[SECTION_TEXT] = {
			.sh_type = SHT_NOBITS,
			.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			.sh_addr = TEXT_VADDR,
			.sh_offset = layout->map_offset,
			.sh_size = layout->map_vaddr - TEXT_VADDR,
			.sh_addralign = FUNCTION_BYTES,
		},
		[SECTION_MAP] = {
			.sh_type = SHT_PROGBITS,
			.sh_flags = SHF_ALLOC,
			.sh_addr = layout->map_vaddr,
			.sh_offset = layout->map_offset,
			.sh_size = layout->map_bytes,
			.sh_addralign = 8,
		},
		[SECTION_SYMTAB] = {
			.sh_type = SHT_SYMTAB,
			.sh_offset = layout->symtab_offset,
			.sh_size = layout->symtab_bytes,
			.sh_link = SECTION_STRTAB,
			.sh_info = 1, /* the first that is not local */
			.sh_addralign = 8,
			.sh_entsize = sizeof(Elf64_Sym),
		},
		[SECTION_STRTAB] = {
			.sh_type = SHT_STRTAB,
			.sh_offset = layout->strtab_offset,
			.sh_size = layout->strtab_bytes,
			.sh_addralign = 1,
		},
		[SECTION_SHSTRTAB] = {
			.sh_type = SHT_STRTAB,
			.sh_offset = layout->shstrtab_offset,
			.sh_size = sizeof(section_names),
			.sh_addralign = 1,
		},
	};

	for (size_t i = 0; i < SECTIONS; i++)
		headers[i].sh_name = section_name_offsets[i];
	memcpy(file + layout->headers_offset, headers, sizeof(headers));
}

int xp_side_elf_write(int fd, const char *const *names, size_t count)
{
	struct layout layout;
	uint8_t *file;
	int err;

	if (!count || count > XP_FUNCTION_ID_MAX)
		return -EINVAL;
	err = plan(&layout, names, count);
	if (err)
		return err;
	file = calloc(1, layout.file_bytes);
	if (!file)
		return -ENOMEM;
	put_header(file, &layout);
	put_map(file, &layout, count);
	put_symbols(file, &layout, names, count);
	memcpy(file + layout.shstrtab_offset, section_names, sizeof(section_names));
	put_section_headers(file, &layout);
	err = xp_write_all(fd, file, layout.file_bytes);
	free(file);
	return err;
}
