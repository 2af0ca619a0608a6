// SPDX-License-Identifier: BSD-2-Clause
#include "model/durations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define BITS 6 /* log2 of the number of buckets per power of two */
_Static_assert(1u << BITS == XP_DURATIONS_BUCKETS, "buckets are chosen by bits");

/*
 * Page 0 counts values below XP_DURATIONS_BUCKETS. Page p counts values from 2^(BITS + p - 1) up to the next power of
 * two.
 */
#define PAGES (64 - BITS + 1)
#define PAGE_BYTES (XP_DURATIONS_BUCKETS * sizeof(uint64_t))
#define TABLE_BYTES (PAGES * sizeof(uint64_t *))
#define VALUES_FIRST 4

/* Returns NULL if there is no space, or out of memory: then sets *err. */
static void *take(struct xp_durations_memory *memory, size_t bytes, int *err)
{
	void *taken = NULL;

	if (memory->max - XP_MIN(memory->used, memory->max) >= bytes) {
		taken = calloc(1, bytes);
		*err = taken ? 0 : -ENOMEM;
	} else {
		*err = -E2BIG;
	}
	if (taken)
		memory->used += bytes;
	return taken;
}

static void free_pages(struct xp_durations *durations, struct xp_durations_memory *memory)
{
	for (unsigned int i = 0; durations->pages && i < PAGES; i++) {
		if (!durations->pages[i])
			continue;
		free(durations->pages[i]);
		memory->used -= PAGE_BYTES;
	}
	if (durations->pages)
		memory->used -= TABLE_BYTES;
	free(durations->pages);
	durations->pages = NULL;
}

static void free_values(struct xp_durations *durations, struct xp_durations_memory *memory)
{
	free(durations->values);
	memory->used -= durations->room * sizeof(*durations->values);
	durations->values = NULL;
	durations->room = 0;
}

/* Discards all durations: percentiles of only some of them would be wrong, and nothing would show it. */
static int lose(struct xp_durations *durations, struct xp_durations_memory *memory, int err)
{
	free_pages(durations, memory);
	free_values(durations, memory);
	durations->lost = true;
	return err == -E2BIG ? 0 : err;
}

/* ---- buckets ---- */

static unsigned int page_of(uint64_t duration)
{
	return duration < XP_DURATIONS_BUCKETS ? 0 : 64 - BITS - (unsigned int)__builtin_clzll(duration);
}

static unsigned int bucket_of(uint64_t duration, unsigned int page)
{
	return (unsigned int)(duration >> (page ? page - 1 : 0)) & (XP_DURATIONS_BUCKETS - 1);
}

static uint64_t middle_of(unsigned int page, unsigned int bucket)
{
	uint64_t width = UINT64_C(1) << (page ? page - 1 : 0);

	return page ? (XP_DURATIONS_BUCKETS + bucket) * width + (width - 1) / 2 : bucket;
}

static int count(struct xp_durations *durations, struct xp_durations_memory *memory, unsigned int page,
		 unsigned int bucket, uint64_t times)
{
	int err = 0;

	if (!durations->pages[page])
		durations->pages[page] = take(memory, PAGE_BYTES, &err);
	if (!err)
		durations->pages[page][bucket] += times;
	return err;
}

/* Changes from exact durations to buckets. Adds the `kept` durations to them. */
static int make_pages(struct xp_durations *durations, struct xp_durations_memory *memory, uint64_t kept)
{
	int err = 0;

	durations->pages = take(memory, TABLE_BYTES, &err);
	for (uint64_t i = 0; !err && i < kept; i++) {
		unsigned int page = page_of(durations->values[i]);

		err = count(durations, memory, page, bucket_of(durations->values[i], page), 1);
	}
	free_values(durations, memory);
	return err;
}

/* ---- adding ---- */

static int keep_value(struct xp_durations *durations, struct xp_durations_memory *memory, uint64_t duration)
{
	if (durations->count == durations->room) {
		uint8_t room = (uint8_t)(durations->room ? durations->room * 2 : VALUES_FIRST);
		int err = 0;
		uint64_t *values = take(memory, room * sizeof(*values), &err);

		if (!values)
			return err;
		if (durations->count)
			memcpy(values, durations->values, durations->count * sizeof(*values));
		free_values(durations, memory);
		durations->values = values;
		durations->room = room;
	}
	durations->values[durations->count] = duration;
	return 0;
}

/* Makes space for a duration before it is counted. */
static int place(struct xp_durations *durations, struct xp_durations_memory *memory, uint64_t duration)
{
	unsigned int page = page_of(duration);
	int err = 0;

	if (!durations->pages && durations->count < XP_DURATIONS_EXACT)
		return keep_value(durations, memory, duration);
	if (!durations->pages)
		err = make_pages(durations, memory, durations->count);
	return err ? err : count(durations, memory, page, bucket_of(duration, page), 1);
}

static void take_max(struct xp_durations *durations, uint64_t max, uint64_t at, uint32_t where)
{
	if (durations->count && (max < durations->max || (max == durations->max && at >= durations->max_at)))
		return;
	durations->max = max;
	durations->max_at = at;
	durations->max_where = where;
}

int xp_durations_add(struct xp_durations *durations, struct xp_durations_memory *memory, uint64_t duration, uint64_t at,
		     uint32_t where)
{
	int err = durations->lost ? 0 : place(durations, memory, duration);

	if (err)
		err = lose(durations, memory, err);
	take_max(durations, duration, at, where);
	durations->count++;
	return err;
}

static int merge_pages(struct xp_durations *durations, struct xp_durations_memory *memory,
		       const struct xp_durations *other)
{
	int err = durations->pages ? 0 : make_pages(durations, memory, durations->count);

	for (unsigned int page = 0; !err && page < PAGES; page++)
		for (unsigned int i = 0; !err && other->pages[page] && i < XP_DURATIONS_BUCKETS; i++)
			if (other->pages[page][i])
				err = count(durations, memory, page, i, other->pages[page][i]);
	return err;
}

int xp_durations_merge(struct xp_durations *durations, struct xp_durations_memory *memory,
		       const struct xp_durations *other)
{
	uint64_t sum = durations->count + other->count;
	int err = 0;

	if (!other->count)
		return 0;
	take_max(durations, other->max, other->max_at, other->max_where);
	if (other->lost && !durations->lost)
		err = lose(durations, memory, 0);
	else if (other->pages && !durations->lost)
		err = merge_pages(durations, memory, other);
	for (uint64_t i = 0; !err && !durations->lost && !other->pages && i < other->count; i++) {
		err = place(durations, memory, other->values[i]);
		durations->count++;
	}
	if (err)
		err = lose(durations, memory, err);
	durations->count = sum;
	return err;
}

int xp_durations_take(struct xp_durations *durations, struct xp_durations_memory *memory, struct xp_durations *other)
{
	int err = 0;

	if (durations->count) {
		err = xp_durations_merge(durations, memory, other);
		xp_durations_free(other, memory);
	} else {
		*durations = *other;
		*other = (struct xp_durations){ 0 };
	}
	return err;
}

void xp_durations_free(struct xp_durations *durations, struct xp_durations_memory *memory)
{
	free_pages(durations, memory);
	free_values(durations, memory);
	*durations = (struct xp_durations){ 0 };
}

/* ---- reading ---- */

bool xp_durations_is_exact(const struct xp_durations *durations)
{
	return !durations->lost && (!durations->pages || durations->max < (uint64_t)2 * XP_DURATIONS_BUCKETS);
}

static uint64_t value_at(const struct xp_durations *durations, uint64_t rank)
{
	uint64_t sorted[XP_DURATIONS_EXACT];

	memcpy(sorted, durations->values, durations->count * sizeof(*sorted));
	qsort(sorted, durations->count, sizeof(*sorted), xp_compare_u64);
	return sorted[rank];
}

/* Returns the middle of a bucket, at most the longest duration: the last bucket may extend beyond it. */
static uint64_t bucket_at(const struct xp_durations *durations, uint64_t rank)
{
	for (unsigned int page = 0; page < PAGES; page++) {
		for (unsigned int i = 0; durations->pages[page] && i < XP_DURATIONS_BUCKETS; i++) {
			if (rank < durations->pages[page][i])
				return XP_MIN(middle_of(page, i), durations->max);
			rank -= durations->pages[page][i];
		}
	}
	return durations->max;
}

uint64_t xp_durations_percentile(const struct xp_durations *durations, unsigned int thousandths)
{
	unsigned __int128 rank = (unsigned __int128)durations->count * thousandths / 1000;

	if (!durations->count || durations->lost)
		return 0;
	if (rank >= durations->count - 1)
		return durations->max;
	return durations->pages ? bucket_at(durations, (uint64_t)rank) : value_at(durations, (uint64_t)rank);
}
