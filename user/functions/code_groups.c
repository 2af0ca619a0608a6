// SPDX-License-Identifier: BSD-2-Clause
#include "functions/code_groups.h"

#define ROUNDS 4 /* maximum depth of a fragment of a fragment */

struct grouping {
	const struct xp_code_map *map;
	struct xp_code_part *parts;
	bool has_changed;
};

uint64_t xp_code_entry(const struct xp_code_map *map, const struct xp_cfi_fde *fde)
{
	return xp_code_map_kind(map, fde->vaddr) == XP_CODE_ENDBR ? xp_code_map_next(map, fde->vaddr) : fde->vaddr;
}

static bool has_frame_at_start(const struct xp_code_map *map, const struct xp_cfi_fde *fde)
{
	struct xp_cfi_program program = { 0 };

	xp_cfi_fdes_start(&map->fdes, fde, &program);
	xp_cfi_program_next(&program);
	return program.code.bad || !program.now.has_cfa || program.now.cfa.at ||
	       program.now.cfa_reg != XP_CFI_REG_RSP || program.now.cfa_offset != 8;
}

static enum xp_part_kind kind_of(const struct xp_code_map *map, const struct xp_cfi_fde *fde)
{
	if (xp_code_map_is(map, fde->vaddr, XP_MARK_PLT) || map->fdes.commons[fde->common].is_signal)
		return XP_PART_OTHER;
	if (xp_code_map_is(map, fde->vaddr, XP_MARK_COLD) &&
	    !xp_code_map_is(map, fde->vaddr, XP_MARK_CALLED | XP_MARK_POINTED))
		return XP_PART_FRAGMENT;
	return has_frame_at_start(map, fde) ? XP_PART_FRAGMENT : XP_PART_FUNCTION;
}

static void set_root(struct grouping *grouping, uint32_t fragment, uint32_t root)
{
	struct xp_code_part *part = &grouping->parts[fragment];

	if (root == XP_NO_PART || part->root == root)
		return;
	if (part->root == XP_NO_PART) {
		part->root = root;
		grouping->has_changed = true;
		return;
	}
	grouping->parts[part->root].is_shared = true;
	grouping->parts[root].is_shared = true;
}

/* Joins two functions if one jumps into the middle of the other, and decides which is the fragment. */
static void join(struct grouping *grouping, uint32_t from, uint32_t to)
{
	const struct xp_cfi_fde *fdes = grouping->map->fdes.all;
	const uint32_t pair[2] = { from, to };

	for (size_t i = 0; i < 2; i++) {
		struct xp_code_part *part = &grouping->parts[pair[i]];

		if (xp_code_map_is(grouping->map, fdes[pair[i]].vaddr, XP_MARK_CALLED | XP_MARK_POINTED))
			continue;
		part->kind = XP_PART_FRAGMENT;
		part->root = XP_NO_PART;
		set_root(grouping, pair[i], grouping->parts[pair[!i]].root);
		return;
	}
	grouping->parts[from].is_shared = true;
	grouping->parts[to].is_shared = true;
}

static void follow(struct grouping *grouping, uint32_t from, uint64_t target)
{
	const struct xp_code_map *map = grouping->map;
	struct xp_code_part *part = &grouping->parts[from], *other;
	size_t to = xp_code_map_find(map, target);

	if (to == SIZE_MAX) {
		part->leaves |= !xp_code_map_is(map, target, XP_MARK_PLT);
		return;
	}
	other = &grouping->parts[to];
	if (other->kind == XP_PART_OTHER || to == from)
		return;
	if (other->kind == XP_PART_FRAGMENT)
		set_root(grouping, (uint32_t)to, part->root);
	if (part->kind == XP_PART_FRAGMENT && (other->kind == XP_PART_FRAGMENT || target != map->fdes.all[to].vaddr))
		set_root(grouping, from, other->root);
	if (part->kind == XP_PART_FUNCTION && other->kind == XP_PART_FUNCTION && target != map->fdes.all[to].vaddr)
		join(grouping, from, (uint32_t)to);
}

static bool is_direct_jump(enum xp_code_kind kind)
{
	return kind == XP_CODE_JUMP || kind == XP_CODE_BRANCH;
}

static void follow_jumps(struct grouping *grouping, uint32_t index)
{
	const struct xp_cfi_fde *fde = &grouping->map->fdes.all[index];
	const struct xp_code_map *map = grouping->map;
	struct xp_code code;

	for (uint64_t at = fde->vaddr; at < fde->vaddr + fde->bytes; at = xp_code_map_next(map, at)) {
		if (!is_direct_jump(xp_code_map_kind(map, at)))
			continue;
		xp_code_map_decode(map, at, &code);
		if (code.target - fde->vaddr >= fde->bytes)
			follow(grouping, index, code.target);
	}
}

/* Marks functions to whose first instruction their own code jumps. */
static void find_loop(struct grouping *grouping, uint32_t index)
{
	const struct xp_cfi_fde *fde = &grouping->map->fdes.all[index];
	uint32_t root = grouping->parts[index].root;
	const struct xp_code_map *map = grouping->map;
	uint64_t start, entry;
	struct xp_code code;

	if (root == XP_NO_PART || !map->is_decodable[root])
		return;
	start = map->fdes.all[root].vaddr;
	entry = xp_code_entry(map, &map->fdes.all[root]);
	if (!xp_code_map_is(map, start, XP_MARK_TARGET) && !xp_code_map_is(map, entry, XP_MARK_TARGET))
		return;
	for (uint64_t at = fde->vaddr; at < fde->vaddr + fde->bytes; at = xp_code_map_next(map, at)) {
		if (!is_direct_jump(xp_code_map_kind(map, at)))
			continue;
		xp_code_map_decode(map, at, &code);
		grouping->parts[root].is_loop |= code.target == start || code.target == entry;
	}
}

void xp_code_groups_find(const struct xp_code_map *map, struct xp_code_part *parts)
{
	struct grouping grouping = { map, parts, true };

	for (size_t i = 0; i < map->fdes.count; i++) {
		parts[i].kind = kind_of(map, &map->fdes.all[i]);
		parts[i].root = parts[i].kind == XP_PART_FUNCTION ? (uint32_t)i : XP_NO_PART;
		parts[i].next = XP_NO_PART;
	}
	for (size_t round = 0; round < ROUNDS && grouping.has_changed; round++) {
		grouping.has_changed = false;
		for (size_t i = 0; i < map->fdes.count; i++)
			if (map->is_decodable[i] && parts[i].kind != XP_PART_OTHER)
				follow_jumps(&grouping, (uint32_t)i);
	}
	for (size_t i = 0; i < map->fdes.count; i++) {
		uint32_t root = parts[i].root;

		if (!map->is_decodable[i] || parts[i].kind == XP_PART_OTHER)
			continue;
		find_loop(&grouping, (uint32_t)i);
		if (root == XP_NO_PART || root == i)
			continue;
		/* The function of this fragment has become a fragment itself. */
		if (parts[root].kind != XP_PART_FUNCTION) {
			parts[i].root = XP_NO_PART;
			continue;
		}
		parts[root].leaves |= parts[i].leaves;
		parts[i].next = parts[root].next;
		parts[root].next = (uint32_t)i;
	}
}

bool xp_code_leaves(const struct xp_code_map *map, const struct xp_code_part *parts, uint32_t root, uint64_t target)
{
	size_t to = xp_code_map_find(map, target);

	if (to == SIZE_MAX || parts[to].kind == XP_PART_OTHER)
		return true;
	return parts[to].kind == XP_PART_FUNCTION && to != root && target == map->fdes.all[to].vaddr;
}
