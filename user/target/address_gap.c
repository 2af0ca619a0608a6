// SPDX-License-Identifier: BSD-2-Clause
#include "target/address_gap.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define PAGE_BYTES 4096ull
/* A call reaches 2 GiB. This is less, to leave room for the sled and the stub themselves. */
#define REACH_BYTES ((1ull << 31) - (1ull << 16))
#define LOWEST (1ull << 20)	    /* well above vm.mmap_min_addr */
#define HIGHEST 0x7ffffffff000ull   /* TASK_SIZE_MAX of four-level page tables */
#define GROWTH_BYTES (1ull << 30)   /* kept free above a heap and below a stack */
#define DISTANCE_BYTES (1ull << 20) /* distance to the next mappings, if there is space, so that they can grow */

struct area {
	uint64_t start;
	uint64_t end;
	bool heap;
	bool stack;
};

static bool parse(char *line, struct area *area)
{
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*x %*x:%*x %*u %n", &area->start, &area->end, &path) != 2)
		return false;
	area->heap = path && !strcmp(line + path, "[heap]");
	area->stack = path && !strcmp(line + path, "[stack]");
	return area->start < area->end;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/* Returns the address in the gap [low, high) that is nearest to [start, end), or 0 if none is in reach. */
static uint64_t place_in(uint64_t low, uint64_t high, uint64_t start, uint64_t end, uint64_t bytes)
{
	uint64_t margin, place;

	if (high < low || high - low < bytes)
		return 0;
	margin = XP_MIN(DISTANCE_BYTES, (high - low - bytes) / 2 & ~(PAGE_BYTES - 1));
	place = high <= start ? high - margin - bytes : low + margin;
	if (place + bytes > end && place + bytes - start > REACH_BYTES)
		return 0;
	if (place < start && end - place > REACH_BYTES)
		return 0;
	return place;
}

/* Returns the end of the usable gap below an area. */
static uint64_t top_of_gap(const struct area *area)
{
	if (!area->stack)
		return XP_MIN(area->start, HIGHEST);
	return area->start > GROWTH_BYTES ? area->start - GROWTH_BYTES : 0;
}

uint64_t xp_address_gap_find(char *maps_text, uint64_t start, uint64_t end, uint64_t bytes)
{
	struct area before = { .end = LOWEST }, area;
	uint64_t best = 0;
	bool more = true;

	while (more) {
		char *line = strsep(&maps_text, "\n");
		uint64_t place;

		more = line != NULL;
		if (!more)
			area = (struct area){ .start = HIGHEST, .end = HIGHEST };
		else if (!parse(line, &area))
			continue;
		place = place_in(before.end + (before.heap ? GROWTH_BYTES : 0), top_of_gap(&area), start, end, bytes);
		if (place && (!best || (place < start && best > start) ||
			      ((place < start) == (best < start) && distance(place, start) < distance(best, start))))
			best = place;
		if (area.end > before.end)
			before = area;
	}
	return best;
}
