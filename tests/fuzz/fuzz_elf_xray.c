// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of sled tables, from memory and from a file, and the names that it returns. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "base/why.h"
#include "elf/demangle.h"
#include "elf/sled_table.h"

static void check_table(const struct xp_sled_table *table, size_t size)
{
	uint32_t id = 0;

	CHECK(table->sled_count && table->function_count && table->function_count <= table->sled_count);
	CHECK(table->build_id_bytes <= sizeof(table->build_id));
	for (size_t i = 0; i < table->sled_count; i++) {
		const struct xp_sled *sled = &table->sleds[i];

		CHECK(sled->function_id == id || sled->function_id == id + 1);
		id = sled->function_id;
		CHECK(sled->kind < XP_SLED_KINDS && sled->file_offset < size && sled->condition < 16);
		CHECK(sled->operands[0] < 16 && sled->operands[1] < 16 && sled->operands[2] < 16);
	}
	CHECK(id == table->function_count);
	for (size_t i = 0; i < table->function_count; i++)
		if (table->functions[i].name)
			free(xp_demangle(table->functions[i].name));
}

/* Both readers must return the same result. */
static void check_file(const uint8_t *data, size_t size, int expected)
{
	struct xp_sled_table *table;
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	CHECK(xp_sled_table_open(&table, fd) == expected);
	xp_sled_table_free(table);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_sled_table *table;
	int err;

	if (!size)
		return 0;
	err = xp_sled_table_read(&table, data, size);
	CHECK(xp_why_has(err) == !!err && !err == !!table);
	if (!err)
		check_table(table, size);
	check_file(data, size, err);
	xp_sled_table_free(table);
	return 0;
}
