// SPDX-License-Identifier: BSD-2-Clause
#include "elf/symbol_file.h"

#include <errno.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "elf/build.h"

#define UNKNOWN_NAME "[unknown]"
#define END_NAME "[end]"
#define RANGE_BYTES_MAX 0xffffffffull

/* .gopclntab: Go 1.2's magic number, for little-endian x86-64. */
static const uint8_t go_magic[8] = { 0xfb, 0xff, 0xff, 0xff, 0, 0, 1, 8 };
/*
 * Encoded table of values by PC, relative to the function. The value rises from -1 to 0 (+1 is 2 in zigzag encoding)
 * and stays 0 for the next 2^32 - 1 bytes; then the end marker follows. File 0 and line 0 mean unknown.
 */
static const uint8_t go_values[] = { 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0 };

struct go_function {
	uint64_t entry;
	uint32_t name;
	uint32_t args;
	uint32_t frame;
	uint32_t pc_to_sp;
	uint32_t pc_to_file;
	uint32_t pc_to_line;
	uint32_t pc_data_count;
	uint32_t func_data_count;
};
_Static_assert(sizeof(struct go_function) == 40, "as Go's debug/gosym reads it");

enum { SECTION_TEXT = 1, SECTION_SYMTAB, SECTION_STRTAB };

static int check(uint64_t start, uint64_t end, const struct xp_sym *syms, size_t count)
{
	if (start >= end)
		return -EINVAL;
	if (end - start > RANGE_BYTES_MAX)
		return -EFBIG;
	for (size_t i = 0; i < count; i++)
		if (syms[i].address < start || syms[i].address >= end || (i && syms[i].address <= syms[i - 1].address))
			return -EINVAL;
	return 0;
}

/* Returns the end of the i-th symbol. */
static uint64_t sym_end(uint64_t end, const struct xp_sym *syms, size_t count, size_t i)
{
	uint64_t limit = i + 1 < count ? syms[i + 1].address : end;

	return !syms[i].size || syms[i].size > limit - syms[i].address ? limit : syms[i].address + syms[i].size;
}

static uint64_t names_bytes(const struct xp_sym *syms, size_t count)
{
	uint64_t bytes = sizeof(END_NAME) + (count + 1) * sizeof(UNKNOWN_NAME);

	for (size_t i = 0; i < count; i++)
		bytes += XP_MAX(strlen(syms[i].name) + 1, sizeof(UNKNOWN_NAME));
	return bytes;
}

/* Adds a symbol for [address, end). name is already clean. */
static void add(struct xp_elf_symbols *symbols, uint64_t start, uint64_t address, uint64_t end, const char *name)
{
	if (address < end)
		xp_elf_symbols_add(symbols, name, STT_FUNC, SECTION_TEXT, XP_SYM_ELF_OFFSET + (address - start),
				   end - address);
}

/* Cleans a name, because the target may have chosen it. */
static const char *clean(char *to, const char *name)
{
	if (!*name)
		return UNKNOWN_NAME;
	xp_clean_text(to, strlen(name) + 1, name);
	for (char *at = to; *at; at++)
		if (*at == ' ')
			*at = '_';
	return to;
}

/* Adds symbols that cover the range without gaps. text must have space for the longest name. */
static void add_symbols(struct xp_elf_symbols *symbols, uint64_t start, uint64_t end, const struct xp_sym *syms,
			size_t count, char *text)
{
	uint64_t at = start;

	for (size_t i = 0; i < count; i++) {
		add(symbols, start, at, syms[i].address, UNKNOWN_NAME);
		at = sym_end(end, syms, count, i);
		add(symbols, start, syms[i].address, at, clean(text, syms[i].name));
	}
	add(symbols, start, at, end, UNKNOWN_NAME);
	/* google-pprof needs this symbol as the end of the last function. */
	xp_elf_symbols_add(symbols, END_NAME, STT_NOTYPE, SECTION_TEXT, XP_SYM_ELF_OFFSET + (end - start), 0);
}

static int make_symbols(struct xp_elf_symbols *symbols, uint64_t start, uint64_t end, const struct xp_sym *syms,
			size_t count)
{
	size_t longest = 0;
	char *text;
	int err;

	for (size_t i = 0; i < count; i++)
		longest = XP_MAX(longest, strlen(syms[i].name));
	text = malloc(longest + 1);
	if (!text)
		return -ENOMEM;
	err = xp_elf_symbols_init(symbols, 2 * count + 2, names_bytes(syms, count));
	if (!err)
		add_symbols(symbols, start, end, syms, count, text);
	free(text);
	return err;
}

struct table {
	uint8_t *bytes;
	size_t used;
};

static void put(struct table *table, const void *data, size_t size)
{
	memcpy(table->bytes + table->used, data, size);
	table->used += size;
}

static void put32(struct table *table, uint32_t value)
{
	value = htole32(value);
	put(table, &value, sizeof(value));
}

static void put64(struct table *table, uint64_t value)
{
	value = htole64(value);
	put(table, &value, sizeof(value));
}

/*
 * Makes .gopclntab. Layout: magic number; count; {entry, offset of the function} for each function; end; offset of the
 * file table. The functions, the file table (only its own length, so no file), the values and the names follow at these
 * offsets.
 */
static int make_go_table(struct table *table, const struct xp_elf_symbols *symbols)
{
	const Elf64_Sym *syms = symbols->symbols + 1;
	size_t count = symbols->count - 2; /* without the empty symbol and the end symbol */
	uint64_t functions = sizeof(go_magic) + 8 + count * 16 + 8 + 4;
	uint64_t files = functions + count * sizeof(struct go_function);
	uint64_t values = files + 4;
	uint64_t names = values + sizeof(go_values);

	if (names + symbols->string_bytes > INT32_MAX)
		return -EFBIG;
	*table = (struct table){ .bytes = malloc(names + symbols->string_bytes) };
	if (!table->bytes)
		return -ENOMEM;
	put(table, go_magic, sizeof(go_magic));
	put64(table, count);
	for (size_t i = 0; i < count; i++) {
		put64(table, syms[i].st_value);
		put64(table, functions + i * sizeof(struct go_function));
	}
	put64(table, syms[count].st_value);
	put32(table, files);
	for (size_t i = 0; i < count; i++) {
		const struct go_function function = {
			.entry = htole64(syms[i].st_value),
			.name = htole32(names + syms[i].st_name),
			.pc_to_sp = htole32(values),
			.pc_to_file = htole32(values),
			.pc_to_line = htole32(values),
		};

		put(table, &function, sizeof(function));
	}
	put32(table, 1);
	put(table, go_values, sizeof(go_values));
	put(table, symbols->strings, symbols->string_bytes);
	return 0;
}

/*
 * Writes the file. The text section is a hole, but has the section type of a section with contents, because readers
 * ignore addresses in sections of other types.
 */
static int write_file(int fd, uint64_t range_bytes, const struct xp_elf_symbols *symbols, const struct table *go_table)
{
	const struct xp_elf_section sections[] = {
		{
		    .name = ".text",
		    .type = SHT_PROGBITS,
		    .flags = SHF_ALLOC | SHF_EXECINSTR,
		    .addr = XP_SYM_ELF_OFFSET,
		    .size = range_bytes,
		    .align = XP_SYM_ELF_OFFSET,
		    .is_loaded = true,
		},
		xp_elf_symtab_section(symbols, SECTION_STRTAB),
		xp_elf_strtab_section(symbols),
		{
		    .name = ".gopclntab",
		    .type = SHT_PROGBITS,
		    .size = go_table->used,
		    .align = 8,
		    .bytes = go_table->bytes,
		},
	};

	return xp_elf_write(fd, sections, XP_ARRAY_SIZE(sections));
}

int xp_symbol_file_write(int fd, uint64_t start, uint64_t end, const struct xp_sym *syms, size_t count)
{
	struct xp_elf_symbols symbols;
	struct table go_table;
	int err;

	err = check(start, end, syms, count);
	if (!err)
		err = make_symbols(&symbols, start, end, syms, count);
	if (err)
		return err;
	err = make_go_table(&go_table, &symbols);
	if (!err) {
		err = write_file(fd, end - start, &symbols, &go_table);
		free(go_table.bytes);
	}
	xp_elf_symbols_free(&symbols);
	return err;
}
