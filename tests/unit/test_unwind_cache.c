/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache of walks by thread: its contents and its size. test_unwind.c tests its use. */
#include <stdlib.h>

#include "unit.h"

#include "unwind/unwind.h"
#include "unwind/unwind_cache.h"

static struct xp_file file = { .kind = XP_FILE_DISK, .path = "/bin/program" };
static const struct xp_vma vma = { 0x1000, 0x2000, 0, &file };

/* Makes a walk of this many frames above the leaf, numbered from the outermost. */
static void put(struct xp_unwind_cache *chains, struct xp_cached_chain *chain, size_t same, size_t count)
{
	static struct xp_cached_step steps[XP_UNWIND_FRAMES_MAX];

	for (size_t i = 0; i < count - same; i++)
		steps[i + 1].ip = count - i;
	xp_unwind_cache_store(chains, chain, same, steps, count);
}

static void check(const struct xp_cached_chain *chain, size_t count)
{
	assert_int_equal(chain->count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(chain->steps[i].ip, i + 1);
}

static struct xp_address_space *new_space(void)
{
	struct xp_address_space *space = xp_address_space_new();

	assert_non_null(space);
	assert_int_equal(xp_address_space_map(space, &vma), 0);
	return space;
}

TEST(test_same)
{
	struct xp_unwind_cache *chains = calloc(1, sizeof(*chains));
	struct xp_address_space *space = new_space();
	struct xp_cached_chain *chain = xp_unwind_cache_get(chains, 1, space, false);

	check(chain, 0);
	put(chains, chain, 0, 20);
	check(chain, 20);
	put(chains, chain, 15, 40);
	check(chain, 40);
	put(chains, chain, 5, 5);
	check(chain, 5);
	assert_ptr_equal(xp_unwind_cache_get(chains, 1, space, false), chain);
	check(chain, 5);
	xp_unwind_cache_free(chains);
	assert_int_equal(chains->bytes, 0);
	free(chains);
	xp_address_space_release(space);
}

/* A walk is valid for its thread and its address space. */
TEST(test_others)
{
	struct xp_unwind_cache *chains = calloc(1, sizeof(*chains));
	struct xp_address_space *space = new_space(), *other = new_space(), *owned;
	struct xp_vma more = { 0x2000, 0x3000, 0, &file };
	struct xp_cached_chain *chain = xp_unwind_cache_get(chains, 1, space, false);

	put(chains, chain, 0, 20);
	check(xp_unwind_cache_get(chains, 2, space, false), 0);
	check(xp_unwind_cache_get(chains, 1, space, false), 20);
	check(xp_unwind_cache_get(chains, 1, other, false), 0);
	put(chains, chain, 0, 20);
	check(xp_unwind_cache_get(chains, 1 + XP_CHAINS, other, false), 0);
	check(xp_unwind_cache_get(chains, 1, other, false), 0);
	put(chains, chain, 0, 20);
	assert_int_equal(xp_address_space_map(other, &more), 0);
	check(xp_unwind_cache_get(chains, 1, other, false), 0);
	put(chains, chain, 0, 20);
	xp_address_space_clear(other);
	check(xp_unwind_cache_get(chains, 1, other, false), 0);
	/* A copy of a space that remains. */
	put(chains, xp_unwind_cache_get(chains, 1, space, false), 0, 20);
	owned = xp_address_space_share(space);
	assert_int_equal(xp_address_space_own(&owned), 0);
	check(xp_unwind_cache_get(chains, 1, owned, false), 0);
	put(chains, xp_unwind_cache_get(chains, 1, owned, false), 0, 20);
	check(xp_unwind_cache_get(chains, 1, owned, true), 0);
	xp_address_space_release(owned);
	xp_address_space_release(space);
	xp_address_space_release(other);
	xp_unwind_cache_free(chains);
	free(chains);
}

/* A space at the address of a freed one is not mistaken for it. */
TEST(test_space_in_place)
{
	struct xp_unwind_cache *chains = calloc(1, sizeof(*chains));
	struct xp_address_space space = { 0 };

	for (int i = 0; i < 3; i++) {
		assert_int_equal(xp_address_space_map(&space, &vma), 0);
		check(xp_unwind_cache_get(chains, 1, &space, false), 0);
		put(chains, xp_unwind_cache_get(chains, 1, &space, false), 0, 20);
		xp_address_space_free(&space);
	}
	xp_unwind_cache_free(chains);
	free(chains);
}

/* Any number of threads with stacks of any depth. */
TEST(test_bounded)
{
	struct xp_unwind_cache *chains = calloc(1, sizeof(*chains));
	struct xp_address_space *space = new_space();
	size_t most = 0;

	for (pid_t tid = 1; tid < 3 * XP_CHAINS; tid++) {
		struct xp_cached_chain *chain = xp_unwind_cache_get(chains, tid, space, false);

		put(chains, chain, 0, XP_UNWIND_FRAMES_MAX - 1);
		assert_true(chain->count == XP_UNWIND_FRAMES_MAX - 1 || (!chain->count && !chains->bytes));
		assert_true(chains->bytes <= XP_UNWIND_CACHE_BYTES_MAX);
		most = chains->bytes > most ? chains->bytes : most;
	}
	assert_true(most > XP_UNWIND_CACHE_BYTES_MAX / 2);
	xp_unwind_cache_free(chains);
	assert_int_equal(chains->bytes, 0);
	free(chains);
	xp_address_space_release(space);
}
