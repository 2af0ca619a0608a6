// SPDX-License-Identifier: BSD-2-Clause
#include "jit/eh_frame.h"

#include <errno.h>

#include "base/array.h"
#include "base/util.h"

int xp_jit_eh_frame_read(struct xp_cfi_fdes *fdes, const uint8_t *bytes, size_t size, uint64_t address)
{
	const struct xp_cfi_section section = { .bytes = bytes, .size = size, .vaddr = address };
	int err;

	*fdes = (struct xp_cfi_fdes){ .end = UINT64_MAX };
	err = xp_cfi_fdes_read(fdes, &section);
	xp_cfi_fdes_sort(fdes);
	return err;
}

int xp_jit_eh_frame_rows(struct xp_cfi_rows *rows, const struct xp_cfi_fdes *fdes, uint64_t start, uint64_t size)
{
	static const struct xp_cfi_row none;
	size_t first = XP_FIND_FIRST(fdes->count, i, fdes->all[i].vaddr < start);
	uint64_t at = start;
	int err = size <= INT32_MAX ? 0 : -ENOENT;

	for (size_t i = first; !err && i < fdes->count && fdes->all[i].vaddr - start < size; i++) {
		const struct xp_cfi_fde *fde = &fdes->all[i];
		uint64_t from = XP_MAX(at, fde->vaddr), to = fde->vaddr + fde->bytes;
		struct xp_cfi_program program;

		if (to - start > size)
			break;
		if (from >= to) /* if entries overlap, the first one applies */
			continue;
		xp_cfi_fdes_start(fdes, fde, &program);
		err = xp_cfi_rows_run(rows, &program, from, to, -start);
		if (!err)
			err = xp_cfi_rows_add(rows, (uint32_t)(to - start), &none, NULL);
		at = to;
	}
	return err ? err : at == start ? -ENOENT : 0;
}
