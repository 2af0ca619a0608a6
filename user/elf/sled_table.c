// SPDX-License-Identifier: BSD-2-Clause
#include "elf/sled_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86_64/sled_bytes.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/elf_file.h"
#include "elf/symbols.h"

#define MAP_SECTION "xray_instr_map"
#define MAP_VERSION_NEWEST 2
/* Number of sleds between two checks of xp_interrupted(): reading them takes less than 0.1 s. */
#define SLEDS_PER_LOOK 65536

/* One entry of the map in the file. */
struct map_entry {
	uint64_t address;
	uint64_t function;
	uint8_t kind;
	uint8_t always;
	uint8_t version;
	uint8_t zero[13];
};
_Static_assert(sizeof(struct map_entry) == 32, "XRaySledEntry of 64-bit targets");

struct map {
	GElf_Shdr header;
	struct map_entry *entries;
	size_t count;
};

/* The public table and the memory that belongs to it. */
struct table {
	struct xp_sled_table public;
	char *names;
};

static int find_map(struct xp_elf_file *image, struct map *map)
{
	size_t sections;
	uint64_t end;

	if (elf_getshdrnum(image->elf, &sections))
		return xp_why_set(-EINVAL, "broken section headers: %s", elf_errmsg(-1));
	if (!sections)
		return xp_why_set(-ENOENT, "no section headers, so its sleds cannot be found");
	if (!xp_elf_file_section(image, MAP_SECTION, 0, &map->header) || !map->header.sh_size)
		return xp_why_set(-ENOENT, "no XRay sleds");
	if (map->header.sh_type == SHT_NOBITS)
		return xp_why_set(-ENOENT, "a file of debug information, which holds no sleds");
	if (map->header.sh_offset > image->size || map->header.sh_size > image->size - map->header.sh_offset)
		return xp_why_set(-EINVAL, "section " MAP_SECTION " reaches beyond the file's end");
	if (__builtin_add_overflow(map->header.sh_addr, map->header.sh_size, &end))
		return xp_why_set(-EINVAL, "section " MAP_SECTION " wraps around the address space");
	if (map->header.sh_size % sizeof(struct map_entry))
		return xp_why_set(-EINVAL, "section " MAP_SECTION " has %" PRIu64 " bytes, not a multiple of %zu",
				  map->header.sh_size, sizeof(struct map_entry));
	map->count = map->header.sh_size / sizeof(struct map_entry);
	if (map->count > XP_SLEDS_MAX)
		return xp_why_set(-EINVAL, "%zu sleds, more than the %u that xprof reads", map->count, XP_SLEDS_MAX);
	return 0;
}

static int apply_relocation(struct map *map, const Elf64_Rela *relocation)
{
	/* if the relocation is below the map, `at` wraps to a huge number */
	uint64_t at = relocation->r_offset - map->header.sh_addr;
	struct map_entry *entry;

	if (relocation->r_offset < map->header.sh_addr || at >= map->header.sh_size)
		return 0;
	entry = &map->entries[at / sizeof(*entry)];
	at %= sizeof(*entry);
	if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_RELATIVE ||
	    (at != offsetof(struct map_entry, address) && at != offsetof(struct map_entry, function)))
		return xp_why_set(-EINVAL,
				  "section " MAP_SECTION " has a relocation of type %" PRIu64 " at offset %" PRIu64
				  " of an entry, which no compiler makes",
				  (uint64_t)ELF64_R_TYPE(relocation->r_info), at);
	if (at == offsetof(struct map_entry, address))
		entry->address = relocation->r_addend;
	else
		entry->function = relocation->r_addend;
	return 0;
}

static int apply_relocations(struct xp_elf_file *image, struct map *map, const GElf_Shdr *header)
{
	Elf64_Rela relocation;

	for (uint64_t at = 0; header->sh_size - at >= sizeof(relocation); at += sizeof(relocation)) {
		uint64_t offset;
		int err;

		if (__builtin_add_overflow(header->sh_offset, at, &offset) ||
		    !xp_elf_file_read(image, &relocation, offset, sizeof(relocation)))
			return xp_why_set(-EINVAL, "a relocation section reaches beyond the file's end");
		err = apply_relocation(map, &relocation);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Applies relocations. Map versions 0 and 1 contain absolute addresses. In position-independent files these are
 * relocations: the result is in the addend (DT_RELA) or already in place (DT_RELR, and DT_RELA with
 * --apply-dynamic-relocs). Ignores relocation sections that are not loaded: the linker has copied them from its input
 * (--emit-relocs).
 */
static int relocate_map(struct xp_elf_file *image, struct map *map)
{
	Elf_Scn *section = NULL;
	uint64_t total = 0;

	while ((section = elf_nextscn(image->elf, section))) {
		GElf_Shdr header;
		int err;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA || !(header.sh_flags & SHF_ALLOC))
			continue;
		/*
		 * Sections do not overlap in a valid file. Otherwise many of them could make xprof read the same
		 * megabytes repeatedly.
		 */
		if (__builtin_add_overflow(total, header.sh_size, &total) || total > image->size)
			return xp_why_set(-EINVAL, "the relocation sections are larger than the file");
		err = apply_relocations(image, map, &header);
		if (err)
			return err;
	}
	return 0;
}

static int read_map(struct xp_elf_file *image, struct map *map)
{
	int err = find_map(image, map);

	if (err)
		return err;
	map->entries = malloc(map->header.sh_size);
	if (!map->entries)
		return xp_why_set(-ENOMEM, "out of memory");
	if (!xp_elf_file_read(image, map->entries, map->header.sh_offset, map->header.sh_size))
		return xp_why_set(-EINVAL, "section " MAP_SECTION " cannot be read");
	return image->dynamic ? relocate_map(image, map) : 0;
}

/* Converts the relative fields of versions 2 and later to addresses. Unsigned arithmetic wraps as the addresses do. */
static void resolve_entry(const struct map *map, size_t index, uint64_t *address, uint64_t *function)
{
	const struct map_entry *entry = &map->entries[index];
	uint64_t place = map->header.sh_addr + index * sizeof(*entry);

	*address = entry->address;
	*function = entry->function;
	if (entry->version < 2)
		return;
	*address += place + offsetof(struct map_entry, address);
	*function += place + offsetof(struct map_entry, function);
}

/* Sets the members that depend on the sled's code. window has XP_SLED_WINDOW_BYTES bytes. */
static void inspect_sled(struct xp_sled *sled, const uint8_t *window)
{
	sled->intact = xp_sled_intact(sled->kind, window);
	if (!sled->intact)
		return;
	if (sled->kind == XP_SLED_TAIL_EXIT)
		sled->conditional = xp_sled_condition(window, &sled->condition);
	if (sled->kind == XP_SLED_CUSTOM_EVENT || sled->kind == XP_SLED_TYPED_EVENT)
		sled->intact = xp_sled_operands(sled->kind, window, sled->operands);
}

static int fill_sled(struct xp_elf_file *image, struct xp_sled *sled, const struct map_entry *entry, size_t index)
{
	uint8_t window[XP_SLED_WINDOW_BYTES] = { 0 };
	const struct xp_elf_segment *segment;
	uint64_t rest;

	if (entry->version > MAP_VERSION_NEWEST)
		return xp_why_set(-EINVAL, "sled %zu: map version %u is not known (newest known: %d)", index,
				  entry->version, MAP_VERSION_NEWEST);
	if (entry->kind >= XP_SLED_KINDS)
		return xp_why_set(-EINVAL, "sled %zu: kind %u is not known", index, entry->kind);
	segment = xp_elf_file_segment(image, sled->vaddr, xp_sled_bytes(entry->kind));
	if (!segment)
		return xp_why_set(-EINVAL, "sled %zu: address %#" PRIx64 " is in no executable part of the file", index,
				  sled->vaddr);
	rest = segment->bytes - (sled->vaddr - segment->vaddr);
	sled->file_offset = segment->offset + (sled->vaddr - segment->vaddr);
	sled->kind = entry->kind;
	sled->always = entry->always;
	if (!xp_elf_file_read(image, window, sled->file_offset, XP_MIN(rest, sizeof(window))))
		return xp_why_set(-EINVAL, "sled %zu cannot be read", index);
	inspect_sled(sled, window);
	return 0;
}

static int fill_table(struct xp_elf_file *image, const struct map *map, struct xp_sled_table *table)
{
	for (size_t i = 0; i < map->count; i++) {
		struct xp_sled *sled = &table->sleds[i];
		uint64_t function;
		int err;

		resolve_entry(map, i, &sled->vaddr, &function);
		if (!i || table->functions[table->function_count - 1].vaddr != function)
			table->functions[table->function_count++].vaddr = function;
		sled->function_id = table->function_count;
		if (i % SLEDS_PER_LOOK == SLEDS_PER_LOOK - 1 && xp_interrupted())
			return xp_why_set(-ECANCELED, "interrupted");
		err = fill_sled(image, sled, &map->entries[i], i);
		if (err)
			return err;
		table->map_version = XP_MAX(table->map_version, map->entries[i].version);
		table->sled_count++;
	}
	return 0;
}

/* Allocates as many functions as sleds. shrink_functions() returns the excess. */
static int allocate_table(struct xp_sled_table *table, size_t sleds)
{
	table->sleds = calloc(sleds, sizeof(*table->sleds));
	table->functions = calloc(sleds, sizeof(*table->functions));
	return table->sleds && table->functions ? 0 : -ENOMEM;
}

static void shrink_functions(struct xp_sled_table *table)
{
	void *smaller = realloc(table->functions, table->function_count * sizeof(*table->functions));

	if (smaller)
		table->functions = smaller;
}

static int build_table(struct xp_elf_file *image, struct table *table)
{
	struct map map = { 0 };
	int err = read_map(image, &map);

	if (!err && allocate_table(&table->public, map.count))
		err = xp_why_set(-ENOMEM, "out of memory");
	if (!err)
		err = fill_table(image, &map, &table->public);
	free(map.entries);
	if (err)
		return err;
	shrink_functions(&table->public);
	if (xp_symbols_name(image, table->public.functions, table->public.function_count, &table->names))
		return xp_why_set(-ENOMEM, "out of memory");
	table->public.pie = image->dynamic;
	table->public.build_id_bytes =
	    xp_elf_file_build_id(image, table->public.build_id, sizeof(table->public.build_id));
	return 0;
}

/* image_error is the result of opening the image. */
static int finish_read(struct xp_sled_table **table, struct xp_elf_file *image, int image_error)
{
	struct table *built = NULL;
	int err = image_error;

	*table = NULL;
	if (!err) {
		built = calloc(1, sizeof(*built));
		err = built ? build_table(image, built) : xp_why_set(-ENOMEM, "out of memory");
	}
	xp_elf_file_close(image);
	if (err && built)
		xp_sled_table_free(&built->public);
	else if (!err)
		*table = &built->public;
	return err;
}

int xp_sled_table_read(struct xp_sled_table **table, const void *elf, size_t size)
{
	struct xp_elf_file image;
	int err = xp_elf_file_memory(&image, elf, size);

	return finish_read(table, &image, err);
}

int xp_sled_table_open(struct xp_sled_table **table, int fd)
{
	struct xp_elf_file image;
	int err = xp_elf_file_fd(&image, fd);

	return finish_read(table, &image, err);
}

struct xp_sled_table *xp_sled_table_new(size_t sleds, size_t functions)
{
	struct table *built = calloc(1, sizeof(*built));

	if (!built || allocate_table(&built->public, XP_MAX(sleds, functions) + 1)) {
		xp_sled_table_free(built ? &built->public : NULL);
		return NULL;
	}
	return &built->public;
}

void xp_sled_table_forget_names(struct xp_sled_table *table)
{
	for (size_t i = 0; i < table->function_count; i++)
		table->functions[i].name = NULL;
}

void xp_sled_table_free(struct xp_sled_table *table)
{
	struct table *whole = (struct table *)table;

	if (!table)
		return;
	free(table->sleds);
	free(table->functions);
	free(whole->names);
	free(whole);
}
