// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written line tables from DWARF 5, 6.2.4 to 6.2.6, including hostile ones. */
#include "jit/dwarf_line.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
	uint8_t bytes[1 << 16];
	size_t size;
	size_t unit; /* offset of its length */
	size_t header;
} table;

static void number(uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		table.bytes[table.size++] = value >> 8 * i;
}

static void put(const void *bytes, size_t size)
{
	memcpy(table.bytes + table.size, bytes, size);
	table.size += size;
}

static void patch(size_t at, uint32_t value)
{
	size_t size = table.size;

	table.size = at;
	number(value, 4);
	table.size = size;
}

/* min_inst_length 1, default_is_stmt 1, line_base -5, line_range 14, opcode_base 13 */
static void begin_unit(uint16_t version)
{
	table.unit = table.size;
	number(0, 4);
	number(version, 2);
	if (version == 5)
		put("\10\0", 2);
	table.header = table.size;
	number(0, 4);
	put(version >= 4 ? "\1\1\1" : "\1\1", version >= 4 ? 3 : 2);
	put("\xfb\16\15\0\1\1\1\1\0\0\0\1\0\0\1", 15);
}

static void begin_program(void)
{
	patch(table.header, table.size - table.header - 4);
}

static void end_unit(void)
{
	patch(table.unit, table.size - table.unit - 4);
}

static void set_address(uint64_t address)
{
	put("\0\11\2", 3);
	number(address, 8);
}

/*
 * 0x1000 line 10 of a.c (by advance_line and copy), 0x1004 line 12 (special: adjusted 4 * 14 + 2 + 5 = 63, opcode 76),
 * 0x1015 line 12 with discriminator 3 (const_add_pc: 17, copy), 0x1025 line 7 of b.h (advance_pc 16, set_file 2).
 */
static void put_program(void)
{
	begin_program();
	set_address(0x1000);
	put("\3\11\1", 3);
	put("\114", 1);
	put("\10\0\2\4\3\1", 6);
	put("\2\20\4\2\3\173\1", 7);
	put("\2\4\0\1\1", 5);
	end_unit();
}

static void put_v4(void)
{
	begin_unit(4);
	put("inc\0\0", 5);
	put("a.c\0\0\0\0b.h\0\1\0\0\0", 15);
	put_program();
}

static struct xp_dwarf_lines lines;
static struct xp_dwarf_line_input input;

/* The table ends at the end of its allocation, so that a sanitizer detects reads beyond it. */
static void read_table(size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);

	assert_non_null(bytes);
	memcpy(bytes, table.bytes, size);
	input.line = (struct xp_dwarf_section){ bytes, size };
	assert_int_equal(xp_dwarf_lines_read(&lines, &input), 0);
	free(bytes);
}

static int setup(void **state)
{
	(void)state;
	memset(&table, 0, sizeof(table));
	memset(&input, 0, sizeof(input));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	xp_dwarf_lines_free(&lines);
	return 0;
}

static void check(size_t index, uint64_t address, uint32_t line, uint32_t discriminator, const char *file)
{
	assert_in_range(index, 0, lines.count - 1);
	assert_int_equal(lines.lines[index].address, address);
	assert_int_equal(lines.lines[index].line, line);
	assert_int_equal(lines.lines[index].discriminator, discriminator);
	assert_string_equal(lines.lines[index].file, file);
}

static void check_program(const char *a, const char *b)
{
	assert_int_equal(lines.count, 4);
	check(0, 0x1000, 10, 0, a);
	check(1, 0x1004, 12, 0, a);
	check(2, 0x1015, 12, 3, a);
	check(3, 0x1025, 7, 0, b);
}

static void test_v4(void **state)
{
	size_t count;

	(void)state;
	put_v4();
	read_table(table.size);
	check_program("a.c", "inc/b.h");
	assert_ptr_equal(xp_dwarf_lines_of(&lines, 0x1000, 0x15, &count), lines.lines);
	assert_int_equal(count, 2);
	assert_ptr_equal(xp_dwarf_lines_of(&lines, 0x1001, 0x15, &count), lines.lines + 1);
	assert_int_equal(count, 2);
	xp_dwarf_lines_of(&lines, 0x2000, 0x1000, &count);
	assert_int_equal(count, 0);
	/* A size that overflows the address. */
	assert_ptr_equal(xp_dwarf_lines_of(&lines, 0x1001, UINT64_MAX, &count), lines.lines + 1);
	assert_int_equal(count, lines.count - 1);
}

static void test_v2(void **state)
{
	(void)state;
	begin_unit(2);
	put("/inc\0\0", 6);
	put("/a.c\0\0\0\0b.h\0\1\0\0\0", 16);
	put_program();
	read_table(table.size);
	check_program("/a.c", "/inc/b.h");
}

/* Forms: strings of both sections, an unused digest; number 0 is the compilation's. */
static void put_v5(void)
{
	begin_unit(5);
	put("\1\1\37", 3); /* directories: path, line_strp */
	put("\2", 1);
	number(0, 4);
	number(5, 4);
	put("\3\1\10\2\13\5\36", 7); /* files: path, string; directory, data1; MD5, data16 */
	put("\3", 1);
	put("x.c\0\0"
	    "0123456789abcdef",
	    21);
	put("a.c\0\0"
	    "0123456789abcdef",
	    21);
	put("b.h\0\1"
	    "0123456789abcdef",
	    21);
	put_program();
	input.line_str = (struct xp_dwarf_section){ (const uint8_t *)"/dir\0inc", 9 };
}

static void test_v5(void **state)
{
	(void)state;
	put_v5();
	read_table(table.size);
	check_program("/dir/a.c", "/dir/inc/b.h");
}

static uint64_t relocate(void *arg, uint64_t offset, uint64_t value)
{
	(void)offset;
	return value == 0x1000 ? *(uint64_t *)arg : value;
}

static void test_relocated(void **state)
{
	uint64_t address = 0x7f0000000000;

	(void)state;
	put_v4();
	input.relocate = relocate;
	input.arg = &address;
	read_table(table.size);
	assert_int_equal(lines.count, 4);
	check(3, 0x7f0000000025, 7, 0, "inc/b.h");
}

/*
 * Broken units, and units of another version, do not affect the others; of two rows with the same address one applies.
 */
static void test_units(void **state)
{
	(void)state;
	begin_unit(4);
	put("\0\0", 2);
	begin_program();
	set_address(0x500);
	put("\1\3\1\1\4\1\1\4\7\1", 10); /* a file that does not exist: no row */
	end_unit();
	begin_unit(6);
	end_unit();
	begin_unit(4);
	table.bytes[table.size - 14] = 0; /* line_range */
	put_program();
	begin_unit(4);
	put("\0z.c\0\0\0\0\0", 9);
	begin_program();
	set_address(0x3000);
	put("\1\3\1\1", 4);
	set_address(0x2000);
	put("\1", 1);
	end_unit();
	put_v4();
	number(0xffffffff, 4); /* a 64-bit unit that is not there */
	number(UINT64_MAX, 8);
	read_table(table.size);
	assert_int_equal(lines.count, 6);
	check(0, 0x1000, 10, 0, "a.c");
	check(4, 0x2000, 2, 0, "z.c");
	check(5, 0x3000, 2, 0, "z.c");
}

static void test_cut_off(void **state)
{
	void (*const makers[])(void) = { put_v4, put_v5 };

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		setup(NULL);
		makers[i]();
		for (size_t size = 0; size < table.size; size++) {
			read_table(size);
			assert_int_equal(lines.count, 0); /* the unit claims to be longer */
			if (size > 4) {
				patch(0, size - 4);
				read_table(size);
				assert_in_range(lines.count, 0, 4);
				xp_dwarf_lines_free(&lines);
				patch(0, table.size - 4);
			}
		}
	}
}

/* Tables that claim endless entries, or entries of no bytes. */
static void test_claims(void **state)
{
	(void)state;
	begin_unit(5);
	put("\0\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
	put_program();
	begin_unit(5);
	put("\1\1\10\xff\xff\xff\xff\x0f", 8);
	put_program();
	begin_unit(5);
	put("\0\0\1\1\37\1", 6); /* a name far beyond its section */
	number(0x7fffffff, 4);
	put_program();
	read_table(table.size);
	assert_int_equal(lines.count, 0);
}

/* A program of rows only. */
static void test_many(void **state)
{
	enum { BYTES = 2 << 20 };
	uint8_t *bytes = malloc(table.size + BYTES + 200);
	uint32_t length;

	(void)state;
	assert_non_null(bytes);
	begin_unit(4);
	put("\0a.c\0\0\0\0\0", 9);
	begin_program();
	memcpy(bytes, table.bytes, table.size);
	memset(bytes + table.size, 13 + 14 + 5, BYTES); /* next address, same line */
	length = table.size + BYTES - 4;
	memcpy(bytes, &length, 4);
	input.line = (struct xp_dwarf_section){ bytes, table.size + BYTES };
	assert_int_equal(xp_dwarf_lines_read(&lines, &input), 0);
	assert_int_equal(lines.count, XP_DWARF_LINES_MAX);
	check(XP_DWARF_LINES_MAX - 1, XP_DWARF_LINES_MAX, 1, 0, "a.c");
	free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_v2),	  TEST(test_v4),      TEST(test_v5),	 TEST(test_relocated),
		TEST(test_units), TEST(test_cut_off), TEST(test_claims), TEST(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
