// SPDX-License-Identifier: BSD-2-Clause
#include "elf/find.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define PIECE_BYTES 65536
#define NAME_BYTES_MAX 64
#define TABLE_BYTES_MAX (1ull << 30)
#define PLACES_MAX 4 /* maximum number of places per name, because other names may end with the same string */

struct search {
	struct xp_elf_file *image;
	const char *const *names;
	uint64_t *values;
	size_t count;
	uint64_t places[XP_ELF_FIND_MAX][PLACES_MAX]; /* offsets in the string table */
	size_t place_count[XP_ELF_FIND_MAX];
	uint8_t piece[PIECE_BYTES];
};

/* Adds a place, unless it is already in the list: pieces overlap, so the previous piece may have contained it. */
static void add_place(struct search *search, size_t name, uint64_t place)
{
	size_t count = search->place_count[name];

	if (!count || place > search->places[name][count - 1])
		search->places[name][search->place_count[name]++] = place;
}

static void find_places(struct search *search, size_t bytes, uint64_t offset)
{
	for (size_t i = 0; i < search->count; i++) {
		size_t length = strlen(search->names[i]) + 1;
		const uint8_t *at = search->piece, *end = search->piece + bytes;

		while (search->place_count[i] < PLACES_MAX &&
		       (at = memmem(at, (size_t)(end - at), search->names[i], length))) {
			add_place(search, i, offset + (uint64_t)(at - search->piece));
			at++;
		}
	}
}

/* Pieces overlap by the longest name, so that a name across a boundary is found. */
static bool search_strings(struct search *search, const GElf_Shdr *strings)
{
	uint64_t at = 0, shared = 0;
	size_t found = 0;

	memset(search->place_count, 0, sizeof(search->place_count));
	while (at < strings->sh_size) {
		size_t bytes = XP_MIN(strings->sh_size - at, (uint64_t)PIECE_BYTES);

		if (!xp_elf_file_read(search->image, search->piece, strings->sh_offset + at, bytes))
			return false;
		find_places(search, bytes, at);
		if (at + bytes == strings->sh_size)
			break;
		shared = NAME_BYTES_MAX;
		at += bytes - shared;
	}
	for (size_t i = 0; i < search->count; i++)
		found += search->place_count[i] > 0;
	return found > 0;
}

static void judge(struct search *search, const Elf64_Sym *symbol)
{
	for (size_t i = 0; i < search->count; i++)
		for (size_t j = 0; j < search->place_count[i]; j++)
			if (symbol->st_name == search->places[i][j] && symbol->st_shndx != SHN_UNDEF &&
			    !search->values[i])
				search->values[i] = symbol->st_value;
}

static void search_symbols(struct search *search, const GElf_Shdr *symbols)
{
	const size_t piece = PIECE_BYTES / sizeof(Elf64_Sym) * sizeof(Elf64_Sym);

	for (uint64_t at = 0; at < symbols->sh_size; at += piece) {
		size_t bytes = XP_MIN(symbols->sh_size - at, (uint64_t)piece);

		if (!xp_elf_file_read(search->image, search->piece, symbols->sh_offset + at, bytes))
			return;
		for (size_t i = 0; i + sizeof(Elf64_Sym) <= bytes; i += sizeof(Elf64_Sym)) {
			Elf64_Sym symbol;

			memcpy(&symbol, search->piece + i, sizeof(symbol));
			judge(search, &symbol);
		}
	}
}

static size_t count_found(const struct search *search)
{
	size_t found = 0;

	for (size_t i = 0; i < search->count; i++)
		found += search->values[i] != 0;
	return found;
}

size_t xp_elf_find(struct xp_elf_file *image, const char *const *names, uint64_t *values, size_t count)
{
	static const uint32_t tables[] = { SHT_DYNSYM, SHT_SYMTAB };
	struct search *search = malloc(sizeof(*search));
	size_t found = 0;

	memset(values, 0, count * sizeof(*values));
	if (!search)
		return 0;
	search->image = image;
	search->names = names;
	search->values = values;
	search->count = XP_MIN(count, (size_t)XP_ELF_FIND_MAX);
	for (size_t i = 0; i < XP_ARRAY_SIZE(tables) && found < search->count; i++) {
		GElf_Shdr symbols, strings;

		if (!xp_elf_file_symbols(image, tables[i], &symbols, &strings) || symbols.sh_size > TABLE_BYTES_MAX ||
		    strings.sh_size > TABLE_BYTES_MAX)
			continue;
		if (search_strings(search, &strings))
			search_symbols(search, &symbols);
		found = count_found(search);
	}
	free(search);
	return found;
}
