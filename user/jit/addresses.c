// SPDX-License-Identifier: BSD-2-Clause
#include "jit/addresses.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"

#define ALIGN 16u
#define BYTES_MAX (1u << 20) /* of one function; all bytes after it share the last address */

static int reserve(struct xp_jit_addresses *places)
{
	return XP_ARRAY_RESERVE(places->syms, places->room, places->count + 1);
}

static int add(struct xp_jit_addresses *places, const struct xp_jit_range *range)
{
	/* One byte more, so that the address after the function's last call is still inside. */
	uint64_t bytes = (XP_MIN(range->size, (uint64_t)BYTES_MAX) + ALIGN) & -(uint64_t)ALIGN;

	if (places->end + bytes > XP_PROFILE_JIT_BYTES)
		return -ENOSPC;
	if (reserve(places) || !xp_u64_map_add(&places->numbers, range->index, (uint32_t)places->count))
		return -ENOMEM;
	places->syms[places->count++] = (struct xp_sym){ places->end, bytes, range->name };
	places->end += bytes;
	return 0;
}

int xp_jit_addresses_add(struct xp_jit_addresses *places, const struct xp_jit_range *range, struct xp_frame *frame)
{
	const uint32_t *number = xp_u64_map_find(&places->numbers, range->index);
	const struct xp_sym *sym;
	int err = number ? 0 : add(places, range);

	if (err)
		return err;
	sym = &places->syms[number ? *number : places->count - 1];
	frame->address = XP_PROFILE_JIT_BASE + sym->address + XP_MIN(frame->address - range->start, sym->size - 1);
	frame->vma = &xp_profile_jit_vma;
	return 0;
}

void xp_jit_addresses_free(struct xp_jit_addresses *places)
{
	xp_u64_map_free(&places->numbers);
	free(places->syms);
	*places = (struct xp_jit_addresses){ 0 };
}
