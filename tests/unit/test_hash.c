// SPDX-License-Identifier: BSD-2-Clause
/* The hash table, and the map that uses it. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/set.h"
#include "base/text_pool.h"
#include "base/u64_map.h"
#include "base/util.h"

#define KEYS 500u

TEST(test_empty)
{
	struct xp_u64_map map = { 0 };

	assert_null(xp_u64_map_find(&map, 7));
	assert_null(xp_u64_map_get(&map, 7));
	xp_u64_map_remove(&map, 7);
	xp_u64_map_free(&map);
}

TEST(test_values)
{
	struct xp_u64_map map = { 0 };

	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_equal(*xp_u64_map_add(&map, i * 0x100000000ull, i), i);
	assert_int_equal(*xp_u64_map_add(&map, 3 * 0x100000000ull, 99), 3);
	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_equal(*xp_u64_map_find(&map, i * 0x100000000ull), i);
	assert_null(xp_u64_map_find(&map, 1));
	assert_int_equal(map.count, KEYS);
	xp_u64_map_free(&map);
	assert_int_equal(map.count, 0);
}

/* Puts and removes keys in a random order, and compares with an array. */
TEST(test_put_and_remove)
{
	struct xp_u64_map map = { 0 };
	void *expected[KEYS] = { 0 };
	size_t count = 0;

	srand(1);
	for (unsigned int round = 0; round < 100 * KEYS; round++) {
		size_t key = (size_t)rand() % KEYS;
		void *pointer = rand() % 2 ? &expected[(size_t)rand() % KEYS] : NULL;

		count += !expected[key] && pointer ? 1 : 0;
		count -= expected[key] && !pointer ? 1 : 0;
		expected[key] = pointer;
		if (pointer)
			assert_int_equal(xp_u64_map_put(&map, key, pointer), 0);
		else
			xp_u64_map_remove(&map, key);
		assert_int_equal(map.count, count);
		key = (size_t)rand() % KEYS;
		assert_ptr_equal(xp_u64_map_get(&map, key), expected[key]);
	}
	for (size_t key = 0; key < KEYS; key++)
		assert_ptr_equal(xp_u64_map_get(&map, key), expected[key]);
	/* A walk from the last entry to the first may remove the current entry. */
	for (size_t i = map.count; i--;) {
		assert_ptr_equal(map.entries[i].pointer, expected[map.entries[i].key]);
		expected[map.entries[i].key] = NULL;
		if (i % 2)
			xp_u64_map_remove(&map, map.entries[i].key);
	}
	for (size_t key = 0; key < KEYS; key++)
		assert_null(expected[key]);
	assert_int_equal(map.count, (count + 1) / 2);
	xp_u64_map_free(&map);
}

static uint64_t length_of(const void *texts, uint32_t index)
{
	return strlen(((const char *const *)texts)[index]);
}

static int64_t find_text(const struct xp_hash *hash, const char *const *texts, const char *text)
{
	for (const uint32_t *slot = xp_hash_first(hash, strlen(text)); *slot; slot = xp_hash_next(hash, slot))
		if (!strcmp(texts[*slot - 1], text))
			return *slot - 1;
	return -1;
}

/* Elements with the same key, but different contents. */
TEST(test_same_keys)
{
	static const char *const texts[] = { "a", "bb", "cc", "d", "dd", "eee", "ff", "g" };
	const uint32_t count = XP_ARRAY_SIZE(texts);
	struct xp_hash hash = { 0 };

	assert_int_equal(find_text(&hash, texts, "a"), -1);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(xp_hash_add(&hash, strlen(texts[i]), i, length_of, texts), 0);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(find_text(&hash, texts, texts[i]), i);
	assert_int_equal(find_text(&hash, texts, "zz"), -1);
	for (uint32_t i = 0; i < count; i++) {
		xp_hash_remove(&hash, strlen(texts[i]), i, length_of, texts);
		for (uint32_t j = 0; j < count; j++)
			assert_int_equal(find_text(&hash, texts, texts[j]), j > i ? (int64_t)j : -1);
	}
	assert_int_equal(hash.count, 0);
	xp_hash_free(&hash);
}

#define PIECE_BYTES 6
#define PIECES 15

/* FNV-1a, whose state is known to an attacker who chooses the string. */
static uint32_t known_hash(uint32_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash;
}

/* Two strings that change the hash from one state to the same other state. */
static uint32_t find_pair(uint32_t from, char pair[2][PIECE_BYTES + 1])
{
	struct xp_u64_map seen = { 0 };
	uint32_t i = 0, to, *other;

	do {
		snprintf(pair[1], sizeof(pair[1]), "%06x", ++i);
		to = known_hash(from, pair[1]);
		other = xp_u64_map_add(&seen, to, i);
	} while (*other == i);
	snprintf(pair[0], sizeof(pair[0]), "%06x", *other);
	xp_u64_map_free(&seen);
	return to;
}

/* Strings that have one of the two at each position: their known hash is always the same. */
TEST(test_chosen_texts)
{
	struct xp_text_pool pool = { .bytes_max = 16 << 20 };
	char pairs[PIECES][2][PIECE_BYTES + 1], text[PIECES * PIECE_BYTES + 1];
	uint32_t all = 2166136261u;
	clock_t begun = clock();

	for (size_t i = 0; i < PIECES; i++)
		all = find_pair(all, pairs[i]);
	for (uint32_t i = 0; i < 1u << PIECES; i++) {
		for (size_t at = 0; at < PIECES; at++)
			memcpy(text + at * PIECE_BYTES, pairs[at][i >> at & 1], PIECE_BYTES + 1);
		assert_int_equal(known_hash(2166136261u, text), all);
		assert_string_equal(xp_text_pool_keep(&pool, text), text);
	}
	assert_int_equal(pool.count, 1 << PIECES);
	assert_ptr_equal(xp_text_pool_keep(&pool, text), xp_text_pool_keep(&pool, text));
	assert_true((clock() - begun) / CLOCKS_PER_SEC < 5);
	xp_text_pool_free(&pool);
	assert_null(pool.texts);
}

TEST(test_texts_have_keys)
{
	assert_int_equal(xp_hash_text("a text of some length"), xp_hash_text("a text of some length"));
	assert_int_not_equal(xp_hash_text(""), xp_hash_text("a"));
	assert_int_not_equal(xp_hash_text("12345678a"), xp_hash_text("12345678b"));
	assert_int_not_equal(xp_hash_mix(1, 1), xp_hash_mix(2, 2));
	assert_int_not_equal(xp_hash_mix(1, 2), xp_hash_mix(2, 1));
}

struct member {
	uint64_t key;
	uint32_t more;
	/* not identity */
	uint32_t value;
};

/* Elements with the same first members are one element, also after the hash table has grown. */
TEST(test_set)
{
	struct member *all = NULL;
	struct xp_hash hash = { 0 };
	size_t count = 0, room = 0;
	const struct xp_set set = {
		&hash, &all, &count, &room, sizeof(*all), XP_SET_IDENTITY(*all, more), KEYS,
	};
	uint32_t index;

	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < KEYS; i++) {
			const struct member member = { i / 2, i % 2, round };

			assert_int_equal(xp_set_add(&set, &member, &index), 0);
			assert_int_equal(index, i);
		}
	assert_int_equal(count, KEYS);
	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_equal(all[i].value, 0);
	assert_int_equal(xp_set_add(&set, &(struct member){ .key = KEYS }, &index), -E2BIG);
	assert_int_equal(xp_set_add(&set, &(struct member){ .key = 1 }, &index), 0);
	free(all);
	xp_hash_free(&hash);
}
