/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/profile.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "format/gperf.h"
#include "profile/data.h"

/* Most profiles belong to processes that end soon, and stay small. */
#define STEPS_FROM_SAMPLE 64

static const struct xp_file kernel_file = { .kind = XP_FILE_KERNEL, .path = "[kernel]" };
static struct xp_file jit_file = { .kind = XP_FILE_JIT, .path = "[jit]" };
static const struct xp_file unknown_file = { .kind = XP_FILE_UNKNOWN, .path = "[unknown]" };
const struct xp_vma xp_profile_jit_vma = { XP_PROFILE_JIT_BASE, XP_PROFILE_JIT_BASE + XP_PROFILE_JIT_BYTES, 0,
					   &jit_file };

int xp_profile_new(struct xp_profile **profile)
{
	*profile = calloc(1, sizeof(**profile));
	return *profile ? 0 : -ENOMEM;
}

void xp_profile_free(struct xp_profile *profile)
{
	if (!profile)
		return;
	xp_profile_free_tables(profile);
	free(profile);
}

void xp_profile_free_tables(struct xp_profile *profile)
{
	size_t nodes = profile->tree.count;

	xp_call_tree_free(&profile->tree);
	profile->tree.count = nodes;
	xp_u64_map_free(&profile->region_keys);
	free(profile->regions);
	free(profile->addresses);
	xp_hash_free(&profile->by_address);
	free(profile->steps);
	profile->regions = NULL;
	profile->addresses = NULL;
	profile->steps = NULL;
	profile->region_room = profile->address_room = 0;
	profile->step_count = profile->step_room = 0;
}

/* ---- regions ---- */

/* The region that a frame is in, without its number, and the frame's address in the tree. */
static struct xp_profile_region region_of(const struct xp_frame *frame, bool is_leaf, uint64_t *address)
{
	const struct xp_vma *vma = frame->vma;

	*address = frame->address + (frame->interrupted && !is_leaf);
	/*
	 * A process that may map address 0 (root, or vm.mmap_min_addr=0) can run code there. The format has no chain
	 * that begins with 0: one such sample would cost the process its profile.
	 */
	if (!*address)
		*address = 1;
	if (vma && vma->file->kind != XP_FILE_UNKNOWN && frame->address >= vma->start && frame->address <= vma->end &&
	    *address >= frame->address) {
		uint64_t bias = vma->file->kind == XP_FILE_ANON ? 0 : vma->start - vma->file_offset;

		/* Of the range for JIT functions, only the used part. */
		return (struct xp_profile_region){ vma->file, bias, vma->start,
						   vma == &xp_profile_jit_vma ? *address + 1 : vma->end, 0 };
	}
	if (!vma && frame->address >= XP_PROFILE_KERNEL_START && *address >= frame->address) {
		uint64_t start = frame->address & ~(XP_PROFILE_WINDOW_BYTES - 1);

		return (struct xp_profile_region){ &kernel_file, start, start, 0, 0 };
	}
	*address = 0;
	return (struct xp_profile_region){ .file = &unknown_file };
}

static bool same_region(const struct xp_profile_region *a, const struct xp_profile_region *b)
{
	return a->file == b->file && a->bias == b->bias;
}

static int add_region(struct xp_profile *profile, const struct xp_profile_region *region)
{
	if (XP_ARRAY_RESERVE(profile->regions, profile->region_room, profile->region_count + 1))
		return -ENOMEM;
	profile->regions[profile->region_count++] = *region;
	return 0;
}

static uint64_t key_of(const struct xp_profile_region *region)
{
	return (uintptr_t)region->file ^ region->bias * 0x9e3779b97f4a7c15ull;
}

/* Finds or adds the region, and extends it to this mapping. */
static int intern_region(struct xp_profile *profile, const struct xp_profile_region *region, uint32_t *number)
{
	uint32_t *last = xp_u64_map_add(&profile->region_keys, key_of(region), 0);
	int err;

	if (!last)
		return -ENOMEM;
	for (uint32_t at = *last; at; at = profile->regions[at - 1].next) {
		struct xp_profile_region *known = &profile->regions[at - 1];

		if (!same_region(known, region))
			continue;
		known->start = XP_MIN(known->start, region->start);
		known->end = XP_MAX(known->end, region->end);
		*number = at - 1;
		return 0;
	}
	err = add_region(profile, region);
	if (err)
		return err;
	*number = profile->region_count - 1;
	profile->regions[*number].next = *last;
	*last = profile->region_count;
	return 0;
}

/* ---- addresses ---- */

static uint64_t address_of(const void *addresses, uint32_t index)
{
	return ((const struct xp_profile_address *)addresses)[index].address;
}

static int hash_address(struct xp_profile *profile, uint64_t address, size_t number)
{
	return xp_hash_add(&profile->by_address, address, number, address_of, profile->addresses);
}

static int add_address(struct xp_profile *profile, uint64_t address, const struct xp_profile_region *region,
		       uint32_t *number)
{
	struct xp_profile_address added = { .address = address };
	int err = profile->address_count < UINT32_MAX - 1 ? 0 : -ENOMEM;

	if (!err)
		err = XP_ARRAY_RESERVE(profile->addresses, profile->address_room, profile->address_count + 1);
	if (!err)
		err = intern_region(profile, region, &added.region);
	if (!err)
		err = hash_address(profile, address, profile->address_count);
	if (err)
		return err;
	profile->addresses[profile->address_count] = added;
	*number = profile->address_count++;
	return 0;
}

static int intern_address(struct xp_profile *profile, uint64_t address, const struct xp_profile_region *region,
			  uint32_t *number)
{
	const struct xp_hash *hash = &profile->by_address;

	for (const uint32_t *slot = xp_hash_first(hash, address); *slot; slot = xp_hash_next(hash, slot)) {
		const struct xp_profile_address *known = &profile->addresses[*slot - 1];

		if (known->address == address && same_region(&profile->regions[known->region], region)) {
			*number = *slot - 1;
			return 0;
		}
	}
	return add_address(profile, address, region, number);
}

/* ---- samples ---- */

static bool same_step(const struct xp_profile_step *step, uint64_t address, const struct xp_profile_region *region)
{
	return step->address == address && step->file == region->file && step->bias == region->bias;
}

/* Goes to the node of this frame below *node. */
static int descend(struct xp_profile *profile, uint64_t address, const struct xp_profile_region *region, uint32_t *node)
{
	uint32_t number;
	int err = intern_address(profile, address, region, &number);

	if (err)
		return err;
	*node = xp_call_tree_child(&profile->tree, *node, number);
	return *node == XP_CALL_TREE_ROOT ? -ENOMEM : 0;
}

static int reserve_steps(struct xp_profile *profile, size_t count)
{
	return profile->samples < STEPS_FROM_SAMPLE ? 0 : XP_ARRAY_RESERVE(profile->steps, profile->step_room, count);
}

/* Rebuilds the hashes of a profile that was stored, and is needed for more than being written. */
static int rehash(struct xp_profile *profile)
{
	for (size_t i = 0; i < profile->region_count; i++) {
		uint32_t *last = xp_u64_map_add(&profile->region_keys, key_of(&profile->regions[i]), 0);

		if (!last)
			return -ENOMEM;
		*last = i + 1;
	}
	for (size_t i = 0; i < profile->address_count; i++)
		if (hash_address(profile, profile->addresses[i].address, i)) {
			xp_hash_free(&profile->by_address); /* not empty, it would pass for complete */
			return -ENOMEM;
		}
	return 0;
}

size_t xp_profile_known(const struct xp_profile *profile, const struct xp_frame_path *path)
{
	return path && path->tree == profile ? path->known : 0;
}

/* Goes from *node, the node of the frame at depth - 1, down to the node of the leaf. The root is at depth 0. */
static int descend_all(struct xp_profile *profile, const struct xp_frame *frames, size_t count, size_t depth,
		       struct xp_frame_path *path, uint32_t *node)
{
	size_t step_room = depth ? 0 : profile->step_room;
	bool as_last = !depth;
	int err = 0;

	for (size_t i = count - depth; i-- && !err; depth++) {
		struct xp_profile_step *step = depth < step_room ? &profile->steps[depth] : NULL;
		uint64_t address;
		struct xp_profile_region region = region_of(&frames[i], !i, &address);

		as_last = as_last && depth < profile->step_count && same_step(step, address, &region);
		if (as_last)
			*node = step->node;
		else
			err = descend(profile, address, &region, node);
		if (step && !as_last)
			*step = (struct xp_profile_step){ address, region.file, region.bias, *node };
		if (path && depth < path->count)
			path->nodes[depth] = *node;
	}
	if (step_room)
		profile->step_count = err ? 0 : XP_MIN(depth, step_room);
	return err;
}

static int add(struct xp_profile *profile, const struct xp_frame *frames, size_t count, struct xp_frame_path *path,
	       uint64_t weight)
{
	uint32_t node = XP_CALL_TREE_ROOT;
	size_t known;
	int err;

	if (!count)
		return -EINVAL;
	if (count > XP_GPERF_CHAIN_MAX)
		path = NULL;
	count = XP_MIN(count, (size_t)XP_GPERF_CHAIN_MAX);
	known = xp_profile_known(profile, path);
	err = profile->is_away ? xp_profile_recall(profile) : 0;
	if (!err && profile->address_count && !profile->by_address.count)
		err = rehash(profile);
	if (!err)
		err = reserve_steps(profile, count);
	if (known)
		node = path->nodes[known - 1];
	else if (path)
		path->known = 0; /* its nodes change, even if this fails half-way */
	if (!err)
		err = descend_all(profile, frames, count, known, path, &node);
	if (err)
		return err;
	if (path) {
		path->tree = profile;
		path->known = XP_MIN(count, path->count);
	}
	profile->tree.nodes[node].count += weight;
	profile->samples++;
	return 0;
}

int xp_profile_add(struct xp_profile *profile, const struct xp_frame *frames, size_t count, struct xp_frame_path *path)
{
	return add(profile, frames, count, path, 1);
}

int xp_profile_add_weighted(struct xp_profile *profile, const struct xp_frame *frames, size_t count, uint64_t weight)
{
	return add(profile, frames, count, NULL, weight);
}

uint64_t xp_profile_samples(const struct xp_profile *profile)
{
	return profile->samples;
}

size_t xp_profile_memory_bytes(const struct xp_profile *profile)
{
	return sizeof(*profile) + xp_call_tree_memory_bytes(&profile->tree) +
	       profile->region_room * sizeof(*profile->regions) +
	       profile->region_keys.room * sizeof(*profile->region_keys.entries) +
	       profile->region_keys.hash.room * sizeof(*profile->region_keys.hash.slots) +
	       profile->address_room * sizeof(*profile->addresses) +
	       profile->by_address.room * sizeof(*profile->by_address.slots) +
	       profile->step_room * sizeof(*profile->steps);
}

int xp_profile_each_address(struct xp_profile *profile, enum xp_file_kind kind,
			    int (*each)(void *arg, uint64_t address), void *arg)
{
	int ret = xp_profile_recall(profile);

	for (size_t i = 0; i < profile->address_count && !ret; i++)
		if (profile->regions[profile->addresses[i].region].file->kind == kind)
			ret = each(arg, profile->addresses[i].address);
	return ret;
}
