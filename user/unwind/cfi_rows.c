// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define DEREFS_MAX (UINT16_MAX + 1u)

/* Sets *index to the index of this deref; equal ones share an index. A program has only a few. */
static int intern_deref(struct xp_cfi_rows *rows, const struct xp_cfi_deref *deref, uint16_t *index)
{
	for (size_t i = rows->deref_count; i > 0; i--)
		if (!memcmp(&rows->derefs[i - 1], deref, sizeof(*deref))) {
			*index = (uint16_t)(i - 1);
			return 0;
		}
	if (rows->deref_count == DEREFS_MAX)
		return -EFBIG;
	if (XP_ARRAY_RESERVE(rows->derefs, rows->deref_room, rows->deref_count + 1))
		return -ENOMEM;
	*index = (uint16_t)rows->deref_count;
	rows->derefs[rows->deref_count++] = *deref;
	return 0;
}

static bool is_same(const struct xp_cfi_row *a, const struct xp_cfi_row *b)
{
	return a->rule == b->rule && a->cfa == b->cfa && a->rbp == b->rbp;
}

int xp_cfi_rows_add(struct xp_cfi_rows *rows, uint32_t offset, const struct xp_cfi_row *row,
		    const struct xp_cfi_deref *deref)
{
	struct xp_cfi_row new = *row;

	new.pc = offset;
	if (new.rule == XP_CFI_DEREF) {
		int err = intern_deref(rows, deref, &new.cfa);

		if (err)
			return err;
	}
	if (rows->count && rows->all[rows->count - 1].pc == offset)
		rows->count--;
	if (rows->count ? is_same(&rows->all[rows->count - 1], &new) : new.rule == XP_CFI_NONE)
		return 0;
	if (rows->count == XP_CFI_ROWS_MAX)
		return -EFBIG;
	if (XP_ARRAY_RESERVE(rows->all, rows->room, rows->count + 1))
		return -ENOMEM;
	rows->all[rows->count++] = new;
	return 0;
}

int xp_cfi_rows_write(const struct xp_cfi_rows *rows, struct xp_cfi_header *header, int fd)
{
	static const struct xp_cfi_row none;
	int err;

	header->magic = XP_CFI_MAGIC;
	header->row_count = (uint32_t)XP_MAX(rows->count, (size_t)1);
	header->deref_count = (uint32_t)rows->deref_count;
	err = xp_write_all(fd, header, sizeof(*header));
	if (!err)
		err = xp_write_all(fd, rows->count ? rows->all : &none, header->row_count * sizeof(none));
	if (!err)
		err = xp_write_all(fd, rows->derefs, rows->deref_count * sizeof(*rows->derefs));
	return err;
}

void xp_cfi_rows_free(struct xp_cfi_rows *rows)
{
	free(rows->all);
	free(rows->derefs);
}
