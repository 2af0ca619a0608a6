/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a table while it is made. */
#ifndef XPROF_CFI_ROWS_H
#define XPROF_CFI_ROWS_H

#include "unwind/cfi_table.h"

/* Zeroed: empty. */
struct xp_cfi_rows {
	struct xp_cfi_row *all;
	size_t count;
	size_t room;
	struct xp_cfi_deref *derefs;
	size_t deref_count;
	size_t deref_room;
};

/*
 * From offset on, row holds; row->pc is not looked at, nor is its cfa with XP_CFI_DEREF. Offsets do not go down; at the
 * same one as before, the row takes the other's place. -EFBIG for more than XP_CFI_ROWS_MAX, -ENOMEM.
 */
int xp_cfi_rows_add(struct xp_cfi_rows *rows, uint32_t offset, const struct xp_cfi_row *row,
		    const struct xp_cfi_deref *deref);
/* Writes the whole table: header, whose counts are set here, and rows. Those of write(2). */
int xp_cfi_rows_write(const struct xp_cfi_rows *rows, struct xp_cfi_header *header, int fd);
void xp_cfi_rows_free(struct xp_cfi_rows *rows);

#endif
