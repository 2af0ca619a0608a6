// SPDX-License-Identifier: BSD-2-Clause
#include "base/set.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"

static char *array_of(const struct xp_set *set)
{
	char *array;

	memcpy(&array, set->array, sizeof(array));
	return array;
}

/* For xp_hash_add(): `arg` is the set. */
static uint64_t key_of(const void *arg, uint32_t index)
{
	const struct xp_set *set = arg;

	return xp_hash_bytes(array_of(set) + index * set->element_bytes, set->identity_bytes);
}

int xp_set_add(const struct xp_set *set, const void *element, uint32_t *index)
{
	uint64_t key = xp_hash_bytes(element, set->identity_bytes);
	char *array = array_of(set);

	for (const uint32_t *slot = xp_hash_first(set->hash, key); *slot; slot = xp_hash_next(set->hash, slot)) {
		*index = *slot - 1;
		if (!memcmp(array + *index * set->element_bytes, element, set->identity_bytes))
			return 0;
	}
	if (*set->count >= set->max)
		return -E2BIG;
	array = xp_array_grow(array, set->room, *set->count + 1, set->element_bytes);
	if (!array)
		return -ENOMEM;
	memcpy(set->array, &array, sizeof(array));
	*index = (uint32_t)*set->count;
	if (xp_hash_add(set->hash, key, *index, key_of, set))
		return -ENOMEM;
	memcpy(array + *index * set->element_bytes, element, set->element_bytes);
	++*set->count;
	return 0;
}
