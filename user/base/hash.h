/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table over the elements of an array. The table stores only indexes, about 8 bytes per element; the caller
 * stores the elements and their keys. Each process uses its own random seed, so an attacker who chooses the keys cannot
 * make them collide. If the keys are not in an array yet, use u64_map.h.
 *
 * xp_hash_mix(), xp_hash_bytes() and xp_hash_text() make a key from several values, from memory or from a string. An attacker cannot find different
 * values with the same key.
 */
#ifndef XPROF_BASE_HASH_H
#define XPROF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Empty if zeroed. */
struct xp_hash {
	uint32_t *slots; /* index plus one; 0: free */
	uint32_t room;	 /* a power of two, or 0 */
	uint32_t count;
	uint64_t seed;
};

/* Combines the key of earlier values with one more value. */
uint64_t xp_hash_mix(uint64_t key, uint64_t value);
uint64_t xp_hash_bytes(const void *bytes, size_t count);
uint64_t xp_hash_text(const char *text);

/* Returns the key of an element. Equal elements must have equal keys; different elements should have different keys. */
typedef uint64_t xp_hash_key_of(const void *elements, uint32_t index);

/* splitmix64's finalizer. */
static inline uint64_t xp_hash_scramble(uint64_t key)
{
	key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
	key = (key ^ key >> 27) * 0x94d049bb133111ebu;
	return key ^ key >> 31;
}

/* Returns the first slot for a key. Scrambles the key, because the low bits of addresses and IDs repeat. */
static inline size_t xp_hash_place(const struct xp_hash *hash, uint64_t key)
{
	return xp_hash_scramble(key ^ hash->seed) & (hash->room - 1);
}

/*
 * Iterates over the elements that may have this key. Check each one, because elements with other keys can be among
 * them:
 *   for (const uint32_t *slot = xp_hash_first(hash, key); *slot; slot = xp_hash_next(hash, slot))
 *           if (elements[*slot - 1] is the one)
 */
static inline const uint32_t *xp_hash_first(const struct xp_hash *hash, uint64_t key)
{
	static const uint32_t none;

	return hash->room ? &hash->slots[xp_hash_place(hash, key)] : &none;
}

static inline const uint32_t *xp_hash_next(const struct xp_hash *hash, const uint32_t *slot)
{
	return ++slot == hash->slots + hash->room ? hash->slots : slot;
}

/* Adds an element. All other elements must be in the array already. Returns 0 or -ENOMEM. */
int xp_hash_add(struct xp_hash *hash, uint64_t key, uint32_t index, xp_hash_key_of *key_of, const void *elements);
/* Replaces the index `from` of the element with this key by the index `to`. */
void xp_hash_move(struct xp_hash *hash, uint64_t key, uint32_t from, uint32_t to);
/* Removes an element. It and all other elements must still be in the array. */
void xp_hash_remove(struct xp_hash *hash, uint64_t key, uint32_t index, xp_hash_key_of *key_of, const void *elements);
void xp_hash_free(struct xp_hash *hash);

#endif
