// SPDX-License-Identifier: BSD-2-Clause
/* Finds symbols by name, in string tables of more than one piece. */

#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "elf/build.h"
#include "elf/find.h"

#define PIECE_BYTES 65536 /* as in find.c */
#define VALUE 0x1234

/* Fills the string table up to this offset. */
static void fill_to(struct xp_elf_symbols *symbols, size_t offset)
{
	char name[101];

	while (symbols->string_bytes < offset) {
		size_t bytes = XP_MIN(offset - symbols->string_bytes, sizeof(name));

		memset(name, '.', bytes - 1);
		name[bytes - 1] = 0;
		xp_elf_symbols_add(symbols, name, STT_FUNC, 1, 1, 0);
	}
}

static uint64_t find(const struct xp_elf_symbols *symbols, const char *name)
{
	const struct xp_elf_section sections[] = { xp_elf_symtab_section(symbols, 2), xp_elf_strtab_section(symbols) };
	int fd = memfd_create("find", MFD_CLOEXEC);
	struct xp_elf_file image;
	uint64_t value;
	size_t found;

	assert_true(fd >= 0);
	assert_int_equal(xp_elf_write(fd, sections, XP_ARRAY_SIZE(sections)), 0);
	assert_int_equal(xp_elf_file_fd(&image, fd), 0);
	found = xp_elf_find(&image, &name, &value, 1);
	assert_int_equal(found, value != 0);
	xp_elf_file_close(&image);
	close(fd);
	return value;
}

/* A name at each offset around the end of the first piece. */
TEST(test_boundary)
{
	for (size_t before = 1; before < 80; before++) {
		struct xp_elf_symbols symbols;

		assert_int_equal(xp_elf_symbols_init(&symbols, 4000, 2 * PIECE_BYTES), 0);
		fill_to(&symbols, PIECE_BYTES - before);
		xp_elf_symbols_add(&symbols, "name", STT_FUNC, 1, VALUE, 0);
		assert_int_equal(find(&symbols, "name"), VALUE);
		assert_int_equal(find(&symbols, "names"), 0);
		xp_elf_symbols_free(&symbols);
	}
}

/* Names that end with the searched name lie where two pieces overlap. Each counts once. */
TEST(test_overlap)
{
	struct xp_elf_symbols symbols;

	assert_int_equal(xp_elf_symbols_init(&symbols, 4000, 2 * PIECE_BYTES), 0);
	fill_to(&symbols, PIECE_BYTES - 40);
	for (int i = 0; i < 3; i++)
		xp_elf_symbols_add(&symbols, "a_name", STT_FUNC, 1, 2, 0);
	fill_to(&symbols, PIECE_BYTES + 100);
	xp_elf_symbols_add(&symbols, "name", STT_FUNC, 1, VALUE, 0);
	assert_int_equal(find(&symbols, "name"), VALUE);
	xp_elf_symbols_free(&symbols);
}
