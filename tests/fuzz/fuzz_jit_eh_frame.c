// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the unwinding data of JIT code: the rows of a function must be valid ones. Input: start, size, .eh_frame. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "jit/eh_frame.h"

#define ADDRESS 0x7f0000000000ull

/* The rows are in order, lie within the function, and end with its end. */
static void check_rows(const struct xp_cfi_fdes *fdes, uint64_t start, uint32_t bytes, struct xp_cfi_rows *rows)
{
	struct xp_cfi_found found;
	int err = xp_jit_eh_frame_rows(rows, fdes, start, bytes);

	if (err && err != -ENOENT && err != -EFBIG)
		abort();
	for (size_t i = 0; !err && i < rows->count; i++)
		if (rows->all[i].rule >= XP_CFI_RULES || rows->all[i].pc > bytes ||
		    (i && rows->all[i].pc <= rows->all[i - 1].pc) ||
		    (rows->all[i].rule == XP_CFI_DEREF && rows->all[i].cfa >= rows->deref_count))
			abort();
	xp_cfi_rows_find(rows, bytes, &found);
	if (!err && found.row.rule != XP_CFI_NONE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_cfi_fdes fdes;
	struct xp_cfi_rows rows = { 0 };
	uint64_t start;
	uint32_t bytes;

	if (size < 12)
		return 0;
	memcpy(&start, data, 8);
	memcpy(&bytes, data + 8, 4);
	if (xp_jit_eh_frame_read(&fdes, data + 12, size - 12, ADDRESS))
		abort();
	if (start < 1ull << 56 && bytes < 1 << 24)
		check_rows(&fdes, start, bytes, &rows);
	xp_cfi_rows_free(&rows);
	xp_cfi_fdes_free(&fdes);
	return 0;
}
