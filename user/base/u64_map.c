// SPDX-License-Identifier: BSD-2-Clause
#include "base/u64_map.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 8

/* splitmix64's finalizer: keys are addresses and ids, whose low bits repeat. */
static uint64_t mix(uint64_t key)
{
	key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
	key = (key ^ key >> 27) * 0x94d049bb133111ebu;
	return key ^ key >> 31;
}

/* The slot of the key, or the free slot where it belongs. */
static struct xp_number_slot *slot_of(const struct xp_u64_map *map, uint64_t key)
{
	size_t at = mix(key) & (map->room - 1);

	while (map->slots[at].used && map->slots[at].key != key)
		at = (at + 1) & (map->room - 1);
	return &map->slots[at];
}

static int grow(struct xp_u64_map *map)
{
	struct xp_u64_map larger = { .room = map->room ? map->room * 2 : ROOM_MIN, .count = map->count };

	larger.slots = calloc(larger.room, sizeof(*larger.slots));
	if (!larger.slots)
		return -1;
	for (size_t i = 0; i < map->room; i++)
		if (map->slots[i].used)
			*slot_of(&larger, map->slots[i].key) = map->slots[i];
	free(map->slots);
	*map = larger;
	return 0;
}

uint32_t *xp_u64_map_find(const struct xp_u64_map *map, uint64_t key)
{
	struct xp_number_slot *slot = map->room ? slot_of(map, key) : NULL;

	return slot && slot->used ? &slot->value : NULL;
}

uint32_t *xp_u64_map_add(struct xp_u64_map *map, uint64_t key, uint32_t value)
{
	uint32_t *found = xp_u64_map_find(map, key);
	struct xp_number_slot *slot;

	if (found)
		return found;
	if (map->count >= map->room / 2 && grow(map))
		return NULL;
	slot = slot_of(map, key);
	*slot = (struct xp_number_slot){ .key = key, .value = value, .used = 1 };
	map->count++;
	return &slot->value;
}

void xp_u64_map_free(struct xp_u64_map *map)
{
	free(map->slots);
	memset(map, 0, sizeof(*map));
}
