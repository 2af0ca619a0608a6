/* SPDX-License-Identifier: BSD-2-Clause */
/* What profile.c gathers and profile_write.c writes. */
#ifndef XPROF_PROFILE_DATA_H
#define XPROF_PROFILE_DATA_H

#include "profile/call_tree.h"
#include "base/u64_map.h"
#include "profile/profile.h"

/* Code that moves as one: a file, mapped so that its offset 0 is at bias (with a wrap). */
struct xp_profile_region {
	const struct xp_file *file;
	uint64_t bias;	/* kernel: the window's start; 0 where there is no file */
	uint64_t start; /* of all mappings of it in which there was a sample */
	uint64_t end;
	uint32_t next; /* of those with the same key, plus one */
};

/* What a node of the tree is. The address is as readers want it: an interrupted caller's plus one. */
struct xp_profile_address {
	uint64_t address;
	uint32_t region;
};

/* A frame of the last sample's chain: the next one often begins alike, and then nothing need be looked up. */
struct xp_profile_step {
	uint64_t address; /* as in struct xp_profile_address */
	const struct xp_file *file;
	uint64_t bias; /* with file: of the region */
	uint32_t node;
};

struct xp_profile {
	struct xp_call_tree tree;
	uint64_t samples;
	struct xp_profile_region *regions;
	size_t region_count;
	size_t region_room;
	struct xp_number_map region_keys; /* to the last region of this key, plus one */
	struct xp_profile_address *addresses;
	size_t address_count;
	size_t address_room;
	uint32_t *slots; /* hash of addresses: number plus one */
	size_t slot_count;
	struct xp_profile_step *steps; /* from the outermost frame on */
	size_t step_count;
	size_t step_room;
	/* In a file, see profile_store.h; the tables above are empty then but for their counts. */
	bool is_away;
	struct xp_profile_store *store; /* NULL: never was there */
	uint64_t stored_at;
	uint64_t stored_room; /* bytes that are its own there */
	uint64_t stored_samples; /* what it had then */
};

/* profile_store.c: gets the tables back from the file. Not the hashes, which profile.c makes when it needs them. */
int xp_profile_recall(struct xp_profile *profile);
/* profile.c */
void xp_profile_free_tables(struct xp_profile *profile);

#endif
