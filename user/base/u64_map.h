/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table with open addressing from 64-bit to 32-bit numbers. */
#ifndef XPROF_BASE_U64_MAP_H
#define XPROF_BASE_U64_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct xp_u64_map {
	struct xp_number_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

struct xp_number_slot {
	uint64_t key;
	uint32_t value;
	uint32_t used;
};

/* A pointer to this key's value, or NULL if the key is missing. Valid until the next add. */
uint32_t *xp_u64_map_find(const struct xp_u64_map *map, uint64_t key);
/* The same, but adds a missing key with value. Returns NULL if out of memory. */
uint32_t *xp_u64_map_add(struct xp_u64_map *map, uint64_t key, uint32_t value);
void xp_u64_map_free(struct xp_u64_map *map);

#endif
