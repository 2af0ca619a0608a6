// SPDX-License-Identifier: BSD-2-Clause
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define ROOM_MIN 16

/* Returns the slot that holds `content`. content 0: returns the free slot for a new element with this key. */
static uint32_t *slot_of(const struct xp_hash *hash, uint64_t key, uint32_t content)
{
	size_t place = xp_hash_place(hash, key);

	while (hash->slots[place] != content)
		place = (place + 1) & (hash->room - 1);
	return &hash->slots[place];
}

/*
 * Returns 64 bits made from the 16 random bytes that the kernel passes to a new program. The C library uses the same
 * bytes unchanged for its own secrets.
 */
static uint64_t seed(void)
{
	uint64_t bytes[2];

	memcpy(bytes, (const void *)getauxval(AT_RANDOM), sizeof(bytes));
	return bytes[0] * 0x9e3779b97f4a7c15u + bytes[1];
}

/*
 * Returns the secret that all keys depend on. It is cached, because getauxval() searches a list and keys are made
 * often.
 */
static uint64_t secret(void)
{
	static uint64_t known;
	uint64_t value = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (!value) {
		value = xp_hash_scramble(seed()) | 1;
		__atomic_store_n(&known, value, __ATOMIC_RELAXED);
	}
	return value;
}

uint64_t xp_hash_mix(uint64_t key, uint64_t value)
{
	return xp_hash_scramble(key ^ secret()) + value;
}

uint64_t xp_hash_bytes(const void *bytes, size_t count)
{
	uint64_t key = count;

	for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
		uint64_t piece = 0;

		memcpy(&piece, (const char *)bytes + at, count - at < sizeof(piece) ? count - at : sizeof(piece));
		key = xp_hash_mix(key, piece);
	}
	return key;
}

uint64_t xp_hash_text(const char *text)
{
	return xp_hash_bytes(text, strlen(text));
}

static int grow(struct xp_hash *hash, xp_hash_key_of *key_of, const void *elements)
{
	struct xp_hash larger = { .room = hash->room ? 2 * hash->room : ROOM_MIN,
				  .count = hash->count,
				  .seed = seed() };

	if (!larger.room) /* more than 32 bits */
		return -ENOMEM;
	larger.slots = calloc(larger.room, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < hash->room; i++)
		if (hash->slots[i])
			*slot_of(&larger, key_of(elements, hash->slots[i] - 1), 0) = hash->slots[i];
	free(hash->slots);
	*hash = larger;
	return 0;
}

int xp_hash_add(struct xp_hash *hash, uint64_t key, uint32_t index, xp_hash_key_of *key_of, const void *elements)
{
	/* At most three quarters of the slots are used. */
	if (index == UINT32_MAX || (4ull * hash->count >= 3ull * hash->room && grow(hash, key_of, elements)))
		return -ENOMEM;
	*slot_of(hash, key, 0) = index + 1;
	hash->count++;
	return 0;
}

void xp_hash_move(struct xp_hash *hash, uint64_t key, uint32_t from, uint32_t to)
{
	*slot_of(hash, key, from + 1) = to + 1;
}

void xp_hash_remove(struct xp_hash *hash, uint64_t key, uint32_t index, xp_hash_key_of *key_of, const void *elements)
{
	size_t mask = hash->room - 1, hole = (size_t)(slot_of(hash, key, index + 1) - hash->slots);

	/* A free slot ends a search. So move a later element into the free slot if its search would stop there. */
	for (size_t at = (hole + 1) & mask; hash->slots[at]; at = (at + 1) & mask) {
		size_t place = xp_hash_place(hash, key_of(elements, hash->slots[at] - 1));

		if (((at - place) & mask) < ((at - hole) & mask))
			continue;
		hash->slots[hole] = hash->slots[at];
		hole = at;
	}
	hash->slots[hole] = 0;
	hash->count--;
}

void xp_hash_free(struct xp_hash *hash)
{
	free(hash->slots);
	memset(hash, 0, sizeof(*hash));
}
