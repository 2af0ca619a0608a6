/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of a table under construction. The programs of unwind entries (cfi_program.h) produce them; their rules are
 * converted to the few kinds of rules in a table.
 */
#ifndef XPROF_UNWIND_CFI_ROWS_H
#define XPROF_UNWIND_CFI_ROWS_H

#include "unwind/cfi_program.h"
#include "unwind/cfi_table.h"

/* Empty if zeroed. */
struct xp_cfi_rows {
	struct xp_cfi_row *all;
	size_t count;
	size_t room;
	struct xp_cfi_deref *derefs;
	size_t deref_count;
	size_t deref_room;
	uint64_t code_bytes[XP_CFI_REASONS]; /* bytes of code added so far, by the reason why they have no rule, or
						XP_CFI_KNOWN */
};

/*
 * Adds a row that is valid from offset on. Ignores row->pc, and row->cfa if the rule is XP_CFI_DEREF. Offsets must not
 * decrease; a row with the same offset replaces the previous one. Returns 0, -EFBIG if there are more than
 * XP_CFI_ROWS_MAX rows, or -ENOMEM.
 */
int xp_cfi_rows_add(struct xp_cfi_rows *rows, uint32_t offset, const struct xp_cfi_row *row,
		    const struct xp_cfi_deref *deref);
/*
 * Adds rows for the part [start, end) of the code of a started program. to_offset: the difference between the offset of
 * a row and its address. Returns as xp_cfi_rows_add().
 */
int xp_cfi_rows_run(struct xp_cfi_rows *rows, struct xp_cfi_program *program, uint64_t start, uint64_t end,
		    uint64_t to_offset);
/* Finds the rule for this offset. If no row covers it, the rule is XP_CFI_NONE. O(log n). */
void xp_cfi_rows_find(const struct xp_cfi_rows *rows, uint32_t offset, struct xp_cfi_found *found);
/* Returns the memory of the rows in bytes. */
size_t xp_cfi_rows_bytes(const struct xp_cfi_rows *rows);
/*
 * Sets the counts of rows in the header, and writes the whole table: header, rows, derefs. Returns 0 or an error of
 * write(2).
 */
int xp_cfi_rows_write(const struct xp_cfi_rows *rows, struct xp_cfi_header *header, int fd);
void xp_cfi_rows_free(struct xp_cfi_rows *rows);

#endif
