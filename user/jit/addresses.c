// SPDX-License-Identifier: BSD-2-Clause
#include "jit/addresses.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

#define ALIGN 16u
#define BYTES_MAX (1u << 20) /* of one function; what is behind has the last address */

static int reserve(struct xp_jit_places *places)
{
	size_t room = places->room ? 2 * places->room : 16;
	struct xp_sym *syms;

	if (places->count < places->room)
		return 0;
	syms = reallocarray(places->syms, room, sizeof(*syms));
	if (!syms)
		return -ENOMEM;
	places->syms = syms;
	places->room = room;
	return 0;
}

static int add(struct xp_jit_places *places, const struct xp_jit_range *range)
{
	/* One byte more: the address behind its last call is still its own. */
	uint64_t bytes = (XP_MIN(range->size, (uint64_t)BYTES_MAX) + ALIGN) & -(uint64_t)ALIGN;

	if (places->end + bytes > XP_PROFILE_JIT_BYTES)
		return -ENOSPC;
	if (reserve(places) || !xp_number_map_add(&places->numbers, range->index, (uint32_t)places->count))
		return -ENOMEM;
	places->syms[places->count++] = (struct xp_sym){ places->end, bytes, range->name };
	places->end += bytes;
	return 0;
}

int xp_jit_places_put(struct xp_jit_places *places, const struct xp_jit_range *range, struct xp_profile_frame *frame)
{
	const uint32_t *number = xp_number_map_find(&places->numbers, range->index);
	const struct xp_sym *sym;
	int err = number ? 0 : add(places, range);

	if (err)
		return err;
	sym = &places->syms[number ? *number : places->count - 1];
	frame->address = XP_PROFILE_JIT_BASE + sym->address + XP_MIN(frame->address - range->start, sym->size - 1);
	frame->vma = &xp_profile_jit_vma;
	return 0;
}

void xp_jit_places_free(struct xp_jit_places *places)
{
	xp_number_map_free(&places->numbers);
	free(places->syms);
	*places = (struct xp_jit_places){ 0 };
}
