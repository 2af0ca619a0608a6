/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of a table under construction. They come from the programs of unwind entries (cfi_program.h), whose rules
 * are converted to the few that tables have.
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
	uint64_t code_bytes[XP_CFI_REASONS]; /* bytes of code that were described, by whether they got a rule */
};

/*
 * Adds a row that holds from offset on. row->pc is ignored, and so is row->cfa if the rule is XP_CFI_DEREF. Offsets
 * must not decrease; a row with the same offset replaces the previous one. Returns 0, -EFBIG if there are more than
 * XP_CFI_ROWS_MAX rows, or -ENOMEM.
 */
int xp_cfi_rows_add(struct xp_cfi_rows *rows, uint32_t offset, const struct xp_cfi_row *row,
		    const struct xp_cfi_deref *deref);
/*
 * Adds rows for the part [start, end) of the code of a started program. to_offset: added to an address, gives the row's
 * offset. Returns the same.
 */
int xp_cfi_rows_run(struct xp_cfi_rows *rows, struct xp_cfi_program *program, uint64_t start, uint64_t end,
		    uint64_t to_offset);
/* Finds the rule for this offset; without a row there, the rule of no code. O(log n). */
void xp_cfi_rows_find(const struct xp_cfi_rows *rows, uint32_t offset, struct xp_cfi_found *found);
/* Memory that the rows take. */
size_t xp_cfi_rows_bytes(const struct xp_cfi_rows *rows);
/* Writes the whole table: the header, after setting its counts of rows, and the rows. Returns 0 or an error of
 * write(2). */
int xp_cfi_rows_write(const struct xp_cfi_rows *rows, struct xp_cfi_header *header, int fd);
void xp_cfi_rows_free(struct xp_cfi_rows *rows);

#endif
