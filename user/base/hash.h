/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table over the elements of an array. The table holds only indexes, about 8 bytes for each element; the caller
 * keeps the elements and their keys. An attacker who chooses keys cannot make them collide, because each process hashes
 * with a random number of its own. u64_map.h is for keys that are in no array yet.
 *
 * xp_hash_mix() and xp_hash_text() make a key of several values or of a string. An attacker cannot find different
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

/* The key of some values and one more. */
uint64_t xp_hash_mix(uint64_t key, uint64_t value);
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

/* The low bits of addresses and ids repeat. */
static inline size_t xp_hash_place(const struct xp_hash *hash, uint64_t key)
{
	return xp_hash_scramble(key ^ hash->seed) & (hash->room - 1);
}

/*
 * The elements that may have this key. Others can be among them:
 *	for (const uint32_t *slot = xp_hash_first(hash, key); *slot; slot = xp_hash_next(hash, slot))
 *		if (elements[*slot - 1] is the one)
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

/* Adds the element, which need not be in the array yet. The others must be. Returns 0 or -ENOMEM. */
int xp_hash_add(struct xp_hash *hash, uint64_t key, uint32_t index, xp_hash_key_of *key_of, const void *elements);
/* The element with this key is now at another index, or another element with the same key takes its place. */
void xp_hash_move(struct xp_hash *hash, uint64_t key, uint32_t from, uint32_t to);
/* Removes the element, which must still be in the array, like all others. */
void xp_hash_remove(struct xp_hash *hash, uint64_t key, uint32_t index, xp_hash_key_of *key_of, const void *elements);
void xp_hash_free(struct xp_hash *hash);

#endif
