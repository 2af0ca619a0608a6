// SPDX-License-Identifier: BSD-2-Clause
#include "elf/instr_map.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include <elfutils/libdw.h>

static uint8_t *write_instr_map(const char *const *names, size_t count, size_t *size)
{
	int fd = memfd_create("side", 0);
	uint8_t *file;

	assert_true(fd >= 0);
	assert_int_equal(xp_instr_map_write(fd, names, NULL, count), 0);
	*size = lseek(fd, 0, SEEK_END);
	file = malloc(*size);
	assert_non_null(file);
	assert_int_equal(pread(fd, file, *size, 0), *size);
	close(fd);
	return file;
}

/* Returns the header of the section with this name, after checking that the section is in the file. */
static const Elf64_Shdr *find_section(const uint8_t *file, size_t size, const char *name)
{
	const Elf64_Ehdr *header = (const void *)file;
	const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
	const char *names = (const char *)file + sections[header->e_shstrndx].sh_offset;

	assert_int_equal(header->e_shoff % 8, 0);
	assert_int_equal(header->e_shoff + header->e_shnum * sizeof(*sections), size);
	for (size_t i = 1; i < header->e_shnum; i++) {
		if (strcmp(names + sections[i].sh_name, name))
			continue;
		assert_true(sections[i].sh_type == SHT_NOBITS || sections[i].sh_offset + sections[i].sh_size <= size);
		return &sections[i];
	}
	fail_msg("no section %s", name);
	return NULL;
}

/* ELF header and map of two functions, byte for byte: text at 0x1000, 16 bytes per function, the map after it. */
TEST(test_golden)
{
	static const uint8_t header[24] = {
		0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 64-bit, little-endian, System V */
		3,    0,   62,	0,   1, 0, 0, 0,			 /* ET_DYN, x86-64 */
	};
	static const uint8_t map[64] = { /* 0x1000 - 0x1020, 0x1000 - 0x1028, entry, always, version 2 */
					 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xd8, 0xff, 0xff, 0xff, 0xff,
					 0xff, 0xff, 0xff, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
					 /* 0x1010 - 0x1040, 0x1010 - 0x1048 */
					 0xd0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc8, 0xff, 0xff, 0xff, 0xff,
					 0xff, 0xff, 0xff, 0, 1, 2
	};
	static const char strings[] = "\0_Z3onev\0two";
	const char *const names[] = { "_Z3onev", "two" };
	const Elf64_Shdr *section;
	size_t size;
	uint8_t *file = write_instr_map(names, 2, &size);

	assert_memory_equal(file, header, sizeof(header));
	section = find_section(file, size, "xray_instr_map");
	assert_int_equal(section->sh_addr, 0x1020);
	assert_int_equal(section->sh_size, sizeof(map));
	assert_memory_equal(file + section->sh_offset, map, sizeof(map));
	section = find_section(file, size, ".strtab");
	assert_int_equal(section->sh_size, sizeof(strings));
	assert_memory_equal(file + section->sh_offset, strings, sizeof(strings));
	section = find_section(file, size, ".text");
	assert_int_equal(section->sh_type, SHT_NOBITS);
	assert_int_equal(section->sh_addr, 0x1000);
	assert_int_equal(section->sh_size, 0x20);
	free(file);
}

TEST(test_symbols)
{
	const char *const names[] = { "_Z3onev", NULL, "", "four" };
	const char *const expected[] = { "_Z3onev", "fn_2", "fn_3", "four" };
	const Elf64_Shdr *symtab, *strtab;
	const Elf64_Sym *symbols;
	size_t size;
	uint8_t *file = write_instr_map(names, 4, &size);

	symtab = find_section(file, size, ".symtab");
	strtab = find_section(file, size, ".strtab");
	symbols = (const void *)(file + symtab->sh_offset);
	assert_int_equal(symtab->sh_offset % 8, 0);
	assert_int_equal(symtab->sh_size, 5 * sizeof(*symbols));
	assert_int_equal(symtab->sh_info, 1);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal((char *)file + strtab->sh_offset + symbols[i + 1].st_name, expected[i]);
		assert_int_equal(symbols[i + 1].st_value, 0x1000 + 16 * i);
		assert_int_equal(symbols[i + 1].st_size, 16);
		assert_int_equal(symbols[i + 1].st_info, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC));
	}
	free(file);
}

#define LINED 1000

/* Some functions without a line, some in other files, lines in any order. */
static struct xp_source_line line_of(size_t function)
{
	static const char *const files[] = { "/src/one.c", "/src/two.c", "/src/a directory/three.c" };

	if (function % 7 == 3)
		return (struct xp_source_line){ 0 };
	return (struct xp_source_line){ files[function / 5 % 3], (uint32_t)(function * 7919 % 100000) };
}

/* libdw finds the line of each function at its first and at its last byte. */
TEST(test_lines)
{
	static struct xp_source_line lines[LINED];
	static const char *names[LINED];
	int fd = memfd_create("side", 0), number;
	Dwarf_Die unit;
	Dwarf *dwarf;

	for (size_t i = 0; i < LINED; i++)
		lines[i] = line_of(i);
	assert_int_equal(xp_instr_map_write(fd, names, lines, LINED), 0);
	dwarf = dwarf_begin(fd, DWARF_C_READ);
	assert_non_null(dwarf);
	assert_non_null(dwarf_offdie(dwarf, 11, &unit)); /* after the header of the unit */
	for (size_t i = 0; i < LINED; i++) {
		uint64_t address = xp_instr_map_vaddr((uint32_t)i + 1) + (i % 2 ? 15 : 0);
		Dwarf_Line *line = dwarf_getsrc_die(&unit, address);

		if (!lines[i].file) {
			assert_null(line);
			continue;
		}
		assert_non_null(line);
		assert_string_equal(dwarf_linesrc(line, NULL, NULL), lines[i].file);
		assert_int_equal(dwarf_lineno(line, &number), 0);
		assert_int_equal(number, lines[i].line);
	}
	assert_int_equal(dwarf_haspc(&unit, xp_instr_map_vaddr(1)), 1);
	assert_int_equal(dwarf_haspc(&unit, xp_instr_map_vaddr(LINED + 1)), 0);
	dwarf_end(dwarf);
	close(fd);
}

/* The file is the same as without lines. */
TEST(test_lines_unknown)
{
	const struct xp_source_line lines[2] = { { "", 3 }, { NULL, 0 } };
	const char *const names[2] = { "one", "two" };
	int fd = memfd_create("side", 0);
	size_t size;
	uint8_t *file = write_instr_map(names, 2, &size);

	assert_int_equal(xp_instr_map_write(fd, names, lines, 2), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), size);
	free(file);
	close(fd);
}

TEST(test_errors)
{
	const char *const names[] = { "one" };
	int fd = open("/dev/full", O_WRONLY);

	assert_int_equal(xp_instr_map_write(-1, names, NULL, 0), -EINVAL);
	assert_int_equal(xp_instr_map_write(-1, names, NULL, 0x10000000), -EINVAL);
	assert_int_equal(xp_instr_map_write(-1, names, NULL, 1), -EBADF);
	assert_true(fd >= 0);
	assert_int_equal(xp_instr_map_write(fd, names, NULL, 1), -ENOSPC);
	close(fd);
}

/* st_name has 32 bits: 4097 names of 1 MiB are too long, which is detected before memory is allocated. */
TEST(test_too_long)
{
	size_t bytes = 1 << 20;
	char *name = malloc(bytes);
	const char *names[4097];

	assert_non_null(name);
	memset(name, 'a', bytes - 1);
	name[bytes - 1] = 0;
	for (size_t i = 0; i < 4097; i++)
		names[i] = name;
	assert_int_equal(xp_instr_map_write(-1, names, NULL, 4097), -EFBIG);
	free(name);
}
