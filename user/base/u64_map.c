// SPDX-License-Identifier: BSD-2-Clause
#include "base/u64_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint64_t key_of(const void *entries, uint32_t index)
{
	return ((const struct xp_u64_entry *)entries)[index].key;
}

static struct xp_u64_entry *find(const struct xp_u64_map *map, uint64_t key)
{
	for (const uint32_t *slot = xp_hash_first(&map->hash, key); *slot; slot = xp_hash_next(&map->hash, slot))
		if (map->entries[*slot - 1].key == key)
			return &map->entries[*slot - 1];
	return NULL;
}

static struct xp_u64_entry *find_or_add(struct xp_u64_map *map, struct xp_u64_entry new)
{
	struct xp_u64_entry *entry = find(map, new.key);

	if (entry)
		return entry;
	if (XP_ARRAY_RESERVE(map->entries, map->room, map->count + 1) ||
	    xp_hash_add(&map->hash, new.key, map->count, key_of, map->entries))
		return NULL;
	entry = &map->entries[map->count++];
	*entry = new;
	return entry;
}

uint32_t *xp_u64_map_find(const struct xp_u64_map *map, uint64_t key)
{
	struct xp_u64_entry *entry = find(map, key);

	return entry ? &entry->value : NULL;
}

uint32_t *xp_u64_map_add(struct xp_u64_map *map, uint64_t key, uint32_t value)
{
	struct xp_u64_entry *entry = find_or_add(map, (struct xp_u64_entry){ .key = key, .value = value });

	return entry ? &entry->value : NULL;
}

void *xp_u64_map_get(const struct xp_u64_map *map, uint64_t key)
{
	struct xp_u64_entry *entry = find(map, key);

	return entry ? entry->pointer : NULL;
}

int xp_u64_map_put(struct xp_u64_map *map, uint64_t key, void *pointer)
{
	struct xp_u64_entry *entry = find_or_add(map, (struct xp_u64_entry){ .key = key });

	if (entry)
		entry->pointer = pointer;
	return entry ? 0 : -ENOMEM;
}

void xp_u64_map_remove(struct xp_u64_map *map, uint64_t key)
{
	struct xp_u64_entry *entry = find(map, key), *last;
	uint32_t index;

	if (!entry)
		return;
	index = entry - map->entries;
	last = &map->entries[map->count - 1];
	xp_hash_remove(&map->hash, key, index, key_of, map->entries);
	if (entry != last) {
		xp_hash_move(&map->hash, last->key, map->count - 1, index);
		*entry = *last;
	}
	map->count--;
}

void xp_u64_map_free(struct xp_u64_map *map)
{
	free(map->entries);
	xp_hash_free(&map->hash);
	memset(map, 0, sizeof(*map));
}
