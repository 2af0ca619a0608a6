// SPDX-License-Identifier: BSD-2-Clause
#include "elf/instr_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "elf/build.h"
#include "elf/sled_table.h"

#define TEXT_VADDR 0x1000ull
#define FUNCTION_BYTES 16ull /* address range of each function, large enough for its sled */
#define MAP_ENTRY_BYTES 32
#define MAP_VERSION 2

enum { SECTION_TEXT = 1, SECTION_MAP, SECTION_SYMTAB, SECTION_STRTAB };

static bool named(const char *name)
{
	return name && *name;
}

/* Writes the name of an unnamed function. Returns its length. */
static int made_up_name(char text[16], size_t index)
{
	return snprintf(text, 16, "fn_%zu", index + 1);
}

static uint64_t name_bytes(const char *name, size_t index)
{
	char text[16];

	return (named(name) ? strlen(name) : (size_t)made_up_name(text, index)) + 1;
}

static uint64_t function_vaddr(size_t index)
{
	return TEXT_VADDR + index * FUNCTION_BYTES;
}

uint64_t xp_instr_map_vaddr(uint32_t function_id)
{
	return function_vaddr(function_id - 1);
}

/* Fills in address and function of each entry, relative to the address of the field. */
static void fill_map(uint8_t *map, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t *entry = map + i * MAP_ENTRY_BYTES;
		uint64_t place = function_vaddr(count) + i * MAP_ENTRY_BYTES;
		uint64_t address = function_vaddr(i) - place;
		uint64_t function = function_vaddr(i) - (place + sizeof(address));

		memcpy(entry, &address, sizeof(address));
		memcpy(entry + 8, &function, sizeof(function));
		entry[16] = XP_SLED_ENTRY;
		entry[17] = 1; /* always instrument */
		entry[18] = MAP_VERSION;
	}
}

static int make_symbols(struct xp_elf_symbols *symbols, const char *const *names, size_t count)
{
	uint64_t bytes = 0;
	int err;

	for (size_t i = 0; i < count; i++)
		bytes += name_bytes(names[i], i);
	err = xp_elf_symbols_init(symbols, count, bytes);
	for (size_t i = 0; i < count && !err; i++) {
		char made_up[16];

		made_up_name(made_up, i);
		xp_elf_symbols_add(symbols, named(names[i]) ? names[i] : made_up, STT_FUNC, SECTION_TEXT,
				   function_vaddr(i), FUNCTION_BYTES);
	}
	return err;
}

static struct xp_elf_section debug_section(const char *name, const uint8_t *bytes, size_t size)
{
	return (struct xp_elf_section){
		.name = name,
		.type = SHT_PROGBITS,
		.size = size,
		.align = 1,
		.bytes = bytes,
	};
}

/* Writes the file. In memory, the map follows the text; in the file, the text is empty. */
static int write_file(int fd, const struct xp_elf_symbols *symbols, const struct xp_line_table *table,
		      const uint8_t *map, size_t count)
{
	const struct xp_elf_section sections[] = {
		{
		    .name = ".text",
		    .type = SHT_NOBITS,
		    .flags = SHF_ALLOC | SHF_EXECINSTR,
		    .addr = TEXT_VADDR,
		    .size = count * FUNCTION_BYTES,
		    .align = FUNCTION_BYTES,
		},
		{
		    .name = "xray_instr_map",
		    .type = SHT_PROGBITS,
		    .flags = SHF_ALLOC,
		    .addr = function_vaddr(count),
		    .size = count * MAP_ENTRY_BYTES,
		    .align = 8,
		    .bytes = map,
		},
		xp_elf_symtab_section(symbols, SECTION_STRTAB),
		xp_elf_strtab_section(symbols),
		debug_section(".debug_abbrev", table->abbrev, table->abbrev_bytes),
		debug_section(".debug_info", table->info, table->info_bytes),
		debug_section(".debug_line", table->lines, table->line_bytes),
	};

	return xp_elf_write(fd, sections, table->lines ? XP_ARRAY_SIZE(sections) : SECTION_STRTAB);
}

int xp_instr_map_write(int fd, const char *const *names, const struct xp_source_line *lines, size_t count)
{
	struct xp_line_table table = { 0 };
	struct xp_elf_symbols symbols;
	uint8_t *map;
	int err;

	if (!count || count > XP_FUNCTION_ID_MAX)
		return -EINVAL;
	err = make_symbols(&symbols, names, count);
	if (err)
		return err;
	map = calloc(count, MAP_ENTRY_BYTES);
	if (!map)
		err = -ENOMEM;
	if (!err && lines)
		err = xp_line_table_make(&table, lines, count, TEXT_VADDR, FUNCTION_BYTES);
	if (!err || err == -ENODATA) {
		fill_map(map, count);
		err = write_file(fd, &symbols, &table, map, count);
	}
	xp_line_table_free(&table);
	free(map);
	xp_elf_symbols_free(&symbols);
	return err;
}
