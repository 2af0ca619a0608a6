// SPDX-License-Identifier: BSD-2-Clause
#include "base/array.h"

#include <stdlib.h>

#include "base/util.h"

#define ROOM_MIN 4u

void *xp_array_grow(void *array, size_t *room, size_t need, size_t element_bytes)
{
	size_t wanted = XP_MAX(need, XP_MAX(*room + *room / 2, (size_t)ROOM_MIN));
	void *grown;

	if (array && need <= *room)
		return array;
	grown = reallocarray(array, wanted, element_bytes);
	if (grown)
		*room = wanted;
	return grown;
}
