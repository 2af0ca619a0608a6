// SPDX-License-Identifier: BSD-2-Clause
#include "base/text_pool.h"

#include <stdlib.h>
#include <string.h>

struct xp_pooled_text {
	struct xp_pooled_text *next; /* next one with the same hash */
	char text[];
};

uint32_t xp_text_hash(const char *text)
{
	uint32_t hash = 2166136261u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash ^ hash >> 16;
}

const char *xp_text_pool_keep(struct xp_text_pool *pool, const char *text)
{
	struct xp_pooled_text **slot = &pool->slots[xp_text_hash(text) % XP_TEXT_POOL_SLOTS], *kept;
	size_t bytes = strlen(text) + 1;

	for (kept = *slot; kept; kept = kept->next)
		if (strcmp(kept->text, text) == 0)
			return kept->text;
	if (pool->bytes + bytes > pool->bytes_max)
		return NULL;
	kept = malloc(sizeof(*kept) + bytes);
	if (!kept)
		return NULL;
	memcpy(kept->text, text, bytes);
	kept->next = *slot;
	*slot = kept;
	pool->bytes += bytes;
	return kept->text;
}

void xp_text_pool_free(struct xp_text_pool *pool)
{
	for (size_t i = 0; i < XP_TEXT_POOL_SLOTS; i++) {
		struct xp_pooled_text *next;

		for (struct xp_pooled_text *text = pool->slots[i]; text; text = next) {
			next = text->next;
			free(text);
		}
		pool->slots[i] = NULL;
	}
	pool->bytes = 0;
}
