// SPDX-License-Identifier: BSD-2-Clause
#include "functions/code_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "base/why.h"

#define COLD ".cold"
#define NAME_BYTES_MAX 4096
#define WORDS_MAX 512 /* number of words of data to read at a time */

/* ---- the bytes ---- */

static int read_code(struct xp_code_map *map)
{
	const struct xp_elf_file *file = map->file;

	map->start = UINT64_MAX;
	for (size_t i = 0; i < file->segment_count; i++) {
		uint64_t end;

		if (__builtin_add_overflow(file->segments[i].vaddr, file->segments[i].bytes, &end))
			return xp_why_set(-EINVAL, "malformed: a segment wraps around");
		map->start = XP_MIN(map->start, file->segments[i].vaddr);
		map->end = XP_MAX(map->end, end);
	}
	if (map->start >= map->end)
		return xp_why_set(-ENOENT, "has no code");
	if (map->end - map->start > XP_CODE_MAP_BYTES_MAX)
		return xp_why_set(-E2BIG, "has more than 1 GiB of code");
	map->code = calloc(map->end - map->start, 1);
	map->decoded = calloc(map->end - map->start, 1);
	map->marks = calloc(map->end - map->start, 1);
	if (!map->code || !map->decoded || !map->marks)
		return -ENOMEM;
	for (size_t i = 0; i < file->segment_count; i++)
		if (!xp_elf_file_read(map->file, map->code + (file->segments[i].vaddr - map->start),
				      file->segments[i].offset, file->segments[i].bytes))
			return xp_why_set(-EINVAL, "malformed: its code is truncated");
	return 0;
}

static int read_unwind_entries(struct xp_code_map *map)
{
	struct xp_cfi_section section = { 0 };
	const Elf_Data *data;
	GElf_Shdr header;
	Elf_Scn *scn = xp_elf_file_section(map->file, ".eh_frame", 0, &header);

	data = scn && header.sh_type != SHT_NOBITS ? elf_getdata(scn, NULL) : NULL;
	if (data && data->d_buf)
		section =
		    (struct xp_cfi_section){ .bytes = data->d_buf, .size = data->d_size, .vaddr = header.sh_addr };
	return section.bytes ? xp_cfi_fdes_read(&map->fdes, &section) : 0;
}

/* Go's compiler writes no .eh_frame. */
static int read_go_functions(struct xp_code_map *map)
{
	struct xp_cfi_fdes *fdes = &map->fdes;
	int err = xp_go_functions_read(&map->go, map->file);

	if (!err && XP_ARRAY_RESERVE(fdes->all, fdes->room, map->go.count))
		err = -ENOMEM;
	for (size_t i = 0; !err && i < map->go.count; i++)
		fdes->all[fdes->count++] =
		    (struct xp_cfi_fde){ .vaddr = map->go.all[i].vaddr, .bytes = (uint32_t)map->go.all[i].bytes };
	return err;
}

static int read_fdes(struct xp_code_map *map)
{
	struct xp_cfi_fdes *fdes = &map->fdes;
	size_t kept = 0;
	int err;

	fdes->start = map->start;
	fdes->end = map->end;
	map->is_go = xp_elf_file_is_go(map->file);
	err = map->is_go ? read_go_functions(map) : read_unwind_entries(map);
	if (err)
		return err;
	xp_cfi_fdes_sort(fdes);
	/* If two entries overlap, neither is trusted: omits the second, and marks the first as not decodable. */
	for (size_t i = 0; i < fdes->count; i++)
		if (xp_elf_file_segment(map->file, fdes->all[i].vaddr, fdes->all[i].bytes) &&
		    (!kept || fdes->all[kept - 1].vaddr + fdes->all[kept - 1].bytes <= fdes->all[i].vaddr))
			fdes->all[kept++] = fdes->all[i];
	fdes->count = kept;
	map->is_decodable = calloc(XP_MAX(kept, (size_t)1), sizeof(*map->is_decodable));
	if (!map->is_decodable)
		return -ENOMEM;
	return kept ? 0 : xp_why_set(-ENOENT, "has no %s", map->is_go ? "Go functions" : "unwind entries (.eh_frame)");
}

/* ---- instructions ---- */

static void add_targets(struct xp_code_map *map, const struct xp_code *code)
{
	if (code->has_target)
		xp_code_map_mark(map, code->target, XP_MARK_TARGET | (code->kind == XP_CODE_CALL ? XP_MARK_CALLED : 0));
	if (code->is_lea)
		xp_code_map_mark(map, code->address, XP_MARK_TARGET | XP_MARK_POINTED);
	if (!map->file->dynamic && code->constant)
		xp_code_map_mark(map, code->constant, XP_MARK_TARGET | XP_MARK_POINTED);
}

static bool decode_function(struct xp_code_map *map, const struct xp_cfi_fde *fde)
{
	uint64_t at = fde->vaddr, end = fde->vaddr + fde->bytes;
	struct xp_code code;

	while (at < end) {
		size_t offset = at - map->start;

		if (!xp_code_decode(map->code + offset, end - at, at, &code))
			return false;
		map->decoded[offset] = (uint8_t)(code.bytes << 4 | code.kind);
		if (code.kind == XP_CODE_ENDBR && at > fde->vaddr)
			xp_code_map_mark(map, at, XP_MARK_TARGET);
		add_targets(map, &code);
		at += code.bytes;
	}
	return true;
}

/* ---- addresses of code in data ---- */

#define RELOCATED_BYTES 8

static void add_relocations(struct xp_code_map *map)
{
	Elf_Scn *section = NULL;
	Elf64_Rela relocation;
	GElf_Shdr header;

	while ((section = elf_nextscn(map->file->elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA)
			continue;
		for (uint64_t at = 0; at + sizeof(relocation) <= header.sh_size; at += sizeof(relocation)) {
			if (!xp_elf_file_read(map->file, &relocation, header.sh_offset + at, sizeof(relocation)))
				break;
			xp_code_map_mark(map, (uint64_t)relocation.r_addend, XP_MARK_TARGET | XP_MARK_POINTED);
			/* The dynamic linker may write these bytes: no window may contain them. */
			for (uint64_t i = 0; i < RELOCATED_BYTES; i++)
				xp_code_map_mark(map, relocation.r_offset + i, XP_MARK_TAKEN);
		}
	}
}

/* Reads the names of symbols. NULL: none, or out of memory. */
static char *read_names(const struct xp_code_map *map, const GElf_Shdr *strings)
{
	char *names = malloc(strings->sh_size + 1);

	if (names && !xp_elf_file_read(map->file, names, strings->sh_offset, strings->sh_size)) {
		free(names);
		return NULL;
	}
	if (names)
		names[strings->sh_size] = 0;
	return names;
}

static bool is_cold(const char *name)
{
	size_t bytes = strnlen(name, NAME_BYTES_MAX);

	return bytes > strlen(COLD) && !memcmp(name + bytes - strlen(COLD), COLD, strlen(COLD));
}

static void add_symbols(struct xp_code_map *map, uint32_t type)
{
	GElf_Shdr symbols, strings;
	Elf64_Sym symbol;
	char *names;

	if (!xp_elf_file_symbols(map->file, type, &symbols, &strings))
		return;
	names = read_names(map, &strings);
	for (uint64_t at = 0; at + sizeof(symbol) <= symbols.sh_size; at += sizeof(symbol)) {
		if (!xp_elf_file_read(map->file, &symbol, symbols.sh_offset + at, sizeof(symbol)))
			break;
		xp_code_map_mark(map, symbol.st_value,
				 XP_MARK_TARGET | (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ? 0 : XP_MARK_CALLED));
		if (names && symbol.st_name < strings.sh_size && is_cold(names + symbol.st_name))
			xp_code_map_mark(map, symbol.st_value, XP_MARK_COLD);
	}
	free(names);
}

/* Returns whether data contains addresses without their own relocations. */
static bool has_plain_addresses(struct xp_elf_file *file)
{
	GElf_Shdr header;

	return !file->dynamic || xp_elf_file_section(file, NULL, SHT_RELR, &header);
}

static void add_words(struct xp_code_map *map, uint64_t offset, uint64_t bytes)
{
	uint64_t words[WORDS_MAX];

	for (uint64_t at = 0; at + sizeof(*words) <= bytes; at += sizeof(words)) {
		size_t size = XP_MIN(bytes - at, sizeof(words)) & ~(sizeof(*words) - 1);

		if (!xp_elf_file_read(map->file, words, offset + at, size))
			return;
		for (size_t i = 0; i < size / sizeof(*words); i++)
			xp_code_map_mark(map, words[i], XP_MARK_TARGET | XP_MARK_POINTED);
	}
}

static void add_data(struct xp_code_map *map)
{
	size_t count;

	if (!has_plain_addresses(map->file) || elf_getphdrnum(map->file->elf, &count))
		return;
	for (size_t i = 0; i < count && i < XP_ELF_SEGMENTS_MAX; i++) {
		GElf_Phdr header;
		uint64_t skip;

		if (!gelf_getphdr(map->file->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    header.p_flags & PF_X || header.p_offset > map->file->size)
			continue;
		skip = -header.p_vaddr & 7;
		header.p_filesz = XP_MIN(header.p_filesz, map->file->size - header.p_offset);
		if (header.p_filesz > skip)
			add_words(map, header.p_offset + skip, header.p_filesz - skip);
	}
}

static void mark_plt(struct xp_code_map *map)
{
	GElf_Shdr names, header;
	Elf_Scn *section = NULL;
	char name[8];
	size_t index;

	if (elf_getshdrstrndx(map->file->elf, &index) || !gelf_getshdr(elf_getscn(map->file->elf, index), &names))
		return;
	while ((section = elf_nextscn(map->file->elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    !xp_elf_file_section_name(map->file, &names, &header, name, sizeof(name)) ||
		    strncmp(name, ".plt", 4))
			continue;
		for (uint64_t at = 0; at < header.sh_size && xp_code_map_has(map, header.sh_addr + at); at++)
			xp_code_map_mark(map, header.sh_addr + at, XP_MARK_PLT);
	}
}

int xp_code_map_read(struct xp_code_map *map, struct xp_elf_file *file)
{
	int err;

	memset(map, 0, sizeof(*map));
	map->file = file;
	err = read_code(map);
	if (!err)
		err = read_fdes(map);
	if (err)
		return err;
	for (size_t i = 0; i < map->fdes.count; i++)
		map->is_decodable[i] = decode_function(map, &map->fdes.all[i]);
	mark_plt(map);
	add_relocations(map);
	add_symbols(map, SHT_SYMTAB);
	add_symbols(map, SHT_DYNSYM);
	add_data(map);
	return 0;
}

void xp_code_map_free(struct xp_code_map *map)
{
	free(map->code);
	free(map->decoded);
	free(map->marks);
	free(map->is_decodable);
	xp_cfi_fdes_free(&map->fdes);
	xp_go_functions_free(&map->go);
}

/* ---- questions ---- */

uint64_t xp_code_map_before(const struct xp_code_map *map, uint64_t vaddr, uint64_t first)
{
	for (uint64_t at = vaddr; at > first && vaddr - (at - 1) <= XP_CODE_BYTES_MAX;) {
		at--;
		if (map->decoded[at - map->start])
			return xp_code_map_next(map, at) == vaddr ? at : vaddr;
	}
	return vaddr;
}

void xp_code_map_decode(const struct xp_code_map *map, uint64_t vaddr, struct xp_code *code)
{
	if (!xp_code_decode(map->code + (vaddr - map->start), map->end - vaddr, vaddr, code))
		memset(code, 0, sizeof(*code));
}

size_t xp_code_map_find(const struct xp_code_map *map, uint64_t vaddr)
{
	const struct xp_cfi_fde *all = map->fdes.all;
	size_t i = XP_FIND_FIRST(map->fdes.count, k, all[k].vaddr <= vaddr);

	return i && vaddr - all[i - 1].vaddr < all[i - 1].bytes ? i - 1 : SIZE_MAX;
}
