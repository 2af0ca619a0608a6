// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written sections from "Linux Standard Base Core Specification", 10.6, including hostile ones. */
#include "jit/eh_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define ADDRESS 0x7f0000100000ull /* of the section */
#define CODE 0x7f0000000000ull

static struct {
	uint8_t bytes[4096];
	size_t size;
	size_t entry;
} section;

static struct xp_cfi_fdes fdes;
static struct xp_cfi_rows rows;

static void number(uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		section.bytes[section.size++] = value >> 8 * i;
}

static void put(const void *bytes, size_t size)
{
	memcpy(section.bytes + section.size, bytes, size);
	section.size += size;
}

static void begin(void)
{
	section.entry = section.size;
	number(0, 4);
}

static void end(void)
{
	size_t size = section.size;

	section.size = section.entry;
	number(size - section.entry - 4, 4);
	section.size = size;
}

/* A CIE "zR" with this encoding: CFA = rsp + 8, the return address at CFA - 8. Returns its offset. */
static size_t put_cie(uint8_t encoding)
{
	begin();
	number(0, 4);
	put("\1zR\0\1\x78\20\1", 8);
	number(encoding, 1);
	put("\14\7\10\220\1\0\0", 7);
	end();
	return section.entry;
}

/* advance 1, CFA = rsp + 16 */
static void put_fde(size_t cie, uint64_t start, unsigned int start_bytes, uint64_t size)
{
	begin();
	number(section.size - cie, 4);
	number(start, start_bytes);
	number(size, start_bytes);
	put("\0\x41\16\20", 4);
	end();
}

static void free_fdes(void)
{
	xp_cfi_fdes_free(&fdes);
	fdes = (struct xp_cfi_fdes){ 0 };
}

static void read_section(size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);

	assert_non_null(bytes);
	memcpy(bytes, section.bytes, size);
	free_fdes();
	assert_int_equal(xp_jit_eh_frame_read(&fdes, bytes, size, ADDRESS), 0);
	free(bytes);
	/* the result needs the bytes */
	free_fdes();
	assert_int_equal(xp_jit_eh_frame_read(&fdes, section.bytes, size, ADDRESS), 0);
}

static void free_rows(void)
{
	xp_cfi_rows_free(&rows);
	rows = (struct xp_cfi_rows){ 0 };
}

static int setup(void **state)
{
	(void)state;
	memset(&section, 0, sizeof(section));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free_fdes();
	free_rows();
	return 0;
}

static void check_rule(uint32_t offset, uint8_t rule, uint16_t cfa)
{
	struct xp_cfi_found found;

	xp_cfi_rows_find(&rows, offset, &found);
	assert_int_equal(found.row.rule, rule);
	assert_int_equal(found.row.cfa, cfa);
}

/* The rows of the function at CODE, with 0x25 bytes. */
static void check_function(void)
{
	read_section(section.size);
	assert_int_equal(fdes.count, 1);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE, 0x25), 0);
	check_rule(0, XP_CFI_RSP, 1);
	check_rule(1, XP_CFI_RSP, 2);
	check_rule(0x24, XP_CFI_RSP, 2);
	check_rule(0x25, XP_CFI_NONE, 0);
	free_rows();
}

/* The rows are the same for every encoding of addresses. */
TEST_WITH(test_encodings, setup, teardown)
{
	size_t cie;

	cie = put_cie(0x00); /* absolute, 8 bytes */
	put_fde(cie, CODE, 8, 0x25);
	check_function();
	setup(NULL);
	cie = put_cie(0x1b); /* relative, 4 bytes */
	put_fde(cie, CODE - (ADDRESS + section.size + 8), 4, 0x25);
	check_function();
	setup(NULL);
	cie = put_cie(0x1c); /* relative, 8 bytes; the section ends with a terminator and extra bytes */
	put_fde(cie, CODE - (ADDRESS + section.size + 8), 8, 0x25);
	number(0, 4);
	put("\1\2\3", 3);
	check_function();
}

/*
 * Entries of this function and of others, unordered. An entry that is partly outside does not belong to the function.
 */
TEST_WITH(test_find, setup, teardown)
{
	size_t cie = put_cie(0x00);

	put_fde(cie, CODE + 0x200, 8, 0x10);
	put_fde(cie, CODE + 0x110, 8, 0x10);
	put_fde(cie, CODE, 8, 0x10);
	put_fde(cie, CODE + 0x100, 8, 0x10);
	read_section(section.size);
	assert_int_equal(fdes.count, 4);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE + 0x100, 0x20), 0);
	check_rule(0x1f, XP_CFI_RSP, 2);
	free_rows();
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE + 0x100, 0x1f), 0);
	check_rule(0xf, XP_CFI_RSP, 2);
	check_rule(0x10, XP_CFI_NONE, 0);
	free_rows();
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE + 0x101, 0xf), -ENOENT);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE + 0x1000, 0x10), -ENOENT);
}

/* Personality routines and exception data are skipped, a signal frame stays one, unknown augmentations are left out. */
TEST_WITH(test_augmentations, setup, teardown)
{
	size_t cie, unknown;

	begin();
	number(0, 4);
	put("\1zPLRS\0\1\x78\20\7\x9b\1\2\3\4\x1b\0\14\7\10\220\1", 24);
	end();
	cie = section.entry;
	begin();
	number(section.size - cie, 4);
	number(CODE, 8);
	number(0x25, 8);
	put("\4\1\2\3\4\x41\16\20", 8);
	end();
	begin();
	number(0, 4);
	put("\1zX\0\1\x78\20\1\0\14\7\10\220\1", 14);
	end();
	unknown = section.entry;
	put_fde(unknown, CODE + 0x100, 8, 0x25);
	check_function();
	assert_true(fdes.commons[fdes.all[0].common].is_signal);
}

/* One entry for most of the function, one for a part of the same code, and one for the end. */
TEST_WITH(test_rows, setup, teardown)
{
	size_t cie = put_cie(0x00);

	put_fde(cie, CODE + 0x10, 8, 0x10);
	put_fde(cie, CODE + 0x18, 8, 0x10); /* its rows advance by 1, so that only the last one is in its own part */
	put_fde(cie, CODE + 0x30, 8, 0x10);
	read_section(section.size);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE, 0x50), 0);
	check_rule(0, XP_CFI_NONE, 0);
	check_rule(0x0f, XP_CFI_NONE, 0);
	check_rule(0x10, XP_CFI_RSP, 1);
	check_rule(0x11, XP_CFI_RSP, 2);
	check_rule(0x18, XP_CFI_RSP, 2);
	check_rule(0x27, XP_CFI_RSP, 2);
	check_rule(0x28, XP_CFI_NONE, 0);
	check_rule(0x30, XP_CFI_RSP, 1);
	check_rule(0x3f, XP_CFI_RSP, 2);
	check_rule(0x40, XP_CFI_NONE, 0);
	check_rule(UINT32_MAX, XP_CFI_NONE, 0);
	assert_true(xp_cfi_rows_bytes(&rows) >= 6 * sizeof(struct xp_cfi_row));
	free_rows();
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE + 0x40, 0x10), -ENOENT);
	assert_int_equal(rows.count, 0);
}

/*
 * Compilers need six bytes of instructions for all entries together. With half a megabyte of instructions, there are no
 * rules.
 */
TEST_WITH(test_slow, setup, teardown)
{
	enum { BYTES = 3000 };
	size_t cie;

	begin();
	number(0, 4);
	put("\1zR\0\1\x78\20\1\0\14\7\10\220\1", 14);
	section.size += BYTES; /* DW_CFA_nop */
	end();
	cie = section.entry;
	put_fde(cie, CODE, 8, 0x10);
	read_section(section.size);
	assert_int_equal(fdes.count, 1);
	assert_int_equal(xp_jit_eh_frame_rows(&rows, &fdes, CODE, 0x10), 0);
	assert_int_equal(rows.count, 0);
}

/* Truncated at any byte, with any sizes. */
TEST_WITH(test_malformed, setup, teardown)
{
	size_t size, cie = put_cie(0x00);

	put_fde(cie, CODE, 8, 0x25);
	size = section.size;
	for (size_t i = 0; i < size; i++) {
		read_section(i);
		assert_int_equal(fdes.count, 0);
	}
	for (size_t i = 0; i < size; i++) {
		uint8_t before = section.bytes[i];

		for (unsigned int value = 0; value < 256; value++) {
			section.bytes[i] = value;
			read_section(size);
			xp_jit_eh_frame_rows(&rows, &fdes, CODE, 0x25);
			free_rows();
		}
		section.bytes[i] = before;
	}
	setup(NULL);
	number(UINT32_MAX, 4);
	number(UINT64_MAX, 8);
	number(0, 8);
	read_section(section.size);
	assert_int_equal(fdes.count, 0);
}
