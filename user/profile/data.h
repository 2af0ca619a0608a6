/* SPDX-License-Identifier: BSD-2-Clause */
/* What profile.c collects and write.c writes. */
#ifndef XPROF_PROFILE_DATA_H
#define XPROF_PROFILE_DATA_H

#include "base/u64_map.h"
#include "profile/call_tree.h"
#include "profile/profile.h"

/* Code that keeps its layout: a file, mapped so that its offset 0 is at bias (which may wrap around). */
struct xp_profile_region {
	const struct xp_file *file;
	uint64_t bias;	/* kernel: start of the window; 0 if there is no file */
	uint64_t start; /* of all its mappings that had a sample */
	uint64_t end;
	uint32_t next; /* next region with the same key, plus one */
};

/* What a tree node stands for. The address is the one that readers expect: that of an interrupted caller plus one. */
struct xp_profile_address {
	uint64_t address;
	uint32_t region;
};

/* A frame of the last sample's chain. The next chain often begins alike, and then needs no lookup. */
struct xp_profile_step {
	uint64_t address; /* as in struct xp_profile_address */
	const struct xp_file *file;
	uint64_t bias; /* of the region, together with file */
	uint32_t node;
};

struct xp_profile {
	struct xp_call_tree tree;
	uint64_t samples;
	struct xp_profile_region *regions;
	size_t region_count;
	size_t region_room;
	struct xp_u64_map region_keys; /* to the last region with this key, plus one */
	struct xp_profile_address *addresses;
	size_t address_count;
	size_t address_room;
	struct xp_hash by_address;
	struct xp_profile_step *steps; /* from the outermost frame on */
	size_t step_count;
	size_t step_room;
	/* The profile is in a file, see store.h; the tables above are then empty except for their counts. */
	bool is_away;
	struct xp_profile_store *store; /* NULL: it was never stored */
	uint64_t stored_at;
	uint64_t stored_room;	 /* bytes reserved for it in the file */
	uint64_t stored_samples; /* number of samples when it was stored */
};

/* store.c: reads the tables back from the file, but not the hashes, which profile.c rebuilds when it needs them. */
int xp_profile_recall(struct xp_profile *profile);
/* profile.c */
void xp_profile_free_tables(struct xp_profile *profile);

#endif
