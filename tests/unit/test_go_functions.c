// SPDX-License-Identifier: BSD-2-Clause
#include "elf/go_functions.h"

#include <errno.h>
#include <stdlib.h>

#include "go_table.h"
#include "unit.h"

#define TEXT 0x401000

static uint8_t table[GO_TABLE_BYTES];

static int parse(struct xp_go_functions *functions, size_t bytes)
{
	/* A copy, so that valgrind and ASAN see reads beyond its end. */
	uint8_t *copy = malloc(bytes + 1);
	int err;

	memcpy(copy, table, bytes);
	err = xp_go_functions_parse(functions, copy, bytes, TEXT);
	functions->table = copy;
	return err;
}

static int try(size_t bytes)
{
	struct xp_go_functions functions;
	int err = parse(&functions, bytes);

	assert_int_equal(functions.count, err ? 0 : 2);
	xp_go_functions_free(&functions);
	return err;
}

TEST(functions_of_both_versions)
{
	for (int version = 18; version <= 20; version += 2) {
		struct xp_go_functions functions;

		go_table_make(table, version);
		assert_int_equal(parse(&functions, sizeof(table)), 0);
		assert_int_equal(functions.count, 2);
		assert_int_equal(functions.all[0].vaddr, TEXT);
		assert_int_equal(functions.all[0].bytes, 0x20);
		assert_string_equal(functions.all[0].name, "main.f");
		assert_false(functions.all[0].is_assembly);
		assert_int_equal(functions.all[1].bytes, 0x30);
		assert_string_equal(functions.all[1].name, "main.(*T).g");
		assert_true(functions.all[1].is_assembly);
		assert_ptr_equal(xp_go_functions_find(&functions, TEXT + 0x20), &functions.all[1]);
		assert_null(xp_go_functions_find(&functions, TEXT + 0x21));
		assert_null(xp_go_functions_find(&functions, TEXT + 0x50));
		xp_go_functions_free(&functions);
	}
}

TEST(other_tables)
{
	struct xp_go_functions functions;

	go_table_make(table, 20);
	assert_int_equal(xp_go_functions_parse(&functions, table, sizeof(table), 0), -ENOENT);
	go_table_put(table, 0, 0xfffffffa, 4); /* Go 1.16 */
	assert_int_equal(try(sizeof(table)), -ENOENT);
	go_table_make(table, 20);
	table[7] = 4;
	assert_int_equal(try(sizeof(table)), -ENOENT);
}

TEST(malformed_tables)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t bytes;
	} bad[] = {
		{ 8, 3, 8 },						      /* more functions than the table has */
		{ 8, UINT64_MAX / 8, 8 },				      /* the same */
		{ 32, UINT64_MAX, 8 },					      /* names before the table */
		{ 32, GO_TABLE_BYTES, 8 },				      /* names after the table */
		{ 64, UINT64_MAX - 7, 8 },				      /* functions before the table */
		{ GO_TABLE_FUNCTIONS + 4, UINT32_MAX, 4 },		      /* details after the table */
		{ GO_TABLE_FUNCTIONS + 8, 0, 4 },			      /* a function of no bytes */
		{ GO_TABLE_FUNCTIONS + 16, 0x10, 4 },			      /* the functions do not ascend */
		{ GO_TABLE_FUNCTIONS + GO_TABLE_DETAILS + 4, UINT32_MAX, 4 }, /* a name after the table */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		go_table_make(table, 20);
		go_table_put(table, bad[i].at, bad[i].value, bad[i].bytes);
		assert_int_equal(try(sizeof(table)), -EINVAL);
	}
	/* A name without an end; a name of too many bytes would be the same. */
	go_table_make(table, 20);
	go_table_put(table, 32, GO_TABLE_BYTES - 4, 8);
	memset(table + GO_TABLE_BYTES - 4, 'x', 4);
	assert_int_equal(try(sizeof(table)), -EINVAL);
	go_table_make(table, 20);
	for (size_t bytes = 0; bytes < sizeof(table) - 2; bytes++)
		assert_true(try(bytes) < 0);
}
