// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the opening of unwind tables: an opened table gives the same rows as a linear search. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "unwind/cfi_table.h"

/* rows: the rows of the table that start at or before offset. */
static void check_at(const struct xp_cfi_table *table, const struct xp_cfi_row *row, uint64_t offset)
{
	const struct xp_cfi_row *found = xp_cfi_find(table, offset);

	CHECK(found->rule < XP_CFI_RULES);
	CHECK(row ? found->rule == row->rule && found->cfa == row->cfa && found->rbp == row->rbp
		  : found->rule == XP_CFI_NONE);
	if (found->rule == XP_CFI_DEREF) {
		const struct xp_cfi_deref *deref = xp_cfi_deref(table, found);

		CHECK(deref->base != XP_CFI_BASE_CFA && deref->rbp_base <= XP_CFI_BASE_RBP);
	}
}

static void check_table(const struct xp_cfi_table *table)
{
	const struct xp_cfi_header *header = xp_cfi_table_header(table);
	const struct xp_cfi_row *rows = (const struct xp_cfi_row *)(header + 1);

	if (rows[0].pc)
		check_at(table, NULL, rows[0].pc - 1);
	for (uint32_t i = 0; i < header->row_count; i++) {
		check_at(table, &rows[i], rows[i].pc);
		if (i + 1 < header->row_count)
			check_at(table, &rows[i], rows[i + 1].pc - 1);
	}
	check_at(table, NULL, UINT64_MAX);
	check_at(table, NULL, 1ull << 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_ALLOW_SEALING);
	struct xp_cfi_table *table;

	CHECK(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
	if (!xp_cfi_table_open(&table, fd))
		check_table(table);
	else
		CHECK(!table);
	xp_cfi_table_free(table);
	close(fd);
	return 0;
}
