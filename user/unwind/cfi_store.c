// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_store.h"

#include <stdlib.h>

static struct xp_cfi_piece **bucket_of(struct xp_cfi_store *store, uint64_t key)
{
	return &store->buckets[(key * 0x9e3779b97f4a7c15ull >> 32) % XP_CFI_STORE_BUCKETS];
}

/* Memory of a piece in addition to its table, rounded up to limit the number of pieces per bucket. */
#define PIECE_BYTES 1024

static size_t bytes_of(const struct xp_cfi_piece *piece)
{
	return PIECE_BYTES + (piece->table ? xp_cfi_table_bytes(piece->table) : 0);
}

/* ---- the LRU list ---- */

static void append(struct xp_cfi_store *store, struct xp_cfi_piece *piece)
{
	piece->older = store->newest;
	piece->newer = NULL;
	*(store->newest ? &store->newest->newer : &store->oldest) = piece;
	store->newest = piece;
}

static void take_out(struct xp_cfi_store *store, struct xp_cfi_piece *piece)
{
	*(piece->older ? &piece->older->newer : &store->oldest) = piece->newer;
	*(piece->newer ? &piece->newer->older : &store->newest) = piece->older;
}

/* ---- pieces ---- */

struct xp_cfi_piece *xp_cfi_store_find(struct xp_cfi_store *store, uint64_t key, uint64_t now_ns)
{
	struct xp_cfi_piece *piece = *bucket_of(store, key);

	while (piece && piece->key != key)
		piece = piece->next;
	if (!piece || !piece->is_made)
		return piece;
	piece->used_ns = now_ns;
	if (piece != store->newest) {
		take_out(store, piece);
		append(store, piece);
	}
	return piece;
}

struct xp_cfi_piece *xp_cfi_store_add(struct xp_cfi_store *store, uint64_t key)
{
	struct xp_cfi_piece **bucket = bucket_of(store, key), *piece = calloc(1, sizeof(*piece));

	if (!piece)
		return NULL;
	piece->key = key;
	piece->next = *bucket;
	*bucket = piece;
	return piece;
}

void xp_cfi_store_remove(struct xp_cfi_store *store, struct xp_cfi_piece *piece)
{
	struct xp_cfi_piece **link = bucket_of(store, piece->key);

	while (*link != piece)
		link = &(*link)->next;
	*link = piece->next;
	if (piece->is_made) {
		take_out(store, piece);
		store->bytes -= bytes_of(piece);
		xp_cfi_table_free(piece->table);
	}
	free(piece);
}

/* Evicts other pieces to make space for a new piece. */
static void make_room(struct xp_cfi_store *store, const struct xp_cfi_piece *new, uint64_t now_ns)
{
	while (store->bytes > XP_CFI_STORE_BYTES_MAX && store->oldest != new) {
		if (now_ns - store->oldest->used_ns < XP_CFI_STORE_USED_NS)
			store->full_until_ns = now_ns + XP_CFI_STORE_USED_NS;
		xp_cfi_store_remove(store, store->oldest);
	}
}

void xp_cfi_store_insert(struct xp_cfi_store *store, struct xp_cfi_piece *piece, struct xp_cfi_table *table,
			 uint64_t now_ns)
{
	piece->is_made = true;
	piece->table = table;
	piece->used_ns = now_ns;
	append(store, piece);
	store->bytes += bytes_of(piece);
	make_room(store, piece, now_ns);
}

bool xp_cfi_store_is_full(const struct xp_cfi_store *store, uint64_t now_ns)
{
	return now_ns < store->full_until_ns;
}

void xp_cfi_store_free(struct xp_cfi_store *store)
{
	for (size_t i = 0; i < XP_CFI_STORE_BUCKETS; i++)
		while (store->buckets[i])
			xp_cfi_store_remove(store, store->buckets[i]);
}
