// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is at each address now is a tree of pieces without overlap (a treap, by address). A piece that took the place of
 * others keeps them as a run of the array `old`, sorted by address too: so the past of an address is found by going
 * from the piece that is there to the one that was there before, and so on.
 */
#include "jit_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define ADDRESS_END (1ull << 56) /* of user space, with five levels of page tables */
#define STEPS_MAX 256		 /* into the past, of one question */
#define ALIVE UINT64_MAX
#define MOMENT 1000 /* TSC: more than a nanosecond, which is as finely as perf puts events in order */

struct piece {
	uint64_t start;
	uint64_t end;
	uint64_t base; /* where its code starts: below start when another one took the part between */
	uint64_t from; /* TSC */
	uint64_t to;   /* exclusive; ALIVE: the code is there still */
	uint32_t code;
	uint32_t before; /* what was there before: old[before] and so on */
	uint32_t before_count;
};

struct node {
	struct piece piece;
	uint32_t left; /* number of a node; 0: none */
	uint32_t right;
	uint32_t priority;
};

struct entry {
	uint64_t start; /* where it was put last */
	uint64_t size;
	uint64_t hash; /* of its bytes; 0: not known */
	char *name;
};

struct xp_jit_code {
	struct xp_jit_observer observer;
	const struct xp_space *space; /* NULL: any address will do */
	uint64_t *bytes_left;
	uint64_t bytes_taken;
	uint64_t refused;
	uint32_t puts; /* loads and moves */

	struct entry *entries;
	uint32_t count;
	uint32_t room;

	struct node *nodes; /* nodes[0] is none */
	uint32_t node_count;
	uint32_t node_room;
	uint32_t unused; /* list, by left */
	uint32_t root;
	uint32_t random;

	struct piece *old;
	uint32_t old_count;
	uint32_t old_room;
};

int xp_jit_code_new(struct xp_jit_code **code, uint64_t *bytes_left, const struct xp_jit_observer *observer)
{
	struct xp_jit_code *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->bytes_left = bytes_left;
	/* Not to be guessed by a target that chooses the addresses. */
	made->random = (uint32_t)((uintptr_t)made >> 4) | 1;
	made->node_count = 1;
	if (observer)
		made->observer = *observer;
	*code = made;
	return 0;
}

void xp_jit_code_free(struct xp_jit_code *code)
{
	if (!code)
		return;
	for (uint32_t i = 0; i < code->count; i++)
		free(code->entries[i].name);
	*code->bytes_left += code->bytes_taken;
	free(code->entries);
	free(code->nodes);
	free(code->old);
	free(code);
}

/* ---- the tree ---- */

/* Nodes that start below the address, and the others. */
static void split(struct xp_jit_code *code, uint32_t root, uint64_t address, uint32_t *below, uint32_t *above)
{
	struct node *node = &code->nodes[root];

	if (!root) {
		*below = *above = 0;
	} else if (node->piece.start < address) {
		*below = root;
		split(code, node->right, address, &node->right, above);
	} else {
		*above = root;
		split(code, node->left, address, below, &node->left);
	}
}

/* All nodes of the first start below those of the second. */
static uint32_t merge(struct xp_jit_code *code, uint32_t first, uint32_t second)
{
	struct node *a = &code->nodes[first], *b = &code->nodes[second];

	if (!first || !second)
		return first + second;
	if (a->priority > b->priority) {
		a->right = merge(code, a->right, second);
		return first;
	}
	b->left = merge(code, first, b->left);
	return second;
}

/* The last node that starts at or below the address. */
static uint32_t last_at(const struct xp_jit_code *code, uint32_t root, uint64_t address)
{
	uint32_t found = 0;

	while (root) {
		const struct node *node = &code->nodes[root];

		if (node->piece.start <= address)
			found = root;
		root = node->piece.start <= address ? node->right : node->left;
	}
	return found;
}

static uint32_t tree_count(const struct xp_jit_code *code, uint32_t root)
{
	const struct node *node = &code->nodes[root];

	return root ? 1 + tree_count(code, node->left) + tree_count(code, node->right) : 0;
}

/* xorshift32 */
static uint32_t next_random(struct xp_jit_code *code)
{
	code->random ^= code->random << 13;
	code->random ^= code->random >> 17;
	code->random ^= code->random << 5;
	return code->random;
}

/* There is room, see reserve(). */
static uint32_t node_new(struct xp_jit_code *code, const struct piece *piece)
{
	uint32_t number = code->unused ? code->unused : code->node_count++;

	if (code->unused)
		code->unused = code->nodes[number].left;
	code->nodes[number] = (struct node){ .piece = *piece, .priority = next_random(code) };
	return number;
}

/* ---- room ---- */

static int grow(void **array, uint32_t *room, uint64_t needed, size_t size)
{
	uint64_t more = XP_MAX(needed, (uint64_t)*room * 2);
	void *larger;

	if (needed <= *room)
		return 0;
	if (more > UINT32_MAX)
		return -ENOMEM;
	more = XP_MAX(more, 16u);
	larger = reallocarray(*array, more, size);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*room = (uint32_t)more;
	return 0;
}

/* For what put() adds: a node, and what is left of the pieces at both ends; all that it ends becomes old. */
static int reserve_nodes(struct xp_jit_code *code)
{
	return grow((void **)&code->nodes, &code->node_room, (uint64_t)code->node_count + 3, sizeof(*code->nodes));
}

static int reserve_old(struct xp_jit_code *code, uint32_t more)
{
	return grow((void **)&code->old, &code->old_room, (uint64_t)code->old_count + more, sizeof(*code->old));
}

/* A put makes three pieces at most, each of which is in the tree first and old at last. */
static int charge(struct xp_jit_code *code, uint64_t bytes)
{
	bytes += 3 * (sizeof(struct node) + sizeof(struct piece));
	if (code->puts >= XP_JIT_CODES_MAX || bytes > *code->bytes_left) {
		code->refused++;
		return -ENOSPC;
	}
	*code->bytes_left -= bytes;
	code->bytes_taken += bytes;
	return 0;
}

/* ---- putting code somewhere ---- */

/* Takes the nodes that overlap [start, end) out of the tree: below, these, above. */
static void cut_out(struct xp_jit_code *code, uint64_t start, uint64_t end, uint32_t parts[3])
{
	uint32_t before, reaching;

	split(code, code->root, start, &parts[0], &parts[2]);
	split(code, parts[2], end, &parts[1], &parts[2]);
	before = last_at(code, parts[0], start);
	if (!before || code->nodes[before].piece.end <= start)
		return;
	split(code, parts[0], code->nodes[before].piece.start, &parts[0], &reaching);
	parts[1] = merge(code, reaching, parts[1]);
}

/* The time from which new code counts: behind all that it replaces. */
static uint64_t latest_start(const struct xp_jit_code *code, uint32_t root, uint64_t tsc)
{
	const struct node *node = &code->nodes[root];

	if (!root)
		return tsc;
	tsc = latest_start(code, node->left, XP_MAX(tsc, node->piece.from));
	return latest_start(code, node->right, tsc);
}

/* The pieces of the tree become old, in order of address; their nodes are unused. */
static void make_old(struct xp_jit_code *code, uint32_t root, uint64_t tsc)
{
	struct node *node = &code->nodes[root];
	uint32_t right = node->right;

	if (!root)
		return;
	make_old(code, node->left, tsc);
	node->piece.to = XP_MIN(node->piece.to, tsc);
	code->old[code->old_count++] = node->piece;
	node->left = code->unused;
	code->unused = root;
	make_old(code, right, tsc);
}

/* What is left of a piece of which the middle or an end was taken. */
static uint32_t rest_of(struct xp_jit_code *code, const struct piece *piece, uint64_t start, uint64_t end)
{
	struct piece rest = *piece;

	rest.start = XP_MAX(start, piece->start);
	rest.end = XP_MIN(end, piece->end);
	return rest.start < rest.end ? node_new(code, &rest) : 0;
}

/* piece->from becomes the time that counts. -ENOMEM, and nothing has changed. */
static int put(struct xp_jit_code *code, struct piece *piece, bool is_bound)
{
	uint32_t parts[3], count;
	int err = reserve_nodes(code);

	if (err)
		return err;
	cut_out(code, piece->start, piece->end, parts);
	count = tree_count(code, parts[1]);
	err = reserve_old(code, count);
	if (err) {
		code->root = merge(code, merge(code, parts[0], parts[1]), parts[2]);
		return err;
	}
	if (is_bound && !count)
		piece->from = 0;
	piece->from = latest_start(code, parts[1], piece->from);
	piece->before = code->old_count;
	piece->before_count = count;
	make_old(code, parts[1], piece->from);
	if (count) {
		parts[0] = merge(code, parts[0], rest_of(code, &code->old[piece->before], 0, piece->start));
		parts[2] = merge(code, rest_of(code, &code->old[piece->before + count - 1], piece->end, ADDRESS_END),
				 parts[2]);
	}
	code->root = merge(code, merge(code, parts[0], node_new(code, piece)), parts[2]);
	return 0;
}

/* The node of code that is there; 0: it is not. */
static uint32_t alive(const struct xp_jit_code *code, uint32_t index)
{
	uint32_t node = index < code->count ? last_at(code, code->root, code->entries[index].start) : 0;

	const struct piece *piece = &code->nodes[node].piece;

	return node && piece->code == index && piece->base == code->entries[index].start && piece->to == ALIVE ? node
													       : 0;
}

void xp_jit_code_bind(struct xp_jit_code *code, const struct xp_space *space)
{
	code->space = space;
}

static bool is_in_file(const struct xp_jit_code *code, uint64_t address)
{
	const struct xp_vma *vma = code->space ? xp_space_find(code->space, address) : NULL;

	return vma && !xp_file_may_be_jit(vma->file);
}

bool xp_jit_code_can_be(const struct xp_jit_code *code, uint64_t start, uint64_t size)
{
	return size && size <= XP_JIT_SIZE_MAX && start < ADDRESS_END && size <= ADDRESS_END - start &&
	       !is_in_file(code, start) && !is_in_file(code, start + size - 1);
}

/* FNV-1a of words of eight bytes, never 0. */
static uint64_t hash_of(const uint8_t *bytes, uint64_t size)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (uint64_t i = 0; bytes && i < size; i += sizeof(hash)) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, XP_MIN(size - i, sizeof(word)));
		hash = (hash ^ word) * 0x100000001b3u;
		hash ^= hash >> 32;
	}
	return bytes ? hash | 1 : 0;
}

/* Whether this very code is there already; what is not known of its bytes may be the same. */
static bool is_known(struct xp_jit_code *code, const struct entry *from, uint32_t *index)
{
	uint32_t node = last_at(code, code->root, from->start);
	const struct piece *piece = &code->nodes[node].piece;
	struct entry *entry;

	if (!node || piece->to != ALIVE || piece->start != from->start || piece->end != from->start + from->size)
		return false;
	entry = &code->entries[piece->code];
	if ((entry->hash && from->hash && entry->hash != from->hash) || strcmp(entry->name, from->name) != 0)
		return false;
	if (!entry->hash)
		entry->hash = from->hash;
	*index = piece->code;
	return true;
}

static char *clean_name(const char *name)
{
	size_t bytes = strnlen(name, XP_JIT_NAME_BYTES_MAX - 1) + 1;
	char *clean = malloc(bytes), *shorter;

	if (!clean)
		return NULL;
	xp_clean_text(clean, bytes, name);
	shorter = realloc(clean, strlen(clean) + 1);
	return shorter ? shorter : clean;
}

static void tell_load(struct xp_jit_code *code, uint32_t index, const struct xp_jit_load *load, uint64_t from)
{
	struct xp_jit_load kept = *load;

	kept.tsc = from;
	/* Where it is not known since when, it is younger than its memory. */
	if (!from && code->space)
		kept.tsc = xp_space_jit_since(code->space, load->start);
	if (!from && kept.tsc)
		kept.tsc += MOMENT;
	kept.name = code->entries[index].name;
	if (code->observer.load)
		code->observer.load(code->observer.arg, index, &kept);
}

static int add(struct xp_jit_code *code, const struct xp_jit_load *load, const struct entry *entry)
{
	struct piece piece = {
		.start = load->start,
		.end = load->start + load->size,
		.base = load->start,
		.from = load->tsc,
		.to = ALIVE,
		.code = code->count,
	};
	int err = grow((void **)&code->entries, &code->room, (uint64_t)code->count + 1, sizeof(*code->entries));

	if (!err)
		err = charge(code, sizeof(*entry) + strlen(entry->name) + 1);
	if (!err)
		err = put(code, &piece, load->is_bound);
	if (err)
		return err;
	code->puts++;
	code->entries[code->count++] = *entry;
	tell_load(code, piece.code, load, piece.from);
	return 0;
}

int xp_jit_code_load(struct xp_jit_code *code, const struct xp_jit_load *load, uint32_t *index)
{
	struct entry entry = { .start = load->start, .size = load->size };
	uint32_t number = code->count;
	int err = 0;

	if (!xp_jit_code_can_be(code, load->start, load->size))
		return -EINVAL;
	entry.hash = hash_of(load->code, load->size);
	entry.name = clean_name(load->name);
	if (!entry.name)
		return -ENOMEM;
	if (is_known(code, &entry, &number)) {
		free(entry.name);
	} else {
		err = add(code, load, &entry);
		if (err)
			free(entry.name);
	}
	if (!err && index)
		*index = number;
	return err;
}

int xp_jit_code_move(struct xp_jit_code *code, uint32_t index, uint64_t tsc, uint64_t new_start)
{
	uint32_t node = alive(code, index);
	struct entry *entry = &code->entries[index];
	struct piece piece;
	uint64_t old_start;
	int err;

	if (!node)
		return -ENOENT;
	if (!xp_jit_code_can_be(code, new_start, entry->size))
		return -EINVAL;
	old_start = entry->start;
	if (old_start == new_start)
		return 0;
	err = charge(code, 0);
	if (err)
		return err;
	piece = (struct piece){
		.start = new_start,
		.end = new_start + entry->size,
		.base = new_start,
		.from = XP_MAX(tsc, code->nodes[node].piece.from),
		.to = ALIVE,
		.code = index,
	};
	err = put(code, &piece, false);
	if (err)
		return err;
	code->puts++;
	node = alive(code, index); /* not there any more when it moved over itself */
	if (node)
		code->nodes[node].piece.to = piece.from;
	entry->start = new_start;
	if (code->observer.move)
		code->observer.move(code->observer.arg, index, piece.from, old_start, new_start, entry->size);
	return 0;
}

int xp_jit_code_unload(struct xp_jit_code *code, uint32_t index, uint64_t tsc)
{
	uint32_t node = alive(code, index);
	struct piece *piece = &code->nodes[node].piece;

	if (!node)
		return -ENOENT;
	piece->to = XP_MAX(tsc, piece->from);
	return 0;
}

/* ---- questions ---- */

/* The piece that was at the address before this one; NULL: none. */
static const struct piece *before(const struct xp_jit_code *code, const struct piece *piece, uint64_t address)
{
	const struct piece *first = &code->old[piece->before];
	uint32_t low = 0, high = piece->before_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (address >= first[middle].end)
			low = middle + 1;
		else
			high = middle;
	}
	return low < piece->before_count && address >= first[low].start ? &first[low] : NULL;
}

bool xp_jit_code_find(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_jit_range *range)
{
	uint32_t node = last_at(code, code->root, address);
	const struct piece *piece = node ? &code->nodes[node].piece : NULL;

	if (piece && address >= piece->end)
		piece = NULL;
	for (int steps = 0; piece && tsc < piece->from; steps++)
		piece = steps < STEPS_MAX ? before(code, piece, address) : NULL;
	if (!piece || tsc >= piece->to)
		return false;
	*range = (struct xp_jit_range){
		.index = piece->code,
		.start = piece->base,
		.size = code->entries[piece->code].size,
		.name = code->entries[piece->code].name,
	};
	return true;
}

uint32_t xp_jit_code_count(const struct xp_jit_code *code)
{
	return code->count;
}

const char *xp_jit_code_name(const struct xp_jit_code *code, uint32_t index)
{
	return index < code->count ? code->entries[index].name : "";
}

uint64_t xp_jit_code_refused(const struct xp_jit_code *code)
{
	return code->refused;
}
