// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the unwinding data of JIT code: what is laid out for a function is read again as what it was, and the rows of
 * the function are such as a table may have. The first 12 bytes say where the function is.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "jit/eh_frame.h"

#define ADDRESS 0x7f0000000000ull

/* The rows are in order, lie within the function, and end with its end. */
static void check_rows(const struct xp_jit_eh_frames *frames, uint64_t start, uint32_t bytes, struct xp_cfi_rows *rows)
{
	struct xp_cfi_found found;
	int err = xp_jit_eh_frame_rows(rows, frames, start, bytes);

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

static void check_again(const struct xp_jit_eh_frame *made, uint64_t start, uint32_t bytes)
{
	struct xp_jit_eh_frames frames;
	struct xp_jit_eh_frame again;

	if (xp_jit_eh_frames_read(&frames, made->frame, made->frame_bytes, start + ((bytes + 7ull) & ~7ull)))
		abort();
	if (frames.count != (made->header_bytes - 12) / 8)
		abort();
	if (xp_jit_eh_frame_make(&again, &frames, start, bytes))
		abort();
	/* Padding is instructions now. */
	if (again.frame_bytes < made->frame_bytes || again.header_bytes != made->header_bytes)
		abort();
	xp_jit_eh_frame_free(&again);
	xp_jit_eh_frames_free(&frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_jit_eh_frames frames;
	struct xp_jit_eh_frame made;
	struct xp_cfi_rows rows = { 0 };
	uint64_t start;
	uint32_t bytes;

	if (size < 12)
		return 0;
	memcpy(&start, data, 8);
	memcpy(&bytes, data + 8, 4);
	if (xp_jit_eh_frames_read(&frames, data + 12, size - 12, ADDRESS))
		abort();
	if (start < 1ull << 56 && bytes < 1 << 24) {
		check_rows(&frames, start, bytes, &rows);
		if (!xp_jit_eh_frame_make(&made, &frames, start, bytes)) {
			check_again(&made, start, bytes);
			xp_jit_eh_frame_free(&made);
		}
	}
	xp_cfi_rows_free(&rows);
	xp_jit_eh_frames_free(&frames);
	return 0;
}
