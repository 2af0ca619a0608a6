// SPDX-License-Identifier: BSD-2-Clause
#include "base/text_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint64_t key_of(const void *texts, uint32_t index)
{
	return xp_hash_text(((char *const *)texts)[index]);
}

const char *xp_text_pool_keep(struct xp_text_pool *pool, const char *text)
{
	uint64_t key = xp_hash_text(text);
	size_t bytes = strlen(text) + 1;
	char *kept;

	for (const uint32_t *slot = xp_hash_first(&pool->by_text, key); *slot;
	     slot = xp_hash_next(&pool->by_text, slot))
		if (strcmp(pool->texts[*slot - 1], text) == 0)
			return pool->texts[*slot - 1];
	if (pool->count >= UINT32_MAX || bytes > pool->bytes_max - pool->bytes ||
	    XP_ARRAY_RESERVE(pool->texts, pool->room, pool->count + 1))
		return NULL;
	kept = strdup(text);
	if (!kept || xp_hash_add(&pool->by_text, key, (uint32_t)pool->count, key_of, pool->texts)) {
		free(kept);
		return NULL;
	}
	pool->texts[pool->count++] = kept;
	pool->bytes += bytes;
	return kept;
}

void xp_text_pool_free(struct xp_text_pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		free(pool->texts[i]);
	free(pool->texts);
	xp_hash_free(&pool->by_text);
	*pool = (struct xp_text_pool){ .bytes_max = pool->bytes_max };
}
