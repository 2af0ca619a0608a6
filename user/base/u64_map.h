/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table from 64-bit numbers to 32-bit ones, open addressing. */
#ifndef XPROF_NUMBER_MAP_H
#define XPROF_NUMBER_MAP_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct xp_number_map {
	struct xp_number_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

struct xp_number_slot {
	uint64_t key;
	uint32_t value;
	uint32_t used;
};

/* The place of this key's value; NULL: it is not there. Valid until the next addition. */
uint32_t *xp_number_map_find(const struct xp_number_map *map, uint64_t key);
/* The same; a key that is not there is added with value. NULL: out of memory. */
uint32_t *xp_number_map_add(struct xp_number_map *map, uint64_t key, uint32_t value);
void xp_number_map_free(struct xp_number_map *map);

#endif
