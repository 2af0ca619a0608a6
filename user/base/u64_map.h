/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table from 64-bit numbers to 32-bit numbers or to pointers. */
#ifndef XPROF_BASE_U64_MAP_H
#define XPROF_BASE_U64_MAP_H

#include "base/hash.h"

struct xp_u64_entry {
	uint64_t key;
	union {
		uint32_t value;
		void *pointer;
	};
};

/* Empty if zeroed. */
struct xp_u64_map {
	struct xp_u64_entry *entries; /* in order of addition, until an entry is removed */
	size_t count;
	size_t room;
	struct xp_hash hash;
};

/*
 * Returns a pointer to the value of this key, or NULL if the key is missing. The pointer is valid until the next add.
 */
uint32_t *xp_u64_map_find(const struct xp_u64_map *map, uint64_t key);
/* Like xp_u64_map_find(), but adds a missing key with value. Returns NULL if out of memory. */
uint32_t *xp_u64_map_add(struct xp_u64_map *map, uint64_t key, uint32_t value);

/* Returns the pointer of this key, or NULL if the key is missing. */
void *xp_u64_map_get(const struct xp_u64_map *map, uint64_t key);
/* Sets the pointer of a new or a known key. Returns 0 or -ENOMEM. */
int xp_u64_map_put(struct xp_u64_map *map, uint64_t key, void *pointer);

/*
 * Removes the key if it exists. The last entry moves to the index of the removed one, so a loop from the last entry to
 * the first may remove entries.
 */
void xp_u64_map_remove(struct xp_u64_map *map, uint64_t key);
void xp_u64_map_free(struct xp_u64_map *map);

#endif
