/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Durations of many calls in bounded memory: percentiles, and the longest duration.
 *
 * The first XP_DURATIONS_EXACT durations are stored exactly, and so are their percentiles. More durations are counted
 * in buckets: each power of two has XP_DURATIONS_BUCKETS of the same width, and a percentile is the middle of its
 * bucket, as in an HDR histogram. Its relative error is at most XP_DURATIONS_ERROR; below 2 * XP_DURATIONS_BUCKETS it
 * is exact. The number of durations and the longest one are always exact. Merging two structs, in any order, adds no
 * error.
 *
 * Memory: up to 256 bytes while exact, then 512 bytes for each power of two that occurs, and 512 for their table: 4 KB
 * for a function whose calls take between 1 us and 100 us. All durations with the same struct xp_durations_memory share
 * its limit; beyond the limit, percentiles are unknown. The caller chooses the unit: cycles, or ns.
 */
#ifndef XPROF_MODEL_DURATIONS_H
#define XPROF_MODEL_DURATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_DURATIONS_EXACT 32u
#define XP_DURATIONS_BUCKETS 64u
#define XP_DURATIONS_ERROR (0.5 / XP_DURATIONS_BUCKETS) /* relative: 0.8 % */

#define XP_DURATIONS_BYTES_MAX ((size_t)64 << 20)

/* The memory limit of all durations of a report. Initially zeroed except for max. */
struct xp_durations_memory {
	size_t max;
	size_t used;
};

/* Zeroed: none. */
struct xp_durations {
	uint64_t count;
	uint64_t max;
	uint64_t max_at;    /* start of the longest call, as the caller gave it; of equal calls the first one */
	uint32_t max_where; /* thread of the longest duration, or another number that the caller chooses */
	bool lost;	    /* there was no space: percentiles are unknown */
	/* private */
	uint8_t room;	  /* capacity of values */
	uint64_t *values; /* the durations, while they are exact */
	uint64_t **pages; /* later: the buckets of each power of two; NULL: all 0 */
};

/* Adds a duration. Returns 0 or -ENOMEM; exceeding the limit is not an error. */
int xp_durations_add(struct xp_durations *durations, struct xp_durations_memory *memory, uint64_t duration, uint64_t at,
		     uint32_t where);
/* Adds all durations of `other`, which stays unchanged. Returns 0 or -ENOMEM. */
int xp_durations_merge(struct xp_durations *durations, struct xp_durations_memory *memory,
		       const struct xp_durations *other);
/* Like xp_durations_merge(), and empties `other`. Takes over the memory of `other` if `durations` is empty. */
int xp_durations_take(struct xp_durations *durations, struct xp_durations_memory *memory, struct xp_durations *other);
/* Releases the memory and makes it empty. */
void xp_durations_free(struct xp_durations *durations, struct xp_durations_memory *memory);

/* Returns whether percentiles are exact, not only within XP_DURATIONS_ERROR. */
bool xp_durations_is_exact(const struct xp_durations *durations);

/*
 * Returns the percentile in thousandths: 500 is the median. Of n sorted durations, it is the one at index floor(n *
 * share), as in `llvm-xray account`. 0 if there are none, or `lost` is set.
 */
uint64_t xp_durations_percentile(const struct xp_durations *durations, unsigned int thousandths);

#endif
