// SPDX-License-Identifier: BSD-2-Clause
/* Hand-written tables: lookups in them, and malformed tables, which are not opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "unwind/cfi_table.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

struct blob {
	struct xp_cfi_header header;
	struct xp_cfi_row rows[8];
	struct xp_cfi_deref derefs[2];
};
_Static_assert(sizeof(struct blob) == sizeof(struct xp_cfi_header) + 8 * 8 + 2 * 16, "as in a file");

static const struct blob example = {
	.header = { .magic = XP_CFI_MAGIC, .row_count = 8, .deref_count = 2 },
	.rows = {
		{ 0x1020, 11, XP_CFI_RBP_SAME, XP_CFI_PLT },
		{ 0x1040, 0, 0, XP_CFI_END },
		{ 0x1041, 1, XP_CFI_RBP_SAME, XP_CFI_RSP },
		{ 0x2000, 2, -2, XP_CFI_RBP },
		{ 0xffe00000, XP_CFI_REG_CFA(15, 4095), XP_CFI_RBP_SAME, XP_CFI_REG },
		{ 0xfff00000, 1, 0, XP_CFI_DEREF },
		{ 0xfffffff0, 0, 0, XP_CFI_SIGNAL },
		{ 0xfffffff9, 0, 0, XP_CFI_NONE },
	},
	.derefs = {
		{ .offset = 8, .add = 16, .base = XP_CFI_BASE_RSP, .rbp_base = XP_CFI_BASE_CFA },
		{ .offset = -8, .base = XP_CFI_BASE_RBP, .rbp_base = XP_CFI_BASE_RBP },
	},
};

static int memfd_of(const void *bytes, size_t size, int seals)
{
	int fd = memfd_create("cfi", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(xp_write_all(fd, bytes, size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int open_bytes(struct xp_cfi_table **table, const void *bytes, size_t size)
{
	int fd = memfd_of(bytes, size, SEALS), err = xp_cfi_table_open(table, fd);

	close(fd);
	assert_int_equal(!err, !!*table);
	return err;
}

TEST(test_find)
{
	static const struct {
		uint64_t offset;
		int row; /* -1: no row of the table */
	} expected[] = {
		{ 0, -1 },	     { 0x101f, -1 },	 { 0x1020, 0 },	     { 0x103f, 0 },	 { 0x1040, 1 },
		{ 0x1041, 2 },	     { 0x1042, 2 },	 { 0x1fff, 2 },	     { 0x2000, 3 },	 { 0x80000000, 3 },
		{ 0xffdfffff, 3 },   { 0xffe00000, 4 },	 { 0xffefffff, 4 },  { 0xfff00000, 5 },	 { 0xffffffef, 5 },
		{ 0xfffffff0, 6 },   { 0xfffffff8, 6 },	 { 0xfffffff9, -1 }, { 0xffffffff, -1 }, { 0x100000000, -1 },
		{ 0x100001020, -1 }, { UINT64_MAX, -1 },
	};
	struct xp_cfi_table *table;

	assert_int_equal(open_bytes(&table, &example, sizeof(example)), 0);
	for (size_t i = 0; i < XP_ARRAY_SIZE(expected); i++) {
		const struct xp_cfi_row *row = xp_cfi_find(table, expected[i].offset);

		if (expected[i].row < 0)
			assert_int_equal(row->rule, XP_CFI_NONE);
		else
			assert_memory_equal(row, &example.rows[expected[i].row], sizeof(*row));
	}
	assert_memory_equal(xp_cfi_deref(table, xp_cfi_find(table, 0xfff00000)), &example.derefs[1],
			    sizeof(example.derefs[1]));
	assert_in_range(xp_cfi_table_bytes(table), 4096, sizeof(example) + 2 * 4096);
	assert_memory_equal(xp_cfi_table_header(table), &example.header, sizeof(example.header));
	xp_cfi_table_free(table);
}

/* Compares with a linear search. The distances between rows are the smallest and the largest possible. */
TEST(test_find_among_many)
{
	enum { ROWS = 20000 };
	struct many {
		struct xp_cfi_header header;
		struct xp_cfi_row rows[ROWS];
	} *many = calloc(1, sizeof(*many));
	struct xp_cfi_table *table;
	uint32_t pc = 4096, random = 1, row = 0;

	assert_non_null(many);
	many->header = (struct xp_cfi_header){ .magic = XP_CFI_MAGIC, .row_count = ROWS };
	for (uint32_t i = 0; i < ROWS; i++) {
		many->rows[i] = (struct xp_cfi_row){ pc, (uint16_t)i, -2, XP_CFI_RSP };
		random = random * 1664525 + 1013904223;
		pc += i % 1000 == 999 ? 1 << 20 : 1 + (random >> 16) % (i < ROWS / 2 ? 2 : 200);
	}
	many->rows[ROWS - 1] = (struct xp_cfi_row){ .pc = pc };
	assert_int_equal(open_bytes(&table, many, sizeof(*many)), 0);
	for (uint32_t offset = 4096; offset < pc; offset++) {
		while (many->rows[row + 1].pc <= offset)
			row++;
		if (xp_cfi_find(table, offset)->cfa != row)
			fail_msg("offset %u: row %u, not %u", offset, xp_cfi_find(table, offset)->cfa, row);
	}
	assert_in_range(xp_cfi_table_bytes(table), sizeof(*many), sizeof(*many) * 17 / 16 + 2 * 4096);
	xp_cfi_table_free(table);
	free(many);
}

TEST(test_smallest)
{
	const struct {
		struct xp_cfi_header header;
		struct xp_cfi_row row;
	} smallest = { { .magic = XP_CFI_MAGIC, .row_count = 1 }, { 0 } };
	struct xp_cfi_table *table;

	assert_int_equal(open_bytes(&table, &smallest, sizeof(smallest)), 0);
	assert_int_equal(xp_cfi_find(table, 0)->rule, XP_CFI_NONE);
	assert_int_equal(xp_cfi_find(table, UINT32_MAX)->rule, XP_CFI_NONE);
	xp_cfi_table_free(table);
}

TEST(test_malformed)
{
	static const struct {
		size_t at;
		size_t bytes;
		uint64_t value;
	} changes[] = {
#define IN_HEADER(field) offsetof(struct blob, header.field), sizeof(example.header.field)
#define IN_ROW(i, field)                                                                                               \
	offsetof(struct blob, rows) + (i)*8 + offsetof(struct xp_cfi_row, field), sizeof(example.rows->field)
#define IN_DEREF(i, field)                                                                                             \
	offsetof(struct blob, derefs) + (i)*16 + offsetof(struct xp_cfi_deref, field), sizeof(example.derefs->field)
		{ IN_HEADER(magic), 0 },
		{ IN_HEADER(row_count), 0 },
		{ IN_HEADER(row_count), 7 },
		{ IN_HEADER(row_count), 9 },
		{ IN_HEADER(row_count), UINT32_MAX },
		{ IN_HEADER(deref_count), 1 },
		{ IN_HEADER(deref_count), 3 },
		{ IN_HEADER(deref_count), UINT32_MAX },
		{ IN_ROW(1, pc), 0x1020 }, /* twice the same */
		{ IN_ROW(1, pc), 0x101f }, /* not ascending */
		{ IN_ROW(0, cfa), 0 },	   /* PLT */
		{ IN_ROW(0, cfa), 16 },
		{ IN_ROW(0, rule), XP_CFI_RULES },
		{ IN_ROW(0, rule), 255 },
		{ IN_ROW(1, cfa), 1 }, /* END */
		{ IN_ROW(1, rbp), 1 },
		{ IN_ROW(4, cfa), XP_CFI_REG_CFA(XP_CFI_REG_RBP, 1) },
		{ IN_ROW(4, cfa), XP_CFI_REG_CFA(XP_CFI_REG_RSP, 1) },
		{ IN_ROW(5, cfa), 2 },		 /* there is no such exotic row */
		{ IN_ROW(5, rbp), 1 },		 /* two rules for rbp */
		{ IN_ROW(6, cfa), 1 },		 /* SIGNAL */
		{ IN_ROW(7, cfa), 1 },		 /* NONE */
		{ IN_ROW(7, rule), XP_CFI_RSP }, /* to the last address */
		{ IN_DEREF(0, base), XP_CFI_BASE_CFA },
		{ IN_DEREF(0, base), 3 },
		{ IN_DEREF(0, rbp_base), 3 },
		{ IN_DEREF(0, rbp_offset), 8 },
		{ IN_DEREF(1, pad), 1 },
	};
	struct xp_cfi_table *table;

	for (size_t i = 0; i < XP_ARRAY_SIZE(changes); i++) {
		struct blob blob = example;

		memcpy((char *)&blob + changes[i].at, &changes[i].value, changes[i].bytes);
		if (open_bytes(&table, &blob, sizeof(blob)) != -EBADMSG)
			fail_msg("change %zu was not noticed", i);
	}
	for (size_t size = 0; size < sizeof(example); size++)
		assert_int_equal(open_bytes(&table, &example, size), -EBADMSG);
}

TEST(test_not_sealed)
{
	static const int seals[] = { 0, F_SEAL_GROW | F_SEAL_SHRINK, F_SEAL_WRITE | F_SEAL_SHRINK,
				     F_SEAL_WRITE | F_SEAL_GROW };
	struct xp_cfi_table *table;

	for (size_t i = 0; i < XP_ARRAY_SIZE(seals); i++) {
		int fd = memfd_of(&example, sizeof(example), seals[i]);

		assert_int_equal(xp_cfi_table_open(&table, fd), -EPERM);
		assert_null(table);
		close(fd);
	}
	assert_int_equal(xp_cfi_table_open(&table, -1), -EPERM);
}
