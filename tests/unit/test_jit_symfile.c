/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions in the ELF file of a JIT compiler. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/util.h"
#include "jit/symfile.h"
#include "symfile.h"

#define TEXT 0x7f0000001000ull

static struct symfile file;
static struct xp_jit_symfile found;

static int setup(void **state)
{
	(void)state;
	symfile_init(&file, TEXT, 0x1000);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	xp_jit_symfile_free(&found);
	return 0;
}

static void read_file(void)
{
	assert_int_equal(xp_jit_symfile_read(&found, (const uint8_t *)&file, sizeof(file)), 0);
}

static void check(size_t index, uint64_t address, uint64_t size, const char *name)
{
	assert_in_range(index, 0, found.count - 1);
	assert_int_equal(found.functions[index].address, address);
	assert_int_equal(found.functions[index].size, size);
	assert_string_equal(found.functions[index].name, name);
}

TEST_WITH(test_relocatable, setup, teardown)
{
	symfile_add(&file, "b", 0x100, 0x20);
	symfile_add(&file, "a", 0, 0x10);
	read_file();
	assert_int_equal(found.count, 2);
	check(0, TEXT, 0x10, "a");
	check(1, TEXT + 0x100, 0x20, "b");
}

TEST_WITH(test_linked, setup, teardown)
{
	file.header.e_type = ET_DYN;
	symfile_add(&file, "absolute", TEXT + 0x100, 0x20);
	symfile_add(&file, "relative", 0x200, 0x20); /* as LuaJIT writes it */
	read_file();
	assert_int_equal(found.count, 2);
	check(0, TEXT + 0x100, 0x20, "absolute");
	check(1, TEXT + 0x200, 0x20, "relative");
}

TEST_WITH(test_sizes, setup, teardown)
{
	symfile_add(&file, "open", 0, 0);
	symfile_add(&file, "long", 0x100, 0x10000);
	symfile_add(&file, "last", 0x800, UINT64_MAX);
	read_file();
	assert_int_equal(found.count, 3);
	check(0, TEXT, 0x100, "open");
	check(1, TEXT + 0x100, 0x700, "long");
	check(2, TEXT + 0x800, 0x800, "last");
}

TEST_WITH(test_same_address, setup, teardown)
{
	symfile_add(&file, "short", 0, 0x10);
	symfile_add(&file, "long", 0, 0x20);
	read_file();
	assert_int_equal(found.count, 1);
	check(0, TEXT, 0x20, "long");
}

/* Symbols that name no code, or code elsewhere. */
TEST_WITH(test_others, setup, teardown)
{
	symfile_add(&file, "data", 0, 8)->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	symfile_add(&file, "elsewhere", 0, 8)->st_shndx = SHN_UNDEF;
	symfile_add(&file, "absolute", 0, 8)->st_shndx = SHN_ABS;
	symfile_add(&file, "no section", 0, 8)->st_shndx = 77;
	symfile_add(&file, "beyond", 0x1000, 8);
	symfile_add(&file, "wraps", UINT64_MAX - TEXT + 1, 8);
	symfile_add(&file, "", 0, 8);
	read_file();
	assert_int_equal(found.count, 0);
}

TEST_WITH(test_not_loaded, setup, teardown)
{
	symfile_add(&file, "a", 0, 8);
	file.sections[SYMFILE_TEXT].sh_addr = 0;
	read_file();
	assert_int_equal(found.count, 0);
}

/* Each field of the tables has arbitrary bytes: nothing beyond the file is read (run this under a sanitizer). */
TEST_WITH(test_broken, setup, teardown)
{
	static const uint64_t wild[] = { 0, 1, 0x7fffffff, 0xffffffff, UINT64_MAX / 2, UINT64_MAX };

	symfile_add(&file, "a", 0, 8);
	for (size_t at = EI_NIDENT; at + 8 <= offsetof(struct symfile, strings); at += 2)
		for (size_t i = 0; i < XP_ARRAY_SIZE(wild); i++) {
			struct symfile *broken = malloc(sizeof(file));
			int err;

			assert_non_null(broken);
			memcpy(broken, &file, sizeof(file));
			memcpy((char *)broken + at, &wild[i], 8);
			err = xp_jit_symfile_read(&found, (const uint8_t *)broken, sizeof(file));
			assert_true(err == 0 || err == -EBADMSG);
			xp_jit_symfile_free(&found);
			free(broken);
		}
}

TEST_WITH(test_no_elf, setup, teardown)
{
	assert_int_equal(xp_jit_symfile_read(&found, (const uint8_t *)"", 0), -EBADMSG);
	assert_int_equal(xp_jit_symfile_read(&found, (const uint8_t *)"hello", 5), -EBADMSG);
	file.header.e_machine = EM_AARCH64;
	assert_int_equal(xp_jit_symfile_read(&found, (const uint8_t *)&file, sizeof(file)), -EBADMSG);
	file.header.e_machine = EM_X86_64;
	file.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(xp_jit_symfile_read(&found, (const uint8_t *)&file, sizeof(file)), -EBADMSG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	for (size_t size = 0; size < sizeof(file.header); size++)
		assert_int_equal(xp_jit_symfile_read(&found, (const uint8_t *)&file, size), -EBADMSG);
}
